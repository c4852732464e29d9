"""What an item is given, and how it tells what it measured."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpu_shared.lines import ItemResult, Line, build_absent_line, build_line, read_item, write_item
from gpu_shared.predictions import Ceilings
from gpu_shared.sizes import FULL, TINY, Sizes

MACHINE_ITEM = "machine"


@dataclass(slots=True, kw_only=True)
class Workbench:
    """One item's surroundings, in its own process."""

    item: str
    device: str
    tiny: bool
    data: Path
    """Folder of generated images, which the items of a run share."""
    out: Path
    card: str
    began_s: float = field(default_factory=time.monotonic)
    lines: list[Line] = field(default_factory=list)

    @property
    def sizes(self) -> Sizes:
        """The shapes to measure."""
        return TINY if self.tiny else FULL

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.startswith("cuda")

    def read_ceilings(self) -> Ceilings | None:
        """Return what the card can do: as the item `machine` measured it, else as an H100 was
        measured. None where no prediction and no floor holds.
        """
        if self.tiny or not self.on_gpu:
            return None
        machine = read_item(self.out, MACHINE_ITEM)
        return Ceilings.take_measured(machine.find_values(self.card) if machine else {})

    def tell(
        self,
        variant: str,
        value: float,
        unit: str,
        *,
        waits: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a line at once."""
        self.keep(
            build_line(
                self.item,
                variant,
                self.card,
                value,
                unit,
                ceilings=self.read_ceilings(),
                waits=waits,
                details=details,
            )
        )

    def tell_absent(self, variant: str, reason: str, *, failed: bool = False) -> None:
        """Write that a variant was not measured."""
        self.keep(build_absent_line(self.item, variant, self.card, reason, failed=failed))

    def keep(self, line: Line) -> None:
        """Add a line to the item's file."""
        self.lines.append(line)
        self.write(complete=False, problem="")

    def write(self, *, complete: bool, problem: str) -> None:
        """Write the item's file as it is now."""
        write_item(
            self.out,
            ItemResult(
                item=self.item,
                complete=complete,
                problem=problem,
                seconds=time.monotonic() - self.began_s,
                lines=tuple(self.lines),
            ),
        )

    def attempt(self, variant: str, measure: Callable[[str], None]) -> None:
        """Measure a variant; if it fails, say so, and let the others be measured."""
        try:
            measure(variant)
        except Exception as error:  # any library's error is this variant's result
            self.tell_absent(variant, describe_error(error), failed=True)
        self.release_memory()

    def release_memory(self) -> None:
        """Free what a variant leaves on the GPU."""
        if self.on_gpu:
            import gc

            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def lacks_graphs(self, settings: Mapping[str, Any], variant: str) -> bool:
        """Return whether a variant records CUDA graphs and there is no GPU, and say so."""
        if self.on_gpu or "train.graphs" not in settings:
            return False
        self.tell_absent(variant, "only a GPU replays graphs")
        return True

    def lacks_package(self, name: str, variant: str) -> bool:
        """Return whether a peer's package is missing, and say so."""
        if find_spec(name) is not None:
            return False
        self.tell_absent(variant, f"{name} is not installed")
        return True


def describe_error(error: BaseException) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__

"""A measured line, the file of an item, and the table."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from gpu_shared.predictions import FLOORS, PREDICTIONS, Ceilings
from suite.files.layout import PARTIAL_SUFFIX

COLUMNS: Final = (
    "item",
    "variant",
    "card",
    "value",
    "unit",
    "predicted",
    "hit?",
    "of floor",
    "waits/step",
)
RATIO_UNIT: Final = "ratio"
NOTHING: Final = "-"
"""What a column shows that has no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One variant of an item."""

    item: str
    variant: str
    card: str
    value: float | None
    """None: not measured, for the reason in `note`."""
    unit: str
    predicted: tuple[float, float] | None
    hit: str
    """yes, below or above; empty where nothing was predicted, or for other shapes or hardware."""
    of_floor: float | None
    """Share of the rate at which the card's arithmetic and memory would be busy throughout."""
    waits: int | None
    """Operations of one step for which the host waits for the GPU."""
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of the table's row."""
        low_high = "-".join(map(format_number, self.predicted)) if self.predicted else NOTHING
        return (
            self.item,
            self.variant,
            self.card,
            format_number(self.value),
            self.unit,
            low_high,
            self.hit or NOTHING,
            NOTHING if self.of_floor is None else f"{self.of_floor:.2f}",
            NOTHING if self.waits is None else str(self.waits),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """An item's file."""

    item: str
    complete: bool
    """Whether the item came to its end."""
    problem: str
    """Why it did not, in one sentence."""
    seconds: float
    lines: tuple[Line, ...]

    @property
    def has_failed(self) -> bool:
        """Whether something of it was to be measured, and was not; what is not installed is no
        failure.
        """
        return not self.complete or any(line.details.get("failed") for line in self.lines)

    def find_values(self, card: str) -> dict[str, float]:
        """Return the values of this card by variant: the file may be of another run."""
        return {
            line.variant: line.value
            for line in self.lines
            if line.value is not None and line.card == card
        }


def build_line(
    item: str,
    variant: str,
    card: str,
    value: float,
    unit: str,
    *,
    ceilings: Ceilings | None,
    waits: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> Line:
    """Set a value beside its prediction and its floor; `ceilings` is None where neither holds:
    on a CPU, and for tiny shapes.
    """
    predicted = PREDICTIONS.get((item, variant)) if ceilings else None
    floor = FLOORS.get(item)
    if unit == RATIO_UNIT:
        floor = None
    return Line(
        item=item,
        variant=variant,
        card=card,
        value=value,
        unit=unit,
        predicted=predicted,
        hit=compare_with_range(value, predicted) if predicted else "",
        of_floor=value / floor.compute_rate(ceilings) if ceilings and floor else None,
        waits=waits,
        details=details or {},
    )


def build_absent_line(
    item: str, variant: str, card: str, reason: str, *, failed: bool = False
) -> Line:
    """Return the line of a variant that was not measured."""
    return Line(
        item=item,
        variant=variant,
        card=card,
        value=None,
        unit=NOTHING,
        predicted=None,
        hit="",
        of_floor=None,
        waits=None,
        note=reason,
        details={"failed": failed},
    )


def compare_with_range(value: float, predicted: tuple[float, float]) -> str:
    """Say where a value lies."""
    if value < predicted[0]:
        return "below"
    return "above" if value > predicted[1] else "yes"


def format_number(value: float | None) -> str:
    """Three digits, or all before the point."""
    if value is None:
        return NOTHING
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def write_item(folder: Path, result: ItemResult) -> None:
    """Write an item's file; a process that is killed meanwhile leaves the file before."""
    path = locate_item_file(folder, result.item)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    partial.write_text(json.dumps(asdict(result), indent=1) + "\n")
    partial.replace(path)


def read_item(folder: Path, item: str) -> ItemResult | None:
    """Read an item's file; None if there is none."""
    path = locate_item_file(folder, item)
    if not path.is_file():
        return None
    table = json.loads(path.read_text())
    lines = [
        {**line, "predicted": tuple(line["predicted"]) if line["predicted"] else None}
        for line in table.pop("lines")
    ]
    return ItemResult(**table, lines=tuple(Line(**line) for line in lines))


def locate_item_file(folder: Path, item: str) -> Path:
    """Return the path of an item's file."""
    return folder / f"{item}.json"


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align rows under their columns."""
    table = [tuple(columns), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def format_results(results: Iterable[ItemResult]) -> str:
    """Return the table of all lines, then a sentence for each that has no value."""
    lines = [line for result in results for line in result.lines]
    table = format_table(COLUMNS, [line.format_cells() for line in lines])
    notes = [f"{line.item}, {line.variant}: {line.note}" for line in lines if line.note]
    return "\n".join([table, *notes])

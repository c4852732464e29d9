"""Where mutants of inference entries are put."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..judging import Court, Outcome, copied
from ..kinds import Kind
from ..undoing import Undo
from .kinds import ANSWERS, CLAIM, DETAIL, Entry, written

LOADED: Final = re.compile(
    r'"set" : "\[([\d,]+)\]".*?"queries" : (\d+), "samples per query" : (\d+)', re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryBase:
    """A published entry, copied with what belongs to it."""

    name: str
    origin: Path
    home: Path
    folder: Path

    def entry(self, aside: Path) -> Entry:
        """Give the copy to change."""
        return Entry(home=self.home, folder=self.folder, origin=self.origin, undo=Undo(aside))


def entry_bases(rounds: Path, work: Path) -> Iterator[EntryBase]:
    """Copy each entry into a tree of its own."""
    for index, folder in enumerate(
        sorted(path for path in rounds.glob("*/*/results/*/*/*") if path.is_dir())
    ):
        org, inside = folder.parents[3], folder.relative_to(folder.parents[3] / "results")
        home = work / f"entry{index:02}" / org.parent.name / org.name
        copied(
            org,
            home,
            (
                "systems",
                "code",
                *(f"{part}/{inside}" for part in ("results", "measurements", "audit")),
            ),
        )
        repair(folder, home / "results" / inside)
        yield EntryBase(
            name="/".join((*org.parts[-2:], *inside.parts)),
            origin=folder,
            home=home,
            folder=home / "results" / inside,
        )


def repair(origin: Path, copy: Path) -> None:
    """Make up an accuracy log where the published one is not kept: other answers to the samples
    that the detail log has.
    """
    missing, detail = copy / "accuracy" / ANSWERS, copy / "accuracy" / DETAIL
    donor = next((path for path in donors(origin) if (path / ANSWERS).is_file()), None)
    if missing.exists() or donor is None or not detail.is_file():
        return
    known = {
        answer["qsl_idx"]: answer["data"] for answer in json.loads((donor / ANSWERS).read_bytes())
    }
    missing.write_text(
        written(
            [
                {"seq_id": at, "qsl_idx": index, "data": known.get(index, "")}
                for at, index in enumerate(asked(detail.read_text("latin-1")))
            ]
        )
    )


def donors(origin: Path) -> Iterator[Path]:
    """Yield accuracy runs to borrow from: of the same claim; detectors' are not recomputed."""
    same = (origin / "accuracy" / CLAIM).read_bytes()
    near = sorted(origin.parents[2].glob(f"*/{origin.parent.name}/*/accuracy"))
    yield from (path for path in near if (path / CLAIM).read_bytes() == same)
    if origin.parent.name == "ssd-large":
        yield from sorted(origin.parents[5].glob("closed/*/results/*/ssd-small/*/accuracy"))


def asked(detail: str) -> Iterator[int]:
    """Yield the samples that the accuracy run was asked for; MultiStream loads more, to fill its
    last query up.
    """
    padded = "Scenario : Multi Stream" in detail
    for found in LOADED.finditer(detail):
        chosen = [int(index) for index in found[1].split(",")]
        yield from chosen[: int(found[2]) * int(found[3])] if padded else chosen


def entries_judged(
    kinds: Iterable[Kind[Entry]], bases: list[EntryBase], court: Court, work: Path, most: int
) -> Iterator[Outcome]:
    """Put each kind into up to so many entries."""
    (work / "aside").mkdir(exist_ok=True)
    for at, kind in enumerate(kinds):
        taken = 0
        for base in bases[at % max(len(bases), 1) :] + bases[: at % max(len(bases), 1)]:
            if taken >= most:
                break
            entry = base.entry(work / "aside")
            before = court.warnings(kind.name, entry.folder)
            try:
                if kind.change(entry):
                    taken += 1
                    yield court.outcome(kind.name, base.name, entry.folder, kind.required, before)
            finally:
                entry.undo.back()

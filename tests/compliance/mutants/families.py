"""The families of mutants, and each put into published results."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from .entries.answers import ANSWERED
from .entries.bases import EntryBase, entries_judged, entry_bases
from .entries.details import DETAILS
from .entries.files import FILES
from .entries.harmless import ACCEPTED
from .entries.kinds import ANSWERS, Entry
from .entries.places import PLACED
from .entries.runs import RUNS
from .judging import Court, Outcome, Tally
from .kinds import Kind
from .training.accuracy import ACCURACY
from .training.bases import SetBase, logs_judged, oldest_judged, set_bases, sets_judged
from .training.events import EVENTS
from .training.form import FORM
from .training.harmless import HARMLESS
from .training.hyperparameters import HYPER
from .training.log import Log
from .training.numbers import NUMBERS
from .training.places import FOLDERS
from .training.sets import SETS as RUNS_OF_SETS
from .training.sets import TrainingSet
from .training.text import OLDEST
from .training.times import TIMES

LOGS: Final[tuple[Kind[Log], ...]] = (*EVENTS, *TIMES, *ACCURACY, *HYPER, *NUMBERS, *FORM)
SETS: Final[tuple[Kind[TrainingSet], ...]] = (*RUNS_OF_SETS, *FOLDERS)
ENTRIES: Final[tuple[Kind[Entry], ...]] = (*FILES, *RUNS, *DETAILS, *ANSWERED, *PLACED)


@dataclass(slots=True)
class Training:
    """Training rounds, copied into a folder to work in."""

    court: Court
    work: Path
    bases: list[SetBase]
    most: int

    @classmethod
    def of(cls, corpus: Path, work: Path, most: int) -> "Training":
        """Copy the sets of both rounds."""
        return cls(Court(), work, list(set_bases(corpus, work)), most)

    def alarms(self) -> list[Outcome]:
        """Judge what is not changed: each log and set that is broken as it is."""
        paths = [
            path
            for base in self.bases
            for path in (base.folder, *sorted(base.folder.glob("result_*.txt")))
        ]
        return [
            outcome
            for path in paths
            if (outcome := self.court.outcome("unchanged", str(path), path, "accepted")).verdict
            == "broken"
        ]

    def whole(self, oldest: bool) -> list[SetBase]:
        """Give the sets whose log is not broken as it is, of one of the two forms."""
        return [
            base
            for base in self.bases
            if base.oldest == oldest
            and self.court.outcome("", "", base.log, "").verdict != "broken"
        ]

    def logs(self) -> Tally:
        """Judge mutants of single logs."""
        newer = logs_judged(LOGS, self.whole(False), self.court, self.work, self.most)
        return Tally(
            outcomes=tuple(
                chain(newer, oldest_judged(OLDEST, self.whole(True), self.court, self.work))
            )
        )

    def sets(self) -> Tally:
        """Judge mutants of sets."""
        whole = [
            base
            for base in self.bases
            if self.court.outcome("", "", base.folder, "").verdict != "broken"
        ]
        return Tally(outcomes=tuple(sets_judged(SETS, whole, self.court, self.work, self.most)))

    def harmless(self) -> Iterator[Outcome]:
        """Judge what accepted logs do, in other logs; yield what is called broken."""
        judged = logs_judged(HARMLESS, self.whole(False), self.court, self.work, self.most)
        yield from (
            outcome for outcome in judged if outcome.verdict not in ("valid", "not-converged")
        )


@dataclass(slots=True)
class Inference:
    """An inference round, copied into a folder to work in."""

    court: Court
    work: Path
    bases: list[EntryBase]
    most: int

    @classmethod
    def of(cls, corpus: Path, work: Path, most: int) -> "Inference":
        """Copy the entries, those with the shortest accuracy logs first."""
        bases = entry_bases(corpus / "inference_v0.5", work)
        return cls(
            Court(truth=corpus),
            work,
            sorted(bases, key=lambda base: size(base.folder / "accuracy" / ANSWERS)),
            most,
        )

    def alarms(self) -> list[Outcome]:
        """Judge what is not changed: each entry that is broken as it is."""
        judged = (
            self.court.outcome("unchanged", base.name, base.folder, "accepted")
            for base in self.bases
        )
        return [outcome for outcome in judged if outcome.verdict == "broken"]

    def whole(self) -> list[EntryBase]:
        """Give the entries that are not broken as they are, and whose copies have logs and code."""
        broken = {outcome.base for outcome in self.alarms()}
        return [
            base
            for base in self.bases
            if base.name not in broken
            and any(base.folder.rglob("run_1/mlperf_log_detail.txt"))
            and (base.home / "code" / base.folder.parent.name).is_dir()
        ]

    def entries(self) -> Tally:
        """Judge mutants of entries."""
        return Tally(
            outcomes=tuple(entries_judged(ENTRIES, self.whole(), self.court, self.work, self.most))
        )

    def harmless(self) -> Iterator[Outcome]:
        """Judge what accepted entries do, in other entries; yield what is called broken."""
        judged = entries_judged(ACCEPTED, self.whole(), self.court, self.work, self.most)
        yield from (
            outcome for outcome in judged if outcome.verdict not in ("valid", "not-converged")
        )


def size(path: Path) -> int:
    """Give a file's size in bytes; 0 where there is none."""
    return path.stat().st_size if path.is_file() else 0

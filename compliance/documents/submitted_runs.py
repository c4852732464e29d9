"""The runs of several systems and organisations side by side: no run is two systems'."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from compliance.documents.base import Document

SHAPE_TOLERANCE: Final = 2e-5
"""Relative, of times with six digits or more."""
MIN_SHAPE_TIMES: Final = 4
MIN_SHAPE_SPREAD: Final = 1.05
"""The longest of the times over the shortest: equal times have no shape."""
MAX_SAME_COUNTS: Final = 2000
"""Runs with the same counts that are compared with one another: a folder is untrusted."""


class RunMark(NamedTuple):
    """A value that no two runs share."""

    what: str
    """As a finding names it: times, latencies."""
    value: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeShape:
    """The times of a run without their unit: what is left of them where somebody has multiplied all
    of them by one factor.
    """

    counts: Hashable
    """How many queries, answers, tokens: what such a factor leaves as it is."""
    times: Sequence[float]
    """Nanoseconds."""
    rounding_ns: float = 1.0
    """Unit in which they are logged: the shortest ones have few digits."""

    @property
    def is_telling(self) -> bool:
        """Return whether these times can be told from another run's."""
        return (
            len(self.times) >= MIN_SHAPE_TIMES
            and min(self.times) > 0
            and max(self.times) > MIN_SHAPE_SPREAD * min(self.times)
        )

    def is_multiple(self, other: "TimeShape") -> bool:
        """Return whether all times are those of another run, multiplied by one factor."""
        if len(self.times) != len(other.times):
            return False
        factor = max(self.times) / max(other.times)
        return all(
            abs(own - factor * its) <= SHAPE_TOLERANCE * own + self.rounding_ns * (1 + factor)
            for own, its in zip(self.times, other.times, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedRun:
    """A run that somebody submitted, by what tells it from all others."""

    file: Path
    organisation: str
    system: str
    marks: Sequence[RunMark]
    shape: TimeShape | None = None

    @property
    def owner(self) -> tuple[str, str]:
        """Return whose run it is."""
        return self.organisation, self.system


class CopiedRun(NamedTuple):
    """A run that another system or organisation has submitted before."""

    run: SubmittedRun
    other: SubmittedRun
    what: str
    """What both have."""
    is_scaled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedRuns(Document):
    """The runs of a tree, or of an organisation's part of one."""

    document_name: ClassVar[str] = "the runs of several systems"

    root: Path
    runs: Sequence[SubmittedRun]
    reported: Set[str] = frozenset()
    """Marks whose equality a rule of the kind of round reports."""

    @property
    def path(self) -> Path:
        """Return the folder that contains them."""
        return self.root

    def find_copies(self) -> Iterator[CopiedRun]:
        """Yield each run that is another owner's, too: once, with the first one."""
        known: dict[RunMark, SubmittedRun] = {}
        alike = defaultdict[Hashable, list[SubmittedRun]](list)
        for run in self.runs:
            copied = None
            for mark in run.marks:
                other = known.setdefault(mark, run)
                if copied is None and other.owner != run.owner:
                    copied = CopiedRun(run, other, mark.what, is_scaled=False)
            if run.shape is not None and run.shape.is_telling:
                others = alike[run.shape.counts]
                if copied is None:
                    copied = find_scaled_copy(run, run.shape, others)
                if len(others) < MAX_SAME_COUNTS:
                    others.append(run)
            if copied is not None and copied.what not in self.reported:
                yield copied


def find_scaled_copy(
    run: SubmittedRun, shape: TimeShape, others: Sequence[SubmittedRun]
) -> CopiedRun | None:
    """Return the first run of another owner whose times are this one's, multiplied by one factor;
    None without one.
    """
    for other in others:
        if other.owner == run.owner or other.shape is None:
            continue
        if shape.is_multiple(other.shape):
            factor = max(shape.times) / max(other.shape.times)
            return CopiedRun(run, other, f"times multiplied by {factor:.6g}", is_scaled=True)
    return None

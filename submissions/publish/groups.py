"""Groups instead of ranks: results that a test cannot separate share a letter."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final, TypeAlias

from submissions.compare.verdicts import Asked, Trial, Verdict, hold, holm, verdict
from submissions.metrics import more_is_better
from submissions.publish.rows import REPORTED, Row

CONFIDENCE: Final = 0.95
LETTERS: Final = len(ascii_uppercase)
Kind: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Rows of one kind, the best first, with the letters of their groups."""

    rows: tuple[Row, ...]
    letters: tuple[str, ...]
    """Empty for a row without a value, and for figures of documents."""


def kind_of(row: Row) -> Kind:
    """Return the properties that rows of one table share: round, profile, division, workload, half,
    scenario, metric, unit and kind.
    """
    return (
        row.round,
        row.profile,
        row.division,
        row.workload,
        row.half,
        row.scenario,
        row.metric,
        row.unit,
        row.kind,
    )


def grouped(rows: Sequence[Row]) -> Grouped:
    """Sort rows of one kind and assign letters.

    The best row opens group A; each next one joins the group whose best it cannot be separated
    from, or opens another. Ratios are tested against
    the group's best, with Holm's adjustment across the table. Rows with fewer than three runs are
    never separated from any other. Figures of documents
    keep their order and have no letters: they have no runs, and are of different batches and number
    formats.
    """
    if rows[0].kind == REPORTED:
        return Grouped(rows=tuple(rows), letters=("",) * len(rows))
    more = more_is_better(rows[0].metric)
    counted = sorted(
        (row for row in rows if row.value is not None),
        key=lambda row: (-(row.value or 0) if more else row.value or 0, row.id, row.system),
    )
    missed = [row for row in rows if row.value is None]
    letters: list[str] = []
    trials: list[Trial] = []
    anchor, letter = 0, 0
    for place, row in enumerate(counted):
        if place > anchor:
            first = counted[anchor]
            trials.append(
                hold(
                    first.runs,
                    row.runs,
                    ratio(first, row, more),
                    more,
                    Asked(confidence=CONFIDENCE),
                )
            )
            if separated(trials):
                anchor, letter, trials = place, letter + 1, []
        letters.append(named(letter))
    return Grouped(rows=(*counted, *missed), letters=(*letters, *("" for _ in missed)))


def separated(trials: Sequence[Trial]) -> bool:
    """Return whether the last of these tests shows a difference, after adjusting all of them
    together.
    """
    if trials[-1].p is None or trials[-1].p >= 1 - CONFIDENCE:
        return False
    adjusted = holm([trial.p for trial in trials])
    return verdict(trials[-1], adjusted[-1], CONFIDENCE) in (Verdict.FASTER, Verdict.SLOWER)


def ratio(first: Row, other: Row, more: bool) -> float:
    """Return how many times as fast the other is."""
    mine, others = first.value or 1.0, other.value or 1.0
    return others / mine if more else mine / others


def named(number: int) -> str:
    """Return a group's letter: A to Z, then AA, AB and so on."""
    prefix = named(number // LETTERS - 1) if number >= LETTERS else ""
    return prefix + ascii_uppercase[number % LETTERS]

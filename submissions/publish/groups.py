"""Groups instead of ranks: results that a test cannot separate share a letter."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final, TypeAlias

from submissions.compare.intervals import MIN_INTERVAL_RUNS
from submissions.compare.verdicts import (
    HypothesisTest,
    SignificanceSettings,
    SpeedVerdict,
    choose_speed_verdict,
    correct_p_values,
    run_hypothesis_test,
)
from submissions.metrics import is_higher_better
from submissions.publish.rows import REPORTED_KIND, Row

GROUP_CONFIDENCE: Final = 0.95
UNTESTED: Final = "not tested"
"""In place of a letter: a row of too few runs, or with no other that it could be tested against."""
FEWEST_TESTED_ROWS: Final = 2
"""A test takes two."""
ALPHABET_SIZE: Final = len(ascii_uppercase)
SiteTableKey: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRows:
    """Rows of one kind, best first, with the letters of their groups."""

    rows: tuple[Row, ...]
    letters: tuple[str, ...]
    """Empty for a row without a value, and for figures of documents; UNTESTED for a row that no
    test was made of.
    """


def build_site_table_key(row: Row) -> SiteTableKey:
    """Return the properties shared by all rows of a table: round, profile, division, workload,
    half, scenario, metric, unit and kind.
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


def group_site_rows(rows: Sequence[Row]) -> GroupedRows:
    """Sort rows of one kind and assign letters.

    The best row opens group A. Each following row joins the current group if it cannot be separated
    from the group's best, or opens another. Ratios are tested against the group's best, with Holm's
    adjustment across the table. Rows with fewer than three runs cannot be tested, so they have no
    letter and open no group; nor has a row that no other was tested against. Figures from documents
    keep their order and have no letters: they have no runs, and their batch sizes and precisions
    differ.
    """
    if rows[0].kind == REPORTED_KIND:
        return GroupedRows(rows=tuple(rows), letters=("",) * len(rows))
    more = is_higher_better(rows[0].metric)
    counted = sorted(
        (row for row in rows if row.value is not None),
        key=lambda row: (-(row.value or 0) if more else row.value or 0, row.id, row.system),
    )
    missed = [row for row in rows if row.value is None]
    letters: list[str] = []
    tests: list[HypothesisTest] = []
    first: Row | None = None
    letter = 0
    for row in counted:
        if len(row.runs) < MIN_INTERVAL_RUNS:
            letters.append(UNTESTED)
            continue
        if first is None:
            first = row
        else:
            tests.append(
                run_hypothesis_test(
                    first.runs,
                    row.runs,
                    compute_row_speed_ratio(first, row, more),
                    more,
                    SignificanceSettings(confidence=GROUP_CONFIDENCE),
                )
            )
            if is_last_test_significant(tests):
                first, letter, tests = row, letter + 1, []
        letters.append(format_group_letter(letter))
    if sum(each != UNTESTED for each in letters) < FEWEST_TESTED_ROWS:
        letters = [UNTESTED] * len(letters)
    return GroupedRows(rows=(*counted, *missed), letters=(*letters, *("" for _ in missed)))


def is_last_test_significant(tests: Sequence[HypothesisTest]) -> bool:
    """Return whether the last of these tests shows a difference after adjustment for all of
    them.
    """
    if tests[-1].p is None or tests[-1].p >= 1 - GROUP_CONFIDENCE:
        return False
    adjusted = correct_p_values([test.p for test in tests])
    return choose_speed_verdict(tests[-1], adjusted[-1], GROUP_CONFIDENCE) in (
        SpeedVerdict.FASTER,
        SpeedVerdict.SLOWER,
    )


def compute_row_speed_ratio(first: Row, other: Row, more: bool) -> float:
    """Return how many times as fast the other row is."""
    mine, others = first.value or 1.0, other.value or 1.0
    return others / mine if more else mine / others


def format_group_letter(number: int) -> str:
    """Return a group's letter: A to Z, then AA, AB and so on."""
    prefix = format_group_letter(number // ALPHABET_SIZE - 1) if number >= ALPHABET_SIZE else ""
    return prefix + ascii_uppercase[number % ALPHABET_SIZE]

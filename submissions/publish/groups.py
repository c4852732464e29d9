"""Groups instead of ranks: results that a test cannot separate share a letter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final, TypeAlias

from submissions.cells import explain_missing_interval
from submissions.compare.fitness import explain_missing_ratio
from submissions.compare.verdicts import (
    HypothesisTest,
    SignificanceSettings,
    SpeedVerdict,
    choose_speed_verdict,
    correct_p_values,
    run_hypothesis_test,
)
from submissions.publish.rows import REPORTED_KIND, get_row_bundle
from suite.measurement.metrics import is_higher_better
from suite.result import Result

GROUP_CONFIDENCE: Final = 0.95
REQUESTED_RATE: Final = "rate requested, not searched for"
"""In place of a letter: a test of such rates would compare settings."""
NO_OTHER: Final = "no other to test against"
"""In place of a letter: a row that no other could be tested against."""
FEWEST_TESTED_ROWS: Final = 2
"""A test takes two."""
ALPHABET_SIZE: Final = len(ascii_uppercase)
SiteTableKey: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRows:
    """Rows of one kind, best first, with the letters of their groups."""

    rows: tuple[Result, ...]
    letters: tuple[str, ...]
    """Empty for a row without a value, and for figures of documents; for a row that no test was
    made of, the reason.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """What tells the rows apart: the system, with its bundle if several have results of it."""
        systems = Counter((row.org, row.system) for row in self.rows)
        names = []
        for row in self.rows:
            bundle = get_row_bundle(row).partition(" ")[0]
            is_shared = systems[row.org, row.system] > 1
            names.append(f"{row.system} [{bundle}]" if bundle and is_shared else row.system)
        return tuple(names)


def build_site_table_key(row: Result) -> SiteTableKey:
    """Return the properties shared by all rows of a table: round, profile, division, workload,
    half, scenario, metric, unit and kind.
    """
    return (
        row.round,
        row.profile,
        row.division,
        row.workload,
        row.half,
        row.scenario or "",
        row.metric,
        row.unit,
        row.origin.kind,
    )


def group_site_rows(rows: Sequence[Result]) -> GroupedRows:
    """Sort rows of one kind and assign letters.

    The best row opens group A. Each following row joins the current group if it cannot be separated
    from the group's best, or opens another. Ratios are tested against the group's best, with Holm's
    adjustment across the table. Rows with fewer than three runs, or at a requested rate, cannot be
    tested, so they have no letter and open no group; nor has a row that no other was tested
    against. Figures from documents keep their order and have no letters: they have no runs, and
    their batch sizes and precisions differ.
    """
    if rows[0].origin.kind == REPORTED_KIND:
        return GroupedRows(rows=tuple(rows), letters=("",) * len(rows))
    more = is_higher_better(rows[0].metric)
    counted = sorted(
        (row for row in rows if row.value is not None),
        key=lambda row: (-(row.value or 0) if more else row.value or 0, row.origin.id, row.system),
    )
    missed = [row for row in rows if row.value is None]
    letters: list[str] = []
    tests: list[HypothesisTest] = []
    first: Result | None = None
    letter = 0
    for row in counted:
        if reason := explain_missing_test(row):
            letters.append(reason)
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
    if sum(map(is_group_letter, letters)) < FEWEST_TESTED_ROWS:
        letters = [NO_OTHER if is_group_letter(each) else each for each in letters]
    return GroupedRows(rows=(*counted, *missed), letters=(*letters, *("" for _ in missed)))


def explain_missing_test(row: Result) -> str:
    """Explain why a row cannot be tested; empty if it can. What `podium compare` does not test has
    no letter either.
    """
    if explain_missing_ratio(row.made_with.asked, row.made_with.asked):
        return REQUESTED_RATE
    return explain_missing_interval(len(row.runs))


def is_group_letter(text: str) -> bool:
    """Return whether what a row has in the place of its letter is one."""
    return text.isalpha() and text.isupper()


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


def compute_row_speed_ratio(first: Result, other: Result, more: bool) -> float:
    """Return how many times as fast the other row is."""
    mine, others = first.value or 1.0, other.value or 1.0
    return others / mine if more else mine / others


def format_group_letter(number: int) -> str:
    """Return a group's letter: A to Z, then AA, AB and so on."""
    prefix = format_group_letter(number // ALPHABET_SIZE - 1) if number >= ALPHABET_SIZE else ""
    return prefix + ascii_uppercase[number % ALPHABET_SIZE]

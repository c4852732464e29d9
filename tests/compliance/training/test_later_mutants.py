"""Published training sets since v1.0, each changed so that it breaks one rule: the judge has to see it, and may not fall over it."""

from pathlib import Path

import pytest
from corpus import CORPUS, needs_corpus
from mutants.judging import Court, Tally
from mutants.training.bases import SetBase, logs_judged, set_bases, sets_judged
from mutants.training.later import LATER
from mutants.training.later_sets import LATER_SETS

pytestmark = [needs_corpus, pytest.mark.slow]
LEAST = 0.98
"""Share of the kinds that has to be caught in every base."""
KINDS = 100
BASES = 1
"""Of each kind; they take turns."""


@pytest.fixture
def bases(tmp_path: Path) -> list[SetBase]:
    """Every second set of the newer rounds."""
    return list(set_bases(CORPUS, tmp_path, "training_v[45].[01]"))[1::2]


def told(tally: Tally) -> str:
    return "\n".join(tally.lines())


def test_no_base_is_broken_as_it_is(bases: list[SetBase]) -> None:
    court = Court()
    assert [base.name for base in bases if court.outcome("", base.name, base.folder, "").verdict == "broken"] == []


def test_what_breaks_a_log_is_seen(bases: list[SetBase], tmp_path: Path) -> None:
    tally = Tally(outcomes=tuple(logs_judged(LATER, bases, Court(), tmp_path, BASES)))
    assert len(LATER) + len(LATER_SETS) >= KINDS
    assert not tally.tracebacks()
    assert tally.share >= LEAST, told(tally)


def test_what_breaks_a_set_is_seen(bases: list[SetBase], tmp_path: Path) -> None:
    tally = Tally(outcomes=tuple(sets_judged(LATER_SETS, bases, Court(), tmp_path, BASES)))
    assert not tally.tracebacks()
    assert tally.share >= LEAST, told(tally)

"""Published run sets since v1.0, each changed so that it breaks one rule: the judge has to see
it, and may not fall over it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus import CORPUS
from mutants.edited import EDITED, EDITED_SETS, WARNED
from mutants.judging import Court, Tally
from mutants.kinds import Kind
from mutants.training.bases import SetBase, logs_judged, set_bases, sets_judged
from mutants.training.later import LATER
from mutants.training.later_sets import LATER_SETS
from mutants.training.sets import TrainingSet

from compliance.judge import Judge

pytestmark = pytest.mark.slow
LEAST = 0.98
"""Share of the kinds that has to be caught in every base."""
KINDS = 100
BASES = 1
"""Of each kind; they take turns."""


def numbered(bases: Iterator[SetBase]) -> Iterator[SetBase]:
    """Leave out sets whose logs have names of their own, and copies that lack runs."""
    for base in bases:
        runs = sorted(base.folder.glob("result_*.txt"))
        if len(runs) >= 5 and all(re.fullmatch(r"result_\d{1,2}", run.stem) for run in runs):
            yield base


@pytest.fixture
def bases(tmp_path: Path) -> list[SetBase]:
    """Every second set of the newer rounds whose runs are numbered."""
    return list(numbered(set_bases(CORPUS, tmp_path, "training_v[45].[01]")))[1::2]


@pytest.fixture
def all_bases(tmp_path: Path) -> list[SetBase]:
    """Every set since v1.0, but for one whose evaluations do not say how far the run was."""
    bases = numbered(set_bases(CORPUS, tmp_path, "training_v[1-9]*"))
    return [base for base in bases if base.name.split("/")[:2] != ["v1.1", "Azure"]]


def told(tally: Tally) -> str:
    return "\n".join(tally.lines())


def test_no_base_is_broken_as_it_is(bases: list[SetBase]) -> None:
    court = Court()
    assert [
        base.name
        for base in bases
        if court.outcome("", base.name, base.folder, "").verdict == "broken"
    ] == []


def test_what_breaks_a_log_is_seen(bases: list[SetBase], tmp_path: Path) -> None:
    tally = Tally(outcomes=tuple(logs_judged(LATER, bases, Court(), tmp_path, BASES)))
    assert len(LATER) + len(LATER_SETS) >= KINDS
    assert not tally.tracebacks()
    assert tally.share >= LEAST, told(tally)


def test_what_breaks_a_set_is_seen(bases: list[SetBase], tmp_path: Path) -> None:
    tally = Tally(outcomes=tuple(sets_judged(LATER_SETS, bases, Court(), tmp_path, BASES)))
    assert not tally.tracebacks()
    assert tally.share >= LEAST, told(tally)


def test_what_is_edited_in_a_log_is_seen(all_bases: list[SetBase], tmp_path: Path) -> None:
    tally = Tally(outcomes=tuple(logs_judged(EDITED, all_bases, Court(), tmp_path, len(all_bases))))
    assert len(tally.kinds()) == len(EDITED)
    assert not tally.tracebacks()
    assert tally.share >= LEAST, told(tally)


def test_what_is_edited_in_a_description_is_seen(all_bases: list[SetBase], tmp_path: Path) -> None:
    tally = Tally(outcomes=tuple(sets_judged(EDITED_SETS, all_bases, Court(), tmp_path, BASES)))
    assert len(tally.kinds()) == len(EDITED_SETS)
    assert not tally.tracebacks()
    assert tally.share == 1, told(tally)


@pytest.mark.parametrize("kind", WARNED, ids=lambda kind: kind.name)
def test_what_published_results_hold_too_is_a_warning(
    all_bases: list[SetBase], tmp_path: Path, kind: Kind[TrainingSet]
) -> None:
    """Something is told of the mutant that is not told of its base; games are let be, whose results
    are whole numbers.
    """
    (tmp_path / "aside").mkdir()
    seen = 0
    for base in all_bases:
        before, a_set = (
            {each.rule for each in Judge().judge_path(str(base.folder)).findings},
            base.a_set(tmp_path / "aside"),
        )
        if base.folder.name == "minigo" or not kind.change(a_set):
            continue
        assert {each.rule for each in Judge().judge_path(str(base.folder)).findings} - before, (
            base.name
        )
        a_set.undo.back()
        seen += 1
    assert seen > 5

"""Published inference entries since v1.0, each changed so that it breaks one rule: the judge has to
see it, and may not fall over it.
"""

from pathlib import Path

import pytest
from corpus import CORPUS
from mutants.judging import Court, Tally
from mutants.served.filed import LATER_FILED
from mutants.served.later import LaterBase, later_bases, later_judged
from mutants.served.runs import LATER_RUNS

pytestmark = pytest.mark.slow
LEAST = 0.98
"""Share of the kinds that has to be caught."""
KINDS = 225
STEP = 3
"""Of the entries every third is a base: all rounds, layouts and scenarios are among them."""
BASES = 1
"""Of each kind; they take turns."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("later")


@pytest.fixture(scope="module")
def bases(work: Path) -> list[LaterBase]:
    return list(later_bases(CORPUS, work, STEP))


def test_no_base_is_broken_as_it_is(bases: list[LaterBase]) -> None:
    court = Court()
    assert [
        base.name
        for base in bases
        if court.outcome("", base.name, base.folder, "").verdict != "valid"
    ] == []


def test_what_breaks_an_entry_is_seen(bases: list[LaterBase], work: Path) -> None:
    kinds = (*LATER_RUNS, *LATER_FILED)
    tally = Tally(outcomes=tuple(later_judged(kinds, bases, Court(), work, BASES)))
    assert len(tally.kinds()) >= KINDS, sorted({kind.name for kind in kinds} - tally.kinds().keys())
    assert not tally.tracebacks()
    assert tally.share >= LEAST, "\n".join(tally.lines())

"""Published results, each changed so that it breaks one rule: the judge has to see it, and may not
fall over it.

`PYTHONPATH=../shared python -m mutants` in tests/compliance says which kinds are missed; the list is
independent of the rules' own tests.
"""

from collections.abc import Iterator

import pytest
from corpus import CORPUS
from mutants.families import Inference, Training
from mutants.judging import Tally

LEAST = 0.97
"""Share of the kinds that has to be caught in every base."""
MOST = 3
"""Bases of each kind; they take turns."""


def assert_caught(tally: Tally) -> None:
    """Ask for the share, and for no traceback."""
    assert not tally.tracebacks(), tally.tracebacks()[0]
    assert tally.share >= LEAST, "\n".join(tally.lines())


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    """The training rounds, copied."""
    yield Training.of(CORPUS, tmp_path_factory.mktemp("training"), MOST)


@pytest.fixture(scope="module")
def inference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inference]:
    """The inference round, copied."""
    yield Inference.of(CORPUS, tmp_path_factory.mktemp("inference"), MOST)


@pytest.mark.slow
def test_mutants_of_training_logs_are_caught(training: Training):
    """A log that breaks one rule is broken, alone and in its tree."""
    assert_caught(training.logs())


@pytest.mark.slow
def test_mutants_of_training_sets_are_caught(training: Training):
    """A set that breaks one rule is broken."""
    assert_caught(training.sets())


@pytest.mark.slow
def test_what_accepted_logs_do_is_no_alarm(training: Training):
    """A quirk of one organisation is no fault in another's log."""
    assert [(outcome.kind, outcome.base, outcome.told) for outcome in training.harmless()] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("counted_once")
def test_mutants_of_inference_entries_are_caught(inference: Inference):
    """An entry that breaks one rule is broken."""
    assert_caught(inference.entries())


@pytest.mark.slow
@pytest.mark.usefixtures("counted_once")
def test_what_accepted_entries_do_is_no_alarm(inference: Inference):
    """A quirk of one organisation is no fault in another's entry."""
    assert [(outcome.kind, outcome.base, outcome.told) for outcome in inference.harmless()] == []

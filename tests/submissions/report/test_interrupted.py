"""A signal while a result is scored or put on a page is no problem of the result."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from compliance.kinds.podium import reader
from submissions.report import build
from submissions.score import score
from suite import registry
from suite.process.signals import Terminated


def interrupt(*_: object) -> None:
    """Stand in for any step that a signal ends."""
    raise Terminated("interrupted by SIGTERM")


def test_a_section_is_not_told_as_unreadable() -> None:
    """The page would be kept, and say so of a sound result."""
    with pytest.raises(Terminated):
        build.build_section_or_note("Serving", "serving", interrupt)  # type: ignore[arg-type]


def test_a_score_is_not_told_as_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "read_result_values", interrupt)
    with pytest.raises(Terminated):
        score.score_result(None)  # type: ignore[arg-type]


def test_an_accuracy_is_not_told_as_one_that_cannot_be_recomputed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A finding of the judge would say so."""
    monkeypatch.setattr(registry, "load_scorer", interrupt)
    with pytest.raises(Terminated):
        reader.score_inference_entry(
            SimpleNamespace(accuracy=True, workload="resnet50", truth=tmp_path)
        )  # type: ignore[arg-type]

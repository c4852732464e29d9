"""What a workload's package gives is checked before the clock: a wrong type would be found by the
judge, hours later.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import log_path, options, partial
from podium_fakes.fake import FakeTraining

from harness.request import resolve_request
from harness.training.plugin_values import check_hyperparameters
from harness.training.request import require_training_row
from harness.training.run_set import train_run_set
from suite.errors import RequestError
from suite.workload import Workload

GOOD: dict[str, Any] = {"train_samples": 40, "eval_samples": 64, "metric_signature": "top1"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"opt_name": "sgd", "global_batch_size": "4"},
            "global_batch_size: '4' is not of type int",
        ),
        (
            {"opt_name": "sgd", "global_batch_size": 4, "decay": float("nan")},
            "decay is nan, not a finite number, text, flag or list of numbers",
        ),
        (
            {"opt_name": "sgd", "global_batch_size": 4, "decay": {"a": 1}},
            "decay is {'a': 1}, not a finite number",
        ),
        ({"opt_name": "sgd", "global_batch_size": 4, 7: 1}, "the name 7 is not a text"),
        (None, "NoneType, not a mapping"),
    ],
)
def test_hyperparameters_are_checked_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: object, problem: str
) -> None:
    """One sentence that names package and key; no folder is made."""
    monkeypatch.setattr(Workload, "select_hyperparameters", lambda *_: given)
    with pytest.raises(RequestError) as caught:
        train_run_set("fake", options(tmp_path), seed=1)
    assert str(caught.value).startswith(
        "fake: hyperparameters of package podium-fakes 1.0: "
    ) and problem in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_what_the_row_requires_is_there(tmp_path: Path) -> None:
    """A log without it is no result."""
    request = resolve_request(options(tmp_path), "fake")
    row = replace(require_training_row(request), required=("global_batch_size",))
    check_hyperparameters(request, row, {"global_batch_size": 4})
    with pytest.raises(
        RequestError,
        match="fake: hyperparameters of package podium-fakes 1.0: global_batch_size is missing",
    ):
        check_hyperparameters(request, row, {"opt_name": "sgd"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"train_samples": None}, "train_samples is None, not a whole number above 0"),
        ({"train_samples": 40.0}, "train_samples is 40.0, not a whole number above 0"),
        ({"eval_samples": True}, "eval_samples is True, not a whole number above 0"),
        ({"eval_samples": ...}, "eval_samples is missing"),
        ({"metric_signature": ...}, "metric_signature is missing"),
        ({"metric_signature": 1}, "metric_signature is 1, not a text"),
    ],
)
def test_facts_are_checked_before_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], problem: str
) -> None:
    """No log is left that looks like a run's."""
    facts = {key: value for key, value in {**GOOD, **change}.items() if value is not ...}
    monkeypatch.setattr(FakeTraining, "facts", lambda self: facts)
    with pytest.raises(RequestError) as caught:
        train_run_set("fake", options(tmp_path), seed=1)
    assert str(caught.value).startswith(
        "fake: facts of package podium-fakes 1.0: "
    ) and problem in str(caught.value)
    assert not log_path(tmp_path).exists() and not partial(tmp_path).exists()

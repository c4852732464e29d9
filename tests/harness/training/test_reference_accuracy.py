"""The accuracy to hold: every sample answered once, in fp32, from the exported weights."""

import json
from pathlib import Path

import pytest
from podium_fakes import fake
from podium_fakes.drive import options

from harness.request import RunRequest, resolve_request
from harness.training import reference_accuracy as reference
from harness.training.reference_accuracy import (
    collect_reference_answers,
    score_reference_accuracy,
    split_into_batches,
)
from suite.terms import Precision


@pytest.fixture
def request_here(tmp_path: Path) -> RunRequest:
    return resolve_request(
        options(tmp_path, "batching.max_batch=7", "engine.compile=true", precision=Precision.BF16),
        "fake",
    )


def checkpoint(folder: Path, weight: float) -> Path:
    (folder / "model.json").write_text(json.dumps({"workload": "fake", "weight": weight}))
    return folder


@pytest.mark.parametrize("weight", [0.0, 0.37, 1.0])
def test_the_scorer_gets_every_answer(tmp_path: Path, request_here: RunRequest, weight: float):
    """A part that is left out would change the share."""
    assert score_reference_accuracy(request_here, checkpoint(tmp_path, weight), seed=1) == {
        "top1": weight
    }


def test_scores_that_the_row_does_not_hold_are_no_reference(
    tmp_path: Path, request_here: RunRequest, monkeypatch: pytest.MonkeyPatch
):
    """A scorer may tell more than MLPerf asks for, as top-5; the training log names the row's
    metrics alone.
    """
    monkeypatch.setattr(
        reference.registry,
        "load_scorer",
        lambda name: lambda answers, truth: {"top1": 0.5, "top5": 0.75},
    )
    assert score_reference_accuracy(request_here, checkpoint(tmp_path, 1.0), seed=1) == {
        "top1": 0.5
    }


def test_it_is_fp32_and_eager_whatever_was_trained(
    tmp_path: Path, request_here: RunRequest, monkeypatch: pytest.MonkeyPatch
):
    """99 % of an already lossy score would be too little to ask for."""
    seen = []
    usual = fake.FakeInference
    monkeypatch.setattr(
        fake, "FakeInference", lambda run, *rest: seen.append(run) or usual(run, *rest)
    )
    score_reference_accuracy(request_here, checkpoint(tmp_path, 1.0), seed=1)
    assert (
        seen[0].precision is Precision.FP32
        and seen[0].settings["engine.compile"] is False
        and seen[0].settings["engine.cuda_graphs"] is False
        and seen[0].settings["batching.max_batch"] == 7
    )


def test_no_more_is_held_than_a_performance_run_may():
    """COCO at 1200 px does not fit into memory at once; what was loaded is unloaded; long samples
    go together.
    """

    class System:
        sample_count, performance_sample_count = 10, 4
        held: set[int] = set()
        most, sizes = 0, []

        def load(self, samples):  # noqa: ANN001, ANN202  as in Inference
            self.held |= set(samples)
            self.most = max(self.most, len(self.held))

        def unload(self, samples):  # noqa: ANN001, ANN202
            self.held -= set(samples)

        def length(self, sample):  # noqa: ANN001, ANN202
            return -sample

        def open(self, worker, max_batch):  # noqa: ANN001, ANN202
            return self

        def warm_up(self) -> None:
            self.sizes.clear()

        def __call__(self, samples):  # noqa: ANN001, ANN204
            assert set(samples) <= self.held and list(samples) == sorted(samples, reverse=True)
            self.sizes.append(len(samples))
            return [bytes([sample]) for sample in samples]

    system = System()
    assert collect_reference_answers(system, 3) == {sample: bytes([sample]) for sample in range(10)}
    assert system.most == 4 and not system.held and system.sizes == [3, 1, 3, 1, 2]


def test_an_answer_too_few_is_an_error():
    """zip would drop the rest in silence."""

    class System:
        sample_count = performance_sample_count = 2
        load = unload = lambda *_: None
        length = lambda *_: 0  # noqa: E731  a method of one expression

        def open(self, worker, max_batch):  # noqa: ANN001, ANN202
            return self

        def warm_up(self) -> None:
            """Nothing."""

        def __call__(self, samples):  # noqa: ANN001, ANN204
            return [b""]

    with pytest.raises(ValueError, match="zip"):
        collect_reference_answers(System(), 8)


def test_parts_cover_a_sequence():
    """The last one may be smaller."""
    assert [list(part) for part in split_into_batches(range(5), 2)] == [
        [0, 1],
        [2, 3],
        [4],
    ] and split_into_batches(range(0), 2) == []

"""GNMT's recorded decoder steps against a recording double of the GPU: the answers of eager
decoding, whatever the batch, and what is recorded and when.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recording_gpu import RecordingGpu

from harness.engines.torch import TorchEngine, TorchExecutable
from suite.engine import Network, Plan
from suite.workload import Run
from workloads.common import weights
from workloads.gnmt import data, model
from workloads.gnmt.inference import GNMTInference
from workloads.gnmt.scoring import GNMT_END_ID, GNMT_START_ID

MakeRun = Callable[..., Run]
LONGEST = 20
RECORDINGS = 3 * 2
"""Sizes 1, 2 and 4, sources of 16 and 32 tokens."""
BATCHES = [(5,), (20, 3, 11), (16, 16, 15, 2), (17, 2), (5, 6, 7, 8), (20,)]


class RecordingEngine(TorchEngine):
    """The torch engine on the double."""

    def __init__(self, gpu: RecordingGpu) -> None:
        self.gpu = gpu
        self.made: list[TorchExecutable] = []

    def compile(self, network: Network[Any], plan: Plan[Any]) -> TorchExecutable:
        self.made.append(TorchExecutable(network, plan, self.gpu))
        return self.made[-1]


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    return make_run(batching__max_batch=4, data__max_answer_length=LONGEST)


@pytest.fixture
def checkpoint(run: Run, tmp_path: Path) -> Path:
    """Random weights, larger than at the start, and no words that are likely everywhere, so that
    answers differ.
    """
    subwords = data.prepare_gnmt_text(
        run.data, run.cache, int(str(run.settings["data.merges"])), skip=False
    ).subwords
    network = model.build_seeded_gnmt(3, len(subwords.tokens), 16, 3, 0.0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6.0)
        network.decoder.classifier.bias.zero_()
    description = model.GNMTDescription(
        workload="gnmt",
        framework="torch",
        width=16,
        layers=3,
        vocabulary=len(subwords.tokens),
        vocabulary_sha256=subwords.sha256,
        max_answer_length=LONGEST,
    )
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    weights.write_exported_weights(network, description, folder)
    return folder


def make_payloads(system: GNMTInference, *lengths: int) -> list[bytes]:
    """Make sentences of these lengths as they come over a network."""
    rng = np.random.default_rng(sum(lengths))
    vocabulary = system._description.vocabulary
    words = [rng.integers(4, vocabulary, length - 2) for length in lengths]
    return [np.array([GNMT_START_ID, *each, GNMT_END_ID], np.int32).tobytes() for each in words]


def test_recorded_decoding_gives_the_answers_of_eager_decoding(run: Run, checkpoint: Path) -> None:
    """Padding of sentences and sources, and what an earlier batch left in the same memory, may
    change no answer.
    """
    gpu = RecordingGpu()
    eager = GNMTInference(run, checkpoint, TorchEngine())
    recorded = GNMTInference(run, checkpoint, RecordingEngine(gpu))
    expect: Any = eager.open(0, 4)
    predict: Any = recorded.open(0, 4)
    assert gpu.recordings == RECORDINGS
    predict.warm_up()
    answers = set()
    for batch in [*BATCHES, *reversed(BATCHES)]:
        payloads = make_payloads(eager, *batch)
        expected = expect.answer(payloads)
        assert predict.answer(payloads) == expected
        answers |= set(expected)
    assert len(answers) > 5 and gpu.recordings == RECORDINGS


def test_a_step_runs_nothing_but_what_was_recorded(run: Run, checkpoint: Path) -> None:
    """Else it would be as slow as before, with the right answers; another shape runs eager."""
    system = GNMTInference(run, checkpoint, RecordingEngine(RecordingGpu()))
    predict: Any = system.open(0, 4)
    eager_steps: list[int] = []
    usual = predict._translator.run_decoder_step

    def run_eager_step(token_NK: torch.Tensor, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        eager_steps.append(len(token_NK))
        found: tuple[torch.Tensor, ...] = usual(token_NK, *rest)
        return found

    object.__setattr__(predict._translator, "run_decoder_step", run_eager_step)
    for batch in BATCHES:
        predict.answer(make_payloads(system, *batch))
    assert not eager_steps
    for other in ((3,) * 5, (33, 4)):
        predict.answer(make_payloads(system, *other))
    assert set(eager_steps) == {5, 2}


def test_a_recording_that_fails_is_said_and_decoding_runs_eager(
    run: Run, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, before the clock."""
    engine = RecordingEngine(RecordingGpu(most=2))
    system = GNMTInference(run, checkpoint, engine)
    predict: Any = system.open(0, 4)
    assert capsys.readouterr().err == (
        "engine torch: network gnmt-decoder could not be recorded as CUDA graphs (operation not"
        " permitted); it runs eager\n"
    )
    assert engine.made[1].describe()["cuda_graphs"] is False
    payloads = make_payloads(system, 7, 12)
    expect: Any = GNMTInference(run, checkpoint, TorchEngine()).open(0, 4)
    assert predict.answer(payloads) == expect.answer(payloads)

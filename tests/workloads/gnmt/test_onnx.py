"""GNMT through ONNX Runtime: encoder and decoder step exported, the LSTMs' state going round, the
same translations.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.onnx.example_sizes import collect_dynamic_sizes
from harness.engines.torch import TorchEngine
from suite import registry
from suite.engine import Executable, Network, Plan
from suite.rounds import Profile
from suite.workload import Run
from workloads.common import weights
from workloads.gnmt import data, model
from workloads.gnmt.inference import GNMTInference

pytest.importorskip("onnxruntime")
WIDTH, LAYERS = 16, 3
SCALE = 6.0  # random weights at their usual size answer every sentence alike


@pytest.fixture
def checkpoint(make_run: Callable[..., Run], tmp_path: Path) -> Path:
    run = make_run()
    subwords = data.prepare_gnmt_text(
        run.data, run.cache, int(str(run.settings["data.merges"])), skip=False
    ).subwords
    network = model.build_seeded_gnmt(1, len(subwords.tokens), WIDTH, LAYERS, 0.0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(SCALE)
    described = model.GNMTDescription(
        workload="gnmt",
        framework="torch",
        width=WIDTH,
        layers=LAYERS,
        vocabulary=len(subwords.tokens),
        vocabulary_sha256=subwords.sha256,
        max_answer_length=60,
    )
    weights.write_exported_weights(network, described, tmp_path)
    return tmp_path


@pytest.mark.slow
def test_translations_are_those_of_the_torch_engine(
    make_run: Callable[..., Run], checkpoint: Path
) -> None:
    """In batches of several sizes: an export that knows one length, or a state that is overwritten
    while it is read, changes words.
    """
    answers = []
    for engine in (TorchEngine(), OnnxRuntimeEngine()):
        system = GNMTInference(make_run(batching__max_batch=4), checkpoint, engine)
        system.load(range(10))
        predict = system.open(0, 4)
        predict.warm_up()
        answers.append(
            [answer for start in range(0, 9, 3) for answer in predict(range(start, start + 3))]
            + list(predict([9]))
        )
        system.close()
    assert answers[0] == answers[1] and len(set(answers[0])) > 1


@pytest.mark.parametrize("longest", [60, 12, 2])
def test_an_export_is_shown_a_sentence_shorter_than_the_longest(
    longest: int, make_run: Callable[..., Run], checkpoint: Path
) -> None:
    """It is checked at a larger length, too: shown the longest alone, the exporter unrolled the
    LSTMs for it, and shorter sentences failed.
    """
    shown: list[Network[torch.Tensor]] = []

    class NotingEngine(TorchEngine):
        def compile(
            self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]
        ) -> Executable[torch.Tensor]:
            shown.append(network)
            return super().compile(network, plan)

    run = make_run(batching__max_batch=4, data__max_answer_length=longest)
    GNMTInference(run, checkpoint, NotingEngine()).open(0, 4).warm_up()
    assert [network.name for network in shown] == ["gnmt-encoder", "gnmt-decoder"]
    for network in shown:
        assert collect_dynamic_sizes(network, network.inputs)["source"] < longest


def test_the_row_says_why_it_is_not_quantised() -> None:
    """`podium infer gnmt --precision int8` ends with this sentence, and doctor shows it."""
    benchmark = registry.load_round().benchmark("gnmt")
    assert "LSTM" in benchmark.not_quantised
    assert not any(benchmark.inference[profile].calibration for profile in Profile)


def test_static_quantisation_has_no_lstm() -> None:
    """The reason that the row gives; where it falls, INT8 may be offered."""
    registered = pytest.importorskip("onnxruntime.quantization.registry")
    assert "LSTM" not in registered.QDQRegistry

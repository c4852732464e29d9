"""The Transformer through ONNX Runtime: encoder and decoder step exported, the cache going round,
the same translations.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.torch import TorchEngine
from suite.workload import Run
from workloads.transformer.inference import TransformerInference
from workloads.transformer.training import TransformerTraining

pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_translations_are_those_of_the_torch_engine(
    make_run: Callable[..., Run], tmp_path: Path
) -> None:
    """In batches of several sizes: an export that knows one length, or a cache that is overwritten
    while it is read, changes words.
    """
    run = make_run(opt_learning_rate_warmup_steps=5, opt_base_learning_rate=0.3)
    training = TransformerTraining(run)
    list(training.train_epoch(1))
    training.export(tmp_path)
    answers = []
    for engine in (TorchEngine(), OnnxRuntimeEngine()):
        system = TransformerInference(run, tmp_path, engine)
        system.load(range(system.sample_count))
        predict = system.open(0, 4)
        answers.append(
            [answer for start in range(0, 12, 3) for answer in predict(range(start, start + 3))]
            + list(predict([5]))
        )
        system.close()
    assert answers[0] == answers[1]

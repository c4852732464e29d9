"""Mini-Go through ONNX Runtime: the same policy and value, in fp32 and, with the listed positions'
ranges, in INT8.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boards import SMALL
from testbed import a_run

from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.torch import TorchEngine
from suite.terms import Precision
from suite.workload import Run
from workloads.common import weights
from workloads.minigo import model, scoring
from workloads.minigo.agreement import agree
from workloads.minigo.inference import MiniGoInference

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow
COUNT = 64
"""Positions that are compared."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(1)
    description = model.MiniGoDescription(
        workload=model.MINIGO_NAME, board=5, planes=13, filters=8, blocks=2, hidden=16
    )
    weights.write_exported_weights(model.MiniGoNetwork(description), description, folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the network is exported once for all."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def exported(cache: Path, checkpoint: Path) -> list[bytes]:
    """What the exported network answers."""
    return answers(asked(cache), checkpoint, OnnxRuntimeEngine())


def asked(cache: Path, **settings: Any) -> Run:
    return a_run("minigo", None, cache, SMALL, serving=True, **settings)


def answers(run: Run, checkpoint: Path, engine: Any) -> list[bytes]:
    """What the system says of the first positions, in batches of two sizes."""
    system = MiniGoInference(run, checkpoint, engine)
    system.load(range(COUNT))
    predict = system.open(0, 8)
    found = [
        *predict([0]),
        *(answer for start in range(1, COUNT, 7) for answer in predict(range(start, start + 7))),
    ]
    system.close()
    return found


def test_answers_are_those_of_the_torch_engine(
    cache: Path, checkpoint: Path, exported: list[bytes]
) -> None:
    """An export that loses a head, or its batch axis, would answer something else."""
    for one, other in zip(answers(asked(cache), checkpoint, TorchEngine()), exported, strict=True):
        mine, its = scoring.unpack_position_answer(one), scoring.unpack_position_answer(other)
        assert mine and its
        np.testing.assert_allclose((*its.policy, its.value), (*mine.policy, mine.value), atol=1e-4)


@pytest.mark.parametrize("method", ["min-max", "percentile", "entropy"])
def test_int8_takes_its_ranges_from_the_listed_positions(
    cache: Path, checkpoint: Path, exported: list[bytes], method: str
) -> None:
    """Within what two answers of one model may differ by; and they do differ, else nothing would be
    quantised.
    """
    lowered = answers(
        asked(cache, precision=Precision.INT8, calibration__method=method),
        checkpoint,
        OnnxRuntimeEngine(),
    )
    assert exported != lowered
    assert (
        sum(agree(one, other) for one, other in zip(exported, lowered, strict=True)) >= 0.9 * COUNT
    )

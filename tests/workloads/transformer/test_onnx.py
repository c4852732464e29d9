"""Encoder and decoder step through ONNX Runtime: the same translations as through PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.engines.torch import TorchEngine
from suite.engine import Engine, Plan
from suite.terms import Precision
from workloads.transformer.decoding import Translator
from workloads.transformer.model import DecoderStep, Encoder, Transformer
from workloads.transformer.recipe import Decoding, Shape
from workloads.transformer.system import described
from workloads.transformer.torch_tensors import TorchTensors

pytestmark = pytest.mark.slow
SHAPE = Shape(layers=2, width=64, filter=128, heads=4, vocabulary=50)
SENTENCES = [np.array(ids, np.int32) for ids in ([5, 6, 7, 1], [4, 3, 9, 8, 1], [7, 1])]


def translator(engine: Engine[Any], cache: Path) -> Translator[Any]:
    """The same weights behind an engine."""
    torch.manual_seed(1)
    model, tensors = Transformer(SHAPE), TorchTensors("cpu")
    plan: Plan[Any] = Plan(device="cpu", precision=Precision.FP32, threads=1, max_batch=4, cache=cache)
    encoder, step = (engine.compile(network, plan).open() for network in described("torch", Encoder(model), DecoderStep(model), tensors.put, SHAPE, 3))
    return Translator(tensors, encoder, step, Decoding(beam=3, alpha=0.6, extra_length=20))


def test_translations_are_those_of_pytorch(tmp_path: Path) -> None:
    """Caches that the engine keeps as state, batches and horizons of several sizes from one export; asked twice, since state may stay behind."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: podium-suite[onnx]")
    from harness.engines.onnxruntime import OnnxRuntimeEngine

    expected = translator(TorchEngine(), tmp_path)(SENTENCES)
    served = translator(OnnxRuntimeEngine(), tmp_path)
    assert served(SENTENCES) == expected
    assert served(SENTENCES[1:]) == expected[1:]

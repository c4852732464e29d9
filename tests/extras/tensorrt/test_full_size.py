"""The networks of MLPerf at their real size, built by a real TensorRT for RTX."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tensorrt_builds import PRECISIONS, build_workload, read_table, require_rtx, summarise
from tensorrt_builds import TARGETS as TARGET_NAMES

from extras.tensorrt.ahead_of_time import AheadBuilder
from extras.tensorrt.library import parse_target
from suite.engine import Network, Plan, ShapeProfile
from suite.terms import Precision
from workloads.gnmt.inference import build_gnmt_encoder_inputs
from workloads.gnmt.model import GNMTNetwork, GNMTServingEncoder

pytestmark = pytest.mark.slow

VOCABULARY, WIDTH, LAYERS = 32_320, 1024, 4
"""mlcommons/training, rnn_translator: WMT16's vocabulary, padded, and the network."""


def test_resnet50_at_224_pixels(tmp_path: Path) -> None:
    """Shapes and kernels of the embedded images' 32 pixels say little about the real ones."""
    outcome = build_workload("resnet50", tmp_path, ("data.picture_size=224",))
    assert outcome.ends == read_table()["`resnet50`, 224 px"], outcome.reasons
    ranges = [name for name in outcome.builder.engines[-1].description if "range." in name]
    assert len(ranges) == 50  # inputs of 53 convolutions and of the dense layer, shared ones once


def test_ssd_at_300_pixels(tmp_path: Path) -> None:
    """8,732 boxes from six maps."""
    outcome = build_workload("ssd", tmp_path, ("model.configuration=300",))
    assert outcome.ends == read_table()["`ssd`, 300 px"], outcome.reasons


def list_encoder_shapes(batch: int, tokens: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(one.shape) for one in build_gnmt_encoder_inputs(batch, tokens, "meta"))


def test_the_encoder_of_gnmt(tmp_path: Path) -> None:
    """Loops over 50 tokens of 1,024 values, forwards and backwards. The weights are PyTorch's own:
    of GNMT's initial ones, uniform to 0.1, rounding errors grow from step to step.
    """
    torch.manual_seed(0)
    network: Network[Any] = Network(
        name="gnmt-encoder",
        module=GNMTServingEncoder(GNMTNetwork(VOCABULARY, WIDTH, LAYERS)),
        framework="torch",
        inputs=build_gnmt_encoder_inputs(2, 8, "cpu"),
        input_names=("source", "length"),
        output_names=("memory", "key"),
        dimensions=({0: "batch", 1: "source"}, {0: "batch"}),
        shapes=ShapeProfile(
            minimum=list_encoder_shapes(1, 2),
            usual=list_encoder_shapes(8, 24),
            maximum=list_encoder_shapes(16, 50),
        ),
    )
    library = require_rtx()
    builder = AheadBuilder(
        library, [parse_target(name, library) for name in TARGET_NAMES], tmp_path
    )
    floats = [each for each in PRECISIONS if each is not Precision.INT8]
    for precision in floats:
        plan: Plan[Any] = Plan(
            device="cpu", precision=precision, threads=1, max_batch=16, cache=tmp_path
        )
        builder.build_network(network, plan)
    wanted = read_table()["`gnmt` encoder, full size"]
    ends = summarise(builder, floats).ends
    assert ends == {key: wanted[key] for key in ends}, builder.refused

"""What all honest runs share, made once: checkpoints without a training, an ONNX file, and the
harness ceiling.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from podium_fakes.kept import keep_ceiling

from harness.serving.weights.initial import export_random_weights
from honest_runs.kinds import Kind, Place
from suite.cli import RunOptions
from suite.terms import Profile


def prepare_shared(folder: Path, kinds: Sequence[Kind]) -> None:
    """Make what these kinds name in their commands."""
    keep_ceiling(folder / "cache")
    place = Place(results=folder / "results", shared=folder)
    words = [word for kind in kinds for each in kind.commands(place) for word in each]
    if place.locate_llama("null") in words:
        make_null_llama(folder)
    if place.locate_llama("real") in words:
        make_real_llama(folder)
    if "--onnx" in words:
        write_onnx_file(folder / "network.onnx")


def make_null_llama(folder: Path) -> None:
    """Export a network of llama's kind that takes no time."""
    from podium_fakes.llama import keep_llama_checkpoint

    keep_llama_checkpoint(folder / "null").rename(folder / "llama-null")


def make_real_llama(folder: Path) -> None:
    """Export llama's smoke network with random weights."""
    options = RunOptions(
        profile=Profile.SMOKE,
        framework="torch",
        engine="torch",
        input="default",
        data=None,
        results=folder / "real",
        device="cpu",
        precision=None,
        threads=1,
        config=None,
        assignments=(),
        org="benchmarks",
        system=None,
    )
    shutil.move(export_random_weights("llama", options), folder / "llama-real")


def write_onnx_file(path: Path) -> None:
    """Write a network of one matrix."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    sizes = [1, 256]
    weights = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *sizes[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", *sizes[1:]])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)

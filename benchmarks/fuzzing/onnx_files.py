"""What podium reads of a stranger's network: an ONNX file, and the samples of its inputs."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fuzzing.reading import Reader
from harness.serving.onnx_file.graph import FileGraph, FileInput, read_onnx_graph
from harness.serving.onnx_file.network import build_onnx_network

SIZES = (3, 4)


def build_file() -> bytes:
    """Return a small network with a branch, a constant and a function of its own."""
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", *SIZES))
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "then", [], [out])
    nodes = [
        helper.make_node("If", ["yes"], ["z"], then_branch=then, else_branch=then),
        helper.make_node("Twice", ["z"], ["y"], domain="own"),
    ]
    yes = numpy_helper.from_array(np.array(True), "yes")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], body, opsets[:1])
    graph = helper.make_graph(nodes, "network", [picture], [out], [yes])
    return bytes(
        helper.make_model(graph, opset_imports=opsets, functions=[twice]).SerializeToString()
    )


def build_samples() -> list[bytes]:
    """Return one sample as both kinds of files."""
    array, files = np.ones(SIZES, np.float32), [io.BytesIO(), io.BytesIO()]
    np.save(files[0], array)
    np.savez(files[1], x=array)
    return [each.getvalue() for each in files]


def onnx_files(work: Path) -> Iterator[Reader]:
    """Readers of a file, and of its samples."""
    yield Reader(
        name="onnx-file",
        file=work / "network.onnx",
        seeds=[build_file()],
        read=read_onnx_graph,
        share=0.2,
    )
    picture = FileInput(name="x", dtype="float32", sizes=("N", *SIZES))
    graph = FileGraph(
        path=work,
        sha256="",
        inputs=(picture,),
        output_names=("y",),
        ir_version=8,
        opsets=(("", 17),),
    )
    folder = work / "onnx-samples"
    folder.mkdir()
    yield Reader(
        name="onnx-samples",
        file=folder / "0.npz",
        seeds=build_samples(),
        read=lambda path: build_onnx_network(graph, {}, path.parent, {}),
        share=0.2,
    )

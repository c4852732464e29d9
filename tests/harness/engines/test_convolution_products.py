"""Dense layers as convolutions: the same answers, in the file that is built for Turing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.engines.onnx.convolution_products import ensure_convolution_products

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

ROWS, SIDE, WIDTH = 3, 5, 4


def written(folder: Path, transposed: bool, biased: bool, **factors: Any) -> Path:
    """Write a product between two activations, and one that has no constant matrix."""
    draw = np.random.default_rng(0).standard_normal
    shape = (WIDTH, SIDE) if transposed else (SIDE, WIDTH)
    constants = {"matrix": draw(shape), "vector": draw(WIDTH)}
    read = ["rows", "matrix", *(["vector"] if biased else [])]
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Gemm", read, ["mapped"], "dense", transB=int(transposed), **factors),
        helper.make_node("Relu", ["mapped"], ["positive"]),
        helper.make_node("Gemm", ["positive", "rows"], ["answer"], "pairs"),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("rows", kind, [WIDTH, SIDE])],
        [helper.make_tensor_value_info("answer", kind, [WIDTH, SIDE])],
        [
            onnx.numpy_helper.from_array(value.astype(np.float32), name)
            for name, value in constants.items()
        ],
    )
    path = folder / "dense.onnx"
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    return path


def answer(path: Path) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = np.random.default_rng(1).standard_normal((WIDTH, SIDE)).astype(np.float32)
    return session.run(["answer"], {"rows": rows})[0]


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_the_answers_stay(tmp_path: Path, transposed: bool, biased: bool) -> None:
    """A matrix that is taken the wrong way round still multiplies if it is square."""
    source = written(tmp_path, transposed, biased)
    path = ensure_convolution_products(source)
    np.testing.assert_allclose(answer(path), answer(source), rtol=1e-5, atol=1e-5)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds == ["Unsqueeze", "Conv", "Squeeze", "Relu", "Gemm"]
    assert "matrix" not in [each.name for each in onnx.load(path).graph.initializer]


def test_other_products_are_left_alone(tmp_path: Path) -> None:
    """A factor is no part of a convolution; the file is not even copied."""
    source = written(tmp_path, True, True, alpha=0.5)
    assert ensure_convolution_products(source) == source

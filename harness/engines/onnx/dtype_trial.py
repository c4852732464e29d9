"""A single matrix product in ONNX Runtime to test whether a precision runs; exporting a network
would take seconds.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from suite.errors import MissingError
from suite.terms import Precision

SIDE: Final = 8
OPSET: Final = 17
IR: Final = 8
"""ONNX file format version of that opset: every ONNX Runtime that podium supports can read it."""
ELEMENT: Final = {Precision.FP16: TensorProto.FLOAT16}
"""Tensor type of a product, unless fp32 (TF32 and TensorRT's formats are left to the provider)."""


def run(provider: str, precision: Precision, options: Mapping[str, str]) -> None:
    """Multiply on one provider; an exception says why it cannot."""
    quantised = precision is Precision.INT8
    element = ELEMENT.get(precision, TensorProto.FLOAT)
    model = helper.make_model(
        integers() if quantised else floats(element),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=[(provider, dict(options))]
    )
    if provider not in session.get_providers():
        raise MissingError(
            f"{provider} does not start here: its libraries or the GPU are missing or have the"
            " wrong version"
        )
    kind = np.uint8 if quantised else helper.tensor_dtype_to_np_dtype(element)
    session.run(None, {"left": np.ones((SIDE, SIDE), kind)})


def floats(element: int) -> onnx.GraphProto:
    """Build a product of floats."""
    right = helper.make_tensor("right", element, [SIDE, SIDE], np.ones(SIDE * SIDE))
    return graph([helper.make_node("MatMul", ["left", "right"], ["product"])], [right], element)


def integers() -> onnx.GraphProto:
    """Build a product of bytes, as in a quantised layer."""
    right = helper.make_tensor(
        "right", TensorProto.INT8, [SIDE, SIDE], np.ones(SIDE * SIDE, np.int8)
    )
    scale, even, zero = (
        helper.make_tensor(name, element, [], [value])
        for name, element, value in (
            ("scale", TensorProto.FLOAT, 1),
            ("even", TensorProto.UINT8, 0),
            ("zero", TensorProto.INT8, 0),
        )
    )
    inputs = ["left", "scale", "even", "right", "scale", "zero", "scale", "even"]
    return graph(
        [helper.make_node("QLinearMatMul", inputs, ["product"])],
        [right, scale, even, zero],
        TensorProto.UINT8,
    )


def graph(
    nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.TensorProto], element: int
) -> onnx.GraphProto:
    """Build a graph with one input and one output."""
    left, product = (
        helper.make_tensor_value_info(name, element, [SIDE, SIDE]) for name in ("left", "product")
    )
    return helper.make_graph(list(nodes), "trial", [left], [product], list(constants))

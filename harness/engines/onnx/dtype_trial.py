"""A single matrix product in ONNX Runtime to test whether a precision runs; exporting a network would take seconds."""

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
"""The file format's version that came with the opset: any ONNX Runtime that podium takes can read it."""
ELEMENT: Final = {Precision.FP16: TensorProto.FLOAT16}
"""The type that a product is taken in, where it is not fp32 (TF32 and TensorRT's formats are the provider's own work)."""


def run(provider: str, precision: Precision, options: Mapping[str, str]) -> None:
    """Multiply on one provider; whatever is raised says why it cannot be."""
    quantised = precision is Precision.INT8
    element = ELEMENT.get(precision, TensorProto.FLOAT)
    model = helper.make_model(integers() if quantised else floats(element), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[(provider, dict(options))])
    if provider not in session.get_providers():
        raise MissingError(f"{provider} does not start here: its libraries or the GPU are missing or have the wrong version")
    kind = np.uint8 if quantised else helper.tensor_dtype_to_np_dtype(element)
    session.run(None, {"left": np.ones((SIDE, SIDE), kind)})


def floats(element: int) -> onnx.GraphProto:
    """Multiply floats."""
    right = helper.make_tensor("right", element, [SIDE, SIDE], np.ones(SIDE * SIDE))
    return graph([helper.make_node("MatMul", ["left", "right"], ["product"])], [right], element)


def integers() -> onnx.GraphProto:
    """Multiply bytes, as a quantised layer does."""
    right = helper.make_tensor("right", TensorProto.INT8, [SIDE, SIDE], np.ones(SIDE * SIDE, np.int8))
    scale, even, zero = (
        helper.make_tensor(name, element, [], [value])
        for name, element, value in (("scale", TensorProto.FLOAT, 1), ("even", TensorProto.UINT8, 0), ("zero", TensorProto.INT8, 0))
    )
    inputs = ["left", "scale", "even", "right", "scale", "zero", "scale", "even"]
    return graph([helper.make_node("QLinearMatMul", inputs, ["product"])], [right, scale, even, zero], TensorProto.UINT8)


def graph(nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.TensorProto], element: int) -> onnx.GraphProto:
    """Put a graph of one input and one output together."""
    left, product = (helper.make_tensor_value_info(name, element, [SIDE, SIDE]) for name in ("left", "product"))
    return helper.make_graph(list(nodes), "trial", [left], [product], list(constants))

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

MATRIX_SIDE: Final = 8
TRIAL_OPSET: Final = 17
TRIAL_IR_VERSION: Final = 8
"""ONNX file format version of that opset: every ONNX Runtime that podium supports can read it."""
PRODUCT_TENSOR_TYPES: Final = {Precision.FP16: TensorProto.FLOAT16}
"""Tensor type of a product, unless fp32 (TF32 and TensorRT's formats are left to the provider)."""


def run_precision_trial(provider: str, precision: Precision, options: Mapping[str, str]) -> None:
    """Multiply on one provider; an exception says why it cannot."""
    quantised = precision is Precision.INT8
    element = PRODUCT_TENSOR_TYPES.get(precision, TensorProto.FLOAT)
    model = helper.make_model(
        build_quantised_product() if quantised else build_float_product(element),
        opset_imports=[helper.make_opsetid("", TRIAL_OPSET)],
        ir_version=TRIAL_IR_VERSION,
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
    session.run(None, {"left": np.ones((MATRIX_SIDE, MATRIX_SIDE), kind)})


def build_float_product(element: int) -> onnx.GraphProto:
    right = helper.make_tensor(
        "right", element, [MATRIX_SIDE, MATRIX_SIDE], np.ones(MATRIX_SIDE * MATRIX_SIDE)
    )
    return build_product_graph(
        [helper.make_node("MatMul", ["left", "right"], ["product"])], [right], element
    )


def build_quantised_product() -> onnx.GraphProto:
    """Build a product of bytes, as in a quantised layer."""
    right = helper.make_tensor(
        "right",
        TensorProto.INT8,
        [MATRIX_SIDE, MATRIX_SIDE],
        np.ones(MATRIX_SIDE * MATRIX_SIDE, np.int8),
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
    return build_product_graph(
        [helper.make_node("QLinearMatMul", inputs, ["product"])],
        [right, scale, even, zero],
        TensorProto.UINT8,
    )


def build_product_graph(
    nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.TensorProto], element: int
) -> onnx.GraphProto:
    """Build a graph with one input and one output."""
    left, product = (
        helper.make_tensor_value_info(name, element, [MATRIX_SIDE, MATRIX_SIDE])
        for name in ("left", "product")
    )
    return helper.make_graph(list(nodes), "trial", [left], [product], list(constants))

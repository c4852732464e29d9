"""Lowers an fp32 ONNX file to the precisions of a strongly typed engine: the types in the file are
the compute types.

Libraries produce FP16 and INT8 (quantization.py). BF16 is the FP16 file with its type replaced, FP8
the symmetric INT8 file with its type and scales replaced; INT4 applies to weights only, in blocks.
Sources of the forms: NVIDIA TensorRT, Working with quantized types; ONNX, DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.engines.onnx import quantization
from harness.engines.onnx.export import read_onnx_model
from suite.engine import RANGE
from suite.errors import MissingError
from suite.files.cache import fill_cache_entry
from suite.terms import Precision

if TYPE_CHECKING:
    import onnx
    import torch

    from suite.engine import Network, Plan
    from suite.rounds import HyperValue

TENSORRT_INT8_FORM: Final = quantization.QuantisationForm(
    symmetric=True, narrow=False, kinds=("Conv", "ConvTranspose", "Gemm", "MatMul")
)
"""TensorRT: symmetric int8, Q and DQ in front of products; it fuses the rest around them itself."""
FLOAT8_OPSET: Final = 19
"""ONNX, QuantizeLinear: the first version with FLOAT8E4M3FN."""
BLOCK_OPSET: Final = 21
"""ONNX, DequantizeLinear: the first version with INT4 and with blocks."""
FP32_ONLY_IN_BF16: Final = ("ConvTranspose",)
"""TensorRT for RTX 1.7 reads a transposed convolution in bf16, and cannot build it."""
WEIGHTS_PER_BLOCK: Final = 128
"""Weights per scale; TensorRT, Block quantization: 64 or 128."""
MAX_INT4: Final = 7
MAX_INT8: Final = 127.0
MAX_FLOAT8: Final = quantization.QUANTISED_TYPE_LIMITS["FLOAT8E4M3FN"][1]


def lower_onnx_to_precision(
    network: Network[torch.Tensor], source: Path, plan: Plan[torch.Tensor]
) -> tuple[Path, Mapping[str, HyperValue]]:
    """Return the network's file in the plan's precision, and its description; RequestError or
    MissingError if that is impossible.
    """
    if plan.precision in (Precision.FP32, Precision.TF32):
        return source, {"weights": "fp32"}
    if plan.precision is Precision.FP16:
        return quantization.ensure_fp16_onnx(source), {"weights": "fp16"}
    if plan.precision is Precision.BF16:
        return ensure_derived_onnx(
            quantization.ensure_fp16_onnx(source),
            "bf16",
            lambda model: convert_fp16_to_bf16(model, source),
        ), {"weights": "bf16"}
    if plan.precision is Precision.INT4:
        path = ensure_derived_onnx(
            source, "int4", lambda model: pack_int4_weights(network.name, model)
        )
        return path, {
            "weights": f"int4 in blocks of {WEIGHTS_PER_BLOCK}",
            "activations": "fp32",
            **read_block_ranges(path),
        }
    path = quantization.ensure_int8_onnx(network, source, plan.calibration, TENSORRT_INT8_FORM)
    if plan.precision is Precision.FP8:
        path = ensure_derived_onnx(path, "fp8", convert_int8_to_fp8)
    activation_format = f"{plan.precision} per tensor, explicit Q/DQ"
    return path, {
        "weights": f"{plan.precision} per channel",
        "activations": activation_format,
        **quantization.collect_activation_ranges(read_onnx_model(path)),
    }


def ensure_derived_onnx(
    source: Path, name: str, change: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> Path:
    """Return a file derived from another, cached if possible."""
    import onnx

    path = source.with_name(f"{source.stem}-{name}.onnx")
    with fill_cache_entry(path) as partial:
        if partial is not None:
            onnx.save(change(read_onnx_model(source)), partial)
    return path


def convert_fp16_to_bf16(model: onnx.ModelProto, source: Path) -> onnx.ModelProto:
    """Convert an FP16 file to BF16; weights are rounded once, from their fp32 values. Transposed
    convolutions stay in fp32.
    """
    from onnx import TensorProto, numpy_helper

    keep_operators_in_fp32(model, FP32_ONLY_IN_BF16)
    exact = {tensor.name: tensor for tensor in read_onnx_model(source).graph.initializer}
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            value = numpy_helper.to_array(exact.get(tensor.name, tensor))
            tensor.CopyFrom(round_to_bf16(value, tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT16:
                attribute.t.CopyFrom(
                    round_to_bf16(numpy_helper.to_array(attribute.t), attribute.t.name)
                )
            elif (
                node.op_type == "Cast"
                and attribute.name == "to"
                and attribute.i == TensorProto.FLOAT16
            ):
                attribute.i = TensorProto.BFLOAT16
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    return model


def keep_operators_in_fp32(model: onnx.ModelProto, kinds: Collection[str]) -> None:
    """Have operators of some kinds compute in fp32, between casts from and to FP16."""
    from onnx import TensorProto, helper

    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.op_type not in kinds:
            model.graph.node.append(node)
            continue
        for place, name in enumerate(node.input):
            wide = f"{node.name}_input_{place}_fp32"
            model.graph.node.append(
                helper.make_node("Cast", [name], [wide], f"{wide}_cast", to=TensorProto.FLOAT)
            )
            node.input[place] = wide
        narrow, wide = node.output[0], f"{node.name}_output_fp32"
        node.output[0] = wide
        model.graph.node.append(node)
        model.graph.node.append(
            helper.make_node("Cast", [wide], [narrow], f"{wide}_cast", to=TensorProto.FLOAT16)
        )


def round_to_bf16(value: Any, name: str) -> onnx.TensorProto:
    import ml_dtypes
    from onnx import numpy_helper

    return numpy_helper.from_array(value.astype(ml_dtypes.bfloat16), name)


def convert_int8_to_fp8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert a symmetric INT8 file to FP8: the same ranges, with scales for FP8's largest
    value.
    """
    import ml_dtypes
    import numpy as np
    from onnx import numpy_helper

    model = ensure_min_opset(model, FLOAT8_OPSET)
    pairs = [
        node for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")
    ]
    scales, zeros = ({node.input[place] for node in pairs} for place in (1, 2))
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if tensor.name in scales:
            tensor.CopyFrom(
                numpy_helper.from_array(
                    (value * (MAX_INT8 / MAX_FLOAT8)).astype(value.dtype), tensor.name
                )
            )
        elif tensor.name in zeros:
            tensor.CopyFrom(
                numpy_helper.from_array(np.zeros(value.shape, ml_dtypes.float8_e4m3fn), tensor.name)
            )
    del model.graph.value_info[:]
    return model


def pack_int4_weights(name: str, model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace each constant matrix of a product with INT4 and DQ; MissingError if none fits."""
    from onnx import numpy_helper

    model = ensure_min_opset(model, BLOCK_OPSET)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    found = dict(find_packable_matrices(model, constants))
    if not found:
        raise MissingError(
            f"network {name}: int4 needs a matrix product with a constant matrix whose rows are a"
            f" multiple of {WEIGHTS_PER_BLOCK}, and it has none"
        )
    for number, (weight, axis) in enumerate(found.items()):
        packed, scale, node = convert_to_int4_blocks(
            weight, numpy_helper.to_array(constants[weight]), axis
        )
        model.graph.initializer.remove(constants[weight])
        model.graph.initializer.extend((packed, scale))
        model.graph.node.insert(number, node)
    return model


def find_packable_matrices(
    model: onnx.ModelProto, constants: Mapping[str, onnx.TensorProto]
) -> Iterator[tuple[str, int]]:
    """Yield the matrices that fit, each with its axis of summation."""
    for node in model.graph.node:
        weight = None
        if node.op_type in ("Gemm", "MatMul"):
            weight = constants.get(node.input[1])
        transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        if (
            weight is not None
            and len(weight.dims) == 2
            and weight.dims[int(transposed)] % WEIGHTS_PER_BLOCK == 0
        ):
            yield weight.name, int(transposed)


def convert_to_int4_blocks(
    name: str, weight: Any, axis: int
) -> tuple[onnx.TensorProto, onnx.TensorProto, onnx.NodeProto]:
    """Quantise a matrix in blocks along an axis; return its INT4 tensor, its scales, and the
    dequantising node.
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rows = weight.shape[axis] // WEIGHTS_PER_BLOCK
    if axis == 0:
        split = (rows, WEIGHTS_PER_BLOCK, -1)
    else:
        split = (-1, rows, WEIGHTS_PER_BLOCK)
    largest = np.abs(weight.reshape(split)).max(axis=axis + 1)
    scale = np.where(largest > 0, largest / MAX_INT4, 1.0).astype(np.float32)
    steps = np.clip(
        np.rint(weight / np.repeat(scale, WEIGHTS_PER_BLOCK, axis=axis)), -MAX_INT4, MAX_INT4
    ).astype(np.int8)
    packed = helper.make_tensor(f"{name}_int4", TensorProto.INT4, weight.shape, steps.flatten())
    node = helper.make_node(
        "DequantizeLinear",
        [f"{name}_int4", f"{name}_scale"],
        [name],
        axis=axis,
        block_size=WEIGHTS_PER_BLOCK,
    )
    return packed, numpy_helper.from_array(scale, f"{name}_scale"), node


def read_block_ranges(path: Path) -> Mapping[str, HyperValue]:
    """Read back the widest range of each packed matrix: it comes from the weights, not from
    samples.
    """
    from onnx.numpy_helper import to_array

    model = read_onnx_model(path)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    found: dict[str, HyperValue] = {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            widest = float(to_array(constants[node.input[1]]).max()) * MAX_INT4
            found[f"{RANGE}{node.output[0]}"] = (-widest, widest)
    return found


def ensure_min_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Convert a model to an operator set, unless it has that or a later one."""
    from onnx import version_converter

    now = next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    if now >= opset:
        return model
    return version_converter.convert_version(model, opset)

"""Rewrites dense layers as convolutions of one pixel, which compute the same: TensorRT for RTX has
8-bit convolutions with fp32 results for Turing, and no such matrix products.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.engines.onnx.export import read_onnx_model
from harness.engines.onnx.lowering import ensure_derived_onnx

if TYPE_CHECKING:
    import onnx

PIXEL_AXES: Final = "podium_pixel_axes"
"""The constant that names height and width of a picture of one pixel."""
USUAL_FACTORS: Final = {"alpha": 1.0, "beta": 1.0}


def ensure_convolution_products(source: Path) -> Path:
    """Return a network's fp32 file without dense layers, cached if possible; the file itself if it
    has none.
    """
    graph = read_onnx_model(source).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    if not any(is_dense_layer(node, constants) for node in graph.node):
        return source
    return ensure_derived_onnx(source, "convolutions", replace_dense_layers)


def replace_dense_layers(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace each product of a batch with a constant matrix by a convolution."""
    import numpy as np
    from onnx import numpy_helper

    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes = list(graph.node)
    replaced = {node.input[1] for node in nodes if is_dense_layer(node, constants)}
    del graph.node[:]
    for node in nodes:
        is_dense = is_dense_layer(node, constants)
        graph.node.extend(build_convolution(node, model, constants) if is_dense else [node])
    graph.initializer.append(numpy_helper.from_array(np.array([2, 3], np.int64), PIXEL_AXES))
    drop_replaced_matrices(model, replaced)
    return model


def is_dense_layer(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> bool:
    """Return whether a node multiplies rows by a constant matrix, and adds a constant vector."""
    if node.op_type != "Gemm" or node.input[1] not in constants:
        return False
    given = {attribute.name: attribute for attribute in node.attribute}
    has_usual_factors = all(
        name not in given or given[name].f == factor for name, factor in USUAL_FACTORS.items()
    )
    is_vector = len(node.input) < 3 or (
        node.input[2] in constants and len(constants[node.input[2]].dims) == 1
    )
    return has_usual_factors and is_vector and not ("transA" in given and given["transA"].i)


def build_convolution(
    node: onnx.NodeProto, model: onnx.ModelProto, constants: Mapping[str, onnx.TensorProto]
) -> list[onnx.NodeProto]:
    """Build the nodes that stand for a dense layer, and add its matrix as a filter."""
    from onnx import helper, numpy_helper

    matrix = numpy_helper.to_array(constants[node.input[1]])
    if not any(attribute.name == "transB" and attribute.i for attribute in node.attribute):
        matrix = matrix.T
    name = f"{node.output[0]}_filter"
    model.graph.initializer.append(numpy_helper.from_array(matrix[:, :, None, None].copy(), name))
    pixel, mapped = f"{node.output[0]}_pixel", f"{node.output[0]}_mapped"
    return [
        helper.make_node("Unsqueeze", [node.input[0], PIXEL_AXES], [pixel], f"{node.name}_pixel"),
        helper.make_node(
            "Conv", [pixel, name, *node.input[2:]], [mapped], node.name, kernel_shape=[1, 1]
        ),
        helper.make_node("Squeeze", [mapped, PIXEL_AXES], node.output, f"{node.name}_vector"),
    ]


def drop_replaced_matrices(model: onnx.ModelProto, replaced: Collection[str]) -> None:
    """Remove matrices that stand as filters now, unless something else reads them."""
    read = set(iterate_read_names(model.graph))
    kept = [
        each for each in model.graph.initializer if each.name in read or each.name not in replaced
    ]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def iterate_read_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of all values that nodes read, those of loops and branches too."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            yield from iterate_read_names(attribute.g)

"""ONNX files as their tools write them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Writer = Callable[..., Path]


def constant(name: str, *sizes: int) -> onnx.TensorProto:
    values = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    return numpy_helper.from_array(values, name)


def save(
    path: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    constants: Sequence[Any] = (),
    **options: Any,
) -> Path:
    domains = [helper.make_opsetid(name, 1) for name in options.pop("domains", ())]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "network", inputs, given, constants),
        opset_imports=[helper.make_opsetid("", 17), *domains],
        ir_version=9,
    )
    onnx.save(model, path, **options)
    return path


def classifier(
    path: Path, *sizes: int | str, kind: int = TensorProto.FLOAT, **options: Any
) -> Path:
    """A network of one input of 3 x 4 x 4, and ten classes."""
    nodes = [
        helper.make_node("Cast", ["picture"], ["plain"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["plain"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["logit"]),
    ]
    picture = helper.make_tensor_value_info("picture", kind, sizes or ("N", 3, 4, 4))
    return save(path, nodes, [picture], ["logit"], [constant("weight", 48, 10)], **options)


def reader(path: Path) -> Path:
    """A network of two inputs whose sizes are free: tokens and their mask."""
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["shown"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["shown", "axis"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["masked"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ("batch", "length"))
        for name in ("tokens", "mask")
    ]
    axis = numpy_helper.from_array(np.array([2]), "axis")
    return save(path, nodes, inputs, ["masked"], [constant("table", 100, 16), axis])


def stranger(path: Path, *names: str) -> Path:
    """A network of operators that nobody knows."""
    nodes = [
        helper.make_node(name, ["x" if not place else f"x{place}"], [f"x{place + 1}"], domain="my")
        for place, name in enumerate(names)
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 4))
    return save(path, nodes, [x], [f"x{len(names)}"], domains=("my",))


@pytest.fixture
def write_classifier(tmp_path: Path) -> Writer:
    return lambda *sizes, name="net.onnx", **options: classifier(tmp_path / name, *sizes, **options)


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    return reader(tmp_path / "text.onnx")


@pytest.fixture
def write_stranger(tmp_path: Path) -> Writer:
    return lambda *names: stranger(tmp_path / "odd.onnx", *names)

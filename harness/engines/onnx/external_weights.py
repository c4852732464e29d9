"""Weights that lie in files beside an ONNX file: which they are, whether they are all there, and
reading them, also through links, as ONNX Runtime does; imports onnx on use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from suite.errors import RequestError
from suite.files.foreign_content import describe_foreign_file
from suite.files.layout import is_inside_folder
from suite.files.untrusted_files import replace_unprintable

if TYPE_CHECKING:
    import onnx

LOCATION_KEY: Final = "location"
OFFSET_KEY: Final = "offset"
LENGTH_KEY: Final = "length"
HALF_BYTE_TYPES: Final = frozenset({"INT4", "UINT4", "FLOAT4E2M1"})
PACKED_TYPES: Final = frozenset({"INT2", "UINT2", "FLOAT6E2M3", "FLOAT6E3M2", "STRING"})
"""Types whose numbers share bytes in other ways, or have no size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlace:
    """Where the numbers of a tensor lie."""

    tensor: str
    """For a person."""
    file: str
    start: int
    end: int


def list_weight_files(path: Path, model: onnx.ModelProto) -> list[Path]:
    """List the files of weights that a file names; RequestError for one that is not there, lies
    elsewhere, or ends before its weights do.
    """
    places = [read_weight_place(path, each) for each in iterate_external_tensors(model)]
    for name in sorted({each.file for each in places}):
        if not is_inside_folder(PurePosixPath(name).as_posix()):
            raise RequestError(
                f"{path}: its weights lie outside its folder: {replace_unprintable(name)}"
            )
        if not (path.parent / name).is_file():
            raise RequestError(
                f"{path}: its weights are missing: no file {replace_unprintable(name)} beside it"
            )
        if said := describe_foreign_file(path.parent / name, "the file's weights"):
            raise RequestError(f"{path}: {replace_unprintable(name)} beside it {said}")
    for place in places:
        check_weight_place(path, place)
    return [path.parent / name for name in sorted({each.file for each in places})]


def iterate_external_tensors(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield the constants that lie beside a file."""
    from onnx.external_data_helper import uses_external_data

    return filter(uses_external_data, iterate_tensors(model))


def read_weight_place(path: Path, tensor: Any) -> WeightPlace:
    """Read where a tensor's numbers lie; RequestError if that is nowhere."""
    entries = {each.key: decode_name(each.value) for each in tensor.external_data}
    name = replace_unprintable(decode_name(tensor.name))
    size = compute_tensor_bytes(tensor)
    try:
        start = int(entries.get(OFFSET_KEY) or 0)
        length = int(entries.get(LENGTH_KEY) or size or 0)
    except ValueError:
        raise RequestError(f"{path}: the place of tensor {name} is no number") from None
    if start < 0:
        raise RequestError(
            f"{path}: tensor {name} begins at byte {start} of"
            f" {replace_unprintable(entries.get(LOCATION_KEY, ''))}; export the file again"
        )
    if size is not None and length != size:
        raise RequestError(
            f"{path}: tensor {name} has {size} bytes, and its entry says {length}; export the file"
            " again"
        )
    return WeightPlace(
        tensor=name, file=entries.get(LOCATION_KEY, ""), start=start, end=start + length
    )


def compute_tensor_bytes(tensor: Any) -> int | None:
    """Return the bytes of a tensor's numbers; None for a type that this onnx has no size of."""
    from onnx import TensorProto, helper

    count: int = math.prod(tensor.dims)
    names = {number: name for name, number in TensorProto.DataType.items()}
    name = names.get(tensor.data_type, "")
    if name in HALF_BYTE_TYPES:
        return (count + 1) // 2
    try:
        each: int = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except (KeyError, ValueError):
        return None
    return None if name in PACKED_TYPES else count * each


def check_weight_place(path: Path, place: WeightPlace) -> None:
    """RequestError if a file of weights ends before a tensor's place does."""
    size = (path.parent / place.file).stat().st_size
    if size < place.end:
        raise RequestError(
            f"{path}: {replace_unprintable(place.file)} has {size} bytes; tensor {place.tensor}"
            f" needs bytes {place.start} to {place.end}: the download is not complete"
        )


def read_whole_model(path: Path) -> onnx.ModelProto:
    """Read a file with the weights beside it. onnx itself refuses links, such as Hugging Face's
    cache has.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    for tensor in iterate_external_tensors(model):
        place = read_weight_place(path, tensor)
        with (path.parent / place.file).open("rb") as stream:
            stream.seek(place.start)
            tensor.raw_data = stream.read(place.end - place.start)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return model


def decode_name(name: str | bytes) -> str:
    """Return a name of a file; protobuf returns one that is no UTF-8 as bytes."""
    if isinstance(name, str):
        return name
    return name.decode("utf-8", "replace")


def iterate_model_nodes(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield all nodes of a file, those of its functions included."""
    for holder in (model.graph, *model.functions):
        yield from iterate_nodes(holder.node)


def iterate_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes, and those of the graphs within them, such as branches."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in list_inner_graphs(attribute):
                yield from iterate_nodes(graph.node)


def list_inner_graphs(attribute: Any) -> list[Any]:
    """Return the graphs of an attribute, such as a branch."""
    if attribute.HasField("g"):
        return [attribute.g, *attribute.graphs]
    return list(attribute.graphs)


def iterate_tensors(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield the constants of a file."""
    yield from model.graph.initializer
    for node in iterate_model_nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in list_inner_graphs(attribute):
                yield from graph.initializer

"""Reads an ONNX file without running it: its inputs and outputs, its hash, and what keeps it from
being run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from suite.errors import MissingError, RequestError
from suite.files.layout import compute_file_sha256, is_inside_folder
from suite.files.untrusted_files import replace_unprintable
from suite.process.installation import RUN_EXTRA, format_install_command

if TYPE_CHECKING:
    import onnx

FileSize: TypeAlias = int | str
"""A size that the file fixes, or the name of a free one; "" if it has none."""
ONNX_DOMAINS: Final = frozenset({"", "ai.onnx"})
CHECKED_DOMAINS: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"})
"""Domains whose operators ONNX defines; what an engine has beside them it alone knows."""
ENGINE_DOMAIN_PREFIXES: Final = ("com.microsoft", "com.ms.")
"""ONNX Runtime's own operators."""
INPUT_TYPES: Final = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "INT64": "int64",
    "INT32": "int32",
    "INT8": "int8",
    "UINT8": "uint8",
    "BOOL": "bool",
}
"""ONNX's type -> its name in numpy and torch."""
MAX_OPSET_VERSION: Final = 1 << 30
"""More than any; onnx takes 32 bits."""
EXTERNAL_LOCATION: Final = "location"
MAX_NAMED_OPERATORS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInput:
    """One input of a file."""

    name: str
    dtype: str
    """In numpy and torch."""
    sizes: tuple[FileSize, ...] | None
    """None if the file leaves even their number free."""

    @property
    def is_first_free(self) -> bool:
        """Return whether its first size is free, and so may count the samples of a batch."""
        sizes = self.sizes or ()
        return bool(sizes) and isinstance(sizes[0], str)

    def __str__(self) -> str:
        if self.sizes is None:
            return "no sizes"
        return "x".join(str(size or "?") for size in self.sizes) or "a single number"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGraph:
    """What a file says of itself."""

    path: Path
    sha256: str
    """Of the file, and of the files of weights that it names."""
    inputs: tuple[FileInput, ...]
    output_names: tuple[str, ...]

    @property
    def is_batched(self) -> bool:
        """Return whether a sample is an item along the first size of each input; otherwise it is a
        call of the network.
        """
        return all(each.is_first_free for each in self.inputs)


def read_onnx_graph(path: Path) -> FileGraph:
    """Read a file; RequestError if it is none of ONNX's, is damaged, lacks files of weights, or has
    operators or inputs that nobody knows. MissingError without the package onnx.
    """
    model = parse_onnx_file(path)
    if unknown := list(dict.fromkeys(find_unknown_operators(model))):
        more = len(unknown) - MAX_NAMED_OPERATORS
        raise RequestError(
            f"{path}: unknown {'operators' if len(unknown) > 1 else 'operator'}"
            f" {', '.join(unknown[:MAX_NAMED_OPERATORS])}{f' and {more} more' if more > 0 else ''}"
        )
    weight_files = find_weight_files(path, model)
    constants = {each.name for each in model.graph.initializer}
    inputs = tuple(
        read_file_input(path, each) for each in model.graph.input if each.name not in constants
    )
    if not inputs or not model.graph.output:
        raise RequestError(f"{path}: a network without {'outputs' if inputs else 'inputs'}")
    return FileGraph(
        path=path.absolute(),
        sha256=compute_network_sha256(path, weight_files),
        inputs=inputs,
        output_names=tuple(decode_name(each.name) for each in model.graph.output),
    )


def parse_onnx_file(path: Path) -> onnx.ModelProto:
    """Parse a file, without the weights that lie beside it."""
    if not path.is_file():
        raise RequestError(f"--onnx {path}: no such file")
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingError(
            f"--onnx needs the package onnx: {format_install_command(RUN_EXTRA)}"
        ) from error
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise RequestError(f"--onnx {path}: {error.strerror}") from error
    except (DecodeError, ValueError) as error:
        raise RequestError(f"{path}: damaged, or not an ONNX file") from error
    if not (model.ir_version and model.opset_import and model.graph.node):
        raise RequestError(f"{path}: not an ONNX file: it has no graph")
    return model


def find_unknown_operators(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the operators that neither ONNX nor the file defines, with their domains."""
    from onnx import defs

    versions = {decode_name(each.domain): each.version for each in model.opset_import}
    own = {(decode_name(each.domain), decode_name(each.name)) for each in model.functions}
    for node in iterate_model_nodes(model):
        domain, name = decode_name(node.domain), decode_name(node.op_type)
        if (domain, name) in own or domain.startswith(ENGINE_DOMAIN_PREFIXES):
            continue
        domain = "" if domain in ONNX_DOMAINS else domain
        version = versions.get(domain) or versions.get("ai.onnx") or defs.onnx_opset_version()
        version = min(max(version, 1), MAX_OPSET_VERSION)
        if domain not in CHECKED_DOMAINS or not defs.has(name, version, domain):
            yield replace_unprintable(f"{name} of domain {domain}" if domain else name)


def decode_name(name: str | bytes) -> str:
    """Return a name of a file; protobuf returns one that is no UTF-8 as bytes."""
    return name if isinstance(name, str) else name.decode("utf-8", "replace")


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
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def find_weight_files(path: Path, model: onnx.ModelProto) -> list[Path]:
    """Return the files of weights that a file names; RequestError for one that is not there or lies
    elsewhere.
    """
    from onnx.external_data_helper import uses_external_data

    names = {
        decode_name(entry.value)
        for tensor in iterate_tensors(model)
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == EXTERNAL_LOCATION
    }
    for name in sorted(names):
        if not is_inside_folder(PurePosixPath(name).as_posix()):
            raise RequestError(
                f"{path}: its weights lie outside its folder: {replace_unprintable(name)}"
            )
        if not (path.parent / name).is_file():
            raise RequestError(
                f"{path}: its weights are missing: no file {replace_unprintable(name)} beside it"
            )
    return [path.parent / name for name in sorted(names)]


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


def read_file_input(path: Path, value: Any) -> FileInput:
    """Read one input; RequestError for a type that podium cannot make samples of."""
    from onnx import TensorProto

    name = replace_unprintable(decode_name(value.name))
    if value.type.WhichOneof("value") != "tensor_type":
        raise RequestError(f"{path}: input {name} is no tensor; podium has no samples for it")
    tensor = value.type.tensor_type
    kind = next(
        (key for key, number in TensorProto.DataType.items() if number == tensor.elem_type),
        f"number {tensor.elem_type}",
    )
    if kind not in INPUT_TYPES:
        raise RequestError(
            f"{path}: input {name} is of type {kind.lower()}; podium has samples of"
            f" {', '.join(INPUT_TYPES.values())}"
        )
    sizes = (
        each.dim_value
        if each.HasField("dim_value") and each.dim_value > 0
        else decode_name(each.dim_param)
        for each in tensor.shape.dim
    )
    return FileInput(
        name=decode_name(value.name),
        dtype=INPUT_TYPES[kind],
        sizes=tuple(sizes) if tensor.HasField("shape") else None,
    )


def compute_network_sha256(path: Path, weight_files: Sequence[Path]) -> str:
    """Hash a file; together with its files of weights if it has any."""
    own = compute_file_sha256(path)
    if not weight_files:
        return own
    hashes = (own, *map(compute_file_sha256, weight_files))
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()

"""Reads an ONNX file without running it: its inputs and outputs, its hash, and what keeps it from
being run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.engines.onnx.external_weights import (
    decode_name,
    iterate_model_nodes,
    list_weight_files,
)
from suite.errors import MissingError, RequestError
from suite.files.foreign_content import describe_foreign_file
from suite.files.layout import compute_file_sha256
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
MAX_NAMED_OPERATORS: Final = 3
MAX_PROTOBUF_BYTES: Final = (2 << 30) - 1
"""Largest message of protobuf; protobuf.dev, Proto Limits."""
NO_NAMES: Final = frozenset({"?", "-1", "None"})
"""What exporters write for a size without a name; paddle2onnx writes "?" for every one."""
HANDED_OUTPUT_TYPES: Final = frozenset(
    {*INPUT_TYPES, "BFLOAT16", "INT16", "UINT16", "UINT32", "UINT64"}
)
"""Types of outputs whose bytes are handed to LoadGen."""
OUTPUT_KINDS: Final = {
    "sequence_type": "a sequence",
    "map_type": "a map",
    "optional_type": "optional",
    "sparse_tensor_type": "a sparse tensor",
}
"""ONNX's name of what is no tensor -> for a sentence."""


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
    """Of those that an engine hands on; others are left to it."""
    ir_version: int
    opsets: tuple[tuple[str, int], ...]
    """Domain of operators, and its version."""

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
    weight_files = list_weight_files(path, model)
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
        output_names=list_handed_outputs(path, model),
        ir_version=model.ir_version,
        opsets=tuple((decode_name(each.domain), each.version) for each in model.opset_import),
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
    check_onnx_content(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise RequestError(f"--onnx {path}: {error.strerror}") from error
    except (DecodeError, ValueError) as error:
        raise RequestError(f"{path}: damaged, or not an ONNX file") from error
    if not (model.ir_version and model.graph.node):
        raise RequestError(f"{path}: not an ONNX file: it has no graph")
    if not model.opset_import:
        raise RequestError(f"{path}: it names no opset (opset_import); export it again")
    return model


def check_onnx_content(path: Path) -> None:
    """RequestError for a file that is not what its name says, or that protobuf cannot hold."""
    if said := describe_foreign_file(path, "an ONNX file"):
        raise RequestError(f"{path} {said}")
    if path.stat().st_size > MAX_PROTOBUF_BYTES:
        raise RequestError(
            f"{path}: larger than 2 GiB in one file, which protobuf cannot hold: save it with"
            " external data"
        )


def list_handed_outputs(path: Path, model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the outputs whose bytes are handed on; RequestError if the first one, which answers a
    query, is none of these.
    """
    kinds = {decode_name(each.name): describe_output(each) for each in model.graph.output}
    first, kind = next(iter(kinds.items()))
    if kind:
        raise RequestError(
            f"{path}: output {replace_unprintable(first)} is {kind}; podium hands tensors to"
            " LoadGen: export the file with a first output of numbers"
        )
    return tuple(name for name, kind in kinds.items() if not kind)


def describe_output(value: Any) -> str:
    """Say why the bytes of an output are not handed on; "" if they are."""
    kind = value.type.WhichOneof("value")
    if kind in OUTPUT_KINDS:
        return OUTPUT_KINDS[kind]
    name = name_element_type(value.type.tensor_type.elem_type)
    return "" if kind is None or name in HANDED_OUTPUT_TYPES else f"of type {name.lower()}"


def name_element_type(number: int) -> str:
    """Return ONNX's name of a type of numbers."""
    from onnx import TensorProto

    known = {number: name for name, number in TensorProto.DataType.items()}
    return str(known.get(number, f"number {number}"))


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


def read_dimension(dimension: Any) -> int | str:
    """Return a dimension's size above 0, or the name of a free one."""
    if dimension.HasField("dim_value") and dimension.dim_value > 0:
        return int(dimension.dim_value)
    return strip_unnamed_size(decode_name(dimension.dim_param))


def read_file_input(path: Path, value: Any) -> FileInput:
    """Read one input; RequestError for a type that podium cannot make samples of."""
    name = replace_unprintable(decode_name(value.name))
    if value.type.WhichOneof("value") != "tensor_type":
        raise RequestError(f"{path}: input {name} is no tensor; podium has no samples for it")
    tensor = value.type.tensor_type
    kind = name_element_type(tensor.elem_type)
    if kind not in INPUT_TYPES:
        raise RequestError(
            f"{path}: input {name} is of type {kind.lower()}; podium has samples of"
            f" {', '.join(INPUT_TYPES.values())}"
        )
    sizes = map(read_dimension, tensor.shape.dim)
    return FileInput(
        name=decode_name(value.name),
        dtype=INPUT_TYPES[kind],
        sizes=tuple(sizes) if tensor.HasField("shape") else None,
    )


def strip_unnamed_size(name: str) -> str:
    """Return the name of a free size; "" for what only says that it is free."""
    return "" if name in NO_NAMES else name


def compute_network_sha256(path: Path, weight_files: Sequence[Path]) -> str:
    """Hash a file; together with its files of weights if it has any."""
    own = compute_file_sha256(path)
    if not weight_files:
        return own
    hashes = (own, *map(compute_file_sha256, weight_files))
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()

"""Exports a torch module to an ONNX file: once, validated against its source, and cached by the
hash of its inputs.
"""

from __future__ import annotations

import hashlib
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from click import unstyle

from harness.engines.onnx.example_sizes import (
    build_export_inputs,
    choose_larger_sizes,
    collect_dynamic_sizes,
    has_dynamic_recurrent_length,
    resize_example_inputs,
)
from harness.engines.onnx.external_weights import read_whole_model
from harness.engines.outputs import convert_outputs_to_tuple
from suite.engine import ONNX_FRAMEWORK
from suite.errors import MissingError
from suite.files.cache import fill_cache_entry
from suite.files.layout import compute_file_sha256
from suite.terms import Precision

if TYPE_CHECKING:
    import onnx
    import torch

    from suite.engine import Network, Plan

    Tensors = tuple[torch.Tensor, ...]
    Exporter = Callable[[Network[torch.Tensor], torch.nn.Module, Path], None]

EXPORT_TOLERANCE: Final = 1e-3
"""House rule: relative to an output's largest value; fp32 sums in another order differ by some 1e-5
of it.
"""
MIN_OUTPUT_SCALE: Final = 1e-3
"""Lower bound of that value: sums that cancel out keep the rounding errors of their terms."""
KEYED_DISTRIBUTIONS: Final = ("torch", "onnx", "onnxscript", "onnxruntime", "podium-suite")
"""Distributions whose versions are part of a cached file's key."""
METADATA_PREFIX: Final = "podium."
"""Prefix of podium's keys in a file's metadata."""
LOG_FATAL_ONLY: Final = 4
"""SessionOptions.log_severity_level: the comparison reports its own errors."""
MAX_EXPORTER_MESSAGE_LENGTH: Final = 300
"""Characters of an exporter's message that an error quotes."""
UNCHANGED_PRECISIONS: Final = (Precision.FP32, Precision.TF32)
"""Precisions for which the file stays as it is."""
REPRODUCIBLE_TYPES: Final = (bool, int, float, str, bytes, Enum, type(None))


def ensure_onnx_file(network: Network[torch.Tensor], plan: Plan[torch.Tensor]) -> Path:
    """Return the ONNX file to run: the network's export or, if it is a file, that file; a copy in
    the cache where lower precisions are derived from it, which are written beside their source.
    """
    if network.framework != ONNX_FRAMEWORK:
        return ensure_onnx_export(network, plan.cache)
    source = Path(network.module)
    if plan.precision in UNCHANGED_PRECISIONS:
        return source
    path = plan.cache / "onnx" / f"{compute_file_sha256(source)}.onnx"
    with fill_cache_entry(path) as partial:
        if partial is not None:
            copy_onnx_file(source, partial)
    return path


def copy_onnx_file(source: Path, target: Path) -> None:
    """Copy a file with its weights, as one file; MissingError if they are too large for one."""
    import onnx

    try:
        onnx.save(read_whole_model(source), target)
    except ValueError as error:  # protobuf: 2 GiB
        raise MissingError(
            f"{source}: too large to convert to another precision; fp32 and tf32 run it as it is"
        ) from error


def ensure_onnx_export(network: Network[torch.Tensor], cache: Path) -> Path:
    """Return the network's ONNX file, cached if possible; MissingError if it cannot be exported or
    differs from its source.
    """
    path = cache / "onnx" / f"{compute_export_key(network)}.onnx"
    with fill_cache_entry(path) as partial:
        if partial is not None:
            export_to_onnx(network, partial)
    return path


def read_export_notes(path: Path) -> dict[str, str]:
    """Read the export's notes in its file: the exporter, and its largest difference from the
    source.
    """
    return {
        note.key.removeprefix(METADATA_PREFIX): note.value
        for note in read_onnx_model(path, weights=False).metadata_props
        if note.key.startswith(METADATA_PREFIX)
    }


def read_onnx_model(path: Path, *, weights: bool = True) -> onnx.ModelProto:
    """Read a cached file, or a file as it is, with or without the weights beside it; MissingError
    if it is damaged: it would stay damaged.
    """
    import onnx
    from google.protobuf.message import DecodeError

    with suppress(DecodeError):
        model = onnx.load(path, load_external_data=weights)
        if model.graph.node:
            return model
    raise MissingError(f"{path}: not a complete ONNX file; remove it to export again")


def compute_export_key(network: Network[torch.Tensor]) -> str:
    """Hash what an export depends on: weights, structure and code of the module, shapes and names,
    versions.
    """
    digest = hashlib.sha256(repr([(name, version(name)) for name in KEYED_DISTRIBUTIONS]).encode())
    shapes = [(tuple(example.shape), str(example.dtype)) for example in network.inputs]
    digest.update(
        repr(
            (
                network.name,
                network.input_names,
                network.output_names,
                network.dimensions,
                shapes,
                network.module,
            )
        ).encode()
    )
    for source in dict.fromkeys(
        inspect.getmodule(type(part)) or type(part) for part in network.module.modules()
    ):
        with suppress(OSError, TypeError):  # no source: use only the repr
            digest.update(inspect.getsource(source).encode())
    for name, part in network.module.named_modules():
        digest.update(
            repr(
                (
                    name,
                    sorted(
                        (key, repr(value))
                        for key, value in vars(part).items()
                        if is_reproducible_value(value)
                    ),
                )
            ).encode()
        )
    for name, tensor in iterate_constant_tensors(network.module):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(
            tensor.detach().cpu().contiguous().flatten().view(dtype=get_byte_dtype()).numpy().data
        )
    return digest.hexdigest()


def get_byte_dtype() -> torch.dtype:
    """Return the type as which any tensor can be viewed."""
    import torch

    return torch.uint8


def iterate_constant_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor that an exporter may write as a constant: weights, buffers (non-persistent
    ones too), plain tensor attributes.
    """
    import torch

    yield from module.state_dict().items()
    yield from module.named_buffers()
    for name, part in module.named_modules():
        yield from (
            (f"{name}.{key}", value)
            for key, value in vars(part).items()
            if isinstance(value, torch.Tensor)
        )


def is_reproducible_value(value: object) -> bool:
    """Check whether a value's repr is complete and the same in every process; for records and
    collections, recursively.
    """
    if is_dataclass(value):
        return all(is_reproducible_value(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, Mapping):
        return all(map(is_reproducible_value, (*value.keys(), *value.values())))
    if isinstance(value, tuple | list):
        return all(map(is_reproducible_value, value))
    return isinstance(value, REPRODUCIBLE_TYPES)


def export_to_onnx(network: Network[torch.Tensor], path: Path) -> None:
    """Write the file with the first exporter whose result equals the source; MissingError reports
    the first exporter's error.
    """
    module = network.module.eval().float().cpu()
    first: MissingError | None = None
    for exporter in choose_exporters(network, module):
        try:
            try_exporter(network, module, path, exporter)
            return
        except MissingError as error:
            first = first or error
    assert first is not None  # there are two exporters
    raise first


def choose_exporters(
    network: Network[torch.Tensor], module: torch.nn.Module
) -> tuple[Exporter, Exporter]:
    """Return the exporters, the more suitable one first: torch.export unrolls a recurrent layer for
    one length.
    """
    if has_dynamic_recurrent_length(network, module):
        return (export_by_torchscript, export_by_dynamo)
    return (export_by_dynamo, export_by_torchscript)


def try_exporter(
    network: Network[torch.Tensor], module: torch.nn.Module, path: Path, exporter: Exporter
) -> None:
    """Export, compare with the source, and record exporter and difference in the file; MissingError
    if either fails.
    """
    import onnx
    import torch

    name = exporter.__name__.removeprefix("export_by_")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' warnings about their own code
        try:
            exporter(network, module, path)
            model = onnx.load(path)
            difference = compare_with_source(network, module, model, path)
        except MissingError:
            raise
        except Exception as error:  # exporters, and ONNX Runtime on their files, raise many types
            text = " ".join(unstyle(str(error)).split())[:MAX_EXPORTER_MESSAGE_LENGTH]
            raise MissingError(
                f"network {network.name} cannot be exported to ONNX ({name}):"
                f" {type(error).__name__}: {text}"
            ) from error
    onnx.helper.set_model_props(
        model,
        {f"{METADATA_PREFIX}exporter": name, f"{METADATA_PREFIX}difference": f"{difference:.3g}"},
    )
    onnx.save(model, path)


def export_by_dynamo(network: Network[torch.Tensor], module: torch.nn.Module, path: Path) -> None:
    """Write the file with torch.export and its decompositions."""
    import torch

    axes = tuple(map(dict, network.dimensions)) or tuple({} for _ in network.inputs)
    set_progress_thread_lock(torch.hub.__dict__["tqdm"])
    program = torch.onnx.export(
        module,
        build_export_inputs(network),
        dynamo=True,
        dynamic_shapes=axes,
        verbose=False,
        **build_name_arguments(network),
    )
    assert program is not None  # dynamo=True returns a program
    program.save(path)


def set_progress_thread_lock(bar: Any) -> None:
    """Use a thread lock alone for progress bars: torch.fx has a hidden bar, and a process ended at
    once would leave its multiprocessing lock behind.
    """
    if hasattr(bar, "set_lock"):  # without tqdm, torch substitutes a class that lacks it
        bar.set_lock(threading.RLock())


def export_by_torchscript(
    network: Network[torch.Tensor], module: torch.nn.Module, path: Path
) -> None:
    """Write the file by tracing, which maps recurrent layers to ONNX's own."""
    import torch

    axes = dict(zip(network.input_names, map(dict, network.dimensions), strict=False))
    torch.onnx.export(
        module,
        build_export_inputs(network),
        str(path),
        dynamo=False,
        dynamic_axes=axes,
        verbose=False,
        **build_name_arguments(network),
    )


def build_name_arguments(network: Network[torch.Tensor]) -> dict[str, Any]:
    """Return the names as the exporters expect them."""
    return {"input_names": list(network.input_names), "output_names": list(network.output_names)}


def add_example_noise(tensors: Tensors) -> Tensors:
    """Replace constant example tensors with seeded noise: zeros in, equal out would prove
    little.
    """
    import torch

    noise = torch.Generator().manual_seed(0)

    def fill_constant_tensor(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.cpu()
        is_constant = (
            tensor.is_floating_point()
            and tensor.numel() > 0
            and bool((tensor == tensor.flatten()[0]).all())
        )
        if is_constant:
            return tensor + torch.randn(tensor.shape, generator=noise, dtype=tensor.dtype)
        return tensor

    return tuple(map(fill_constant_tensor, tensors))


def compare_with_source(
    network: Network[torch.Tensor], module: torch.nn.Module, model: onnx.ModelProto, path: Path
) -> float:
    """Compare the file with its source at two sizes of its dimensions; return the largest
    difference, MissingError beyond the tolerance.

    A declared output size that a run did not match is removed: the exporter took a dynamic size for
    a constant.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = LOG_FATAL_ONLY
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known, worst = collect_dynamic_sizes(network, network.inputs), 0.0
    for sizes in (known, *choose_larger_sizes(network, known)):
        inputs = add_example_noise(resize_example_inputs(network, sizes))
        wanted = convert_outputs_to_tuple(module(*(tensor.clone() for tensor in inputs)))
        found = session.run(
            list(network.output_names), build_session_feed(session, network, inputs)
        )
        for name, one, other in zip(network.output_names, wanted, found, strict=True):
            worst = max(worst, compute_output_difference(network, name, one, other))
            mark_dynamic_output_sizes(
                model, name, other.shape, collect_dynamic_sizes(network, inputs)
            )
    return worst


def build_session_feed(
    session: Any, network: Network[torch.Tensor], inputs: Tensors
) -> dict[str, Any]:
    """Map the graph's inputs to arrays; an exporter drops inputs that no output depends on."""
    used_names = {one.name for one in session.get_inputs()}
    return {
        name: tensor.numpy()
        for name, tensor in zip(network.input_names, inputs, strict=True)
        if name in used_names
    }


def compute_output_difference(
    network: Network[torch.Tensor], name: str, wanted: torch.Tensor, found: Any
) -> float:
    """Return the difference between an output and its source, relative to the source's largest
    value; MissingError beyond the tolerance.
    """
    import torch

    other = torch.as_tensor(found)
    if other.shape != wanted.shape:
        raise MissingError(
            f"network {network.name}: the export's {name} has the shape {tuple(other.shape)}, its"
            f" source's {tuple(wanted.shape)}"
        )
    one, other = wanted.double(), other.double()
    gap = torch.where(
        one == other, 0.0, one - other
    ).abs()  # equal infinities, as in masks, count as equal
    scale = 1.0
    if one.isfinite().any():
        scale = one[one.isfinite()].abs().max().clamp(min=MIN_OUTPUT_SCALE).item()
    share = gap.max().item() / scale if gap.numel() else 0.0
    if not share <= EXPORT_TOLERANCE:
        raise MissingError(
            f"network {network.name}: the export's {name} differs from its source by {share:.2g} of"
            f" its largest value, more than {EXPORT_TOLERANCE:g}"
        )
    return share


def mark_dynamic_output_sizes(
    model: onnx.ModelProto, name: str, shape: Sequence[int], sizes: Mapping[str, int]
) -> None:
    """Make a declared size dynamic if a run did not match it."""
    (output,) = (one for one in model.graph.output if one.name == name)
    for axis, (declared, real) in enumerate(
        zip(output.type.tensor_type.shape.dim, shape, strict=False)
    ):
        if (sizes.get(declared.dim_param) if declared.dim_param else declared.dim_value) != real:
            declared.dim_param = f"{name}_{axis}"

"""Exports a torch module to an ONNX file: once, validated against its source, and cached by the hash of its inputs."""

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

from harness.engines.cache import held
from harness.engines.outputs import as_tuple
from suite.errors import MissingError
from suite.files.layout import written

if TYPE_CHECKING:
    import onnx
    import torch

    from suite.engine import Network

    Tensors = tuple[torch.Tensor, ...]
    Exporter = Callable[[Network[torch.Tensor], torch.nn.Module, Path], None]

TOLERANCE: Final = 1e-3
"""House rule: of the largest value of an output; fp32 sums in another order differ by some 1e-5 of it."""
LEAST_SCALE: Final = 1e-3
"""Outputs that are smaller are held to the tolerance of this: sums that come to nothing keep the rounding of what they are made of."""
LEAST_SIZE: Final = 2
"""A dynamic dimension is shown to the exporter with this size at least: torch.export takes a size of 1 for a constant."""
LARGER: Final = 2
"""Every dynamic dimension is multiplied by it for a second look: what holds between two of them still holds."""
MADE_WITH: Final = ("torch", "onnx", "onnxscript", "onnxruntime", "podium-suite")
"""Distributions whose versions are part of a kept file's key."""
NOTE: Final = "podium."
"""Beginning of the names of what podium writes into a file's metadata."""
FATAL_ONLY: Final = 4
"""SessionOptions.log_severity_level: what goes wrong in the comparison is told by it."""
LONGEST: Final = 300
"""Characters of an exporter's own words in a message."""
PLAIN: Final = (bool, int, float, str, bytes, Enum, type(None))


def exported(network: Network[torch.Tensor], cache: Path) -> Path:
    """Give the network's ONNX file, from the cache where it is there; MissingError where it cannot be exported or differs from its source."""
    path = cache / "onnx" / f"{key(network)}.onnx"
    with held(path):
        if not path.exists():
            with written(path) as partial:
                export(network, partial)
    return path


def notes(path: Path) -> dict[str, str]:
    """Read what the export noted in its file: the exporter, and how far its work was from the source."""
    return {note.key.removeprefix(NOTE): note.value for note in read(path).metadata_props if note.key.startswith(NOTE)}


def read(path: Path) -> onnx.ModelProto:
    """Read a kept file; MissingError where it is damaged: it would be found damaged for ever."""
    import onnx
    from google.protobuf.message import DecodeError

    with suppress(DecodeError):
        model = onnx.load(path)
        if model.graph.node:
            return model
    raise MissingError(f"{path}: not a complete ONNX file; remove it to export again")


def key(network: Network[torch.Tensor]) -> str:
    """Hash what an export depends on: weights, structure and code of the module, shapes and names, versions."""
    digest = hashlib.sha256(repr([(name, version(name)) for name in MADE_WITH]).encode())
    shapes = [(tuple(example.shape), str(example.dtype)) for example in network.inputs]
    digest.update(repr((network.name, network.input_names, network.output_names, network.dimensions, shapes, network.module)).encode())
    for source in dict.fromkeys(inspect.getmodule(type(part)) or type(part) for part in network.module.modules()):
        with suppress(OSError, TypeError):  # no source: the repr has to do
            digest.update(inspect.getsource(source).encode())
    for name, part in network.module.named_modules():
        digest.update(repr((name, sorted((key, repr(value)) for key, value in vars(part).items() if is_plain(value)))).encode())
    for name, tensor in tensors(network.module):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=byte()).numpy().data)
    return digest.hexdigest()


def byte() -> torch.dtype:
    """Name the type that any tensor can be seen as."""
    import torch

    return torch.uint8


def tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield whatever an exporter may write as a constant: weights, buffers that no checkpoint has too, tensors that are plain attributes."""
    import torch

    yield from module.state_dict().items()
    yield from module.named_buffers()
    for name, part in module.named_modules():
        yield from ((f"{name}.{key}", value) for key, value in vars(part).items() if isinstance(value, torch.Tensor))


def is_plain(value: object) -> bool:
    """Tell values whose repr says all of them, in every process the same; of records and collections, all that is in them."""
    if is_dataclass(value):
        return all(is_plain(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, Mapping):
        return all(map(is_plain, (*value.keys(), *value.values())))
    return all(map(is_plain, value)) if isinstance(value, tuple | list) else isinstance(value, PLAIN)


def export(network: Network[torch.Tensor], path: Path) -> None:
    """Write the file by the first exporter whose work is equal to the source; MissingError says what was wrong with the first one's."""
    module = network.module.eval().float().cpu()
    first: MissingError | None = None
    for exporter in (by_dynamo, by_torchscript):
        try:
            attempt(network, module, path, exporter)
            return
        except MissingError as error:
            first = first or error
    assert first is not None  # there are exporters
    raise first


def attempt(network: Network[torch.Tensor], module: torch.nn.Module, path: Path, exporter: Exporter) -> None:
    """Export, hold against the source, and note both in the file; MissingError where either fails."""
    import onnx
    import torch

    name = exporter.__name__.removeprefix("by_")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own, about their own code
        try:
            exporter(network, module, path)
            model = onnx.load(path)
            difference = compare(network, module, model, path)
        except MissingError:
            raise
        except Exception as error:  # whatever an exporter, or what it wrote, stumbles over
            text = " ".join(unstyle(str(error)).split())[:LONGEST]
            raise MissingError(f"network {network.name} cannot be exported to ONNX ({name}): {type(error).__name__}: {text}") from error
    onnx.helper.set_model_props(model, {f"{NOTE}exporter": name, f"{NOTE}difference": f"{difference:.3g}"})
    onnx.save(model, path)


def by_dynamo(network: Network[torch.Tensor], module: torch.nn.Module, path: Path) -> None:
    """Write the file by torch.export and its decompositions."""
    import torch

    axes = tuple(map(dict, network.dimensions)) or tuple({} for _ in network.inputs)
    keep_bars_here(torch.hub.__dict__["tqdm"])
    program = torch.onnx.export(module, shown(network), dynamo=True, dynamic_shapes=axes, verbose=False, **names(network))
    assert program is not None  # what dynamo=True gives
    program.save(path)


def keep_bars_here(bar: Any) -> None:
    """Let a bar lock threads alone: torch.fx asks for one that is never shown, and a process that is ended at once would leave its lock behind."""
    if hasattr(bar, "set_lock"):  # where tqdm is not installed, torch has one of its own without
        bar.set_lock(threading.RLock())


def by_torchscript(network: Network[torch.Tensor], module: torch.nn.Module, path: Path) -> None:
    """Write the file by tracing, which knows recurrent layers as ONNX has them."""
    import torch

    axes = dict(zip(network.input_names, map(dict, network.dimensions), strict=False))
    torch.onnx.export(module, shown(network), str(path), dynamo=False, dynamic_axes=axes, verbose=False, **names(network))


def names(network: Network[torch.Tensor]) -> dict[str, Any]:
    """Spell the names as the exporters want them."""
    return {"input_names": list(network.input_names), "output_names": list(network.output_names)}


def shown(network: Network[torch.Tensor]) -> Tensors:
    """Give the inputs that an exporter is shown."""
    known = sizes_of(network, network.inputs)
    return resized(network, times(known, 1 if min(known.values(), default=LEAST_SIZE) >= LEAST_SIZE else LEAST_SIZE))


def sizes_of(network: Network[torch.Tensor], inputs: Sequence[torch.Tensor]) -> dict[str, int]:
    """Give the size of each dynamic dimension in a tuple of inputs."""
    return {name: tensor.shape[axis] for tensor, axes in zip(inputs, network.dimensions, strict=False) for axis, name in axes.items()}


def resized(network: Network[torch.Tensor], sizes: Mapping[str, int]) -> Tensors:
    """Give the example inputs with other sizes of their dynamic dimensions, by repeating what they hold."""
    import torch

    found = list(network.inputs)
    for place, axes in enumerate(network.dimensions):
        for axis, name in axes.items():
            old = found[place].shape[axis]
            found[place] = found[place].index_select(axis, torch.arange(sizes[name], device=found[place].device) % old).contiguous()
    return tuple(found)


def lively(tensors: Tensors) -> Tensors:
    """Fill examples of nothing but one number with noise, the same every time: zeros in, equal out would prove little."""
    import torch

    noise = torch.Generator().manual_seed(0)

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.cpu()
        flat = tensor.is_floating_point() and tensor.numel() > 0 and bool((tensor == tensor.flatten()[0]).all())
        return tensor + torch.randn(tensor.shape, generator=noise, dtype=tensor.dtype) if flat else tensor

    return tuple(map(filled, tensors))


def compare(network: Network[torch.Tensor], module: torch.nn.Module, model: onnx.ModelProto, path: Path) -> float:
    """Hold the file against its source at two sizes of its dimensions; give the largest difference, MissingError beyond the tolerance.

    Outputs whose declared shape was not met lose it: the exporter took a size for a constant that is none.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known, worst = sizes_of(network, network.inputs), 0.0
    for sizes in (known, *larger(network, known)):
        inputs = lively(resized(network, sizes))
        wanted = as_tuple(module(*(tensor.clone() for tensor in inputs)))
        found = session.run(list(network.output_names), feed(session, network, inputs))
        for name, one, other in zip(network.output_names, wanted, found, strict=True):
            worst = max(worst, apart(network, name, one, other))
            loosen(model, name, other.shape, sizes_of(network, inputs))
    return worst


def times(sizes: Mapping[str, int], factor: int) -> dict[str, int]:
    """Multiply every size."""
    return {name: size * factor for name, size in sizes.items()}


def larger(network: Network[torch.Tensor], known: Mapping[str, int]) -> list[dict[str, int]]:
    """Give sizes for a second look: twice those of the example, or the network's largest where that is less; none where there are none."""
    twice = times(known, LARGER)
    if network.shapes is None:
        return [twice] if twice else []
    limits = [(axes, shape) for axes, shape in zip(network.dimensions, network.shapes.maximum, strict=False)]
    most = {name: shape[axis] for axes, shape in limits for axis, name in axes.items()}
    chosen = twice if all(twice[name] <= most[name] for name in twice) else most
    return [chosen] if chosen != known else []


def feed(session: Any, network: Network[torch.Tensor], inputs: Tensors) -> dict[str, Any]:
    """Name the inputs that the graph has; an exporter drops those that no output depends on."""
    taken = {one.name for one in session.get_inputs()}
    return {name: tensor.numpy() for name, tensor in zip(network.input_names, inputs, strict=True) if name in taken}


def apart(network: Network[torch.Tensor], name: str, wanted: torch.Tensor, found: Any) -> float:
    """Give how far an output is from its source's, as a share of the source's largest value; MissingError beyond the tolerance."""
    import torch

    other = torch.as_tensor(found)
    if other.shape != wanted.shape:
        raise MissingError(f"network {network.name}: the export's {name} has the shape {tuple(other.shape)}, its source's {tuple(wanted.shape)}")
    one, other = wanted.double(), other.double()
    gap = torch.where(one == other, 0.0, one - other).abs()  # infinities, as masks have them, are equal to themselves
    scale = one[one.isfinite()].abs().max().clamp(min=LEAST_SCALE).item() if one.isfinite().any() else 1.0
    share = gap.max().item() / scale if gap.numel() else 0.0
    if not share <= TOLERANCE:
        raise MissingError(f"network {network.name}: the export's {name} differs from its source by {share:.2g} of its largest value, more than {TOLERANCE:g}")
    return share


def loosen(model: onnx.ModelProto, name: str, shape: Sequence[int], sizes: Mapping[str, int]) -> None:
    """Take a declared size back that a run did not meet."""
    (output,) = (one for one in model.graph.output if one.name == name)
    for axis, (declared, real) in enumerate(zip(output.type.tensor_type.shape.dim, shape, strict=False)):
        if (sizes.get(declared.dim_param) if declared.dim_param else declared.dim_value) != real:
            declared.dim_param = f"{name}_{axis}"


"""From a torch module to an ONNX file: exported once, held against its source, and kept by the hash of all that made it."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.engines.calls import as_tuple
from suite.errors import MissingError
from suite.layout import written

if TYPE_CHECKING:
    import onnx
    import torch

    from suite.engine import Network

    Tensors = tuple[torch.Tensor, ...]

TOLERANCE: Final = 1e-3
"""House rule: of the largest value of an output; fp32 sums in another order differ by some 1e-5 of it."""
LEAST_SIZE: Final = 2
"""A dynamic dimension is shown to the exporter with this size at least: torch.export takes a size of 1 for a constant."""
MADE_WITH: Final = ("torch", "onnx", "onnxscript", "onnxruntime", "podium-suite")
"""Distributions whose versions are part of a kept file's key."""
NOTE: Final = "podium."
"""Beginning of the names of what podium writes into a file's metadata."""
PLAIN: Final = (bool, int, float, str, tuple)


def exported(network: Network[torch.Tensor], cache: Path) -> Path:
    """Give the network's ONNX file, from the cache where it is there; MissingError where it cannot be exported or differs from its source."""
    path = cache / "onnx" / f"{key(network)}.onnx"
    with held(path):
        if not path.exists():
            with written(path) as partial:
                export(network, partial)
    return path


def key(network: Network[torch.Tensor]) -> str:
    """Hash what an export depends on: weights, structure and code of the module, shapes and names, versions."""
    digest = hashlib.sha256(repr([(name, version(name)) for name in MADE_WITH]).encode())
    shapes = [(tuple(example.shape), str(example.dtype)) for example in network.inputs]
    digest.update(repr((network.name, network.input_names, network.output_names, network.dimensions, shapes, network.module)).encode())
    for part in dict.fromkeys(map(type, network.module.modules())):
        with suppress(OSError, TypeError):  # no source: the repr has to do
            digest.update(inspect.getsource(part).encode())
    for name, part in network.module.named_modules():
        digest.update(repr((name, sorted((key, value) for key, value in vars(part).items() if isinstance(value, PLAIN)))).encode())
    for name, tensor in network.module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=byte()).numpy())
    return digest.hexdigest()


def byte() -> torch.dtype:
    """Name the type that any tensor can be seen as."""
    import torch

    return torch.uint8


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Let one process at a time make a kept file; the lock goes with its process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def export(network: Network[torch.Tensor], path: Path) -> None:
    """Export, hold against the source, and write."""
    import onnx
    import torch

    module = network.module.eval().float().cpu()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, about its own code
        exporter = write_model(network, module, path)
        model = onnx.load(path)
        difference = compare(network, module, model, path)
    onnx.helper.set_model_props(model, {f"{NOTE}exporter": exporter, f"{NOTE}difference": f"{difference:.3g}"})
    onnx.save(model, path)


def write_model(network: Network[torch.Tensor], module: torch.nn.Module, path: Path) -> str:
    """Write the file by the exporter that can; give its name. MissingError where neither can."""
    import torch

    shown = resized(network, {name: max(size, LEAST_SIZE) for name, size in sizes_of(network, network.inputs).items()})
    names: dict[str, Any] = {"input_names": list(network.input_names), "output_names": list(network.output_names)}
    dimensions = network.dimensions or tuple({} for _ in network.inputs)
    try:
        program = torch.onnx.export(module, shown, dynamo=True, dynamic_shapes=tuple(map(dict, dimensions)), verbose=False, **names)
        assert program is not None  # what dynamo=True gives
        program.save(path)
        return "dynamo"
    except Exception as error:  # whatever an exporter stumbles over
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    axes = {name: dict(axes) for name, axes in zip(network.input_names, dimensions, strict=True)}
    try:
        torch.onnx.export(module, shown, str(path), dynamo=False, dynamic_axes=axes, verbose=False, **names)
    except Exception as error:
        raise MissingError(f"network {network.name} cannot be exported to ONNX: {reason}") from error
    return "torchscript"


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
    options.log_severity_level = 3  # a declared shape that is not met is dealt with here
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known = sizes_of(network, network.inputs)
    worst = 0.0
    for more in (0, 1):
        inputs = lively(resized(network, {name: within(network, name, size + more) for name, size in known.items()}))
        wanted = as_tuple(module(*(tensor.clone() for tensor in inputs)))
        found = session.run(list(network.output_names), feed(session, network, inputs))
        for name, one, other in zip(network.output_names, wanted, found, strict=True):
            worst = max(worst, apart(network, name, one, other))
            loosen(model, name, other.shape, sizes_of(network, inputs))
    return worst


def within(network: Network[torch.Tensor], name: str, size: int) -> int:
    """Keep a size inside the network's own limits."""
    if network.shapes is None:
        return size
    limits = (shape[axis] for shape, axes in zip(network.shapes.maximum, network.dimensions, strict=False) for axis, other in axes.items() if other == name)
    return min([size, *limits])


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
    scale = one[one.isfinite()].abs().max().clamp(min=1.0).item() if one.isfinite().any() else 1.0
    share = gap.max().item() / scale if gap.numel() else 0.0
    if not share <= TOLERANCE:
        raise MissingError(f"network {network.name}: the export's {name} differs from its source by {share:.2g} of its largest value, above {TOLERANCE:g}")
    return share


def loosen(model: onnx.ModelProto, name: str, shape: Sequence[int], sizes: Mapping[str, int]) -> None:
    """Take a declared size back that a run did not meet."""
    (output,) = (one for one in model.graph.output if one.name == name)
    for axis, (declared, real) in enumerate(zip(output.type.tensor_type.shape.dim, shape, strict=False)):
        if (sizes.get(declared.dim_param) if declared.dim_param else declared.dim_value) != real:
            declared.dim_param = f"{name}_{axis}"


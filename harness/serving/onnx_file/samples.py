"""Samples for an ONNX file: random tensors, or the arrays of a folder (`--data`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.serving.onnx_file.graph import FileGraph
from harness.serving.onnx_file.shapes import InputShape, NamedValues
from suite.errors import RequestError
from suite.files.untrusted_files import replace_unprintable

if TYPE_CHECKING:
    import torch

ARRAY_SUFFIXES: Final = (".npy", ".npz")
MAX_RANDOM_SAMPLES: Final = 256
MAX_LOADED_BYTES: Final = 256 << 20
"""Samples that are in memory at a time take no more, but a batch is always there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFiles:
    """The samples of a folder: a `.npz` with an array for each input, by name; or `.npy` for a
    network of one input.
    """

    folder: Path
    names: tuple[str, ...]

    def locate_sample(self, sample: int) -> Path:
        """Return the file of a sample."""
        return self.folder / self.names[sample]

    def read_sample(self, sample: int, shapes: Sequence[InputShape]) -> tuple[Any, ...]:
        """Read one sample's arrays, in the order of the inputs."""
        path = self.locate_sample(sample)
        arrays = read_sample_arrays(path, [each.name for each in shapes if each.value is None])

        def build_array(shape: InputShape) -> Any:
            if shape.value is not None:
                return fill_array(shape, shape.value)
            return fit_sample_array(path, arrays[shape.name], shape)

        return tuple(map(build_array, shapes))


def fill_array(shape: InputShape, value: float) -> Any:
    """Return an array of one number for an input."""
    import numpy

    return numpy.full(shape.sizes, value, dtype=shape.dtype)


def list_sample_files(folder: Path) -> SampleFiles:
    """List the samples of a folder, in the order of their names; RequestError if there are none."""
    if not folder.is_dir():
        raise RequestError(f"--data {folder}: no such folder")
    names = sorted(
        each.name for each in folder.iterdir() if each.suffix in ARRAY_SUFFIXES and each.is_file()
    )
    if not names:
        raise RequestError(
            f"--data {folder}: no samples: an ONNX file takes a .npz for each sample, with an array"
            " for each input, or a .npy if it has one input"
        )
    return SampleFiles(folder=folder.absolute(), names=tuple(names))


def check_samples(files: SampleFiles, shapes: Sequence[InputShape]) -> None:
    """Read all samples once; RequestError for the first that is no sample of this network."""
    for sample in range(len(files.names)):
        files.read_sample(sample, shapes)


def read_first_shapes(
    files: SampleFiles, graph: FileGraph, values: NamedValues
) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the first sample, as `--shape` would give them; without inputs that have
    a value of their own.
    """
    path = files.locate_sample(0)
    sampled = [each for each in graph.inputs if each.name not in values]
    arrays = read_sample_arrays(path, [each.name for each in sampled])
    shapes = {}
    for each in sampled:
        sizes = tuple(arrays[each.name].shape)
        alone = graph.is_batched and len(sizes) == len(each.sizes or ()) - 1
        shapes[each.name] = (1, *sizes) if alone else sizes
    return shapes


def read_sample_arrays(path: Path, inputs: Sequence[str]) -> Mapping[str, Any]:
    """Read the arrays of one file, by input; RequestError if it is damaged, holds objects, or lacks
    one.
    """
    import numpy

    try:
        with path.open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files that Python 2 wrote
            found = numpy.load(stream, allow_pickle=False)
            arrays = {name: found[name] for name in found.files} if is_archive(found) else found
    except Exception as error:  # NumPy, and what it reads with, let all kinds through
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RequestError(
            f"{path}: cannot be read as plain arrays: {replace_unprintable(reason)}"
        ) from error
    if not isinstance(arrays, dict):
        if len(inputs) > 1:
            raise RequestError(
                f"{path}: the network has the inputs {', '.join(inputs)}: give a .npz with an array"
                " for each"
            )
        arrays = {inputs[0]: arrays}
    if lacking := [name for name in inputs if name not in arrays]:
        raise RequestError(
            f"{path}: no array {lacking[0]}; it has {', '.join(sorted(arrays)) or 'none'}"
        )
    return arrays


def is_archive(found: Any) -> bool:
    """Return whether a file that numpy read has several arrays."""
    return hasattr(found, "files")


def fit_sample_array(path: Path, array: Any, shape: InputShape) -> Any:
    """Return an array with a sample's sizes: one that has a batch of one is accepted, too;
    RequestError for other sizes or another type.
    """
    import numpy

    if array.dtype != numpy.dtype(shape.dtype):
        raise RequestError(
            f"{path}: {shape.name} is {array.dtype}, and the network takes {shape.dtype}"
        )
    if array.shape not in (shape.sizes, (1, *shape.sizes)):
        raise RequestError(
            f"{path}: {shape.name} has the sizes {array.shape}, and the network takes {shape.sizes}"
        )
    return array.reshape(shape.sizes)


def compute_sample_bytes(shapes: Sequence[InputShape]) -> int:
    """Return the bytes of one sample."""
    import numpy

    return sum(math.prod(each.sizes) * numpy.dtype(each.dtype).itemsize for each in shapes)


def count_loadable_samples(shapes: Sequence[InputShape]) -> int:
    """Return how many samples fit into memory at a time; one always does."""
    return max(1, min(MAX_RANDOM_SAMPLES, MAX_LOADED_BYTES // max(1, compute_sample_bytes(shapes))))


def generate_random_sample(
    shapes: Sequence[InputShape], seed: int, sample: int
) -> tuple[torch.Tensor, ...]:
    """Generate one sample as a function of seed and number alone: normal floats, and integers that
    are 0 or 1, which index any table.
    """
    import torch

    source = torch.Generator().manual_seed(seed * MAX_RANDOM_SAMPLES + sample)
    made = []
    for each in shapes:
        dtype = getattr(torch, each.dtype)
        if each.value is not None:
            made.append(torch.full(each.sizes, each.value, dtype=torch.float64).to(dtype))
            continue
        floats = torch.randn(each.sizes, generator=source)
        made.append(floats.to(dtype) if dtype.is_floating_point else (floats > 0).to(dtype))
    return tuple(made)

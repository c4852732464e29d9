"""Shapes of an ONNX file's inputs: the file's own sizes, and the user's for those that are free."""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.serving.onnx_file.graph import FileGraph, FileInput
from suite.errors import RequestError, build_unknown_name_error

NamedShapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Input -> all its sizes, the first one included."""
NamedValues: TypeAlias = Mapping[str, float]
"""Input -> the number that it has in every sample."""
JOINED_SIZES: Final = re.compile(r"[0-9]+(?:(?:\s*[xX*]\s*|\s+)[0-9]+)+")
"""Sizes as trtexec and people write them: 1x3x224x224."""
INTEGER_BOUNDS: Final = {
    "int64": (-(2**63), 2**63 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "bool": (0, 1),
}
EXAMPLE_SIZE: Final = 8
"""Stands for a free size in the example of a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """One input with definite sizes."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    """Of one sample: without the first size if the network takes batches."""
    value: float | None = None
    """Of all its numbers, in every sample; None: those of the samples."""


def parse_named_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse `input=1,3,224,224`, several times; RequestError for anything else. A size of 0, such
    as a decoder's first step has, may stand behind the first one.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")]
        if name and JOINED_SIZES.fullmatch(sizes.strip()):
            commas = re.sub(r"[xX*\s]+", ",", sizes.strip())
            raise RequestError(
                f"--shape {text}: write the sizes with commas: {format_shape_option(name, commas)}"
            )
        if not name or not all(part.isascii() and part.isdigit() for part in parts):
            raise RequestError(
                f"--shape {text}: give an input and its sizes, as in --shape input=1,3,224,224"
            )
        if not int(parts[0]):
            raise RequestError(
                f"--shape {text}: the first size is the batch, and 0 of it is nothing to measure; a"
                " size behind it may be 0"
            )
        if name in shapes:
            raise RequestError(f"--shape {name} is given twice; give it once")
        shapes[name] = tuple(map(int, parts))
    return shapes


def parse_named_values(texts: Sequence[str]) -> dict[str, float]:
    """Parse `input=16000`, several times; RequestError for anything else."""
    values: dict[str, float] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise RequestError(
                f"--value {text}: give an input and its number, as in --value sr=16000"
            )
        if name in values:
            raise RequestError(f"--value {name} is given twice; give it once")
        values[name] = number
    return values


def check_input_values(graph: FileGraph, values: NamedValues) -> None:
    """Raise RequestError for a value that an input's type does not hold."""
    for each in graph.inputs:
        value = values.get(each.name, 0.0)
        bounds = INTEGER_BOUNDS.get(each.dtype)
        if bounds and not (value.is_integer() and bounds[0] <= value <= bounds[1]):
            raise RequestError(
                f"--value {each.name}={value:g}: {graph.path.name} has {each.dtype} there"
            )


def format_shape_option(name: str, sizes: str) -> str:
    """Format an option as a shell takes it."""
    return f"--shape {shlex.quote(f'{name}={sizes}')}"


def check_input_names(graphs: Sequence[FileGraph], option: str, given: Iterable[str]) -> None:
    """Raise RequestError for an input that no file has."""
    known = {each.name for graph in graphs for each in graph.inputs}
    for name in given:
        if name not in known:
            raise build_unknown_name_error(f"input of {option}", name, known)


def resolve_input_shapes(
    graph: FileGraph, given: NamedShapes, source: str | None = None
) -> tuple[InputShape, ...]:
    """Return definite sizes for all inputs of a file; RequestError that names the inputs and the
    options for all sizes that stay free, or an input whose sizes differ from the file's.

    Free sizes of one name are equal in all inputs, so it is enough to give one of them.

    Args:
        graph: the file.
        given: by input.
        source: the file of samples that has the sizes; None: --shape.
    """
    known: dict[str, int] = {}
    for each in graph.inputs:
        sizes = given.get(each.name)
        if sizes is not None:
            check_given_sizes(graph, each, sizes, source)
            note_free_sizes(graph, each, sizes, known, source)
    check_sizes_suffice(graph, given, known)
    return tuple(resolve_sizes(graph, each, given, known) for each in graph.inputs)


def check_given_sizes(
    graph: FileGraph, each: FileInput, sizes: Sequence[int], source: str | None = None
) -> None:
    """Raise RequestError if sizes do not fit an input."""
    if each.sizes is None:
        return
    fits = len(sizes) == len(each.sizes) and all(
        isinstance(own, str) or own == size for own, size in zip(each.sizes, sizes, strict=True)
    )
    if not fits and source is not None:
        found = "x".join(map(str, sizes)) or "none, a single number"
        raise RequestError(
            f"{source}: {each.name} has the sizes {found}, and {graph.path.name} takes {each}; save"
            " the samples with all of these sizes, the first of them 1 or left out"
        )
    if not fits:
        raise RequestError(
            f"--shape {each.name}={','.join(map(str, sizes))}: {graph.path.name} has {each} there"
        )


def note_free_sizes(
    graph: FileGraph,
    each: FileInput,
    sizes: Sequence[int],
    known: dict[str, int],
    source: str | None = None,
) -> None:
    """Add the free sizes of an input that have names; RequestError for two sizes of one name."""
    for own, size in zip(each.sizes or (), sizes, strict=each.sizes is not None):
        if not isinstance(own, str) or not own:
            continue
        if known.setdefault(own, size) != size:
            raise RequestError(
                f"{source or f'--shape {each.name}'}: {graph.path.name} has one size '{own}', and"
                f" it is given as {known[own]} and {size}"
            )


def check_sizes_suffice(graph: FileGraph, given: NamedShapes, known: Mapping[str, int]) -> None:
    """Raise RequestError that asks for all sizes that stay free, with options that give them."""
    first = 1 if graph.is_batched else 0
    assumed = dict(known)
    problems, options = [], []
    for each in graph.inputs:
        if each.name in given:
            continue
        if each.sizes is None:
            problems.append(f"input {each.name} leaves even the number of its sizes free")
            options.append(format_shape_option(each.name, f"1,{EXAMPLE_SIZE}"))
            continue
        free = [
            (place, own)
            for place, own in enumerate(each.sizes)
            if isinstance(own, str) and place >= first and own not in assumed
        ]
        if not free:
            continue
        names = " and ".join(repr(own) if own else f"size {place + 1}" for place, own in free)
        problems.append(f"input {each.name} ({each}) leaves {names} free")
        assumed |= {own: EXAMPLE_SIZE if place else 1 for place, own in free if own}
        sizes = list(each.sizes)
        for place, own in enumerate(each.sizes):
            if isinstance(own, str):
                sizes[place] = assumed.get(own, EXAMPLE_SIZE if place else 1)
        options.append(format_shape_option(each.name, ",".join(map(str, sizes))))
    if problems:
        raise RequestError(
            f"{graph.path}: {'; '.join(problems)}: give all sizes, for example {' '.join(options)}"
        )


def resolve_sizes(
    graph: FileGraph, each: FileInput, given: NamedShapes, known: Mapping[str, int]
) -> InputShape:
    """Return the definite sizes of one input, all of which are known."""
    first = 1 if graph.is_batched else 0
    own = each.sizes or ()
    sizes = given.get(each.name) or tuple(
        known.get(size, 1) if isinstance(size, str) else size for size in own
    )
    kept = sizes if each.sizes is None else sizes[first:]
    return InputShape(name=each.name, dtype=each.dtype, sizes=tuple(kept))


def choose_batch_size(graph: FileGraph, given: NamedShapes) -> int:
    """Return the samples of a batch that the shapes ask for: the first size, 1 if none is given;
    RequestError if two inputs have different ones.
    """
    if not graph.is_batched:
        return 1
    firsts = {name: sizes[0] for name, sizes in given.items()}
    if len(set(firsts.values())) > 1:
        (one, size), (other, second) = list(firsts.items())[:2]
        raise RequestError(
            f"--shape: the first size is the batch, and it is {size} for {one} and {second} for"
            f" {other}"
        )
    return next(iter(firsts.values()), 1)


def format_input_sizes(shape: InputShape, *, batched: bool) -> str:
    """Format the sizes of an input: `Nx3x224x224`, N for the batch."""
    return "x".join([*(["N"] if batched else []), *map(str, shape.sizes)]) or "1"

"""Shapes of an ONNX file's inputs: the file's own sizes, and the user's for those that are free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.serving.onnx_file.graph import FileGraph, FileInput
from suite.errors import RequestError, build_unknown_name_error

NamedShapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Input -> all its sizes, the first one included."""
EXAMPLE_SIZE: Final = 8
"""Stands for a free size in the example of a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """One input with definite sizes."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    """Of one sample: without the first size if the network takes batches."""


def parse_named_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse `input=1,3,224,224`, several times; RequestError for anything else."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")]
        if not name or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
            raise RequestError(
                f"--shape {text}: give an input and its sizes, as in --shape input=1,3,224,224"
            )
        if name in shapes:
            raise RequestError(f"--shape {name} is given twice; give it once")
        shapes[name] = tuple(map(int, parts))
    return shapes


def check_shape_names(graphs: Sequence[FileGraph], given: NamedShapes) -> None:
    """Raise RequestError for a shape of an input that no file has."""
    known = {each.name for graph in graphs for each in graph.inputs}
    for name in given:
        if name not in known:
            raise build_unknown_name_error("input of --shape", name, known)


def resolve_input_shapes(graph: FileGraph, given: NamedShapes) -> tuple[InputShape, ...]:
    """Return definite sizes for all inputs of a file; RequestError that names the input and the
    option for a size that stays free, or differs from the file's.

    Free sizes of one name are equal in all inputs, so it is enough to give one of them.
    """
    known: dict[str, int] = {}
    for each in graph.inputs:
        sizes = given.get(each.name)
        if sizes is not None:
            check_given_sizes(graph, each, sizes)
            note_free_sizes(graph, each, sizes, known)
    return tuple(resolve_sizes(graph, each, given, known) for each in graph.inputs)


def check_given_sizes(graph: FileGraph, each: FileInput, sizes: Sequence[int]) -> None:
    """Raise RequestError if sizes do not fit an input."""
    if each.sizes is None:
        return
    fits = len(sizes) == len(each.sizes) and all(
        isinstance(own, str) or own == size for own, size in zip(each.sizes, sizes, strict=True)
    )
    if not fits:
        raise RequestError(
            f"--shape {each.name}={','.join(map(str, sizes))}: {graph.path.name} has {each} there"
        )


def note_free_sizes(
    graph: FileGraph, each: FileInput, sizes: Sequence[int], known: dict[str, int]
) -> None:
    """Add the free sizes of an input that have names; RequestError for two sizes of one name."""
    for own, size in zip(each.sizes or (), sizes, strict=each.sizes is not None):
        if not isinstance(own, str) or not own:
            continue
        if known.setdefault(own, size) != size:
            raise RequestError(
                f"--shape {each.name}: {graph.path.name} has one size '{own}', and it is given as"
                f" {known[own]} and {size}"
            )


def resolve_sizes(
    graph: FileGraph, each: FileInput, given: NamedShapes, known: Mapping[str, int]
) -> InputShape:
    """Return the definite sizes of one input."""
    first = 1 if graph.is_batched else 0
    if each.sizes is None:
        if each.name not in given:
            raise RequestError(
                f"{graph.path}: input {each.name} leaves even the number of its sizes free: give"
                f" them, for example --shape {each.name}=1,{EXAMPLE_SIZE}"
            )
        return InputShape(name=each.name, dtype=each.dtype, sizes=given[each.name])
    sizes = given.get(each.name) or tuple(
        known.get(size, 0) if isinstance(size, str) else size for size in each.sizes
    )
    if not all(sizes[first:]):
        free = [
            repr(own) if own else f"size {place}"
            for place, (own, size) in enumerate(zip(each.sizes, sizes, strict=True), 1)
            if not size and place > first
        ]
        example = ",".join(
            str(size or (1 if place < first else EXAMPLE_SIZE)) for place, size in enumerate(sizes)
        )
        raise RequestError(
            f"{graph.path}: input {each.name} ({each}) leaves {' and '.join(free)} free: give all"
            f" its sizes, for example --shape {each.name}={example}"
        )
    return InputShape(name=each.name, dtype=each.dtype, sizes=tuple(sizes[first:]))


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

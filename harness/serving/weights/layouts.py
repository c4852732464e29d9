"""Layouts of weights from elsewhere: a table of names beside each workload, and its application to
a state dict.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from suite import registry
from suite.errors import RequestError

DATA_PARALLEL_PREFIX: Final = "module."
"""Prefix of names that were saved from PyTorch's DistributedDataParallel."""
BATCH_NORM_COUNTER: Final = "num_batches_tracked"
"""Older files lack this counter of batch-norm layers; inference does not use it."""


class TensorNameRule(msgspec.Struct, frozen=True, rename={"found": "from", "made": "to"}):
    """Where tensors of one kind go."""

    found: str
    """A regular expression for the whole name."""
    made: str
    """The name here, with the expression's groups."""
    part: int | None = None
    """Its place among the tensors that are joined along their first axis."""
    transposed: bool = False
    less: int = 0
    """Subtracted from the first group, a number."""


class WeightLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One source of weights."""

    name: str
    source: str
    names: tuple[TensorNameRule, ...]
    inside: tuple[str, ...] = ()
    """Keys under which a checkpoint holds the state dict."""
    prefix: str = ""
    """Of every name; dropped."""
    ignore: tuple[str, ...] = ()
    """Regular expressions for names that inference does not use."""


class LayoutTable(msgspec.Struct, frozen=True):
    """`foreign-weights.toml`."""

    layout: tuple[WeightLayout, ...]


def read_weight_layouts(workload: str) -> tuple[WeightLayout, ...]:
    """Read a workload's layouts; RequestError if it has none."""
    tables = {
        file.point.name: file.text
        for file in registry.iterate_workload_files(registry.FOREIGN_WEIGHTS_FILE)
    }
    if workload not in tables:
        raise RequestError(
            f"{workload} has no table of other sources' weights; with one:"
            f" {', '.join(sorted(tables))}"
        )
    return msgspec.toml.decode(tables[workload], type=LayoutTable).layout


def translate_state_dict(
    state: Mapping[str, Any], layout: WeightLayout
) -> tuple[dict[str, Any], list[str]]:
    """Return the tensors under the names here, and the names that the layout does not know."""
    made: dict[str, dict[int, Any]] = {}
    strange = []
    for name, tensor in unwrap_state_dict(state, layout).items():
        target_and_rule = next(find_target_names(name, layout), None)
        if target_and_rule is not None:
            target, rule = target_and_rule
            made.setdefault(target, {})[rule.part or 0] = (
                tensor.t() if rule.transposed and tensor.ndim > 1 else tensor
            )
        elif not any(re.fullmatch(each, name) for each in layout.ignore):
            strange.append(name)
    return {target: join_tensor_parts(parts) for target, parts in made.items()}, strange


def unwrap_state_dict(state: Mapping[str, Any], layout: WeightLayout) -> Mapping[str, Any]:
    """Return the state dict that a checkpoint holds, without the prefixes that all of its names
    share.
    """
    for key in layout.inside:
        if isinstance(state.get(key), Mapping):
            state = state[key]
    plain = {
        name.removeprefix(DATA_PARALLEL_PREFIX): tensor
        for name, tensor in state.items()
        if hasattr(tensor, "shape")
    }
    return {name.removeprefix(layout.prefix): tensor for name, tensor in plain.items()}


def find_target_names(name: str, layout: WeightLayout) -> Iterator[tuple[str, TensorNameRule]]:
    """Yield the name here of a tensor, with the rule that gave it."""
    for rule in layout.names:
        if match := re.fullmatch(rule.found, name):
            yield expand_target_name(match, rule), rule


def expand_target_name(match: re.Match[str], rule: TensorNameRule) -> str:
    """Fill in the groups."""
    groups = list(match.groups())
    if rule.less:
        groups[0] = str(int(groups[0]) - rule.less)
    return re.sub(r"\\(\d)", lambda place: groups[int(place[1]) - 1], rule.made)


def join_tensor_parts(parts: Mapping[int, Any]) -> Any:
    """Join the parts of a tensor in their order."""
    import torch

    tensors = [tensor for _, tensor in sorted(parts.items())]
    if len(tensors) == 1 or any(tensor.shape[1:] != tensors[0].shape[1:] for tensor in tensors):
        return tensors[0]
    return torch.cat(tensors)


def list_tensor_differences(made: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """List how tensors differ from those of the network: missing, unknown, or of another shape."""
    lacking = [
        f"no {name}"
        for name in wanted.keys() - made.keys()
        if not name.endswith(BATCH_NORM_COUNTER)
    ]
    unknown = [f"unknown {name}" for name in made.keys() - wanted.keys()]
    common = sorted(made.keys() & wanted.keys())
    shapes = [
        (name, list(made[name].shape), list(wanted[name].shape))
        for name in common
        if made[name].shape != wanted[name].shape
    ]
    return (
        sorted(lacking)
        + sorted(unknown)
        + [f"{name} of {found} instead of {needed}" for name, found, needed in shapes]
    )

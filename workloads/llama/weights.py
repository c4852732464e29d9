"""Weights of the network in safetensors, whole or in shards, under the names of transformers'
`LlamaForCausalLM`.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from suite.errors import RequestError
from workloads.common.weights import SkippedInitialisation
from workloads.common.weights_description import WEIGHTS_FILE
from workloads.llama.checkpoint import (
    CONFIG_FILE,
    INDEX_FILE,
    SHARD_FORMAT,
    LlamaTokens,
    check_checkpoint_file,
    locate_weight_files,
    read_llama_shape,
    write_json_document,
    write_llama_documents,
)
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape

OUTPUT_WEIGHT: Final = "lm_head.weight"
EMBEDDING_WEIGHT: Final = "model.embed_tokens.weight"
NETWORK_PREFIX: Final = "model."
"""Of all names but the output's."""
COMPUTED_SUFFIX: Final = ".rotary_emb.inv_freq"
"""Of a tensor that checkpoints of Llama 2 hold, and that the shape determines."""
DEFAULT_SHARD_BYTES: Final = 4_000_000_000
"""Largest file of weights."""
WEIGHT_TYPES: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Name of a number format in safetensors -> torch's."""
SAFETENSORS_METADATA: Final = {"format": "pt"}
"""Without it, transformers up to 4.55 refuses a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedWeights:
    """A checkpoint's files of weights, opened."""

    tensors: Mapping[str, Any]
    """Name of a tensor -> its file."""
    leftovers: Mapping[str, str]
    """Tensor that a file has and the index gives to another one -> that file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """How a checkpoint's weights are kept."""

    dtype: torch.dtype
    """The narrowest that holds the numbers of all tensors."""
    found: tuple[str, ...]
    """Number formats of the files, under safetensors' names."""
    leftovers: Mapping[str, str]
    """Of OpenedWeights."""


def export_llama_checkpoint(
    state: Mapping[str, torch.Tensor],
    shape: LlamaShape,
    tokens: LlamaTokens,
    folder: Path,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
) -> None:
    """Write a checkpoint that podium, transformers and vLLM load; RequestError if the tokenizer
    does not fit.

    Args:
        state: the network's `state_dict`, gathered from all ranks; all of one type.
        shape: of the network.
        tokens: tokenizer, first and last tokens, chat template.
        folder: exists and is empty.
        shard_bytes: largest size of the tensors of one file; a larger tensor has its own.
    """
    weights = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in state.items()
        if not (shape.tied and name == OUTPUT_WEIGHT)
    }
    dtype = str(weights[EMBEDDING_WEIGHT].dtype).removeprefix("torch.")
    write_llama_documents(shape, dtype, tokens, folder)
    shards = plan_shards({name: tensor.nbytes for name, tensor in weights.items()}, shard_bytes)
    if len(shards) == 1:
        save_file(weights, folder / WEIGHTS_FILE, SAFETENSORS_METADATA)
        return
    places = {}
    for number, names in enumerate(shards, 1):
        file = SHARD_FORMAT.format(number=number, count=len(shards))
        save_file({name: weights[name] for name in names}, folder / file, SAFETENSORS_METADATA)
        places.update(dict.fromkeys(names, file))
    total = sum(tensor.nbytes for tensor in weights.values())
    write_json_document(
        folder / INDEX_FILE, {"metadata": {"total_size": total}, "weight_map": places}
    )


def plan_shards(sizes: Mapping[str, int], shard_bytes: int) -> list[list[str]]:
    """Distribute tensors, by name and size in bytes, over files in their order; each file but one
    with a single tensor stays within the limit.
    """
    shards: list[list[str]] = []
    room = 0
    for name, size in sizes.items():
        if not shards or size > room:
            shards.append([])
            room = shard_bytes
        shards[-1].append(name)
        room -= size
    return shards


def load_llama_checkpoint(
    folder: Path,
    expected: LlamaShape | None = None,
    dtype: torch.dtype = torch.float32,
) -> LlamaNetwork:
    """Load a checkpoint, podium's or another source's, in evaluation mode.

    RequestError if a file is missing or damaged, if tensors are missing, unknown or of another
    shape, if weights are tied and are not equal, or if one is not finite.

    Args:
        folder: `config.json` and the weights.
        expected: the shape that the workload's settings ask for; None: any.
        dtype: type of the network's numbers; a file in another one is converted.
    """
    shape = read_llama_shape(folder, expected)
    # initial values would load PyTorch's compiler, even where there is no memory for them
    with torch.device("meta"), SkippedInitialisation():
        network = LlamaNetwork(shape)
    try:
        with ExitStack() as files:
            tensors = open_weight_files(folder, files).tensors
            check_tensor_shapes(folder, network, tensors)
            state = {name: file.get_tensor(name).to(dtype) for name, file in tensors.items()}
    except (OSError, SafetensorError) as error:
        raise RequestError(f"checkpoint {folder}: its weights are damaged ({error})") from error
    check_tensor_values(folder, shape, state)
    network.load_state_dict(state, strict=False, assign=True)
    network.tie_output()
    return network.eval()


def read_weight_format(folder: Path) -> WeightFormat:
    """Read in which number format a checkpoint's weights are kept; RequestError if they are
    damaged, or if one is in a format that is none of floating-point numbers of 16 or 32 bits.
    """
    try:
        with ExitStack() as files:
            opened = open_weight_files(folder, files)
            formats = {
                name: file.get_slice(name).get_dtype() for name, file in opened.tensors.items()
            }
    except (OSError, SafetensorError) as error:
        raise RequestError(f"checkpoint {folder}: its weights are damaged ({error})") from error
    check_tensor_names(folder, formats)
    for name, found in sorted(formats.items()):
        if found not in WEIGHT_TYPES:
            raise RequestError(
                f"checkpoint {folder}: {name} is in the format {found}; supported:"
                f" {', '.join(WEIGHT_TYPES)}"
            )
    types = [kind for name, kind in WEIGHT_TYPES.items() if name in formats.values()]
    return WeightFormat(
        dtype=reduce(torch.promote_types, types),
        found=tuple(sorted(set(formats.values()))),
        leftovers=opened.leftovers,
    )


def check_tensor_names(folder: Path, names: Collection[str]) -> None:
    """RequestError if a checkpoint has no embedding, or has it under another name."""
    if EMBEDDING_WEIGHT in names:
        return
    last = EMBEDDING_WEIGHT.removeprefix(NETWORK_PREFIX)
    found = next((name.removesuffix(last) for name in sorted(names) if name.endswith(last)), None)
    if found is None:
        raise RequestError(f"checkpoint {folder}: no {EMBEDDING_WEIGHT}")
    wrapper = found.removesuffix(f".{NETWORK_PREFIX}")
    prefix = found if wrapper == found else f"{wrapper}."
    raise RequestError(
        f"checkpoint {folder}: its tensors begin with {prefix}; save the network without what is"
        f" around it, so that they are called {EMBEDDING_WEIGHT} and the like"
    )


def open_weight_files(folder: Path, files: ExitStack) -> OpenedWeights:
    """Open the files of a checkpoint's weights. RequestError if a file lacks a tensor that the
    index promises, or if two have one that it does not name.
    """
    promised = locate_weight_files(folder)
    indexed = {name for names in promised.values() for name in names or ()}
    tensors: dict[str, Any] = {}
    leftovers: dict[str, str] = {}
    for place, wanted in promised.items():
        check_checkpoint_file(folder, place, "safetensors")
        file = files.enter_context(safe_open(folder / place, framework="pt"))
        present = set(file.keys())
        lacking = sorted(set(wanted or ()) - present)
        if lacking:
            raise RequestError(
                f"checkpoint {folder}: {place} lacks {lacking[0]}, which {INDEX_FILE} promises"
            )
        stale = (present & indexed) - set(wanted or ())
        leftovers |= dict.fromkeys(sorted(stale), place)
        taken = {name for name in present - stale if not name.endswith(COMPUTED_SUFFIX)}
        if doubled := sorted(taken & tensors.keys()):
            raise RequestError(
                f"checkpoint {folder}: {doubled[0]} is in two files, and {INDEX_FILE} names neither"
            )
        tensors.update(dict.fromkeys(taken, file))
    return OpenedWeights(tensors=tensors, leftovers=leftovers)


def check_tensor_shapes(folder: Path, network: LlamaNetwork, tensors: Mapping[str, Any]) -> None:
    """RequestError if tensors are missing, unknown, or of another shape than the network's."""
    wanted = {name: list(weight.shape) for name, weight in network.state_dict().items()}
    optional = {OUTPUT_WEIGHT} if network.shape.tied else set()
    lacking = sorted(wanted.keys() - tensors.keys() - optional)
    if lacking == [OUTPUT_WEIGHT]:
        raise RequestError(
            f"checkpoint {folder}: no {OUTPUT_WEIGHT}; if the embedding computes the logits,"
            f" {CONFIG_FILE} must say tie_word_embeddings"
        )
    if lacking:
        raise RequestError(f"checkpoint {folder}: no {lacking[0]}{describe_rest(lacking)}")
    surplus = sorted(tensors.keys() - wanted.keys())
    if surplus:
        raise RequestError(f"checkpoint {folder}: unknown {surplus[0]}{describe_rest(surplus)}")
    for name, file in tensors.items():
        found = file.get_slice(name).get_shape()
        if found != wanted[name]:
            raise RequestError(
                f"checkpoint {folder}: {name} of {found} instead of {wanted[name]}, which"
                f" {CONFIG_FILE} asks for"
            )


def describe_rest(names: Sequence[str]) -> str:
    """Say how many names follow the first."""
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def check_tensor_values(folder: Path, shape: LlamaShape, state: Mapping[str, torch.Tensor]) -> None:
    """RequestError if a number is not finite, or if tied weights differ."""
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise RequestError(f"checkpoint {folder}: {name} has a number that is not finite")
    output = state.get(OUTPUT_WEIGHT)
    if shape.tied and output is not None and not output.equal(state[EMBEDDING_WEIGHT]):
        raise RequestError(
            f"checkpoint {folder}: {CONFIG_FILE} says that the embedding computes the logits, and"
            f" {OUTPUT_WEIGHT} differs from it"
        )

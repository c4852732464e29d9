"""Weights of the network in safetensors, whole or in shards, under the names of transformers'
`LlamaForCausalLM`.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from suite.errors import RequestError
from workloads.common.weights_description import WEIGHTS_FILE
from workloads.llama.checkpoint import (
    CONFIG_FILE,
    INDEX_FILE,
    SHARD_FORMAT,
    LlamaTokens,
    locate_weight_files,
    read_llama_shape,
    write_json_document,
    write_llama_documents,
)
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape

OUTPUT_WEIGHT: Final = "lm_head.weight"
EMBEDDING_WEIGHT: Final = "model.embed_tokens.weight"
COMPUTED_SUFFIX: Final = ".rotary_emb.inv_freq"
"""Of a tensor that checkpoints of Llama 2 hold, and that the shape determines."""
DEFAULT_SHARD_BYTES: Final = 4_000_000_000
"""Largest file of weights."""
WEIGHT_TYPES: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Name of a number format in safetensors -> torch's."""
SAFETENSORS_METADATA: Final = {"format": "pt"}
"""Without it, transformers up to 4.55 refuses a file."""


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
    with torch.device("meta"):
        network = LlamaNetwork(shape)
    try:
        with ExitStack() as files:
            tensors = open_weight_files(folder, files)
            check_tensor_shapes(folder, network, tensors)
            state = {name: file.get_tensor(name).to(dtype) for name, file in tensors.items()}
    except (OSError, SafetensorError) as error:
        raise RequestError(f"checkpoint {folder}: its weights are damaged ({error})") from error
    check_tensor_values(folder, shape, state)
    network.load_state_dict(state, strict=False, assign=True)
    network.tie_output()
    return network.eval()


def read_weight_type(folder: Path) -> torch.dtype:
    """Return the number format of a checkpoint's embedding; RequestError if its weights are
    damaged, or in a format that is none of floating-point numbers of 16 or 32 bits.
    """
    try:
        with ExitStack() as files:
            tensors = open_weight_files(folder, files)
            embedding = tensors.get(EMBEDDING_WEIGHT)
            found = embedding.get_slice(EMBEDDING_WEIGHT).get_dtype() if embedding else None
    except (OSError, SafetensorError) as error:
        raise RequestError(f"checkpoint {folder}: its weights are damaged ({error})") from error
    if found not in WEIGHT_TYPES:
        raise RequestError(
            f"checkpoint {folder}: {EMBEDDING_WEIGHT} is"
            f" {'missing' if found is None else f'in the format {found}'}; supported:"
            f" {', '.join(WEIGHT_TYPES)}"
        )
    return WEIGHT_TYPES[found]


def open_weight_files(folder: Path, files: ExitStack) -> dict[str, Any]:
    """Return the open file of each tensor; RequestError if a file lacks one that the index
    promises.
    """
    tensors: dict[str, Any] = {}
    for name, promised in locate_weight_files(folder).items():
        file = files.enter_context(safe_open(folder / name, framework="pt"))
        present = set(file.keys())
        lacking = sorted(set(promised or ()) - present)
        if lacking:
            raise RequestError(
                f"checkpoint {folder}: {name} lacks {lacking[0]}, which {INDEX_FILE} promises"
            )
        tensors.update((key, file) for key in present if not key.endswith(COMPUTED_SUFFIX))
    return tensors


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

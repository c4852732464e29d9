"""Sharded training: the ranks divide weights, gradients and optimizer state among themselves, by
PyTorch's FSDP2 (`fully_shard`; Zhao et al. 2023, arXiv:2304.11277).

Each layer's weights are gathered from all ranks while it computes, in fp32; its gradients are
averaged in fp32, and each rank keeps its part. The process group belongs to the harness.
"""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import nn
from torch.distributed import fsdp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from suite.engine import Precision
from suite.errors import MissingError, RequestError
from suite.rounds.settings import GRADIENT_FORMAT_SETTING
from suite.workload import Run
from workloads.common.optimisation.gradient_exchange import GRADIENT_BUCKET_SETTING

SHARD_SETTING: Final = "train.shard"
SHARDS_FOLDER: Final = "shards"
"""Folder of torch.distributed.checkpoint in a checkpoint: one file of each rank, and an index."""
INDEX_MODULE: Final = "torch.distributed.checkpoint.metadata"
INDEX_NAMES: Final = frozenset(
    {
        ("torch", "Size"),
        ("torch.serialization", "_get_layout"),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("pathlib", "PosixPath"),
        ("pathlib._local", "PosixPath"),
    }
)
"""What the index names beside the classes of INDEX_MODULE and the types of numbers."""


def check_sharding_request(run: Run) -> None:
    """RequestError for settings of the gradient exchange, which a sharded model does otherwise, and
    for fp16, whose loss scaler each rank would change alone; MissingError without FSDP2.
    """
    if not hasattr(fsdp, "fully_shard"):
        raise MissingError(f"{SHARD_SETTING} needs PyTorch 2.6 or newer")
    if run.precision is Precision.FP16:
        raise RequestError(f"{SHARD_SETTING}: precision fp16 is not supported; bf16 and fp32 are")
    if run.settings.get(GRADIENT_FORMAT_SETTING, "fp32") != "fp32":
        raise RequestError(f"{GRADIENT_FORMAT_SETTING}: with {SHARD_SETTING} it is fp32")
    if GRADIENT_BUCKET_SETTING in run.settings:
        raise RequestError(
            f"{GRADIENT_BUCKET_SETTING}: with {SHARD_SETTING} the gradients of each layer are"
            " exchanged at once"
        )


def shard_model(model: nn.Module, layers: Iterable[nn.Module], run: Run) -> None:
    """Divide the weights of each layer, and those outside of all layers, among the ranks; all ranks
    call this with equal weights.

    A model on the CPU moves to the run's device layer by layer, so that the device never holds
    more than its parts and one whole layer.
    """
    check_sharding_request(run)
    mesh = init_device_mesh(torch.device(run.device).type, (run.world_size,))
    policy = fsdp.MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for layer in layers:
        fsdp.fully_shard(layer, mesh=mesh, mp_policy=policy)
    fsdp.fully_shard(model, mesh=mesh, mp_policy=policy)


def release_gathered_weights(model: nn.Module) -> None:
    """Give up the weights outside of all layers, which stay gathered after a forward pass for the
    backward pass that may follow it.
    """
    cast(fsdp.FSDPModule, model).reshard()


@torch.no_grad()
def gather_whole_weights(model: nn.Module, *, leads: bool) -> dict[str, torch.Tensor]:
    """Gather the weights by name in the host memory of the rank that leads, one at a time; all
    ranks call this, and the others get none.
    """
    gathered = {}
    for name, weight in model.state_dict().items():
        whole = cast(DTensor, weight).full_tensor()
        if leads:
            gathered[name] = whole.cpu()
    return gathered


def save_shards(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Write this rank's part of weights and optimizer state; all ranks call this. What settings
    determine, such as learning rates, is not part of it.
    """
    with raise_checkpoint_causes():
        save(collect_shards(model, optimizer), checkpoint_id=folder / SHARDS_FOLDER)


def restore_shards(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Read what `save_shards` wrote on as many ranks; nothing in it is executed. RequestError if it
    cannot be read.
    """
    reader = ShardReader(folder / SHARDS_FOLDER)
    try:
        index = reader.read_metadata()
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise RequestError(
            f"{folder}: the checkpoint is unreadable ({error}); start a new run without --resume"
        ) from error
    for name, weight in model.named_parameters():
        optimizer.state[weight] = allocate_optimizer_state(name, weight, index)
    with raise_checkpoint_causes():
        load(collect_shards(model, optimizer), storage_reader=reader)


def collect_shards(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return this rank's parts of weights and optimizer state by name; they share memory with
    both.
    """
    shards = {f"model.{name}": weight for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        state = optimizer.state.get(weight, {})
        shards |= {f"optimizer.{name}.{key}": value for key, value in state.items()}
    return shards


def allocate_optimizer_state(
    name: str, weight: torch.Tensor, index: Metadata
) -> dict[str, torch.Tensor]:
    """Allocate the state of one weight that a checkpoint holds: tensors of the weight's shape are
    divided as the weight is; others, such as a count of steps, are whole on each rank, and on the
    weight's device, as fused optimizers have them.
    """
    prefix = f"optimizer.{name}."
    state = {}
    for key, entry in index.state_dict_metadata.items():
        if not (key.startswith(prefix) and isinstance(entry, TensorStorageMetadata)):
            continue
        dtype = entry.properties.dtype
        if entry.size == weight.size():
            state[key.removeprefix(prefix)] = torch.zeros_like(
                weight, dtype=dtype, requires_grad=False
            )
        else:
            state[key.removeprefix(prefix)] = torch.zeros(
                entry.size, dtype=dtype, device=weight.device
            )
    return state


@contextmanager
def raise_checkpoint_causes() -> Iterator[None]:
    """Raise the error of the first rank that failed on all ranks, in place of
    CheckpointException, which is no Exception.
    """
    try:
        yield
    except CheckpointException as error:
        cause, _ = error.failures[min(error.failures)]
        raise cause from error


class ShardReader(FileSystemReader):
    """Reads shards; PyTorch's own reader would execute whatever the index says."""

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """Read the index."""
        with (Path(self.path) / ".metadata").open("rb") as file:
            index = ShardIndexUnpickler(file).load()
        if not isinstance(index, Metadata):
            raise pickle.UnpicklingError("the index of the shards is none")
        return index


class ShardIndexUnpickler(pickle.Unpickler):
    """Reads an index of shards, and no other objects."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what the index may name; UnpicklingError for anything else."""
        if (module, name) == ("builtins", "getattr"):  # how an enum's member is pickled
            return get_enum_member
        named: Any = None
        if "." not in name and (module in ("torch", INDEX_MODULE) or (module, name) in INDEX_NAMES):
            named = super().find_class(module, name)
        own_class = isinstance(named, type) and named.__module__ == INDEX_MODULE
        if (module, name) in INDEX_NAMES or own_class or isinstance(named, torch.dtype):
            return named
        raise pickle.UnpicklingError(f"the index of the shards names {module}.{name}")


def get_enum_member(owner: type[Enum], name: str) -> Enum:
    """Return a member of an enum; UnpicklingError for any other attribute."""
    if not (isinstance(owner, type) and issubclass(owner, Enum) and name in owner.__members__):
        raise pickle.UnpicklingError(f"the index of the shards names an attribute {name}")
    return owner[name]

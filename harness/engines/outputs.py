"""Code shared by the engines: outputs as a tuple, and out-of-memory errors as one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from suite.errors import MissingError

if TYPE_CHECKING:
    import torch

    Tensors = tuple[torch.Tensor, ...]

T = TypeVar("T")
OUT_OF_MEMORY_MESSAGES: Final = (
    "out of memory",
    "outofmemory",
    "alloc_failed",
    "oom when allocating",
    "can't allocate memory",
    "not enough memory",
    "failed to allocate memory",
    "bad allocation",
    "bad_alloc",
)
"""Out-of-memory messages of PyTorch's allocators (c10/core/impl/alloc_cpu.cpp,
c10/cuda/CUDACachingAllocator.cpp), TensorFlow's operators
(op_kernel.cc), ONNX Runtime (bfc_arena.cc), TensorRT (ErrorCode), cuBLAS and cuDNN (status names)
and C++."""


def convert_outputs_to_tuple(result: Any) -> Tensors:
    """Return a network's outputs as a tuple, in the module's order."""
    if isinstance(result, Mapping):
        return tuple(result.values())
    if isinstance(result, tuple | list):
        return tuple(result)
    return (result,)


def wrap_with_memory_report(
    engine: str, call: Callable[..., tuple[T, ...]]
) -> Callable[..., tuple[T, ...]]:
    """Wrap a call: on out of memory, MissingError names the batch, and the largest batch that
    succeeded before.
    """
    largest = 0

    def call_with_memory_report(*inputs: T) -> tuple[T, ...]:
        nonlocal largest
        try:
            result = call(*inputs)
        except Exception as error:  # each framework has its own exception types
            if not is_out_of_memory(error):
                raise
            raise MissingError(
                describe_out_of_memory(engine, get_input_batch_size(inputs), largest)
            ) from error
        largest = max(largest, get_input_batch_size(inputs))
        return result

    return call_with_memory_report


def get_input_batch_size(inputs: Sequence[Any]) -> int:
    """Return the size of the first input's first dimension."""
    if inputs and len(inputs[0].shape):
        return int(inputs[0].shape[0])
    return 1


def is_out_of_memory(error: BaseException) -> bool:
    """Check whether an error means out of memory."""
    text = str(error).casefold()
    return isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY_MESSAGES)


def describe_out_of_memory(engine: str, batch: int, largest: int) -> str:
    """Describe an out-of-memory error, and a batch that would fit."""
    if 0 < largest < batch:
        hint = f"the largest that fitted is {largest}: --set batching.max_batch={largest}"
    else:
        hint = "no smaller one was tried"
    return f"engine {engine}: memory does not suffice for a batch of {batch}; {hint}"

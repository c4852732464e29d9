"""Shapes of decoder steps that an engine records before any clock, and memory that begins at one
address for all of them, since recorded work reads and writes where it was recorded.
"""

import math
from typing import Final

import torch

SOURCE_GROWTH_TOKENS: Final = 16
"""Source tokens between two recorded lengths."""


def round_up_to_source_length(tokens: int) -> int:
    """Round up to a recorded source length."""
    return -(-tokens // SOURCE_GROWTH_TOKENS) * SOURCE_GROWTH_TOKENS


def list_source_lengths(longest: int) -> range:
    """Return the recorded lengths for sources up to the longest, ascending."""
    growth = SOURCE_GROWTH_TOKENS
    return range(growth, round_up_to_source_length(longest) + 1, growth)


def view_front(memory: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the front of flat memory in a shape."""
    return memory[: math.prod(shape)].view(shape)

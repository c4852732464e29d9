"""Has cuDNN time its convolution algorithms on a GPU, and keep the fastest for each shape."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def search_convolution_algorithms() -> Iterator[None]:
    """Search within the block, for training on pictures of one size: each further shape is timed
    anew. The flag is the process's, so that it is restored; on a CPU nothing reads it.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before

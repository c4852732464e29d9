"""A rank's global random generators, which dropout uses, and their state as types that
`torch.load(weights_only=True)` accepts.
"""

import random
from typing import Any, Final

import numpy as np
import torch

DROPOUT_STREAM: Final = 4  # kind of random draws, distinct from those of batches.py and buckets.py


def seed_epoch_generators(seed: int, epoch: int, rank: int) -> None:
    """Seed the generators from (seed, epoch, rank), whatever they did before."""
    (words,) = np.random.SeedSequence([seed, epoch, rank, DROPOUT_STREAM]).generate_state(
        1, np.uint64
    )
    torch.manual_seed(int(words) >> 1)


def save_generator_state() -> dict[str, Any]:
    """Save the state of torch's, CUDA's, numpy's and Python's generators."""
    name, words, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (
            str(name),
            [int(word) for word in words],
            int(position),
            int(has_gauss),
            float(gauss),
        ),
        "python": random.getstate(),
    }


def restore_generator_state(saved: dict[str, Any]) -> None:
    """Restore a saved state of the generators."""
    torch.set_rng_state(saved["torch"].cpu())
    for index, cuda_state in enumerate(saved["cuda"]):
        torch.cuda.set_rng_state(cuda_state.cpu(), index)
    name, words, position, has_gauss, gauss = saved["numpy"]
    np.random.set_state((name, np.array(words, dtype=np.uint32), position, has_gauss, gauss))
    version, internal, gauss_next = saved["python"]
    random.setstate((version, tuple(internal), gauss_next))

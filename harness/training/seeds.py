"""Seeds Python's, numpy's and the framework's generators on every rank from one seed per run."""

import hashlib
import random
import secrets
from typing import Final

SEED_LIMIT: Final = 2**31


def generate_random_seed() -> int:
    """Draw a random seed."""
    return secrets.randbelow(SEED_LIMIT)


def compute_rank_seed(seed: int, rank: int) -> int:
    """Return the run's seed for rank 0, and a different one for every other rank, so that dropout
    differs among them.
    """
    if rank == 0:
        return seed
    digest = hashlib.sha256(f"{seed}/{rank}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % SEED_LIMIT


def seed_generators(seed: int, rank: int, framework: str) -> None:
    """Seed all global generators."""
    own = compute_rank_seed(seed, rank)
    random.seed(own)
    try:
        import numpy as np
    except ImportError:  # the workload does not use it
        return
    np.random.seed(own % 2**32)  # numpy's range of seeds
    if framework == "torch":
        import torch

        torch.manual_seed(own)

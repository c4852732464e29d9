"""Points and their rings, as two text files; generated once into the cache if the user supplies
none.
"""

from pathlib import Path
from typing import Final

import numpy as np
import torch

from suite.errors import RequestError
from suite.files.cache import fill_cache_entry
from suite.workload import Run

CLASSES: Final = 3
SIZES: Final = {"train": 4096, "val": 512}
NOISE: Final = 0.3
"""Standard deviation of a point's distance from its ring; rings are 1 apart, so about 6 % of the
points lie closer to another one.
"""
SEED: Final = 20_26

# Legend: N points, 2 coordinates.
Points = tuple[torch.Tensor, torch.Tensor]
"""Coordinates point_N2 (float32) and rings ring_N (int64)."""


def load(run: Run, part: str) -> Points:
    """Read train or val; RequestError if the files are missing or broken."""
    folder = run.data or draw(run.cache / "rings")
    path = folder / f"{part}.csv"
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {error}") from error
    if rows.shape[1:] != (3,) or not np.isin(rows[:, 2], range(CLASSES)).all():
        raise RequestError(
            f"{path}: expected lines of x,y,ring with a ring from 0 to {CLASSES - 1}"
        )
    return torch.tensor(rows[:, :2], dtype=torch.float32), torch.tensor(
        rows[:, 2], dtype=torch.int64
    )


def draw(folder: Path) -> Path:
    """Generate both parts, always the same; existing files are kept."""
    generator = np.random.default_rng(SEED)
    for part, count in SIZES.items():
        ring = generator.integers(CLASSES, size=count)
        distance = ring + 1 + NOISE * generator.standard_normal(count)
        angle = generator.uniform(0, 2 * np.pi, count)
        rows = np.stack([distance * np.cos(angle), distance * np.sin(angle), ring], axis=1)
        with fill_cache_entry(folder / f"{part}.csv") as partial:
            if partial is not None:
                partial.write_text(
                    "".join(f"{x:.6f},{y:.6f},{int(label)}\n" for x, y, label in rows), "ascii"
                )
    return folder

"""Points and their classes, as two text files; generated once into the cache if the user supplies
none.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from suite.errors import RequestError
from suite.files.cache import fill_cache_entry
from suite.workload import Run

CIRCLES: Final = 3
COUNTS: Final = {"train": 4096, "val": 512}
NOISE: Final = 0.3
"""Standard deviation of a point's distance from its circle; circles are 1 apart, so about 6 % of
the points lie closer to another one.
"""
SEED: Final = 20_26

# Legend: N samples, X sizes of a sample.


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One part of the data set; the network's sizes follow from it."""

    input_NX: torch.Tensor
    label_N: torch.Tensor
    outputs: int
    """Classes that an answer chooses from."""


def load(run: Run, part: str) -> Samples:
    """Read train or val; RequestError if a file is missing or broken, or is of another size."""
    folder = run.data or generate(run.cache / "rings")
    train = read(folder / "train.csv")
    rows = train if part == "train" else read(folder / f"{part}.csv")
    outputs = int(train[:, -1].max()) + 1
    if rows.shape[1] != train.shape[1] or rows[:, -1].max() >= outputs:
        raise RequestError(f"{folder}: {part}.csv has other numbers or classes than train.csv")
    return Samples(
        input_NX=torch.tensor(rows[:, :-1], dtype=torch.float32),
        label_N=torch.tensor(rows[:, -1], dtype=torch.int64),
        outputs=outputs,
    )


def read(path: Path) -> np.ndarray:
    """Read one file: on each line the numbers of a point, then its class."""
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    except OSError as error:
        raise RequestError(f"{path}: {error}") from error
    except ValueError as error:
        raise RequestError(
            f"{path}: remove a header, and write each column as numbers, the last one as the"
            f" class, counted from 0: {error}"
        ) from error
    if len(rows) == 0 or rows.shape[1] < 2 or (rows[:, -1] != rows[:, -1].astype(int)).any():
        raise RequestError(f"{path}: expected lines of x,y,class, with a class from 0 on")
    if rows[:, -1].min() < 0 or not np.isfinite(rows).all():
        raise RequestError(f"{path}: expected finite numbers, and classes from 0 on")
    return rows


def generate(folder: Path) -> Path:
    """Generate both parts, always the same; existing files are kept."""
    generator = np.random.default_rng(SEED)
    for part, count in COUNTS.items():
        circle = generator.integers(CIRCLES, size=count)
        distance = circle + 1 + NOISE * generator.standard_normal(count)
        angle = generator.uniform(0, 2 * np.pi, count)
        rows = np.stack([distance * np.cos(angle), distance * np.sin(angle), circle], axis=1)
        with fill_cache_entry(folder / f"{part}.csv") as partial:
            if partial is not None:
                partial.write_text(
                    "".join(f"{x:.6f},{y:.6f},{int(label)}\n" for x, y, label in rows), "ascii"
                )
    return folder

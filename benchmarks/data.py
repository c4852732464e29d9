"""Measures images per second of a `podium data` survey, against a plain loop over the files.

Small JPEGs in ImageNet's layout. Both sides read each file, hash it, read its header with Pillow
and look for the end marker, as for a split with more than 20,000 images. Our side is the whole
command after its imports: it lists the folders, records sizes and times twice, checks and hashes in
threads, decodes the images of the small val split and writes the manifest. Both sides alternate and
find the files in the system's cache: the work is measured, not the disk.

Usage: python benchmarks/data.py [--pairs N] [--pictures N] [--format text|json]
"""

import hashlib
import os
import sys
import time
from contextlib import redirect_stdout
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from common.figures import arguments, compare, show
from common.tiny import choose_size
from PIL import Image

from harness.data_survey import run_data_survey
from harness.request import build_reading_options
from suite.rounds import Profile

PICTURES: Final = choose_size(100_000, 200)
FOLDER: Final = 1000
"""Images per class."""
SIDE_PX: Final = 64
DIFFERENT: Final = choose_size(200, 10)
"""Number of different images; the others repeat them."""
EVALUATED: Final = 50
"""Every image with this stride belongs to the val split, which is small enough to be decoded."""
TAIL: Final = 4096
"""Bytes at the end of a file that are searched for the end marker."""


def pictures() -> list[bytes]:
    """Make small JPEGs with soft colours and grain."""
    made = []
    for number in range(DIFFERENT):
        rng = np.random.default_rng(number)
        soft = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize(
            (SIDE_PX, SIDE_PX), Image.Resampling.BICUBIC
        )
        grain = np.asarray(soft, dtype=np.float64) + rng.normal(0, 12, (SIDE_PX, SIDE_PX, 3))
        stream = BytesIO()
        Image.fromarray(grain.clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=85)
        made.append(stream.getvalue())
    return made


def write(root: Path, count: int) -> int:
    """Write the files of both splits; the mean size in bytes."""
    made = pictures()
    for number in range(count):
        folder = root / ("train" if number % EVALUATED else "val") / f"n{number // FOLDER:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"n{number:08d}.JPEG").write_bytes(made[number % DIFFERENT])
    return sum(map(len, made)) // DIFFERENT


def ours(root: Path, count: int) -> float:
    """Images per second of the command."""
    with TemporaryDirectory(prefix="podium-benchmark-") as results, redirect_stdout(sys.stderr):
        began = time.perf_counter()
        run_data_survey(
            "resnet50", build_reading_options(Profile.SMOKE, root, Path(results)), "text"
        )
        return count / (time.perf_counter() - began)


def theirs(root: Path, count: int) -> float:
    """Images per second of a loop."""
    began = time.perf_counter()
    bad = sum(not whole(path) for path in sorted(root.rglob("*.JPEG")))
    assert not bad
    return count / (time.perf_counter() - began)


def whole(path: Path) -> bool:
    """Check one file."""
    content = path.read_bytes()
    hashlib.sha256(content).digest()
    with Image.open(path) as picture:
        return min(picture.size) > 0 and b"\xff\xd9" in content[-TAIL:]


def main() -> None:
    given = arguments(__doc__ or "", pairs=3, pictures=PICTURES)
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        root = Path(folder) / "data"
        os.environ["PODIUM_CACHE"] = str(Path(folder) / "cache")
        size = write(root, given.pictures)
        theirs(root, given.pictures)  # fills the system's cache
        rates = [
            (ours(root, given.pictures), theirs(root, given.pictures)) for _ in range(given.pairs)
        ]
    mine, others = ([pair[side] for pair in rates] for side in (0, 1))
    notes = {
        "Pictures": given.pictures,
        "Bytes per file": size,
        "Slowest": f"{min(mine):.0f} pictures/s",
    }
    show(
        "podium data against a plain loop over the files; 2,000 pictures/s is the aim",
        compare(mine, others, "pictures/s"),
        given.form,
        notes,
    )


if __name__ == "__main__":
    main()

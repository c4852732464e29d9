"""Pictures in one folder per class; generated once into the cache if the user supplies none.

    DIR/train/CLASS/*.png (or .jpg)
    DIR/val/CLASS/*.png

All of them are held in memory. For more than fit, read a batch at a time, as workloads/resnet50 of
podium does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from suite.errors import RequestError
from suite.files.cache import fill_cache_entry
from suite.workload import Run

SIDE_PX: Final = 24
"""Pictures are resized to this side; the network takes any."""
SUFFIXES: Final = (".png", ".jpg", ".jpeg")
COUNTS: Final = {"train": 200, "val": 64}
"""Generated pictures of each class."""
PATTERNS: Final = ("checks", "columns", "diagonals", "rows")
"""Generated classes."""
MISTAKEN: Final = 0.05
"""Share of generated pictures in the folder of another class, as in real data sets: where every
model scores 1, none is compared.
"""
NOISE: Final = 0.35
"""Standard deviation of each pixel, as a share of white."""
SEED: Final = 20_26

# Legend: N samples, C channels, H height, W width.


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One part of the data set; the network's sizes follow from it."""

    input_NX: torch.Tensor
    """Pictures, N C H W, from -1 to 1."""
    label_N: torch.Tensor
    outputs: int
    """Classes that an answer chooses from."""


def load(run: Run, part: str) -> Samples:
    """Read train or val; RequestError if a folder is missing, or a picture is broken."""
    folder = run.data or generate(run.cache / "rings")
    classes = list_classes(folder / "train")
    if (own := list_classes(folder / part)) != classes:
        different = sorted(set(own) ^ set(classes))
        raise RequestError(f"{folder}: classes differ between train and {part}: {different[0]}")
    paths = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / part / name).iterdir())
        if path.suffix.lower() in SUFFIXES
    ]
    if not paths:
        raise RequestError(f"{folder / part}: no pictures ({', '.join(SUFFIXES)})")
    picture_NCHW = torch.stack([read_picture(path) for path, _ in paths])
    return Samples(
        input_NX=picture_NCHW,
        label_N=torch.tensor([label for _, label in paths]),
        outputs=len(classes),
    )


def list_classes(folder: Path) -> list[str]:
    """List the folders of classes, in order; RequestError if there are fewer than two."""
    below = folder.iterdir() if folder.is_dir() else ()
    found = sorted(each.name for each in below if each.is_dir())
    if len(found) < 2:
        raise RequestError(f"{folder}: expected two folders of pictures or more, one per class")
    return found


def read_picture(path: Path) -> torch.Tensor:
    """Read one picture, C H W."""
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGB").resize((SIDE_PX, SIDE_PX))
    except (OSError, ValueError, UnidentifiedImageError) as error:
        raise RequestError(f"{path}: no readable picture ({error})") from error
    pixel_HWC = torch.from_numpy(np.asarray(picture, np.float32) / 127.5 - 1)
    return pixel_HWC.permute(2, 0, 1).contiguous()


def generate(folder: Path) -> Path:
    """Generate both parts, always the same; existing ones are kept."""
    for number, (part, count) in enumerate(COUNTS.items()):
        generator = np.random.default_rng(SEED + number)
        with fill_cache_entry(folder / part) as partial:
            for name in PATTERNS if partial is not None else ():
                (partial / name).mkdir(parents=True)
                for sample in range(count):
                    drawn = choose_pattern(name, generator)
                    draw_picture(drawn, generator).save(partial / name / f"{sample:04}.png")
    return folder


def choose_pattern(name: str, generator: np.random.Generator) -> str:
    """Return the pattern of a picture in a class's folder: mostly that of the class."""
    others = [each for each in PATTERNS if each != name]
    return str(generator.choice(others)) if generator.random() < MISTAKEN else name


def draw_picture(pattern: str, generator: np.random.Generator) -> Image.Image:
    """Draw stripes or checks of random width, place and colours, under noise."""
    width, first, second = generator.integers((3, 0, 0), (6, 12, 12))
    row, column = np.mgrid[:SIDE_PX, :SIDE_PX]
    across, down = (row + first) // width, (column + second) // width
    stripes = {
        "rows": across,
        "columns": down,
        "checks": across + down,
        "diagonals": (row + column + first) // width,
    }
    dark, light = generator.uniform(0, 0.4, 3), generator.uniform(0.6, 1, 3)
    plain = np.where((stripes[pattern] % 2 == 0)[..., None], dark, light)
    noisy = plain + NOISE * generator.standard_normal(plain.shape)
    return Image.fromarray((255 * noisy.clip(0, 1)).astype(np.uint8))

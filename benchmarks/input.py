"""Measures images per second from JPEG files to normalised batches: podium's two pipelines against
a plain torchvision DataLoader.

Random crops of 500x400 files, resized to 224x224, mirrored at random, normalised, in batches of 64,
on two processes or threads. Ours are ResNet-50's own album behind `--input default` and `--input
dali`; the plain side is what torchvision's classification reference writes: ImageFolder,
RandomResizedCrop, RandomHorizontalFlip, PILToTensor, float, Normalize, and a DataLoader of two
workers. All sides alternate, each in its own process. DALI's figure includes the process that reads
files and draws crops for it. Our side keeps freed memory, as in every podium run; the plain side
returns it, as torch does by default.

Usage: python benchmarks/input.py [--pairs N] [--format text|json]
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from common.figures import arguments, compare, show
from common.tiny import choose_size
from PIL import Image

EXTENT: Final = (500, 400)
SIZE: Final = 224
BATCH: Final = choose_size(64, 4)
FILES: Final = choose_size(256, 8)
EPOCHS: Final = choose_size(2, 1)
"""Passes over the files per measurement."""
WORKERS: Final = 2
QUALITY: Final = 90
DALI: Final = "dali"

Pass = Callable[[], Iterator[int]]
"""Read the files once, and yield the number of images in each batch."""


def write(folder: Path) -> int:
    """Write files with soft colours, edges and grain; the mean size in bytes."""
    for number in range(FILES):
        rng = np.random.default_rng(number)
        soft, coarse = (
            Image.fromarray(rng.integers(0, 256, (*cells, 3), dtype=np.uint8))
            for cells in ((5, 6), (50, 63))
        )
        mixed = Image.blend(
            soft.resize(EXTENT, Image.Resampling.BICUBIC),
            coarse.resize(EXTENT, Image.Resampling.NEAREST),
            0.3,
        )
        grain = np.asarray(mixed, dtype=np.float64) + rng.normal(0, 5, (*EXTENT[::-1], 3))
        place = folder / "train" / f"class{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(grain.clip(0, 255).astype(np.uint8)).save(
            place / f"{number:04d}.JPEG", "JPEG", quality=QUALITY
        )
    return sum(path.stat().st_size for path in folder.rglob("*.JPEG")) // FILES


def ours(name: str, folder: Path) -> Pass:
    """The workload's album behind one of our pipelines."""
    import torch

    from suite import registry
    from suite.input import Means, Place
    from workloads.common import malloc
    from workloads.common.inputs import batches
    from workloads.common.pictures.decoding import normalise_pictures
    from workloads.resnet50 import data
    from workloads.resnet50.images import imagenet as pictures

    malloc.keep_freed_memory()
    torch.set_num_threads(1)
    album = data.LabelledAlbum(pictures.index_imagenet_split(folder, "train"), SIZE, 1, 0.05)
    reader = registry.load_input_pipeline(name).open(
        album, Means(device="cpu", place=Place.CPU, workers=WORKERS)
    )
    epochs = count(1)

    def once() -> Iterator[int]:
        plan = batches.plan_epoch_steps(FILES, BATCH, BATCH, 1, next(epochs), 0, 1)
        for picture_NHWC, _ in reader.read([keys for step in plan for keys in step.micro_batches]):
            yield len(normalise_pictures(picture_NHWC))

    return once


def theirs(_: str, folder: Path) -> Pass:
    """The loader of torchvision's reference: references/classification, presets.py and train.py."""
    import torch
    from torch.utils.data import DataLoader

    from workloads.common.detection.torchvision_import import torchvision

    torch.set_num_threads(1)
    transforms = torchvision.transforms
    normalised = transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    steps = [
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float),
    ]
    files = torchvision.datasets.ImageFolder(
        str(folder / "train"), transforms.Compose([*steps, normalised])
    )
    loader = DataLoader(
        files, batch_size=BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
    )

    def once() -> Iterator[int]:
        for picture_NCHW, _ in loader:
            yield len(picture_NCHW)

    return once


SIDES: Final = {"default": ours, DALI: ours, "plain": theirs}


def side(name: str, folder: Path, pipe: Connection) -> None:
    """Read the files as often as requested; reply with images per second."""
    multiprocessing.set_start_method(
        "fork", force=True
    )  # what a program of its own has; a spawned process would spawn its workers too
    once = SIDES[name](name, folder)
    while asked := pipe.recv():
        began = time.perf_counter()
        pictures = sum(sum(once()) for _ in range(asked))
        pipe.send(pictures / (time.perf_counter() - began))


class Side:
    """One side in its own process."""

    def __init__(self, name: str, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(
            target=side, args=(name, folder, far)
        )  # no daemon: a loader has workers of its own
        self.process.start()
        far.close()

    def rate(self, epochs: int) -> float:
        """Images per second over so many passes; 0 ends the process."""
        self.pipe.send(epochs)
        return float(self.pipe.recv()) if epochs else 0.0


def measured(names: list[str], folder: Path, pairs: int) -> dict[str, list[float]]:
    """Measure the sides alternately."""
    sides = {name: Side(name, folder) for name in names}
    for one in sides.values():
        one.rate(1)  # warm-up
    rates = [{name: one.rate(EPOCHS) for name, one in sides.items()} for _ in range(pairs)]
    for one in sides.values():
        one.rate(0)
        one.process.join()
    return {name: [each[name] for each in rates] for name in names}


def main() -> None:
    given = arguments(__doc__ or "", pairs=7)
    has_dali = find_spec("nvidia") is not None and find_spec("nvidia.dali") is not None
    names = [name for name in SIDES if name != DALI or has_dali]
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        notes = {"Bytes per file": str(write(Path(folder))), "Pictures": str(FILES * EPOCHS)}
        rates = measured(names, Path(folder), given.pairs)
    if has_dali:
        dali = compare(rates[DALI], rates["plain"], "pictures/s")
        notes |= {"DALI": f"{dali.ours:.1f} pictures/s", "DALI ratio": f"{dali.ratio:.4f}"}
    title = (
        f"JPEG {EXTENT[0]}x{EXTENT[1]} to normalised {SIZE}x{SIZE}, {WORKERS} workers: --input"
        " default against a plain DataLoader; above 1.5 is the aim"
    )
    show(title, compare(rates["default"], rates["plain"], "pictures/s"), given.form, notes)


if __name__ == "__main__":
    main()

"""The loaders alone, the plan of an epoch, and the GPU's own JPEG decoder."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any, Final

import torch
from gpu_shared.timing import read_settled_clock
from gpu_shared.workbench import Workbench

from gpu_items import maskrcnn, pictures, resnet50, ssd
from workloads.common.detection.torchvision_import import torchvision
from workloads.common.inputs import batches

UNIT: Final = "images/s"
DECODED_AT_ONCE: Final = 64


def measure_loaders(bench: Workbench) -> None:
    """Measure each loader with few and many processes."""
    cores = len(os.sched_getaffinity(0))
    counts = [number for number in bench.sizes.worker_counts if number <= cores] or [1]
    for workers in reversed(counts):
        bench.attempt(
            f"resnet50, {workers} workers",
            lambda name, workers=workers: tell_loader(  # type: ignore[misc]
                bench, name, lambda: read_resnet50(bench, workers), workers
            ),
        )
    for title, read in (("ssd", read_ssd), ("maskrcnn", read_maskrcnn)):
        for workers in dict.fromkeys((counts[-1], counts[0])):
            bench.attempt(
                f"{title}, {workers} workers",
                lambda name, workers=workers, read=read: tell_loader(  # type: ignore[misc]
                    bench, name, lambda: read(bench, workers), workers
                ),
            )
    bench.attempt("plan of an epoch", lambda name: tell_plan(bench, name))
    bench.attempt("nvJPEG", lambda name: tell_gpu_decoder(bench, name))


def read_resnet50(bench: Workbench, workers: int) -> Iterator[int]:
    """Read ResNet-50's batches."""
    training = resnet50.build_training(bench, bench.sizes.spans[0], {}, workers)
    for epoch in count(1):
        plan = [keys for step in training._plan_epoch(epoch) for keys in step.micro_batches]
        for picture_NHWC, _ in training._train_reader.read(plan):
            yield len(picture_NHWC)


def read_ssd(bench: Workbench, workers: int) -> Iterator[int]:
    """Read SSD's batches."""
    training = ssd.build_training(bench, {}, workers)
    for epoch in count(1):
        plan = [keys for step in training._plan_epoch(epoch) for keys in step.micro_batches]
        for picture_NHWC, _ in training._train_reader.read(plan):
            yield len(picture_NHWC)


def read_maskrcnn(bench: Workbench, workers: int) -> Iterator[int]:
    """Read Mask R-CNN's batches."""
    training = maskrcnn.build_training(bench, bench.sizes.mask_batches[-1], workers)
    for epoch in count(1):
        plan = [keys for step in training._plan_epoch(epoch) for keys in step.micro_batches]
        for packed in training._loader.read(plan):
            yield len(packed.weights)


def tell_loader(bench: Workbench, name: str, read: Callable[[], Any], workers: int) -> None:
    """Read for some seconds, after as many batches as are read ahead."""
    with closing(read()) as loaded:
        for _ in range(2 * workers):
            next(loaded)
        began_s, images = time.perf_counter(), 0
        while (passed_s := time.perf_counter() - began_s) < bench.sizes.seconds:
            images += next(loaded)
    rate = images / passed_s
    bench.tell(name, rate, UNIT, details={"per_worker": rate / workers})


def tell_plan(bench: Workbench, name: str) -> None:
    """Plan an epoch of ImageNet in the batches of `full`."""
    began_s = time.perf_counter()
    batches.plan_epoch_steps(bench.sizes.planned_pictures, 4096, 64, 1, 1, 0, 1)
    bench.tell(name, time.perf_counter() - began_s, "s")


def tell_gpu_decoder(bench: Workbench, name: str) -> None:
    """Decode files on the GPU, if torchvision was built with nvJPEG."""
    if not bench.on_gpu:
        bench.tell_absent(name, "needs a GPU")
        return
    folder = pictures.prepare_jpegs(bench) / "train" / "class0"
    files = [torchvision.io.read_file(str(path)) for path in sorted(folder.iterdir())]
    files = files[:DECODED_AT_ONCE]

    def decode() -> list[torch.Tensor]:
        found: list[torch.Tensor] = torchvision.io.decode_jpeg(files, device=bench.device)
        return found

    decode()
    began_s, images = read_settled_clock(bench.device), 0
    while (passed_s := read_settled_clock(bench.device) - began_s) < bench.sizes.seconds:
        images += len(decode())
    bench.tell(name, images / passed_s, UNIT)

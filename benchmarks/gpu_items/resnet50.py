"""ResNet-50's training: on resident images, from JPEG files, and torchvision's reference loop."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from itertools import repeat
from typing import Any, Final
from unittest import mock

import torch
from gpu_shared.timing import measure_throughput
from gpu_shared.workbench import Workbench
from torch import nn

from gpu_items import pictures
from gpu_items.runs import (
    ResidentBatches,
    build_run,
    describe_pictures,
    tell_resident_steps,
    tell_steps,
    tell_steps_from_files,
)
from suite.rounds import HyperValue
from workloads.common.detection.torchvision_import import torchvision
from workloads.resnet50 import training
from workloads.resnet50.data import LabelBatch

UNIT: Final = "images/s"
PLANNED_STEPS: Final = 64
UNSEARCHED: Final = "without cuDNN's search"
VARIANTS: Final[Mapping[str, Mapping[str, HyperValue]]] = {
    UNSEARCHED: {},
    "eager": {},
    "graphs": {"train.graphs": True},
}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of torchvision's references/classification/presets.py."""


def build_training(
    bench: Workbench, span: int, chosen: Mapping[str, HyperValue], workers: int = 0
) -> training.ResNet50Training:
    """Build a training that takes an SGD step after each micro-batch, as the reference loop does;
    from files if there are workers, else on a batch on the device.
    """
    settings = {
        "global_batch_size": span,
        "model_bn_span": span,
        "opt_name": "sgd",
        "model.start": "torchvision",  # which is drawn fastest
        "data.picture_size": bench.sizes.picture_px,
        "data.workers": workers,
        **chosen,
    }
    if workers:
        folder = pictures.prepare_jpegs(bench)
        return training.ResNet50Training(
            build_run(bench, "resnet50", settings, pictures.survey_jpegs(folder), data=folder)
        )
    found = {
        "classes": [f"class{number:04d}" for number in range(bench.sizes.classes)],
        "train": describe_pictures(span * PLANNED_STEPS),
        "val": describe_pictures(span),
    }
    built = training.ResNet50Training(build_run(bench, "resnet50", settings, found))
    batch = build_resident_batch(bench, span)
    vars(built)["_train_reader"] = ResidentBatches(batch, bench.device)
    return built


def build_resident_batch(bench: Workbench, span: int) -> tuple[torch.Tensor, LabelBatch]:
    """Build a batch as the loader delivers it."""
    side = bench.sizes.picture_px
    return torch.randint(256, (span, side, side, 3), dtype=torch.uint8), LabelBatch(
        label_N=torch.randint(bench.sizes.classes, (span,)),
        weight_N=torch.ones(span),
    )


def measure_steps_of_resnet50(bench: Workbench) -> None:
    """Measure steps on resident images at each span, in each variant."""
    for span in bench.sizes.spans:
        for variant, chosen in VARIANTS.items():
            if bench.lacks_graphs(chosen, f"{span} {variant}"):
                continue
            with leave_out_search(left_out=variant == UNSEARCHED):
                bench.attempt(
                    f"{span} {variant}",
                    lambda name, span=span, chosen=chosen: tell_resident_steps(  # type: ignore[misc]
                        bench, name, build_training(bench, span, chosen), UNIT
                    ),
                )


@contextmanager
def leave_out_search(*, left_out: bool) -> Iterator[None]:
    """Take the convolution algorithms that cuDNN's heuristics name, not the fastest ones tried."""
    target = "search_convolution_algorithms"
    with mock.patch.object(training, target, nullcontext) if left_out else nullcontext():
        yield


def measure_compiled(bench: Workbench) -> None:
    """Measure steps of the compiled network; compiling is no part of them."""
    for span in reversed(bench.sizes.spans):
        bench.attempt(
            f"{span}",
            lambda name, span=span: tell_resident_steps(  # type: ignore[misc]
                bench, name, build_training(bench, span, {"train.compile": True}), UNIT
            ),
        )


def measure_files(bench: Workbench) -> None:
    """Measure training from JPEG files with many loader processes, and with one."""
    span = bench.sizes.spans[0]
    for workers in dict.fromkeys((bench.sizes.many_workers, 1)):
        bench.attempt(
            f"{workers} workers",
            lambda name, workers=workers: tell_steps_from_files(  # type: ignore[misc]
                bench, name, build_training(bench, span, {}, workers), UNIT
            ),
        )


class ReferenceLoop:
    """torchvision's references/classification/train.py: SGD, channels-last, bf16 autocast."""

    def __init__(self, bench: Workbench, *, compiled: bool) -> None:
        self.device, self.classes = bench.device, bench.sizes.classes
        self.model: nn.Module = torchvision.models.resnet50(num_classes=self.classes).to(
            self.device, memory_format=torch.channels_last
        )
        self.run = torch.compile(self.model) if compiled else self.model
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4
        )
        self.autocast: Any = (
            torch.autocast("cuda", torch.bfloat16) if bench.on_gpu else nullcontext()
        )

    def take_steps(self, batches: Iterator[Any]) -> Iterator[int]:
        """Take a step on each batch of images and labels, and yield its images."""
        self.model.train()
        for picture_NCHW, label_N in batches:
            picture_NCHW = picture_NCHW.to(
                self.device, memory_format=torch.channels_last, non_blocking=True
            )
            label_N = label_N.to(self.device, non_blocking=True)
            with self.autocast:
                loss = self.criterion(self.run(picture_NCHW), label_N)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            yield len(label_N)


def build_peer_steps(bench: Workbench, span: int, *, compiled: bool) -> Iterator[int]:
    """Build the reference loop on a resident batch of normalised images."""
    side = bench.sizes.picture_px
    batch = (
        torch.randn(span, 3, side, side, device=bench.device),
        torch.randint(bench.sizes.classes, (span,), device=bench.device),
    )
    return ReferenceLoop(bench, compiled=compiled).take_steps(repeat(batch))


def measure_reference_loop(bench: Workbench) -> None:
    """Measure torchvision's loop on resident images."""
    for span in bench.sizes.spans:
        bench.attempt(
            f"{span}",
            lambda name, span=span: tell_steps(  # type: ignore[misc]
                bench, name, build_peer_steps(bench, span, compiled=False), UNIT
            ),
        )


def measure_peer_compiled(bench: Workbench) -> None:
    """Measure the same, compiled."""
    for span in reversed(bench.sizes.spans):
        bench.attempt(
            f"{span}",
            lambda name, span=span: tell_steps(  # type: ignore[misc]
                bench, name, build_peer_steps(bench, span, compiled=True), UNIT
            ),
        )


def measure_peer_files(bench: Workbench) -> None:
    """Measure torchvision's loop from the same files, with as many loader processes."""
    bench.attempt(f"{bench.sizes.many_workers} workers", lambda name: tell_peer_files(bench, name))


def tell_peer_files(bench: Workbench, name: str) -> None:
    """Read as torchvision's presets and train.py do."""
    sizes, transforms = bench.sizes, torchvision.transforms
    steps = [
        transforms.RandomResizedCrop(sizes.picture_px),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float),
        transforms.Normalize(mean=MEAN, std=DEVIATION),
    ]
    files = torchvision.datasets.ImageFolder(
        str(pictures.prepare_jpegs(bench) / "train"), transforms.Compose(steps)
    )
    loader = torch.utils.data.DataLoader(
        files,
        batch_size=sizes.spans[0],
        shuffle=True,
        num_workers=sizes.many_workers,
        pin_memory=bench.on_gpu,
    )
    loop = ReferenceLoop(bench, compiled=False)
    with closing(loop.take_steps(iter(loader))) as taken:  # type: ignore[type-var]
        rate = measure_throughput(
            taken, bench.device, count=sizes.few_steps, warm_up=sizes.few_warm_up
        )
    bench.tell(name, rate, UNIT, details={"steps": sizes.few_steps})

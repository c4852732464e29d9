"""Compares podium's ResNet-50 training step (channels-last, bf16 autocast, as in the workload) with
plain eager fp32 NCHW PyTorch.

bf16 is faster only on processors with bf16 instructions, and slower elsewhere: `--precision auto`
uses fp32 there, and reports it. Both at 64x64, batch 32, on the CPU, each in a process of its own,
in turns. Our side is the workload's own `train_epoch`, with its loader decoding JPEGs on the same
cores; the other side has its images in memory.
"""

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from common.figures import arguments, compare, options, show
from common.tiny import choose_size

from harness.machine.system_description import has_bf16_instructions
from suite.terms import Precision

SIZE_PX = choose_size(64, 32)
BATCH = choose_size(32, 4)
CLASSES = 12


def our_steps(threads: int, precision: Precision) -> Iterator[int]:
    """Yield after each step of the workload."""
    from harness.request import resolve_request
    from harness.training import seeds

    with TemporaryDirectory() as folder:
        request = resolve_request(
            options(
                Path(folder),
                threads,
                f"data.picture_size={SIZE_PX}",
                f"global_batch_size={BATCH}",
                f"model_bn_span={BATCH}",
            ),
            "resnet50",
        )
        seeds.seed_generators(1, 0, "torch")
        training = request.workload.build_training(request.build_run(1, precision))
        for epoch in count(1):
            yield from training.train_epoch(epoch)


def their_steps(threads: int, _: Precision) -> Iterator[int]:
    """Yield after each step of what a tutorial would write."""
    import torch

    from workloads.common.detection.torchvision_import import torchvision

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = torchvision.models.resnet50(num_classes=CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    picture_NCHW, label_N = (
        torch.randn(BATCH, 3, SIZE_PX, SIZE_PX),
        torch.randint(CLASSES, (BATCH,)),
    )
    model.train()
    while True:
        optimizer.zero_grad()
        criterion(model(picture_NCHW), label_N).backward()
        optimizer.step()
        yield BATCH


SIDES = {"ours": our_steps, "theirs": their_steps}


def side(name: str, threads: int, precision: Precision, pipe: Connection) -> None:
    """Take the requested number of steps; reply with images per second."""
    steps = SIDES[name](threads, precision)
    while asked := pipe.recv():
        began = time.perf_counter()
        pictures = sum(islice(steps, asked))
        pipe.send(pictures / (time.perf_counter() - began))


class Side:
    """One side in its own process."""

    def __init__(self, name: str, threads: int, precision: Precision) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(
            target=side, args=(name, threads, precision, far)
        )  # no daemon: a loader has workers of its own
        self.process.start()
        far.close()

    def rate(self, steps: int) -> float:
        """Images per second over so many steps."""
        self.pipe.send(steps)
        return float(self.pipe.recv())

    def end(self) -> None:
        """End the process."""
        self.pipe.send(0)
        self.process.join()


def main() -> None:
    given = arguments(__doc__ or "", pairs=8, steps=6, precision=True)
    usual = Precision.BF16 if has_bf16_instructions() else Precision.FP32
    precision = usual if given.precision == "auto" else Precision(given.precision)
    ours, theirs = Side("ours", given.threads, precision), Side("theirs", given.threads, precision)
    for one in (ours, theirs):
        one.rate(choose_size(3, 1))  # warm-up
    rates = [(ours.rate(given.steps), theirs.rate(given.steps)) for _ in range(given.pairs)]
    figure = compare([pair[0] for pair in rates], [pair[1] for pair in rates], "pictures/s")
    for one in (ours, theirs):
        one.end()
    known = f"this processor has {'bf16' if has_bf16_instructions() else 'no bf16'} instructions"
    title = (
        f"ResNet-50 training step at {SIZE_PX}x{SIZE_PX}: {precision} channels-last against eager"
        " fp32 NCHW; with bf16, above 1.5 is the aim"
    )
    show(
        title,
        replace(figure, hardware=f"{figure.hardware}; {known}; ours in {precision}"),
        given.form,
        {},
    )


if __name__ == "__main__":
    main()

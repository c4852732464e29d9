"""Our ResNet-50 training step (bf16 autocast, channels-last, as the workload does it) against plain eager fp32 NCHW PyTorch.

Both at 64x64, batch 32, on the CPU, each in a process of its own, in turns. Our side is the workload's own
`train_epoch`, with its loader decoding JPEGs on the same cores; the other side has its pictures in memory.
"""

import multiprocessing
import time
from collections.abc import Iterator
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from figures import arguments, compare, options, show

SIZE_PX = 64
BATCH = 32
CLASSES = 12


def our_steps(threads: int) -> Iterator[int]:
    """Yield after each step of the workload."""
    from harness import seeds
    from harness.request import prepare
    from suite.terms import Precision

    with TemporaryDirectory() as folder:
        request = prepare(options(Path(folder), threads, f"data.picture_size={SIZE_PX}", f"global_batch_size={BATCH}", f"model_bn_span={BATCH}"), "resnet50")
        seeds.start(1, 0, "torch")
        training = request.workload.training(request.run(1, Precision.BF16))
        for epoch in count(1):
            yield from training.train_epoch(epoch)


def their_steps(threads: int) -> Iterator[int]:
    """Yield after each step of what a tutorial would write."""
    import torch

    from workloads.common.vision_ops import torchvision

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = torchvision.models.resnet50(num_classes=CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    picture_NCHW, label_N = torch.randn(BATCH, 3, SIZE_PX, SIZE_PX), torch.randint(CLASSES, (BATCH,))
    model.train()
    while True:
        optimizer.zero_grad()
        criterion(model(picture_NCHW), label_N).backward()
        optimizer.step()
        yield BATCH


SIDES = {"ours": our_steps, "theirs": their_steps}


def side(name: str, threads: int, pipe: Connection) -> None:
    """Take as many steps as asked for; answer with pictures per second."""
    steps = SIDES[name](threads)
    while asked := pipe.recv():
        began = time.perf_counter()
        pictures = sum(islice(steps, asked))
        pipe.send(pictures / (time.perf_counter() - began))


class Side:
    """One side in its process."""

    def __init__(self, name: str, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=side, args=(name, threads, far))  # no daemon: a loader has workers of its own
        self.process.start()
        far.close()

    def rate(self, steps: int) -> float:
        """Pictures per second over so many steps."""
        self.pipe.send(steps)
        return float(self.pipe.recv())

    def end(self) -> None:
        """Let the process end."""
        self.pipe.send(0)
        self.process.join()


def main() -> None:
    given = arguments(__doc__ or "", pairs=8, steps=6)
    ours, theirs = Side("ours", given.threads), Side("theirs", given.threads)
    for one in (ours, theirs):
        one.rate(3)  # warm-up
    rates = [(ours.rate(given.steps), theirs.rate(given.steps)) for _ in range(given.pairs)]
    figure = compare([pair[0] for pair in rates], [pair[1] for pair in rates], "pictures/s")
    for one in (ours, theirs):
        one.end()
    show("ResNet-50 training step at 64x64: bf16 channels-last against eager fp32 NCHW; above 1.5 is the aim", figure, given.form, {})


if __name__ == "__main__":
    main()

"""Measures how long the timed thread plans an epoch of ResNet-50 at full size: 1,281,167 images in
global batches of 4,096, micro-batches of 64, one rank.

Ours keeps arrays and makes the keys of a batch where the batch is read. The other side makes one
key object for each sample when the epoch begins, as podium did before.

Usage: python benchmarks/plan.py [--pairs N] [--format text|json]
"""

import time
from collections.abc import Callable
from typing import Final

from common.figures import arguments, compare, show
from common.tiny import choose_size

from workloads.common.inputs import batches

IMAGES: Final = choose_size(1_281_167, 10_000)
"""Training images of ImageNet, as in ILSVRC 2012."""
GLOBAL_BATCH: Final = 4096
MICRO_BATCH: Final = 64


def plan_arrays() -> int:
    """Plan an epoch as podium does; the number of micro-batches."""
    plan = batches.plan_epoch_steps(IMAGES, GLOBAL_BATCH, MICRO_BATCH, 1, 1, 0, 1)
    return len([part for step in plan for part in step.micro_batches])


def plan_objects() -> int:
    """Plan an epoch with an object for each sample; the number of micro-batches."""
    plan = batches.plan_epoch_steps(IMAGES, GLOBAL_BATCH, MICRO_BATCH, 1, 1, 0, 1)
    return len([list(part) for step in plan for part in step.micro_batches])


def measure_seconds(work: Callable[[], int]) -> float:
    """Return the seconds of one call."""
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def main() -> None:
    """Measure both sides in turn."""
    given = arguments(__doc__ or "", pairs=5)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(given.pairs):
        ours.append(measure_seconds(plan_arrays))
        theirs.append(measure_seconds(plan_objects))
    title = (
        f"Planning an epoch of {IMAGES:,} images: arrays against objects; under 0.3 s is the aim"
    )
    show(title, compare(ours, theirs, "s"), given.form, {"Images": str(IMAGES)})


if __name__ == "__main__":
    main()

"""Beam search of the Transformer beside `generate` of transformers: benchmarks/decoding.py on the
device.
"""

import statistics
import time
from typing import Any, Final

import decoding
import torch
from gpu_shared.lines import RATIO_UNIT
from gpu_shared.workbench import Workbench

UNIT: Final = "tokens/s"
KERNEL_EVENT: Final = "cuda"
PEER: Final = "theirs"


def measure_decoding(bench: Workbench) -> None:
    """Measure both sides in turn at each batch size."""
    for batch in bench.sizes.decoded_batches:
        if not bench.lacks_package("transformers", f"{batch} theirs"):
            bench.attempt(
                f"{batch}",
                lambda name, batch=batch: tell_batch(bench, name, batch),  # type: ignore[misc]
            )


def tell_batch(bench: Workbench, name: str, batch: int) -> None:
    """Translate in turn, and tell both rates and their ratio."""
    sizes, length = bench.sizes, bench.sizes.decoded_tokens
    shape = decoding.DecodedShape(
        layers=sizes.layers,
        width=sizes.width,
        filter=sizes.filter,
        heads=sizes.heads,
        vocabulary=sizes.vocabulary,
    )
    sides = {
        title: side(batch, length, bench.device, shape) for title, side in decoding.SIDES.items()
    }
    for translate in sides.values():
        translate()
    rounds = [
        {title: measure_rate(translate, batch * length) for title, translate in sides.items()}
        for _ in range(sizes.decoded_pairs)
    ]
    for title, translate in sides.items():
        details = {"kernels_per_position": count_kernels(bench, translate) / length}
        rate = statistics.median(each[title] for each in rounds)
        bench.tell(f"{name} {title}", rate, UNIT, details=details)
    for title in sides:
        if title != PEER:
            ratio = statistics.median(each[title] / each[PEER] for each in rounds)
            bench.tell(f"{name} ratio, {title}", ratio, RATIO_UNIT)


def measure_rate(translate: decoding.Translate, tokens: int) -> float:
    """Return tokens per second of one translation."""
    began_s = time.perf_counter()
    translate()
    return tokens / (time.perf_counter() - began_s)


def count_kernels(bench: Workbench, translate: decoding.Translate) -> int:
    """Count the kernels of a translation; 0 on a CPU."""
    if not bench.on_gpu:
        return 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        translate()
    events: Any = profile.events()
    return sum(str(event.device_type).lower().endswith(KERNEL_EVENT) for event in events)

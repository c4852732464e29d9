"""Compares writing pasted masks as run lengths with the usual way through COCO's library.

The masks of an image of 480 x 640 with 100 detections, as pasted by Mask R-CNN: threshold and
compression, on the CPU. The usual way stacks the masks along a last axis and copies them to
Fortran order, which the library requires; ours pastes them in that order. Both sides must write
the same bytes. `ours` and `theirs` are images per second. Freed memory is kept, as in every run.

Usage: python benchmarks/mask_run_lengths.py [--pairs N] [--threads N] [--format text|json]
"""

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from common.figures import arguments, compare, show
from common.tiny import choose_size
from faster_coco_eval.core import mask as library
from torch.nn import functional

from workloads.common import malloc
from workloads.maskrcnn.detector import inference_pipeline

HEIGHT, WIDTH = 480, 640
DETECTIONS: Final = choose_size(100, 4)
MASK_SIDE: Final = 28
BLOB_SIDE: Final = 5
"""Values of a mask before it is smoothed, so that outlines are few and round."""


def paste_drawn_masks() -> torch.Tensor:
    """Draw smooth masks of 28 x 28 and boxes of 20 to 220 pixels, and paste them; [D, W, H]."""
    torch.manual_seed(1)
    extent = torch.tensor([WIDTH - 1.0, HEIGHT - 1.0])
    centre = torch.rand(DETECTIONS, 2) * extent
    half = torch.rand(DETECTIONS, 2) * 100 + 10
    number_D4 = torch.cat(
        [(centre - half).clamp(min=0), torch.minimum(centre + half, extent)], dim=1
    )
    blob_D1MM = torch.rand(DETECTIONS, 1, BLOB_SIDE, BLOB_SIDE)
    mask_DMM = functional.interpolate(blob_D1MM, size=MASK_SIDE, mode="bicubic")[:, 0].clamp(0, 1)
    return inference_pipeline.paste_masks_by_column(mask_DMM, number_D4, HEIGHT, WIDTH)


def encode_after_stacking(mask_DHW: torch.Tensor) -> list[bytes]:
    """Stack the masks last, as the library wants them, and compress."""
    covered = (mask_DHW > inference_pipeline.MASK_THRESHOLD).to(torch.uint8).numpy()
    stacked_HWD = np.asfortranarray(np.stack(list(covered), axis=-1))
    return [each["counts"] for each in library.encode(stacked_HWD)]


def measure_rate(call: Callable[[torch.Tensor], list[bytes]], masks: torch.Tensor) -> float:
    """Measure images per second, over at least half a second."""
    calls, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < 0.5:
        call(masks)
        calls += 1
    return calls / passed


def main() -> None:
    given = arguments(__doc__ or "", pairs=7)
    malloc.keep_freed_memory()
    if given.threads:
        torch.set_num_threads(given.threads)
    by_column_DWH = paste_drawn_masks()
    by_row_DHW = by_column_DWH.transpose(1, 2).contiguous()
    ours, theirs = inference_pipeline.encode_pasted_masks, encode_after_stacking
    if ours(by_column_DWH) != theirs(by_row_DHW):
        raise SystemExit("the two sides wrote different run lengths")
    rates = [
        (measure_rate(ours, by_column_DWH), measure_rate(theirs, by_row_DHW))
        for _ in range(given.pairs)
    ]
    show(
        f"Run lengths of {DETECTIONS} masks of {HEIGHT} x {WIDTH}; at least 8 is the aim",
        compare([pair[0] for pair in rates], [pair[1] for pair in rates], "images/s"),
        given.form,
        {"Detections": DETECTIONS},
    )


if __name__ == "__main__":
    main()

"""Compares podium's nms and roi_align with loops over single boxes, and with torchvision's compiled
operators if they load.

At sizes of Mask R-CNN on images of 800 x 1216: nms of 1,000 and of 2,000 proposals at 0.7;
roi_align of 512 regions on four levels of 256 channels, 7 x 7 bins of 2 x 2 points, forward alone
and with the gradient. The loops are the obvious implementation: nms compares each kept box with the
remaining ones, roi_align takes all sampling points of a region from its map at once. `ours` and
`theirs` are calls per second; their ratio is how many times as fast ours is.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import torch
from common.figures import Figure, arguments, compare, show
from common.tiny import choose_size

from workloads.common import malloc
from workloads.common.detection import ops
from workloads.common.detection.ops import torchvision
from workloads.common.detection.torchvision_import import DECLARED_OPERATORS

PICTURE_PX: Final = (800, 1216)
STRIDES: Final = (4, 8, 16, 32)
REGIONS: Final = choose_size(512, 4)
CHANNELS: Final = choose_size(256, 4)
BINS: Final = 7
POINTS: Final = 2
Tensor = torch.Tensor
Call = Callable[[], object]


def boxes(count: int, clusters: int) -> tuple[Tensor, Tensor]:
    """Draw boxes in clusters, as proposals around objects lie, and scores."""
    height, width = PICTURE_PX
    side = torch.rand(clusters, 2) * 250 + 30
    corner = torch.rand(clusters, 2) * (torch.tensor([width, height]) - side)
    centres = torch.cat([corner, corner + side], dim=1)
    drawn = centres[torch.randint(clusters, (count,))] + torch.randn(count, 4) * 15
    return torch.cat(
        [drawn[:, :2], torch.maximum(drawn[:, 2:], drawn[:, :2] + 1)], dim=1
    ), torch.rand(count)


def loop_nms(all_boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Keep the best box, drop the boxes that overlap it, and repeat."""
    left, kept = scores.argsort(descending=True), []
    while len(left):
        kept.append(left[0])
        overlap = ops.compute_pairwise_ious(all_boxes[left[:1]], all_boxes[left[1:]])[0]
        left = left[1:][overlap <= threshold]
    return torch.stack(kept)


def loop_roi_align(features: Tensor, rois: Tensor, scale: float) -> Tensor:
    """One region at a time."""
    return torch.stack([one_region(features[0], *(roi[1:] * scale).tolist()) for roi in rois])


def one_region(feature: Tensor, x1: float, y1: float, x2: float, y2: float) -> Tensor:
    """Interpolate a region's points on a C H W map and average those of a bin."""
    _, height, width = feature.shape
    share = (torch.arange(BINS * POINTS) + 0.5) / (BINS * POINTS)
    y = (y1 + share * max(y2 - y1, 1.0)).clamp(0, height - 1)
    x = (x1 + share * max(x2 - x1, 1.0)).clamp(0, width - 1)
    top, left = y.long(), x.long()
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    below, beside = (y - top)[:, None], x - left
    upper = feature[:, top][:, :, left] * (1 - beside) + feature[:, top][:, :, right] * beside
    lower = feature[:, bottom][:, :, left] * (1 - beside) + feature[:, bottom][:, :, right] * beside
    return torch.nn.functional.avg_pool2d(upper * (1 - below) + lower * below, POINTS)


def pooling(align: Callable[[Tensor, Tensor, float], Tensor], *, gradient: bool) -> Call:
    """Build the pooling of a quarter of the regions on each level."""
    torch.manual_seed(1)
    maps = [
        torch.randn(1, CHANNELS, *(side // stride for side in PICTURE_PX), requires_grad=gradient)
        for stride in STRIDES
    ]
    drawn = torch.cat(
        [torch.zeros(REGIONS, 1), boxes(REGIONS, 60)[0].clamp(min=0, max=PICTURE_PX[0] - 1)], dim=1
    )
    parts = drawn.split(REGIONS // len(STRIDES))

    def call() -> None:
        pooled = torch.cat(
            [
                align(feature, part, 1 / stride)
                for feature, part, stride in zip(maps, parts, STRIDES, strict=True)
            ]
        )
        if gradient:
            torch.autograd.grad(pooled, maps, pooled.detach())

    return call


def rate(call: Call) -> float:
    """Measure calls per second, over at least half a second."""
    calls, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < 0.5:
        call()
        calls += 1
    return calls / passed


def our_roi_align(features: Tensor, rois: Tensor, scale: float) -> Tensor:
    return Ours.apply(features, rois, scale)  # type: ignore[no-any-return,no-untyped-call]


class Ours(torch.autograd.Function):
    """Our kernels under their own names: they are registered under torchvision's only if its
    compiled ones are missing.
    """

    @staticmethod
    # autograd's names
    def forward(ctx: Any, features: Tensor, rois: Tensor, scale: float) -> Tensor:  # noqa: D102
        ctx.arguments = rois, scale, features.shape
        return ops.roi_align(features, rois, scale, BINS, BINS, POINTS, False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:  # noqa: D102
        rois, scale, shape = ctx.arguments
        return (
            ops.roi_align_backward(grads[0], rois, scale, BINS, BINS, *shape, POINTS, False),
            None,
            None,
        )


def compiled_roi_align(features: Tensor, rois: Tensor, scale: float) -> Tensor:
    return torchvision.ops.roi_align(features, rois, (BINS, BINS), scale, POINTS)  # type: ignore[no-any-return]


def cases() -> dict[str, tuple[Call, Call]]:
    """Yield each comparison: its name, our function, and the other."""
    found: dict[str, tuple[Call, Call]] = {}
    nms = {"loop": loop_nms, "compiled": torchvision.ops.nms}
    align = {"loop": loop_roi_align, "compiled": compiled_roi_align}
    for other in ("loop", "compiled") if DECLARED_OPERATORS is None else ("loop",):
        for count in (1000, 2000):
            torch.manual_seed(count)
            drawn = (*boxes(count, 60), 0.7)
            found[f"nms {count} against {other}"] = (
                partial(ops.nms, *drawn),
                partial(nms[other], *drawn),
            )
        for gradient in (False, True):
            name = f"roi_align {REGIONS}{' with gradient' if gradient else ''} against {other}"
            found[name] = (
                pooling(our_roi_align, gradient=gradient),
                pooling(align[other], gradient=gradient),
            )
    return found


def main() -> None:
    given = arguments(__doc__ or "", pairs=5)
    malloc.keep_freed_memory()  # as the workloads do; it helps both sides
    if given.threads:
        torch.set_num_threads(given.threads)
    figures = {name: measured(*pair, given.pairs) for name, pair in cases().items()}
    if given.form == "json":
        print(json.dumps({name: asdict(figure) for name, figure in figures.items()}))
        return
    for name, figure in figures.items():
        show(name, figure, given.form, {})


def measured(ours: Call, theirs: Call, pairs: int) -> Figure:
    """Warm up, then measure alternately."""
    ours()
    rates = [(rate(ours), rate(theirs)) for _ in range(pairs)]
    return compare([pair[0] for pair in rates], [pair[1] for pair in rates], "calls/s")


if __name__ == "__main__":
    main()

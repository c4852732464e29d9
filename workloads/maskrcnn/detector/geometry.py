"""Boxes, anchors and pooling as in MLPerf's reference, expressed through torchvision's arithmetic.

The reference counts a box's last pixel as inside (`TO_REMOVE = 1`): its numbers (x1, y1, x2, y2)
are the first and the last pixel, and a width is x2 - x1 + 1. Boxes here extend to the far edge of
that pixel, (x1, y1, x2 + 1, y2 + 1). So widths, areas, overlaps, suppression, encoding, decoding
and mirroring by torchvision match the reference. Where the reference uses the numbers themselves,
for pooling, resizing and pasting, `convert_boxes_to_pixel_numbers` provides them. T:
mlcommons/training, object_detection, pytorch/maskrcnn_benchmark.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import nn

from workloads.common.detection.ops import torchvision
from workloads.common.device_constants import keep_constant_on_device

# Legend: A anchors of an image, K regions, N images, H height, W width, 4 left, top, right,
# bottom.
Tensor = torch.Tensor
AnchorBox = tuple[float, float, float, float]
detection: Any = torchvision.models.detection
MultiScaleRoIAlign: Any = torchvision.ops.MultiScaleRoIAlign
TorchvisionBoxCoder: Any = detection._utils.BoxCoder

LAST_PIXEL_WIDTH_PX: Final = 1.0  # T, TO_REMOVE: from the last pixel's index to its far edge
PYRAMID_STRIDES: Final = (4, 8, 16, 32, 64)  # T, e2e_mask_rcnn_R_50_FPN_1x.yaml: RPN.ANCHOR_STRIDE
POOLED_STRIDES: Final = PYRAMID_STRIDES[:4]  # POOLER_SCALES of ROI_BOX_HEAD and ROI_MASK_HEAD
# modeling/poolers.py, LevelMapper: canonical_scale, canonical_level
CANONICAL_SIDE_PX, CANONICAL_LEVEL = (
    224,
    4,
)
LEVEL_EPSILON: Final = 1e-6  # as above: eps


def convert_boxes_to_pixel_numbers(box_K4: Tensor) -> Tensor:
    """Convert boxes to the reference's numbers: first and last pixel."""
    return torch.cat([box_K4[..., :2], box_K4[..., 2:] - LAST_PIXEL_WIDTH_PX], dim=-1)


def convert_pixel_numbers_to_boxes(number_K4: Tensor) -> Tensor:
    """Convert the reference's numbers to boxes that extend to the far edge of their last pixel."""
    return torch.cat([number_K4[..., :2], number_K4[..., 2:] + LAST_PIXEL_WIDTH_PX], dim=-1)


def resize_boxes(box_K4: Tensor, scale_4: Tensor) -> Tensor:
    """Resize boxes with their image, by scaling their numbers (T, structures/bounding_box.py,
    resize).
    """
    return convert_pixel_numbers_to_boxes(convert_boxes_to_pixel_numbers(box_K4) * scale_4)


def clip_boxes_to_picture(box_K4: Tensor, height: int, width: int) -> Tensor:
    """Clip boxes to an image; each keeps at least a pixel of it (T, structures/bounding_box.py,
    clip_to_image).
    """
    sides = (width, height)
    ends = [
        *[(0.0, side - LAST_PIXEL_WIDTH_PX) for side in sides],
        *[(LAST_PIXEL_WIDTH_PX, float(side)) for side in sides],
    ]
    return torch.stack(
        [value.clamp(*end) for value, end in zip(box_K4.unbind(dim=-1), ends, strict=True)], dim=-1
    )


def find_anchors_inside_picture(anchor_A4: Tensor, size: Tensor) -> Tensor:
    """Return which anchors lie inside an image of that height and width (T,
    rpn/anchor_generator.py, add_visibility_to).
    """
    number_A4 = convert_boxes_to_pixel_numbers(anchor_A4)
    return (number_A4[:, :2] >= 0).all(dim=1) & (number_A4[:, 2:] < size.flip(0)).all(dim=1)


def compute_cell_anchors(stride: int, size: float, aspects: Sequence[float]) -> list[AnchorBox]:
    """Return the anchors around a cell's centre: sides are rounded at the stride's size, then
    scaled (rpn/anchor_generator.py).
    """
    shapes = [
        (width, round(width * aspect))
        for aspect in aspects
        for width in [round(math.sqrt(stride**2 / aspect))]
    ]
    halves = [(width * size / stride / 2, height * size / stride / 2) for width, height in shapes]
    return [
        (stride / 2 - across, stride / 2 - down, stride / 2 + across, stride / 2 + down)
        for across, down in halves
    ]


class PyramidAnchors(nn.Module):
    """The reference's anchors on five levels, always in fp32: half precision would shift them by
    whole pixels.
    """

    def __init__(self, sizes: Sequence[int], aspects: Sequence[float]) -> None:
        super().__init__()
        self.cells = [
            compute_cell_anchors(stride, size, aspects)
            for stride, size in zip(PYRAMID_STRIDES, sizes, strict=True)
        ]

    def forward(self, images: Any, maps: Sequence[Tensor]) -> list[Tensor]:
        """Return the anchors of each image: level by level, within a level row by row, within a
        cell aspect by aspect.
        """
        levels = [
            repeat_cell_anchors(level, stride, each)
            for level, stride, each in zip(self.cells, PYRAMID_STRIDES, maps, strict=True)
        ]
        return [torch.cat(levels)] * len(images.image_sizes)


def repeat_cell_anchors(anchors: list[AnchorBox], stride: int, map_NCHW: Tensor) -> Tensor:
    """Repeat a cell's anchors over a map."""
    rows, columns = (
        torch.arange(count, device=map_NCHW.device, dtype=torch.float32) * stride
        for count in map_NCHW.shape[-2:]
    )
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    shift_HW14 = torch.stack([across, down, across, down], dim=-1)[:, :, None]
    anchor_A4 = keep_constant_on_device(tuple(anchors), map_NCHW.device)
    return (shift_HW14 + anchor_A4).reshape(-1, 4)


class Fp32BoxCoder(TorchvisionBoxCoder):  # type: ignore[misc]  # torchvision has no types
    """Decodes in fp32, whatever precision the head uses."""

    def decode(self, rel_codes: Tensor, boxes: list[Tensor]) -> Tensor:
        """Apply deltas to boxes."""
        found: Tensor = super().decode(rel_codes.float(), boxes)
        return found


class PyramidPool(MultiScaleRoIAlign):  # type: ignore[misc]  # torchvision has no types
    """Pools between the pixels that the numbers name; the level depends on the full area."""

    def __init__(self, names: Sequence[str], bins: int, points: int) -> None:
        super().__init__(names, bins, points)
        self.scales, self.map_levels = (
            [1 / stride for stride in POOLED_STRIDES],
            choose_region_levels,
        )

    def forward(
        self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: Sequence[tuple[int, int]]
    ) -> Tensor:
        """Return [K, C, bins, bins]."""
        found: Tensor = super().forward(
            x, [convert_boxes_to_pixel_numbers(box_K4) for box_K4 in boxes], image_shapes
        )
        return found


def choose_region_levels(pixel_numbers: Sequence[Tensor]) -> Tensor:
    """Choose each region's level from its numbers: 0 for stride 4 (Lin et al. 2017, equation 1)."""
    left, top, right, bottom = convert_pixel_numbers_to_boxes(
        torch.cat(list(pixel_numbers))
    ).unbind(dim=1)
    side_K = ((right - left) * (bottom - top)).sqrt()
    level_K = (CANONICAL_LEVEL + (side_K / CANONICAL_SIDE_PX + LEVEL_EPSILON).log2()).floor()
    first = int(math.log2(POOLED_STRIDES[0]))
    return level_K.clamp(first, first + len(POOLED_STRIDES) - 1).to(torch.int64) - first

"""Default boxes of the four configurations, their matching with objects, and the encoding of
offsets.

Liu et al. 2016, arXiv:1512.02325, section 2.2; values from mlcommons/training,
single_stage_detector/ssd (300) and from
mlcommons/inference, v0.5/classification_and_detection, ssd_r34.py (1200).
"""

import math
from dataclasses import dataclass
from typing import Final

import torch

from workloads.common.detection.ops import compute_pairwise_ious

# Legend: N images of a batch, B default boxes, O objects, 4 left, top, right, bottom (or centre x,
# centre y, width, height) as fractions of the image.
Tensor = torch.Tensor

BOX_CENTRE_VARIANCE: Final = 0.1  # utils.py, dboxes300_coco: scale_xy, scale_wh
BOX_SIDE_VARIANCE: Final = 0.2
MIN_DEFAULT_BOX_IOU: Final = 0.5  # utils.py, Encoder.encode: criteria
FILLER_IOU: Final = -1.0  # below any overlap: what fills up a batch matches nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class SSDConfiguration:
    """One image size, and the parameters that depend on it."""

    name: str
    picture_px: int
    sides: tuple[int, ...]
    """Height and width of the heads' output maps."""
    steps_px: tuple[float, ...]
    """Distance between cells, in pixels of the image."""
    scales_px: tuple[float, ...]
    """Side of each map's smaller square; its larger square also depends on the next map's."""
    ratios: tuple[tuple[int, ...], ...]
    head_stride: int
    extra_strides: tuple[int, ...]
    extra_padding: tuple[int, ...]

    @property
    def boxes_per_cell(self) -> tuple[int, ...]:
        """Two squares, and each aspect ratio in both orientations."""
        return tuple(2 + 2 * len(ratios) for ratios in self.ratios)


ASPECT_RATIOS_OF_MAPS: Final = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
SCALES_300_PX: Final = (21, 45, 99, 153, 207, 261, 315)  # utils.py, dboxes300_coco

TRAINED_300: Final = SSDConfiguration(
    name="300",
    picture_px=300,
    sides=(38, 19, 10, 5, 3, 1),
    steps_px=(8, 16, 32, 64, 100, 300),
    scales_px=SCALES_300_PX,
    ratios=ASPECT_RATIOS_OF_MAPS,
    head_stride=1,
    extra_strides=(2, 2, 2, 1, 1),
    extra_padding=(1, 1, 1, 0, 0),
)
SERVED_1200: Final = SSDConfiguration(
    name="1200",
    picture_px=1200,
    sides=(50, 25, 13, 7, 3, 3),
    steps_px=tuple(
        1200 / side for side in (50, 25, 13, 7, 3, 3)
    ),  # ssd_r34.py: whole numbers of cells, 1200 // (24, 48, 92, 171, 400, 400)
    scales_px=tuple(4 * scale for scale in SCALES_300_PX),
    ratios=ASPECT_RATIOS_OF_MAPS,
    head_stride=3,
    extra_strides=(2, 2, 2, 2, 1),
    extra_padding=(1, 1, 1, 0, 0),
)
SMALL_128: Final = SSDConfiguration(
    name="128",
    picture_px=128,
    sides=(16, 8, 4, 2, 1, 1),
    steps_px=(8, 16, 32, 64, 128, 128),
    scales_px=tuple(
        scale * 128 / 300 for scale in SCALES_300_PX
    ),  # house rule: boxes cover the same fraction of the image as at 300
    ratios=ASPECT_RATIOS_OF_MAPS,
    head_stride=1,
    extra_strides=(2, 2, 2, 2, 1),
    extra_padding=(1, 1, 1, 1, 1),
)
SMOKE_64: Final = SSDConfiguration(
    name="64",
    picture_px=64,
    sides=(8, 4, 2, 1, 1, 1),
    steps_px=(8, 16, 32, 64, 64, 64),
    scales_px=(
        12,
        22,
        32,
        42,
        52,
        60,
        64,
    ),  # house rule: of the sizes that objects of the embedded scenes have, whole and in crops
    ratios=ASPECT_RATIOS_OF_MAPS,
    head_stride=1,
    extra_strides=(2, 2, 2, 2, 1),
    extra_padding=(1, 1, 1, 1, 1),
)
SSD_CONFIGURATIONS: Final = {
    each.name: each for each in (TRAINED_300, SERVED_1200, SMALL_128, SMOKE_64)
}


def build_default_boxes(configuration: SSDConfiguration) -> Tensor:
    """Return the default boxes, [B, 4] centre and sides, clipped to the image; ordered by map,
    shape, row.
    """
    maps = zip(
        configuration.sides, configuration.steps_px, compute_box_shapes(configuration), strict=True
    )
    boxes_of_maps = [
        build_map_boxes(side, step / configuration.picture_px, shapes_S2)
        for side, step, shapes_S2 in maps
    ]
    return torch.cat(boxes_of_maps).clamp(0, 1).float()


def compute_box_shapes(configuration: SSDConfiguration) -> list[Tensor]:
    """Return width and height of each map's boxes as fractions of the image, [S, 2]."""
    scales = [scale / configuration.picture_px for scale in configuration.scales_px]
    shapes_of_maps = []
    for ratios, small, next_scale in zip(configuration.ratios, scales, scales[1:], strict=False):
        large = math.sqrt(small * next_scale)
        pairs = [(small, small), (large, large)]
        for ratio in ratios:
            long, short = small * math.sqrt(ratio), small / math.sqrt(ratio)
            pairs += [(long, short), (short, long)]
        shapes_of_maps.append(torch.tensor(pairs, dtype=torch.float64))
    return shapes_of_maps


def build_map_boxes(side: int, step: float, shapes_S2: Tensor) -> Tensor:
    """Place every shape in the centre of every cell of a map."""
    centre = (torch.arange(side, dtype=torch.float64) + 0.5) * step
    y, x = torch.meshgrid(centre, centre, indexing="ij")
    cells = torch.stack([x.flatten(), y.flatten()], dim=1)
    return torch.cat(
        [cells.repeat(len(shapes_S2), 1), shapes_S2.repeat_interleave(len(cells), dim=0)], dim=1
    )


def convert_centred_to_corners(centred: Tensor) -> Tensor:
    """Convert centre and sides to left, top, right, bottom."""
    half = centred[..., 2:] / 2
    return torch.cat([centred[..., :2] - half, centred[..., :2] + half], dim=-1)


def convert_corners_to_centred(corners: Tensor) -> Tensor:
    """Convert left, top, right, bottom to centre and sides."""
    return torch.cat(
        [(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], dim=-1
    )


def encode_box_offsets(box_B4: Tensor, default_B4: Tensor) -> Tensor:
    """Compute offsets from default boxes (centred) to boxes (left, top, right, bottom)."""
    centred_B4 = convert_corners_to_centred(box_B4)
    centre_B2 = (
        (centred_B4[..., :2] - default_B4[..., :2]) / default_B4[..., 2:] / BOX_CENTRE_VARIANCE
    )
    return torch.cat(
        [centre_B2, (centred_B4[..., 2:] / default_B4[..., 2:]).log() / BOX_SIDE_VARIANCE], dim=-1
    )


def decode_box_offsets(offset_B4: Tensor, default_B4: Tensor) -> Tensor:
    """Compute boxes (left, top, right, bottom) from offsets and default boxes (centred)."""
    centre_B2 = offset_B4[..., :2] * BOX_CENTRE_VARIANCE * default_B4[..., 2:] + default_B4[..., :2]
    return convert_centred_to_corners(
        torch.cat(
            [centre_B2, (offset_B4[..., 2:] * BOX_SIDE_VARIANCE).exp() * default_B4[..., 2:]],
            dim=-1,
        )
    )


def match_default_boxes(
    box_NO4: Tensor, label_NO: Tensor, default_B4: Tensor
) -> tuple[Tensor, Tensor]:
    """Match default boxes with the objects of each image: offsets [N, B, 4] and labels [N, B], 0
    for the background. Label 0 marks what only fills up an image's objects.

    An object gets its best default box, and all boxes that overlap it by more than a half and more
    than any other object. Of two objects with the same best box, the last one gets it.
    """
    real_NO = label_NO > 0
    overlap_NOB = compute_pairwise_ious(
        box_NO4, convert_centred_to_corners(default_B4)
    ).masked_fill_(~real_NO[..., None], FILLER_IOU)
    best_NB, object_NB = overlap_NOB.max(dim=1)
    number_NO = torch.arange(label_NO.shape[1], device=label_NO.device).where(real_NO, -1)
    forced_NB = torch.full_like(object_NB, -1).scatter_reduce_(
        1, overlap_NOB.argmax(dim=2), number_NO, "amax"
    )
    object_NB = torch.where(forced_NB >= 0, forced_NB, object_NB)
    matched_NB = (forced_NB >= 0) | (best_NB > MIN_DEFAULT_BOX_IOU)
    label_NB = label_NO.gather(1, object_NB).where(matched_NB, 0)
    box_NB4 = box_NO4.gather(1, object_NB[..., None].expand(-1, -1, 4))
    offset_NB4 = encode_box_offsets(box_NB4, default_B4).where(label_NB[..., None] > 0, 0.0)
    return offset_NB4, label_NB

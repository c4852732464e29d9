"""Boxes, anchors and pooling against the reference's own formulas, written with its `TO_REMOVE` of
a pixel.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torchvision.models.detection.rpn import RPNHead

from workloads.common.detection.ops import torchvision
from workloads.maskrcnn import data, model
from workloads.maskrcnn.detector import geometry, inference_pipeline

CHANNELS = 4
ASPECTS = (0.5, 1.0, 2.0)
SIZES = (32, 64, 128, 256, 512)
CELLS = {
    4: [(-22, -10, 25, 13), (-14, -14, 17, 17), (-10, -22, 13, 25)],
    8: [(-40, -20, 47, 27), (-28, -28, 35, 35), (-20, -44, 27, 51)],
    16: [(-84, -40, 99, 55), (-56, -56, 71, 71), (-36, -80, 51, 95)],
    32: [(-164, -72, 195, 103), (-112, -112, 143, 143), (-76, -168, 107, 199)],
    64: [(-332, -152, 395, 215), (-224, -224, 287, 287), (-148, -328, 211, 391)],
}
"""Stride, and what generate_anchors of T, rpn/anchor_generator.py, gives for it and the size eight
times as large.
"""


def drawn(count: int, seed: int) -> torch.Tensor:
    """Numbers of boxes, first and last pixel, some of one pixel."""
    random = torch.Generator().manual_seed(seed)
    first, more = (
        torch.rand(count, 2, generator=random) * 200,
        torch.rand(count, 2, generator=random) ** 3 * 300,
    )
    return torch.cat([first, first + more], dim=1)


def sides(number_N4: torch.Tensor) -> torch.Tensor:
    """T, structures/bounding_box.py: x2 - x1 + TO_REMOVE."""
    return number_N4[:, 2:] - number_N4[:, :2] + 1


def images(count: int, height: int, width: int) -> Any:
    return torchvision.models.detection.image_list.ImageList(
        torch.zeros(count, 3, height, width), [(height, width)] * count
    )


def test_anchors_are_the_reference_s() -> None:
    """Five levels of a padded 800 x 1,344: first cell, last cell, order. The last map has 13 rows
    for 12.5 strides; its stride is 64 still.
    """
    maps = [
        torch.zeros(1, 1, math.ceil(800 / stride), math.ceil(1344 / stride))
        for stride in geometry.PYRAMID_STRIDES
    ]
    first, second = geometry.PyramidAnchors(SIZES, ASPECTS)(images(2, 800, 1344), maps)
    assert torch.equal(first, second) and first.dtype is torch.float32
    counts = [len(ASPECTS) * each.shape[2] * each.shape[3] for each in maps]
    assert len(first) == sum(counts) == 268_569
    for (stride, cells), number_A4, each in zip(
        CELLS.items(),
        geometry.convert_boxes_to_pixel_numbers(first).split(counts),
        maps,
        strict=True,
    ):
        wanted, rows, columns = (
            torch.tensor(cells, dtype=torch.float32),
            each.shape[2],
            each.shape[3],
        )
        assert torch.equal(number_A4[:3], wanted)
        assert torch.equal(number_A4[3:6], wanted + torch.tensor([stride, 0, stride, 0]))
        assert torch.equal(
            number_A4[3 * columns : 3 * columns + 3], wanted + torch.tensor([0, stride, 0, stride])
        )
        assert torch.equal(
            number_A4[-3:], wanted + torch.tensor([(columns - 1) * stride, (rows - 1) * stride] * 2)
        )


def test_the_published_anchors_of_faster_r_cnn() -> None:
    """The table in the reference's own comment: stride 16, sizes 128, 256, 512; counted from 1
    there.
    """
    table = [
        (-83, -39, 100, 56),
        (-175, -87, 192, 104),
        (-359, -183, 376, 200),
        (-55, -55, 72, 72),
        (-119, -119, 136, 136),
    ]
    table += [
        (-247, -247, 264, 264),
        (-35, -79, 52, 96),
        (-79, -167, 96, 184),
        (-167, -343, 184, 360),
    ]
    found = [
        geometry.compute_cell_anchors(16, size, (aspect,))[0]
        for aspect in ASPECTS
        for size in (128, 256, 512)
    ]
    assert [
        tuple(
            value + 1
            for value in geometry.convert_boxes_to_pixel_numbers(torch.tensor(box)).tolist()
        )
        for box in found
    ] == table


def test_overlaps_and_areas_count_the_last_pixel() -> None:
    """T, structures/boxlist_ops.py, boxlist_iou."""
    one, other = drawn(30, 1), drawn(40, 2)
    shared = (
        (torch.min(one[:, None, 2:], other[:, 2:]) - torch.max(one[:, None, :2], other[:, :2]) + 1)
        .clamp(min=0)
        .prod(dim=2)
    )
    wanted = shared / (sides(one).prod(dim=1)[:, None] + sides(other).prod(dim=1) - shared)
    torch.testing.assert_close(
        torchvision.ops.box_iou(
            geometry.convert_pixel_numbers_to_boxes(one),
            geometry.convert_pixel_numbers_to_boxes(other),
        ),
        wanted,
    )


def test_coding_counts_the_last_pixel() -> None:
    """T, modeling/box_coder.py: the decoded x2 is the centre, and half a width, less 1."""
    anchor, wanted = drawn(30, 3), drawn(30, 4)
    coder = geometry.Fp32BoxCoder((10.0, 10.0, 5.0, 5.0))
    delta = coder.encode_single(
        geometry.convert_pixel_numbers_to_boxes(wanted),
        geometry.convert_pixel_numbers_to_boxes(anchor),
    )
    centre, other = (box[:, :2] + 0.5 * sides(box) for box in (anchor, wanted))
    torch.testing.assert_close(
        delta,
        torch.cat(
            [10 * (other - centre) / sides(anchor), 5 * (sides(wanted) / sides(anchor)).log()],
            dim=1,
        ),
    )
    decoded = geometry.convert_boxes_to_pixel_numbers(
        coder.decode(delta, [geometry.convert_pixel_numbers_to_boxes(anchor)])[:, 0]
    )
    size = (delta[:, 2:] / 5).clamp(max=math.log(1000 / 16)).exp() * sides(anchor)
    middle = delta[:, :2] / 10 * sides(anchor) + centre
    torch.testing.assert_close(
        decoded,
        torch.cat([middle - 0.5 * size, middle + 0.5 * size - 1], dim=1),
        rtol=1e-4,
        atol=1e-3,
    )


def test_cutting_keeps_a_pixel() -> None:
    """T, structures/bounding_box.py, clip_to_image: numbers from 0 to the side less 1."""
    number = torch.tensor(
        [[-5.0, -9.0, -2.0, 30.0], [90.0, 3.0, 120.0, 8.0], [10.5, 49.5, 60.0, 80.0]]
    )
    wanted = torch.stack(
        [
            number[:, 0].clamp(0, 69),
            number[:, 1].clamp(0, 49),
            number[:, 2].clamp(0, 69),
            number[:, 3].clamp(0, 49),
        ],
        dim=1,
    )
    assert torch.equal(
        geometry.convert_boxes_to_pixel_numbers(
            geometry.clip_boxes_to_picture(geometry.convert_pixel_numbers_to_boxes(number), 50, 70)
        ),
        wanted,
    )


def test_anchors_over_the_edge() -> None:
    """RPN.STRADDLE_THRESH 0: the last pixel is inside, the next is not."""
    number = torch.tensor(
        [
            [0.0, 0.0, 39.0, 19.0],
            [-1.0, 0.0, 9.0, 9.0],
            [2.0, 2.0, 40.0, 19.0],
            [2.0, 2.0, 30.0, 19.5],
            [2.0, 2.0, 30.0, 20.0],
        ]
    )
    assert geometry.find_anchors_inside_picture(
        geometry.convert_pixel_numbers_to_boxes(number), torch.tensor([20, 40])
    ).tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("side", "level"),
    [(1, 0), (111, 0), (112, 1), (223, 1), (224, 2), (447, 2), (448, 3), (3000, 3)],
)
def test_levels_follow_from_the_whole_side(side: int, level: int) -> None:
    """T, modeling/poolers.py: 224 pixels, the last one counted, are the first of stride 16."""
    assert geometry.choose_region_levels(
        [torch.tensor([[5.0, 7.0, 5.0 + side - 1, 7.0 + side - 1]])]
    ).tolist() == [level]


def test_pooling_takes_the_numbers() -> None:
    """Each region from its level, between its first and its last pixel."""
    names = ("0", "1", "2", "3")
    maps = {
        name: torch.rand(2, 3, 256 // stride, 256 // stride)
        for name, stride in zip(names, geometry.POOLED_STRIDES, strict=True)
    }
    boxes = [
        torch.tensor([[4.0, 9.0, 60.0, 40.0], [0.0, 0.0, 129.0, 150.0]]),
        torch.tensor([[8.0, 8.0, 248.0, 250.0]]),
    ]
    found = geometry.PyramidPool(names, 7, 2)(
        maps, [geometry.convert_pixel_numbers_to_boxes(box) for box in boxes], [(256, 256)] * 2
    )
    for place, (picture, level, number) in enumerate(
        [(0, "0", boxes[0][0]), (0, "1", boxes[0][1]), (1, "2", boxes[1][0])]
    ):
        wanted = torchvision.ops.roi_align(
            maps[level][picture : picture + 1],
            [number[None]],
            7,
            1 / geometry.POOLED_STRIDES[int(level)],
            2,
        )
        torch.testing.assert_close(found[place], wanted[0])


def test_resizing_multiplies_the_numbers() -> None:
    """T, structures/bounding_box.py, resize."""
    number, scale = drawn(9, 5), torch.tensor([1.7, 0.6] * 2)
    torch.testing.assert_close(
        geometry.convert_boxes_to_pixel_numbers(
            geometry.resize_boxes(geometry.convert_pixel_numbers_to_boxes(number), scale)
        ),
        number * scale,
    )


def test_a_mirrored_box_counts_its_last_pixel() -> None:
    """T, structures/bounding_box.py, transpose: x1 becomes width - x2 - 1."""
    number = drawn(5, 6)
    empty = torch.zeros(0)
    sample = data.AnnotatedPicture(
        picture_HWC=torch.zeros(4, 640, 3),
        box_O4=geometry.convert_pixel_numbers_to_boxes(number),
        label_O=empty,
        mask_OFG=torch.zeros(5, 4, 640),
        mask_row_H=torch.arange(4),
        mask_column_W=torch.arange(640),
        weight=1.0,
    )
    found = geometry.convert_boxes_to_pixel_numbers(data.apply_horizontal_flip(sample).box_O4)
    torch.testing.assert_close(found[:, 0], 640 - number[:, 2] - 1)
    torch.testing.assert_close(found[:, 2], 640 - number[:, 0] - 1)


def test_detections_are_resized_by_their_numbers() -> None:
    """T, coco_eval.py: resized, then widths counted; a box of the whole resized picture is a little
    less than the whole picture.
    """
    box = geometry.convert_pixel_numbers_to_boxes(torch.tensor([[10.0, 20.0, 59.0, 79.0]]))
    raw = inference_pipeline.RawDetections(
        box_D4=box,
        label_D=torch.ones(1, dtype=torch.int64),
        score_D=torch.ones(1),
        mask_DMM=torch.ones(1, 28, 28),
    )
    found = inference_pipeline.convert_raw_detections(raw, (100, 140), (50, 70))
    assert found.box_D4[0].tolist() == pytest.approx(
        [5 / 70, 10 / 50, (29.5 + 1) / 70, (39.5 + 1) / 50]
    )


@pytest.mark.slow
def test_half_precision_moves_no_box(
    described: model.MaskRCNNDescription, few: model.RegionCounts
) -> None:
    """Under autocast the heads give bf16, whose numbers above 256 are two pixels apart; anchors and
    proposals stay in fp32.
    """
    torch.manual_seed(1)
    rpn = model.MaskRCNNNetwork(replace(described, anchor_sizes=SIZES), few).rpn.eval()
    rpn.head = RPNHead(
        CHANNELS, len(ASPECTS)
    )  # few: processors without bf16 take minutes for 256 at this size
    maps = {
        str(level): torch.rand(1, CHANNELS, math.ceil(640 / stride), math.ceil(640 / stride))
        for level, stride in enumerate(geometry.PYRAMID_STRIDES)
    }
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert rpn.head(list(maps.values()))[0][0].dtype is torch.bfloat16
        (boxes,), _ = rpn(images(1, 640, 640), maps)
    assert boxes.dtype is torch.float32
    assert not torch.equal(boxes, boxes.bfloat16().float())

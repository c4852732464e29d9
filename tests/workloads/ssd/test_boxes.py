"""Default boxes as the two references have them; matching; offsets and back."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.common.detection.ops import compute_pairwise_ious
from workloads.ssd.detector.default_boxes import (
    SERVED_1200,
    SMALL_128,
    SMOKE_64,
    SSD_CONFIGURATIONS,
    TRAINED_300,
    SSDConfiguration,
    build_default_boxes,
    convert_centred_to_corners,
    convert_corners_to_centred,
    decode_box_offsets,
    encode_box_offsets,
    match_default_boxes,
)

ALL = list(SSD_CONFIGURATIONS.values())


@pytest.mark.parametrize(
    ("configuration", "count"),
    [(TRAINED_300, 8732), (SERVED_1200, 15130), (SMALL_128, 1536), (SMOKE_64, 390)],
)
def test_counts_are_pinned(configuration: SSDConfiguration, count: int) -> None:
    """8,732 and 15,130 are MLPerf's; one more or less and no published weights would fit."""
    assert build_default_boxes(configuration).shape == (count, 4)


def plain_boxes(configuration: SSDConfiguration) -> list[tuple[float, ...]]:
    """The paper's boxes, one by one."""
    found = []
    for number, side in enumerate(configuration.sides):
        small, after = (
            configuration.scales_px[number + offset] / configuration.picture_px for offset in (0, 1)
        )
        shapes = [(small, small), (math.sqrt(small * after),) * 2]
        for ratio in configuration.ratios[number]:
            shapes += [
                (small * math.sqrt(ratio), small / math.sqrt(ratio)),
                (small / math.sqrt(ratio), small * math.sqrt(ratio)),
            ]
        step = configuration.steps_px[number] / configuration.picture_px
        for width, height in shapes:
            for row in range(side):
                for column in range(side):
                    found.append(
                        tuple(
                            min(max(value, 0.0), 1.0)
                            for value in ((column + 0.5) * step, (row + 0.5) * step, width, height)
                        )
                    )
    return found


@pytest.mark.parametrize("configuration", ALL, ids=lambda each: each.name)
def test_boxes_are_the_paper_s(configuration: SSDConfiguration) -> None:
    """Places, shapes and order: the order is that of the heads' channels."""
    assert torch.allclose(
        build_default_boxes(configuration), torch.tensor(plain_boxes(configuration)), atol=1e-6
    )


def test_some_boxes_of_the_trained_configuration() -> None:
    """Pinned by hand: the first, the second square, the last."""
    boxes = build_default_boxes(TRAINED_300)
    assert boxes[0].tolist() == pytest.approx([4 / 300, 4 / 300, 21 / 300, 21 / 300])
    assert boxes[38 * 38].tolist() == pytest.approx(
        [4 / 300, 4 / 300, math.sqrt(21 * 45) / 300, math.sqrt(21 * 45) / 300]
    )
    assert boxes[-1].tolist() == pytest.approx([0.5, 0.5, 261 / math.sqrt(2) / 300, 1.0])


def random_boxes(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    place, side = (
        torch.rand(count, 2, generator=generator) * 0.7,
        torch.rand(count, 2, generator=generator) * 0.28 + 0.02,
    )
    return torch.cat([place, place + side], dim=1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(ALL))
def test_offsets_lead_back(seed: int, configuration: SSDConfiguration) -> None:
    """Whatever box and default box: encoded and decoded it is itself."""
    default = build_default_boxes(configuration)
    default = default[
        torch.randint(len(default), (50,), generator=torch.Generator().manual_seed(seed))
    ]
    boxes = random_boxes(50, seed)
    assert torch.allclose(
        decode_box_offsets(encode_box_offsets(boxes, default), default), boxes, atol=1e-5
    )
    assert torch.allclose(
        convert_centred_to_corners(convert_corners_to_centred(boxes)), boxes, atol=1e-6
    )


def test_an_offset_by_hand() -> None:
    """Variances 0.1 and 0.2: forgotten or swapped, published weights would put boxes elsewhere."""
    default, box = torch.tensor([[0.5, 0.5, 0.2, 0.4]]), torch.tensor([[0.42, 0.32, 0.62, 0.72]])
    assert encode_box_offsets(box, default)[0].tolist() == pytest.approx(
        [1.0, 0.5, 0.0, 0.0], abs=1e-5
    )
    wider = torch.tensor([[0.5 - 0.1 * math.e, 0.3, 0.5 + 0.1 * math.e, 0.7]])
    assert encode_box_offsets(wider, default)[0].tolist() == pytest.approx(
        [0.0, 0.0, 5.0, 0.0], abs=1e-5
    )


def overlap(one: list[float], other: list[float]) -> float:
    """Of two boxes, as one would write it down."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared)


@pytest.mark.parametrize("seed", range(4))
def test_matching_is_the_plain_one(seed: int) -> None:
    """Each object has its best default box; a default box has the object that it overlaps most, if
    by more than a half.
    """
    default = build_default_boxes(SMALL_128)
    boxes, labels = random_boxes(5, seed), torch.tensor([1, 2, 3, 1, 2])
    (offsets,), (found,) = match_default_boxes(boxes[None], labels[None], default)
    table = [
        [overlap(box, each) for each in convert_centred_to_corners(default).tolist()]
        for box in boxes.tolist()
    ]
    own = {
        max(range(len(default)), key=row.__getitem__): number for number, row in enumerate(table)
    }
    for place in range(len(default)):
        best = max(range(5), key=lambda number: table[number][place])
        expected = own.get(place, best if table[best][place] > 0.5 else None)
        assert int(found[place]) == (0 if expected is None else int(labels[expected]))
        if expected is not None:
            assert torch.allclose(
                decode_box_offsets(offsets[place], default[place]), boxes[expected], atol=1e-5
            )


def test_a_picture_without_objects_is_all_background() -> None:
    """One filler, which is no object."""
    (offsets,), (found,) = match_default_boxes(
        torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.int64), build_default_boxes(SMALL_128)
    )
    assert not offsets.any() and not found.any() and len(found) == 1536


def match_in_one_picture(
    boxes: torch.Tensor, labels: torch.Tensor, default: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Match without a batch and without fillers, object after object."""
    if not len(labels):
        return torch.zeros(len(default), 4), torch.zeros(len(default), dtype=torch.int64)
    overlaps = compute_pairwise_ious(boxes, convert_centred_to_corners(default))
    best, owner = overlaps.max(dim=0)
    for number, place in enumerate(overlaps.argmax(dim=1).tolist()):
        best[place], owner[place] = 2.0, number
    found = torch.where(best > 0.5, labels[owner], 0)
    offsets = torch.where(found[:, None] > 0, encode_box_offsets(boxes[owner], default), 0.0)
    return offsets, found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("configuration", [TRAINED_300, SMOKE_64], ids=lambda each: each.name)
def test_a_batch_is_matched_as_each_picture_alone(
    configuration: SSDConfiguration, seed: int
) -> None:
    """Bit for bit: of different numbers of objects, none among them, twins that want the same
    default box, and boxes without area.
    """
    default, random = build_default_boxes(configuration), torch.Generator().manual_seed(seed)
    counts = [5, 0, 1, 13, 2]
    pictures = [random_boxes(count, 10 * seed + count) for count in counts]
    pictures[3][4] = pictures[3][7] = pictures[3][1]
    pictures[0][2, 2:] = pictures[0][2, :2]
    labels = [torch.randint(1, 4, (count,), generator=random) for count in counts]
    box_NO4, label_NO = (
        torch.nn.utils.rnn.pad_sequence(each, batch_first=True) for each in (pictures, labels)
    )
    found = match_default_boxes(box_NO4, label_NO, default)
    for number, each in enumerate(zip(pictures, labels, strict=True)):
        wanted = match_in_one_picture(*each, default)
        assert torch.equal(found[0][number], wanted[0]) and torch.equal(found[1][number], wanted[1])

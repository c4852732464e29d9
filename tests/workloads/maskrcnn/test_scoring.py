"""Answers there and back, and what is no answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_scores import check_whole_score

from workloads.common.detection import coco, rle
from workloads.common.detection.coco import CocoImage
from workloads.maskrcnn import scoring

PICTURE = CocoImage(id=1, file_name="1.jpg", width=40, height=30)


def found(count: int = 2, **other: Any) -> scoring.MaskedDetections:
    mask = np.zeros((count, 30, 40), dtype=np.uint8)
    mask[:, 5:20, 8:30] = 1
    values: dict[str, Any] = {
        "box_D4": np.tile(np.array([0.2, 0.25, 0.75, 0.5], dtype=np.float32), (count, 1)),
        "score_D": np.linspace(0.9, 0.5, count, dtype=np.float32),
        "label_D": np.arange(1, count + 1),
        "mask_D": rle.encode_masks(mask),
    }
    return scoring.MaskedDetections(**(values | other))


def perfect(tiny: Path, **changed: Any) -> dict[int, bytes]:
    """Answer with the truth itself."""
    split = coco.read_coco_split(tiny, "val")
    answers = {}
    for index in range(len(split)):
        objects = split.build_trainable_objects(index)
        objects = objects.select_objects(~objects.crowd_O)
        height, width = split.get_picture_size(index)
        values: dict[str, Any] = {
            "box_D4": objects.box_O4 / np.array([width, height] * 2, dtype=np.float32),
            "score_D": np.ones(len(objects), dtype=np.float32),
            "label_D": objects.label_O,
            "mask_D": rle.encode_masks(split.decode_object_masks(index, objects)),
        }
        answers[index] = scoring.pack_maskrcnn_answer(
            index,
            scoring.MaskedDetections(
                **(values | {key: change(values[key]) for key, change in changed.items()})
            ),
        )
    return answers


@pytest.fixture
def truth(tiny: Path, tmp_path: Path) -> Path:
    coco.write_coco_truth(coco.read_coco_split(tiny, "val"), tmp_path)
    return tmp_path


def test_the_truth_scores_one(tiny: Path, truth: Path) -> None:
    """Crowds and all: nothing is lost on the way through bytes."""
    assert scoring.score(perfect(tiny), truth) == pytest.approx({"box_ap": 1.0, "mask_ap": 1.0})


def test_boxes_and_masks_are_scored_apart(tiny: Path, truth: Path) -> None:
    """Wrong masks leave the boxes right, and the other way round."""
    masks = scoring.score(perfect(tiny, box_D4=lambda boxes: boxes * 0.5), truth)
    boxes = scoring.score(
        perfect(
            tiny,
            mask_D=lambda masks: [
                rle.encode_masks([1 - 0 * mask_of(mask, truth)])[0] for mask in masks
            ],
        ),
        truth,
    )
    assert masks["mask_ap"] == pytest.approx(1.0) and masks["box_ap"] < 0.5
    assert boxes["box_ap"] == pytest.approx(1.0) and boxes["mask_ap"] < 0.5


def mask_of(mask: bytes, truth: Path) -> Any:
    """Draw a mask of any of the sizes that the tiny pictures have."""
    pixels = int(rle.decode_run_lengths(mask).sum())
    size = {64 * 64: (64, 64), 64 * 48: (64, 48)}[pixels]
    return rle.decode_segmentation_mask(rle.RunLengths(size=size, counts=mask.decode()), *size)


def test_missing_answers_count(tiny: Path, truth: Path) -> None:
    """All pictures count, not those alone that were answered."""
    answers = perfect(tiny)
    whole = scoring.score(answers, truth)["box_ap"]
    del answers[0]
    assert scoring.score(answers, truth)["box_ap"] < whole


def test_an_answer_comes_back() -> None:
    """Rows in MLPerf's order: sample, top, left, bottom, right, score, label."""
    rows, masks = scoring.unpack_maskrcnn_answer(
        scoring.pack_maskrcnn_answer(3, found()), 3, PICTURE, 3
    )
    assert rows[0].tolist() == pytest.approx([3, 0.25, 0.2, 0.5, 0.75, 0.9, 1])
    assert masks == list(found().mask_D)


def test_no_detection_is_still_an_answer() -> None:
    """The judge takes an empty answer for a missing one."""
    answer = scoring.pack_maskrcnn_answer(0, found(0))
    assert len(answer) == 4
    assert scoring.unpack_maskrcnn_answer(answer, 0, PICTURE, 3)[1] == []


@pytest.mark.parametrize(
    "other",
    [
        {"label_D": np.array([0, 9])},
        {"box_D4": np.full((2, 4), np.nan, dtype=np.float32)},
        {"box_D4": np.tile(np.array([0.7, 0.2, 0.1, 0.5], dtype=np.float32), (2, 1))},
        {"mask_D": [b"00", b"\xff\xff"]},
    ],
)
def test_what_is_no_detection_is_left_out(other: dict[str, Any]) -> None:
    """No such label, no number, no area, run lengths of another picture: none reaches the C++ that
    computes AP.
    """
    rows, masks = scoring.unpack_maskrcnn_answer(
        scoring.pack_maskrcnn_answer(0, found(**other)), 0, PICTURE, 3
    )
    assert len(rows) == len(masks) == 0


def test_another_sample_s_answer_is_none() -> None:
    """Swapped answers find nothing."""
    assert (
        len(
            scoring.unpack_maskrcnn_answer(scoring.pack_maskrcnn_answer(1, found()), 2, PICTURE, 3)[
                0
            ]
        )
        == 0
    )


@given(answer=st.binary(max_size=120))
def test_any_bytes_are_read(answer: bytes) -> None:
    """The judge runs this on what others hand in."""
    rows, masks = scoring.unpack_maskrcnn_answer(answer, 0, PICTURE, 3)
    assert len(rows) == len(masks)


@pytest.mark.parametrize("cut", [1, 4, 20, 60])
def test_cut_off_answers_are_none(cut: int) -> None:
    """Lengths that do not add up say that something is missing."""
    assert scoring.split_maskrcnn_answer(scoring.pack_maskrcnn_answer(0, found())[:-cut]) is None


def test_the_sampler_gives_the_score(tiny: Path, truth: Path) -> None:
    """Boxes and masks."""
    answers = perfect(tiny)
    check_whole_score(scoring.score, scoring.sample_maskrcnn_scores, answers, truth)
    del answers[0]
    check_whole_score(scoring.score, scoring.sample_maskrcnn_scores, answers, truth)

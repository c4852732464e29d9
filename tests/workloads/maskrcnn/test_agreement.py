"""Which answers may come from one model, and which may not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.common.detection import rle
from workloads.maskrcnn.agreement import agree
from workloads.maskrcnn.scoring import MaskedDetections, pack_maskrcnn_answer

SIDE = 40


def answer(
    sample: int = 3,
    *,
    score: float = 0.9,
    left: float = 0.1,
    label: int = 1,
    rows: int = 20,
    count: int = 2,
) -> bytes:
    """Two detections; the first is changed by the test."""
    mask = np.zeros((2, SIDE, SIDE), dtype=np.uint8)
    mask[0, 4 : 4 + rows, 4:24], mask[1, 20:36, 20:36] = 1, 1
    values: dict[str, Any] = {
        "box_D4": np.array([[left, 0.1, 0.6, 0.6], [0.5, 0.5, 0.9, 0.9]], dtype=np.float32)[:count],
        "score_D": np.array([score, 0.7], dtype=np.float32)[:count],
        "label_D": np.array([label, 2])[:count],
        "mask_D": rle.encode_masks(mask[:count]),
    }
    return pack_maskrcnn_answer(sample, MaskedDetections(**values))


@pytest.mark.parametrize(
    ("other", "held"),
    [
        (answer(), True),
        (answer(score=0.88), True),
        (answer(left=0.104), True),
        (answer(rows=21), True),
        (answer(score=0.7), False),
        (answer(left=0.45), False),
        (answer(label=3), False),
        (answer(rows=6), False),
        (answer(rows=0), False),
        (answer(count=1), False),
        (answer(count=0), False),
        (answer(sample=4), False),
        (answer(score=float("nan")), False),
        (answer()[:-1], False),
        (b"", False),
    ],
)
def test_small_differences_are_one_model_s(other: bytes, held: bool) -> None:
    """Scores, boxes and masks that move a little; not another class, place or sample, and not boxes
    whose masks were left out.
    """
    assert agree(answer(), other) is held
    assert agree(other, answer()) is held


@given(answers=st.lists(st.binary(max_size=80), min_size=2, max_size=2))
def test_any_bytes_are_compared(answers: list[bytes]) -> None:
    """The judge compares anybody's."""
    assert agree(*answers) in (True, False)

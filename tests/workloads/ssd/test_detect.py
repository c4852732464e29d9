"""From scores and offsets to answers: thresholds, suppression by class, limits, bytes."""

import struct

import pytest
import torch

from workloads.ssd.detector import postprocessing
from workloads.ssd.detector.default_boxes import SMALL_128, build_default_boxes, encode_box_offsets

DEFAULT = build_default_boxes(SMALL_128)


def logits(*scores: tuple[int, int, float]) -> torch.Tensor:
    """One picture's logits, 4 classes: background everywhere, but these (box, class) of that
    probability.
    """
    share = torch.full((1, len(DEFAULT), 4), 1e-6)
    share[..., 0] = 1.0
    for box, label, score in scores:
        share[0, box, label], share[0, box, 0] = score, 1 - score
    return share.log()


def found(offset: torch.Tensor, logit: torch.Tensor, sample: int = 7) -> list[tuple[float, ...]]:
    (answer,) = postprocessing.encode_ssd_answers([sample], offset, logit, DEFAULT)
    return list(struct.iter_unpack("<7f", answer))


def plain(count: int = 1) -> torch.Tensor:
    return torch.zeros(count, len(DEFAULT), 4)


def test_an_answer_is_seven_floats_a_detection() -> None:
    """Sample, top, left, bottom, right as shares, score, label: MLPerf's order."""
    offset = plain()
    offset[0, 400] = encode_box_offsets(torch.tensor([[0.1, 0.2, 0.5, 0.4]]), DEFAULT[400:401])[0]
    ((sample, top, left, bottom, right, score, label),) = found(offset, logits((400, 3, 0.8)))
    assert (sample, label) == (7.0, 3.0) and score == pytest.approx(0.8, abs=1e-4)
    assert (top, left, bottom, right) == pytest.approx((0.2, 0.1, 0.4, 0.5), abs=1e-5)


def test_scores_below_the_threshold_are_not_told() -> None:
    """0.05, as the reference has it."""
    assert [
        round(row[5], 3) for row in found(plain(), logits((10, 1, 0.051), (700, 2, 0.049)))
    ] == [0.051]


def test_a_worse_box_of_the_same_class_is_suppressed() -> None:
    """And one of another class, or one that lies elsewhere, is not; the best comes first."""
    offset = plain()
    box = torch.tensor([[0.2, 0.2, 0.6, 0.6]])
    for place in (100, 101, 102):
        offset[0, place] = encode_box_offsets(box, DEFAULT[place : place + 1])[0]
    offset[0, 103] = encode_box_offsets(torch.tensor([[0.7, 0.7, 0.9, 0.9]]), DEFAULT[103:104])[0]
    rows = found(offset, logits((100, 1, 0.6), (101, 1, 0.9), (102, 2, 0.5), (103, 1, 0.7)))
    assert [(round(row[5], 1), int(row[6])) for row in rows] == [(0.9, 1), (0.7, 1), (0.5, 2)]


def test_boxes_that_lie_diagonally_apart_do_not_suppress_one_another() -> None:
    """MLPerf's inference reference gives them an overlap, the product of two negative sides."""
    offset = plain()
    for place, corner in ((100, 0.0), (101, 0.8)):
        offset[0, place] = encode_box_offsets(
            torch.tensor([[corner, corner, corner + 0.05, corner + 0.05]]),
            DEFAULT[place : place + 1],
        )[0]
    assert len(found(offset, logits((100, 1, 0.9), (101, 1, 0.8)))) == 2


def test_there_are_at_most_200_in_a_picture() -> None:
    """COCO's evaluation takes 100 of them."""
    many = [(place, 1 + place % 3, 0.3 + 0.0001 * place) for place in range(0, 1024, 2)]
    rows = found(plain(), logits(*many))
    assert len(rows) == 200
    assert [row[5] for row in rows] == sorted((row[5] for row in rows), reverse=True)


def test_pictures_of_a_batch_do_not_mix() -> None:
    """The same box in two pictures: neither suppresses the other, and each answer names its own
    sample.
    """
    logit = torch.cat([logits((100, 1, 0.9)), logits((100, 1, 0.8)), logits()])
    answers = postprocessing.encode_ssd_answers([4, 9, 2], plain(3), logit, DEFAULT)
    rows = [list(struct.iter_unpack("<7f", answer)) for answer in answers]
    assert [[row[0] for row in each] for each in rows] == [[4.0], [9.0], [2.0]]
    assert rows[2] == [(2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]


def test_an_untrained_network_s_answer_is_one_too() -> None:
    """Every class everywhere above the threshold: the worst case for suppression."""
    rows = found(plain(), torch.zeros(1, len(DEFAULT), 4))
    assert 0 < len(rows) <= 200

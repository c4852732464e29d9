"""AP from answers: right ones score 1, and no bytes bring the judge down."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled_scores import check_whole_score

from workloads.common.detection import coco
from workloads.common.detection.average_precision import read_detection_truth
from workloads.ssd import scoring


@pytest.fixture(scope="module")
def truth(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("truth")
    coco.write_coco_truth(coco.read_coco_split(tiny, "val"), folder)
    return folder


def perfect(truth: Path, score: float = 0.9) -> dict[int, bytes]:
    """What a network that knows everything answers."""
    document = read_detection_truth(truth)
    labels = {category.id: number for number, category in enumerate(document.categories, 1)}
    answers = {}
    for sample, image in enumerate(document.images):
        rows = b""
        for each in (each for each in document.annotations if each.image_id == image.id):
            left, top, width, height = each.bbox
            edges = (
                top / image.height,
                left / image.width,
                (top + height) / image.height,
                (left + width) / image.width,
            )
            rows += struct.pack("<7f", sample, *edges, score, labels[each.category_id])
        answers[sample] = rows
    return answers


def test_perfect_answers_score_one(truth: Path) -> None:
    """Order of the corners, relative sides and category numbers are the loader's."""
    assert scoring.score(perfect(truth), truth) == {"box_ap": pytest.approx(1.0)}


def test_no_answers_score_nothing(truth: Path) -> None:
    """Missing, empty, and the one that says that nothing was found."""
    nothing = {sample: struct.pack("<7f", sample, 0, 0, 0, 0, 0, 0) for sample in range(5)}
    assert [
        scoring.score(answers, truth)["box_ap"]
        for answers in ({}, dict.fromkeys(range(5), b""), nothing)
    ] == [0.0, 0.0, 0.0]


def test_wrong_labels_score_less(truth: Path) -> None:
    """Boxes alone are not enough."""
    rows = {
        sample: [list(row) for row in struct.iter_unpack("<7f", answer)]
        for sample, answer in perfect(truth).items()
    }
    shifted = {
        sample: b"".join(struct.pack("<7f", *row[:6], 1 + row[6] % 3) for row in each)
        for sample, each in rows.items()
    }
    assert scoring.score(shifted, truth)["box_ap"] < 0.2


def test_answers_belong_to_their_samples(truth: Path) -> None:
    """An answer that names another sample, or one that there is not, has found nothing."""
    answers = perfect(truth)
    assert scoring.score({0: answers[1], 1: answers[0], 99: answers[2]}, truth)["box_ap"] == 0.0


MISSHAPEN = [
    b"\0" * 27,
    struct.pack("<7f", 0, float("nan"), 0, 1, 1, 0.9, 1),
    struct.pack("<7f", 0, 0, 0, float("inf"), 1, 0.9, 1),
    struct.pack("<7f", 0, 0, 0, 1, 1, 0.9, 4),
    struct.pack("<7f", 0, 0, 0, 1, 1, 0.9, 1.5),
    struct.pack("<7f", 0, 1, 1, 0, 0, 0.9, 1),
    struct.pack("<7f", 0, 0, 0, 1e30, 1e30, 0.9, 1),
]


@pytest.mark.parametrize("answer", MISSHAPEN)
def test_misshapen_detections_count_as_none(answer: bytes) -> None:
    """Cut off, not a number, no such label, inside out, beyond all bounds."""
    assert len(scoring.unpack_ssd_answer(answer, 0, 3)) == 0


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(st.integers(0, 6), st.binary(max_size=28 * 4)))
def test_no_bytes_bring_it_down(truth: Path, answers: dict[int, bytes]) -> None:
    """Answers are anybody's bytes: a score comes out, whatever they are."""
    assert 0.0 <= scoring.score(answers, truth)["box_ap"] <= 1.0


def test_the_sampler_gives_the_score(truth: Path) -> None:
    """Of perfect answers, of answers whose scores are misleading, and of some images alone."""
    answers = perfect(truth)
    check_whole_score(scoring.score, scoring.sample_ssd_scores, answers, truth)
    answers[0] = b""
    answers[1] = struct.pack("<7f", 1, 0.1, 0.1, 0.9, 0.9, 0.99, 1)
    check_whole_score(scoring.score, scoring.sample_ssd_scores, answers, truth)
    sampler = scoring.sample_ssd_scores(answers, truth)
    known = np.arange(2, sampler.sample_count)
    assert sampler.score_draws(known[None])["box_ap"].tolist() == [pytest.approx(1.0)]

"""Average precision: equal to pycocotools', over all pictures."""

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import structs
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from workloads.common.detection import average_precision, rle
from workloads.common.detection.average_precision import Detections, IouKind
from workloads.common.detection.coco import CocoAnnotation, CocoCategory, CocoDocument, CocoImage

SIDE = 96


def blob(rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An ellipse somewhere."""
    centre, radius = rng.uniform(10, SIDE - 10, size=2), rng.uniform(4, 40, size=2)
    y, x = np.mgrid[:SIDE, :SIDE]
    return ((((y - centre[0]) / radius[0]) ** 2 + ((x - centre[1]) / radius[1]) ** 2) < 1).astype(
        np.uint8
    )


def box_of(mask: np.ndarray[Any, Any]) -> tuple[float, float, float, float]:
    """Left, top, width, height."""
    ys, xs = np.nonzero(mask)
    return float(xs.min()), float(ys.min()), float(np.ptp(xs) + 1), float(np.ptp(ys) + 1)


def truth_and_answers(seed: int, images: int = 12) -> tuple[CocoDocument, Detections]:
    """Some objects, a few crowds, and answers near them, doubled, elsewhere and of other classes;
    one picture has neither.
    """
    rng = np.random.default_rng(seed)
    annotations, found = [], []
    for image in range(images - 1):
        for _ in range(int(rng.integers(0, 7))):
            mask, category = blob(rng), int(rng.integers(1, 4))
            runs = msgspec.json.encode(
                {"size": [SIDE, SIDE], "counts": rle.encode_masks([mask])[0].decode()}
            )
            crowd = int(rng.random() < 0.15)
            annotations.append(
                CocoAnnotation(
                    id=len(annotations) + 1,
                    image_id=100 + image,
                    category_id=10 * category,
                    bbox=box_of(mask),
                    area=float(mask.sum()),
                    iscrowd=crowd,
                    segmentation=msgspec.Raw(runs),
                )
            )
            near = np.roll(mask, rng.integers(-4, 5, size=2), axis=(0, 1))
            found += [
                (image, category if rng.random() < 0.9 else 1, rng.random(), each)
                for each in (near, mask)[: int(rng.integers(0, 3))]
            ]
        found += [
            (image, int(rng.integers(1, 4)), rng.random() / 2, blob(rng))
            for _ in range(int(rng.integers(0, 4)))
        ]
    pictures = [
        CocoImage(id=100 + image, file_name=f"{image}.jpg", width=SIDE, height=SIDE)
        for image in range(images)
    ]
    samples, labels, scores, masks = zip(*found, strict=True)
    detections = Detections(
        sample_D=np.array(samples),
        label_D=np.array(labels),
        score_D=np.array(scores),
        box_D4=np.array([box_of(mask) for mask in masks]),
        mask_D=rle.encode_masks(masks),
    )
    return (
        CocoDocument(
            images=pictures,
            annotations=annotations,
            categories=[CocoCategory(id=10 * number, name=str(number)) for number in (1, 2, 3)],
        ),
        detections,
    )


def reference(truth: CocoDocument, found: Detections, kind: IouKind) -> float:
    """What pycocotools says."""
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = COCO()
        dataset.dataset = average_precision.convert_truth_for_library(truth, IouKind.MASK)
        dataset.createIndex()
        evaluation = COCOeval(
            dataset,
            dataset.loadRes(average_precision.convert_detections_for_library(truth, found, kind)),
            kind.value,
        )
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


@pytest.mark.parametrize("kind", list(IouKind))
@pytest.mark.parametrize("seed", range(4))
def test_it_is_pycocotools_average_precision(seed: int, kind: IouKind) -> None:
    """Crowds, doubles, empty pictures, areas: the reference score, not one like it."""
    truth, found = truth_and_answers(seed)
    value = average_precision.compute_average_precision(truth, found, kind)
    assert value == pytest.approx(reference(truth, found, kind), abs=1e-12)
    assert 0.05 < value < 0.95


def some(found: Detections, wanted: Any) -> Detections:
    masks = [mask for mask, keep in zip(found.mask_D or (), wanted, strict=True) if keep]
    return Detections(
        sample_D=found.sample_D[wanted],
        label_D=found.label_D[wanted],
        score_D=found.score_D[wanted],
        box_D4=found.box_D4[wanted],
        mask_D=masks,
    )


def test_pictures_without_answers_count() -> None:
    """Evaluated over the pictures in the log alone, a system that skips the hard ones would score
    higher.
    """
    truth, found = truth_and_answers(1)
    half = some(found, found.sample_D < 6)
    assert average_precision.compute_average_precision(
        truth, half, IouKind.BOX
    ) < 0.75 * average_precision.compute_average_precision(truth, found, IouKind.BOX)


def test_no_answers_at_all_score_nothing() -> None:
    """An untrained network's answer, not an error."""
    truth, found = truth_and_answers(1)
    assert [
        average_precision.compute_average_precision(truth, some(found, found.sample_D < 0), kind)
        for kind in IouKind
    ] == [0.0, 0.0]


def test_a_truth_without_objects_has_no_score() -> None:
    """pycocotools says -1 there, which is no accuracy."""
    truth, found = truth_and_answers(1)
    with pytest.raises(ValueError, match="no object"):
        average_precision.compute_average_precision(
            CocoDocument(images=truth.images, annotations=[], categories=truth.categories),
            found,
            IouKind.BOX,
        )


def test_a_mask_of_another_size_is_refused() -> None:
    """Before C++ reads beyond it."""
    truth, found = truth_and_answers(1)
    short = rle.encode_masks([np.ones((SIDE, SIDE - 1), dtype=np.uint8)])
    broken = Detections(
        sample_D=found.sample_D[:1],
        label_D=found.label_D[:1],
        score_D=found.score_D[:1],
        box_D4=found.box_D4[:1],
        mask_D=short,
    )
    with pytest.raises(ValueError, match="cover"):
        average_precision.compute_average_precision(truth, broken, IouKind.MASK)


def test_a_folder_without_truth_is_none(tmp_path: Path) -> None:
    """The judge names the file; a damaged one is a ValueError, which it takes for what it is."""
    with pytest.raises(OSError, match="annotations"):
        average_precision.read_detection_truth(tmp_path)
    (tmp_path / "annotations.json").write_text("[]")
    with pytest.raises(ValueError, match="object"):
        average_precision.read_detection_truth(tmp_path)


@pytest.mark.parametrize("kind", IouKind)
def test_the_numbers_of_annotations_make_no_difference(kind: IouKind) -> None:
    """Many a converter counts from 0, which the library takes for no match: an object would be
    missed that was found.
    """
    truth, found = truth_and_answers(3)
    shifted = replace(
        truth,
        annotations=[
            structs.replace(annotation, id=annotation.id - 5) for annotation in truth.annotations
        ],
    )
    assert average_precision.compute_average_precision(
        shifted, found, kind
    ) == average_precision.compute_average_precision(truth, found, kind)

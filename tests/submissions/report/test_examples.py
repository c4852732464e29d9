"""Examples of answers: drawn by the nonce and not by hand, right and wrong as the scorer has it,
and no pictures that are not podium's.
"""

import base64
import struct
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from submissions.report.sections.examples import (
    DRAWN_EXAMPLES,
    WORST_EXAMPLES,
    has_generated_data,
    select_example_samples,
)
from suite import registry
from suite.examples import Example, ExampleKind, Examples
from workloads.common.detection.coco import TRUTH_ANNOTATIONS_FILE
from workloads.common.detection.examples import compute_box_iou, count_matched_objects
from workloads.common.text import references
from workloads.gnmt.scoring import GNMT_SPECIAL_TOKENS, write_gnmt_vocabulary
from workloads.maskrcnn.scoring import MaskedDetections, pack_maskrcnn_answer
from workloads.minigo.scoring import pack_position_answer as position_answer
from workloads.minigo.scoring import write_truth_labels as write_positions
from workloads.resnet50.scoring import pack_class_answer as class_answer
from workloads.resnet50.scoring import write_image_labels
from workloads.transformer.scoring import write_transformer_truth
from workloads.transformer.subwords import build_subtoken_vocabulary

WORKLOADS = ("gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer")
BOX = {
    "id": 1,
    "image_id": 1,
    "category_id": 1,
    "bbox": [10, 20, 30, 20],
    "area": 600,
    "segmentation": [[10, 20, 40, 20, 40, 40, 10, 40]],
}
SCENE = {
    "images": [
        {"id": 1, "file_name": "000000000001.jpg", "width": 100, "height": 50},
        {"id": 2, "file_name": "000000000002.jpg", "width": 64, "height": 64},
    ],
    "annotations": [BOX],
    "categories": [{"id": 1, "name": "circle"}, {"id": 3, "name": "cross"}],
}


class Fixed:
    """Examples whose quality a test sets."""

    kind = ExampleKind.LABELS

    def __init__(self, qualities: list[float]) -> None:
        self.qualities = qualities

    def __len__(self) -> int:
        return len(self.qualities)

    def quality(self, sample: int) -> float:
        return self.qualities[sample]

    def example(self, sample: int) -> Example:
        return Example(sample=sample, right=None, expected="", answered="")


def examples_of(
    workload: str, answers: dict[int, bytes], truth: Path, embedded: bool = True
) -> Examples:
    found: Examples = registry.load_workload_part(workload, "examples", "examples")(
        answers, truth, embedded, truth / "cache"
    )
    return found


def test_every_workload_has_examples() -> None:
    assert all(registry.load_workload(workload).examples for workload in WORKLOADS)


def test_the_nonce_decides_and_the_worst_follow() -> None:
    """Whoever could choose the examples would choose the good ones."""
    examples = Fixed([1.0] * 100)
    examples.qualities[7], examples.qualities[8] = 0.1, 0.5
    one, again, other = (select_example_samples(examples, nonce) for nonce in ("a", "a", "b"))
    assert one == again and one[:DRAWN_EXAMPLES] != other[:DRAWN_EXAMPLES]
    rest = [sample for sample in (7, 8) if sample not in one[:DRAWN_EXAMPLES]]
    assert one[DRAWN_EXAMPLES:] == rest, "the worst first, and none that is perfect"
    assert len(one) <= DRAWN_EXAMPLES + WORST_EXAMPLES


def test_of_few_samples_all_are_shown_once() -> None:
    assert sorted(select_example_samples(Fixed([0.0, 1.0]), "x")) == [0, 1]


def test_classes_are_right_where_the_first_is(tmp_path: Path) -> None:
    write_image_labels(tmp_path, [0, 0, 1])
    found = examples_of(
        "resnet50", {0: class_answer([0]), 1: class_answer([2, 0, 3, 4, 5])}, tmp_path
    )
    assert [found.example(sample).right for sample in range(3)] == [True, False, False]
    assert [found.quality(sample) for sample in range(3)] == [
        1.0,
        0.5,
        0.0,
    ], "a missing answer is the worst"
    shown = found.example(1)
    assert shown.expected == "bars-cross" and shown.answered.startswith("bars-square, bars-cross")
    assert shown.picture.startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize("workload", ["resnet50", "ssd", "maskrcnn"])
def test_pictures_of_others_are_not_shown(workload: str, tmp_path: Path) -> None:
    """ImageNet and COCO may not be passed on, and a page is passed on."""
    write_image_labels(tmp_path, [0, 1])
    (tmp_path / TRUTH_ANNOTATIONS_FILE).write_bytes(msgspec.json.encode(SCENE))
    assert examples_of(workload, {}, tmp_path, embedded=False).example(0).picture == ""


def test_detections_are_drawn_in_pixels_of_the_picture(tmp_path: Path) -> None:
    (tmp_path / TRUTH_ANNOTATIONS_FILE).write_bytes(msgspec.json.encode(SCENE))
    answer = struct.pack("<14f", 0, 0.4, 0.1, 0.8, 0.4, 0.9, 1, 0, 0, 0, 1, 1, 0.01, 2)
    shown = examples_of("ssd", {0: answer}, tmp_path, embedded=False).example(0)
    assert [(each.label, pytest.approx(each.box)) for each in shown.found] == [
        ("circle", (10, 20, 30, 20))
    ], "a faint one is left out"
    assert not shown.truth[0].polygons and shown.quality == 1.0 and shown.right
    assert (shown.width, shown.height) == (100, 50)


def test_masks_become_polygons(tmp_path: Path) -> None:
    from workloads.common.detection import rle

    (tmp_path / TRUTH_ANNOTATIONS_FILE).write_bytes(msgspec.json.encode(SCENE))
    mask = np.zeros((50, 100), dtype=np.uint8)
    mask[20:40, 10:40] = 1
    box = np.array([[0.1, 0.4, 0.4, 0.8]], dtype=np.float32)
    found = MaskedDetections(
        box_D4=box,
        score_D=np.array([0.8], dtype=np.float32),
        label_D=np.array([1]),
        mask_D=rle.encode_masks(mask[None]),
    )
    shown = examples_of(
        "maskrcnn", {0: pack_maskrcnn_answer(0, found)}, tmp_path, embedded=False
    ).example(0)
    (outline,) = shown.found
    assert shown.truth[0].polygons
    assert {
        (x, y) for x, y in zip(outline.polygons[0][::2], outline.polygons[0][1::2], strict=True)
    } >= {(10.0, 20.0), (40.0, 40.0)}


def test_an_empty_scene_with_no_detection_is_right(tmp_path: Path) -> None:
    (tmp_path / TRUTH_ANNOTATIONS_FILE).write_bytes(msgspec.json.encode(SCENE))
    found = examples_of("ssd", {}, tmp_path, embedded=False)
    assert (found.quality(0), found.quality(1)) == (0.0, 1.0)


def test_each_detection_counts_once_and_for_its_own_class() -> None:
    one, other = (0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 9.0, 10.0)
    assert count_matched_objects([(one, "a"), (other, "a")], [(one, "a")]) == 1
    assert count_matched_objects([(one, "a")], [(one, "b")]) == 0
    assert compute_box_iou(one, (20.0, 0.0, 5.0, 5.0)) == 0.0


def test_a_position_is_drawn_with_both_moves(tmp_path: Path) -> None:
    """Half of the quality is the move, half the winner; a record of others has no board to be drawn
    from.
    """
    write_positions(tmp_path, [(12, 1), (25, -1)])
    shown = examples_of(
        "minigo", {0: position_answer([0.0] * 12 + [1.0] + [0.0] * 13, -0.5)}, tmp_path
    )
    assert [shown.quality(sample) for sample in range(2)] == [0.5, 0.0]
    first, second = shown.example(0), shown.example(1)
    assert (first.right, first.expected, first.answered) == (
        True,
        "C3, who moves wins",
        "C3 (100%), value -0.50",
    )
    assert (second.right, second.expected, second.answered) == (
        False,
        "pass, who moves loses",
        "no answer",
    )
    drawing = base64.b64decode(first.picture.removeprefix("data:image/svg+xml;base64,")).decode()
    assert (
        drawing.count("h0") > 1
        and drawing.count("<circle") == 1
        and first.width == first.height > 0
    )
    assert examples_of("minigo", {}, tmp_path, embedded=False).example(0).picture == ""


def test_a_translation_stands_beside_its_reference(tmp_path: Path) -> None:
    write_gnmt_vocabulary(tmp_path, [*GNMT_SPECIAL_TOKENS, "ein", "hund"])
    references.write_references(tmp_path, ["ein hund", "ein hund"])
    found = examples_of(
        "gnmt", {0: struct.pack("<3i", 4, 5, 3), 1: struct.pack("<i", 4)}, tmp_path, embedded=False
    )
    assert (found.example(0).answered, found.example(0).right) == ("ein hund", True)
    assert (found.example(1).answered, found.example(1).right) == ("ein", False)
    assert found.quality(0) == 1.0 > found.quality(1) > 0.0
    assert found.example(0).source == "", "sentences of WMT are not shown"


def test_subtokens_are_joined(tmp_path: Path) -> None:
    words = build_subtoken_vocabulary(["ein hund", "ein haus"], 60)
    write_transformer_truth(tmp_path, ["ein hund"], words)
    answer = np.array([*words.encode_text("ein hund"), 1], dtype="<i4").tobytes()
    assert examples_of("transformer", {0: answer}, tmp_path, embedded=False).example(0).right


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("answer", [b"", b"\x01", b"\xff" * 8, b"\x00" * 28, b"\xff" * 400])
def test_answers_that_are_none_are_shown_as_wrong(
    workload: str, answer: bytes, tmp_path: Path
) -> None:
    write_image_labels(tmp_path, [0, 1])
    (tmp_path / TRUTH_ANNOTATIONS_FILE).write_bytes(msgspec.json.encode(SCENE))
    references.write_references(tmp_path, ["ein hund", "ein hund"])
    if workload == "minigo":
        write_positions(tmp_path, [(1, 1), (0, -1)])
    elif workload == "transformer":
        write_transformer_truth(
            tmp_path, ["ein hund", "ein hund"], build_subtoken_vocabulary(["ein hund"], 40)
        )
    else:
        write_gnmt_vocabulary(tmp_path, [*GNMT_SPECIAL_TOKENS, "ein", "hund"])
    shown = examples_of(workload, {0: answer}, tmp_path, embedded=False).example(0)
    assert shown.right is not True and 0 <= (shown.quality or 0) < 1


def test_embedded_data_is_known_by_the_hash_of_its_truth(tmp_path: Path) -> None:
    from compliance.kinds.podium.results.log_values import read_loadgen_run_record

    tree = Path(__file__).resolve().parents[2] / "examples" / "base" / "tree" / "open" / "acme"
    record = read_loadgen_run_record(tree / "results/box-torch-fp32/resnet50/SingleStream/accuracy")
    assert has_generated_data(tree / "truth/resnet50", record)
    write_image_labels(tmp_path, [0, 1])
    assert not has_generated_data(tmp_path, record)


def test_images_of_an_earlier_podium_are_not_shown(tmp_path: Path) -> None:
    """ResNet-50's images were changed and its labels were not: a report would show a picture that
    the system never saw.
    """
    from compliance.kinds.podium.results.log_values import read_loadgen_run_record

    tree = Path(__file__).resolve().parents[2] / "examples" / "base" / "tree" / "open" / "acme"
    record = read_loadgen_run_record(tree / "results/box-torch-fp32/resnet50/SingleStream/accuracy")
    earlier = {
        key: value for key, value in record.settings.items() if key != "loss.label_smoothing"
    }
    system = replace(record.system, settings=earlier)
    assert not has_generated_data(tree / "truth/resnet50", replace(record, system=system))

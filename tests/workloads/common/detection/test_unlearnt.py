"""Rules that learn nothing miss the targets on the embedded scenes of SSD and Mask R-CNN."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import unlearnt
from unlearnt import Piece, plainly, target

from workloads.common.detection import average_precision, coco, rle, synthetic_scenes
from workloads.common.detection.average_precision import Detections, IouKind
from workloads.common.detection.coco import CocoSplit
from workloads.common.detection.synthetic_scenes import SceneParameters
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.maskrcnn.scenes import MASKRCNN_SCENES
from workloads.ssd.scenes import SSD_SCENES

# Legend: N pieces, D detections, O objects, F features.
LEAST_PX = 40  # of a piece that may be an object
SHARES = (0.0, 0.5)  # of a map's spread, by which a threshold is higher


def found(split: CocoSplit) -> Iterator[tuple[str, int, Piece]]:
    """Yield the pieces of each picture, by each map and threshold."""
    for index in range(len(split)):
        picture_HWC = np.asarray(read_rgb_picture(split.path(index)), dtype=np.float64)
        level_HW = {**unlearnt.maps(picture_HWC), **unlearnt.woven(picture_HWC)}
        cuts = [f"{name}, {share}" for share in SHARES for name in level_HW]
        yield from (
            (cuts[cut], index, piece)
            for cut, piece in unlearnt.pieces(
                picture_HWC, np.stack([*level_HW.values()]), LEAST_PX, SHARES
            )
        )


def grouped(split: CocoSplit) -> Mapping[str, list[tuple[int, Piece]]]:
    """Put the pieces of one rule together."""
    groups: dict[str, list[tuple[int, Piece]]] = {}
    for name, index, piece in found(split):
        groups.setdefault(name, []).append((index, piece))
    return groups


def detected(
    train: CocoSplit, known: list[tuple[int, Piece]], asked: list[tuple[int, Piece]]
) -> Detections:
    """Name pieces by those of the training pictures that are most like them; the share of
    neighbours that agree is the score.
    """
    objects = {index: train.build_trainable_objects(index) for index, _ in known}
    label_N = np.array(
        [
            unlearnt.label_of(
                piece, objects[index].box_O4.astype(np.float64), objects[index].label_O
            )
            for index, piece in known
        ]
    )
    known_NF, asked_NF = (
        np.stack([piece.feature_F for _, piece in part]) for part in (known, asked)
    )
    share_DK = unlearnt.nearest(known_NF, label_N, asked_NF, 1 + len(train.categories))[:, 1:]
    box_D4 = np.stack([piece.box_4 for _, piece in asked])
    return Detections(
        sample_D=np.array([index for index, _ in asked]),
        label_D=1 + share_DK.argmax(axis=1),
        score_D=share_DK.max(axis=1),
        box_D4=np.concatenate([box_D4[:, :2], box_D4[:, 2:] - box_D4[:, :2]], axis=1),
        mask_D=[rle.encode_masks([piece.mask_HW.astype(np.uint8)])[0] for _, piece in asked],
    )


def best_ap(
    scenery: SceneParameters, train: int, val: int, folder: Path
) -> Mapping[IouKind, float]:
    """Return the AP of the best rule on so many scenes."""
    root = synthetic_scenes.prepare_scene_folder(
        folder, replace(scenery, pictures={"train": train, "val": val})
    )
    splits = [coco.read_coco_split(root, split) for split in ("train", "val")]
    coco.write_coco_truth(splits[1], folder)
    truth, (known, asked) = average_precision.read_detection_truth(folder), map(grouped, splits)
    each = [
        detected(splits[0], known[name], asked[name])
        for name in known.keys() & asked.keys()
        if len(known[name]) > unlearnt.NEIGHBOURS
    ]
    return {
        kind: max(average_precision.compute_average_precision(truth, one, kind) for one in each)
        for kind in IouKind
    }


# of the target: other scenes, and more training scenes, move a rule's AP by some hundredths
MARGIN = 0.9
CLOSE = 0.95  # of SSD's: with five times the training scenes the best rule has the same AP


@pytest.mark.slow
def test_pieces_of_ssd_s_scenes_miss(tmp_path: Path) -> None:
    """The best one is made for these very scenes; the others have half of its AP
    (workloads/ssd/README.md).
    """
    assert best_ap(SSD_SCENES, 100, 60, tmp_path)[IouKind.BOX] < CLOSE * target("ssd")["box_ap"]


@pytest.mark.slow
def test_pieces_of_mask_rcnn_s_scenes_miss(tmp_path: Path) -> None:
    """Box and mask, each by its own best rule."""
    ap, asked = (
        best_ap(MASKRCNN_SCENES, 80, MASKRCNN_SCENES.pictures["val"], tmp_path),
        target("maskrcnn"),
    )
    assert (
        ap[IouKind.BOX] < MARGIN * asked["box_ap"] and ap[IouKind.MASK] < MARGIN * asked["mask_ap"]
    )


@pytest.mark.slow
def test_pieces_are_enough_without_clutter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules find plain shapes, so that a miss tells of the scenes and not of the rules."""
    plainly(monkeypatch)
    assert best_ap(MASKRCNN_SCENES, 40, 20, tmp_path)[IouKind.BOX] > target("maskrcnn")["box_ap"]

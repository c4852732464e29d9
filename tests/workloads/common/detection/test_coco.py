"""COCO annotations as records: what is taken as COCO has it, and what is refused."""

import codecs
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from suite.errors import RequestError
from workloads.common.detection import average_precision, coco, rle
from workloads.common.pictures import decoding, file_checks

SQUARE = [[2.0, 2.0, 6.0, 2.0, 6.0, 6.0, 2.0, 6.0]]
CROWD = {"size": [10, 12], "counts": [30, 10, 80]}
Change = Callable[[dict[str, Any]], object]


def annotation(number: int, image: int = 5, category: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": [2.0, 2.0, 4.0, 4.0],
        "area": 16.0,
        "iscrowd": 0,
        "segmentation": SQUARE,
    } | more


def document() -> dict[str, Any]:
    """Pictures 5 and 9, of which 9 has no object; categories 3 and 7."""
    return {
        "info": {"year": 2017},
        "licenses": [],
        "images": [
            {
                "id": number,
                "file_name": f"{number:012d}.jpg",
                "width": 12,
                "height": 10,
                "license": 1,
            }
            for number in (9, 5)
        ],
        "categories": [
            {"id": 7, "name": "ring", "supercategory": "shape"},
            {"id": 3, "name": "box", "supercategory": "shape"},
        ],
        "annotations": [
            annotation(11),
            annotation(10, category=7),
            annotation(12, iscrowd=1, area=10.0, segmentation=CROWD),
        ],
    }


def write(root: Path, change: Change = lambda table: None, split: str = "val") -> Path:
    """A split, changed in one way."""
    table = document()
    change(table)
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    (root / "annotations" / f"instances_{split}2017.json").write_text(json.dumps(table))
    (root / f"{split}2017").mkdir(exist_ok=True)
    for image in table["images"]:
        Picture.new("RGB", (max(1, image["width"]), max(1, image["height"]))).save(
            root / f"{split}2017" / image["file_name"]
        )
    return root


def test_a_split_reads_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    """Files list pictures and categories in any order; labels and samples must not depend on it."""
    split = coco.read_coco_split(write(tmp_path), "val")
    assert [category.name for category in split.categories] == ["box", "ring"]
    assert split.image_I.tolist() == [5, 9]
    assert split.path(1) == tmp_path / "val2017" / "000000000009.jpg" and split.get_picture_size(
        0
    ) == (10, 12)
    found = split.build_trainable_objects(0)
    assert found.label_O.tolist() == [2, 1, 1] and found.crowd_O.tolist() == [False, False, True]
    assert found.box_O4[0].tolist() == [2, 2, 6, 6]


def test_a_picture_without_objects_is_evaluated_and_not_trained_on(tmp_path: Path) -> None:
    """What is found in it is wrong; there is nothing to learn from it, and 1,021 of COCO's training
    pictures are so.
    """
    split = coco.read_coco_split(write(tmp_path), "val")
    assert len(split) == 2 and len(split.build_trainable_objects(1)) == 0
    assert split.drop_empty_pictures().image_I.tolist() == [5]


@pytest.mark.parametrize(
    ("box", "left"),
    [([2, 2, 0, 4], None), ([2, 2, 4, 0], None), ([20, 2, 4, 4], None), ([-6, -6, 5, 5], None)]
    + [([-2, -2, 5, 5], [0, 0, 3, 3]), ([10, 8, 9, 9], [10, 8, 12, 10])],
)
def test_boxes_are_cut_to_the_picture_for_training_and_stay_in_the_truth(
    tmp_path: Path, box: list[float], left: list[float] | None
) -> None:
    """COCO has a few of no area and some over the edge; a matcher would divide by zero, and
    evaluation takes them as they are.
    """
    split = coco.read_coco_split(
        write(tmp_path, lambda table: table["annotations"].append(annotation(20, bbox=box))), "val"
    )
    boxes = split.build_trainable_objects(0).box_O4.tolist()
    assert len(boxes) == (3 if left is None else 4)
    assert left is None or boxes[-1] == left
    (tmp_path / "truth").mkdir()
    coco.write_coco_truth(split, tmp_path / "truth")
    assert (
        list(average_precision.read_detection_truth(tmp_path / "truth").annotations[-1].bbox) == box
    )


REFUSED: list[tuple[Change, str]] = [
    (lambda table: table.update(images=[]), "contains no images"),
    (lambda table: table.update(categories=[]), "contains no categories"),
    (
        lambda table: table["images"].append(table["images"][0]),
        "image id 9 stands 2 times",
    ),
    (
        lambda table: table["annotations"].extend([annotation(11)] * 23),
        "annotation id 11 stands 24 times$",
    ),
    (lambda table: table["images"][0].update(width=0), "image id 9 is 0 x 10"),
    (
        lambda table: table["annotations"].append(annotation(20, image=6)),
        "annotation id 20: image id 6 does not exist",
    ),
    (
        lambda table: table["annotations"].append(annotation(20, category=4)),
        "annotation id 20: category id 4 does not exist",
    ),
    (
        lambda table: table["annotations"].append(annotation(20, bbox=[2, 2, -1, 4])),
        r"annotation id 20: bbox \[2.0, 2.0, -1.0, 4.0\] has a negative width or height",
    ),
    (
        lambda table: table["annotations"].append(annotation(20, area=-1)),
        "annotation id 20: area is -1",
    ),
    (
        lambda table: table["annotations"].append(annotation(17, bbox=[2, math.nan, 1, 4])),
        "annotation id 17: NaN in bbox",
    ),
    (
        lambda table: table["annotations"].append(annotation(17, area=-math.inf)),
        "annotation id 17: Infinity in area",
    ),
    (
        lambda table: table["annotations"].append(
            annotation(17, segmentation=[[1.0, 2.0, 3.0, 4.0, 5.0, math.nan]])
        ),
        "annotation id 17: NaN in segmentation",
    ),
    (
        lambda table: table["annotations"].append(annotation(17, area=1e308 * 10)),
        "annotation id 17: Infinity in area",
    ),
    (lambda table: table["annotations"].append(annotation(20, iscrowd=2)), "iscrowd is 2"),
    (
        lambda table: table["annotations"].append(
            annotation(20, segmentation=[[1.0, 2.0, 3.0, 4.0]])
        ),
        "a polygon has 4 numbers",
    ),
    (
        lambda table: table["annotations"].append(
            annotation(20, segmentation=[[0, 0, 1e9, 0, 1e9, 1e9]])
        ),
        "further from the image",
    ),
    (lambda table: table["images"][0].update(id=2**70), "more than 64 bits"),
    (lambda table: table.update(annotations=[]), "contains no objects"),
    (lambda table: table.update(annotations=[annotation(1, iscrowd=1)]), "contains no objects"),
    (
        lambda table: table["annotations"].append(
            annotation(20, segmentation=CROWD | {"size": [12, 10]})
        ),
        "12 x 10 pixels, the image has 10 x 12",
    ),
    (
        lambda table: table["annotations"].append(
            annotation(20, segmentation=CROWD | {"counts": [30, 10, 81]})
        ),
        "cover 121 pixels",
    ),
    (
        lambda table: table["annotations"].append(
            annotation(20, segmentation=CROWD | {"counts": "_!"})
        ),
        "truncated|letters",
    ),
    (
        lambda table: table["annotations"].append(annotation(20, segmentation="polygon")),
        "annotation id 20: segmentation",
    ),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_what_cannot_be_is_refused_and_named(tmp_path: Path, change: Change, said: str) -> None:
    """Before the clock starts, with the annotation's number; a crash in the middle of an epoch says
    neither.
    """
    with pytest.raises(RequestError, match=said):
        coco.read_coco_split(write(tmp_path, change), "val")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"images": []}', '{"images": 3, "annotations": [], "categories": []}']
)
def test_what_is_no_annotation_file_is_refused(tmp_path: Path, text: str) -> None:
    """One sentence with the path."""
    write(tmp_path)
    (tmp_path / "annotations" / "instances_val2017.json").write_text(text)
    with pytest.raises(RequestError, match=r"instances_val2017\.json: not COCO annotations"):
        coco.read_coco_split(tmp_path, "val")


def test_a_folder_that_is_not_coco_s_is_refused(tmp_path: Path) -> None:
    """Says what was wanted where."""
    with pytest.raises(RequestError, match="as in COCO"):
        coco.read_coco_split(tmp_path, "train")


def test_faults_are_counted_when_there_are_many(tmp_path: Path) -> None:
    """Not a screen full of them."""
    with pytest.raises(RequestError, match="and 15 more"):
        coco.read_coco_split(
            write(
                tmp_path,
                lambda table: table.update(
                    annotations=[annotation(number, image=6) for number in range(20)]
                ),
            ),
            "val",
        )


def test_a_byte_order_mark_changes_nothing(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = write(tmp_path) / "annotations" / "instances_val2017.json"
    before = coco.read_coco_document(path)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert coco.read_coco_document(path) == before


def test_annotations_in_utf16_are_named(tmp_path: Path) -> None:
    """What PowerShell's `>` makes of a tool's output."""
    path = write(tmp_path) / "annotations" / "instances_val2017.json"
    path.write_bytes(path.read_text().encode("utf-16"))
    with pytest.raises(RequestError, match=r"\(is UTF-16; save it as UTF-8\)$"):
        coco.read_coco_document(path)


def test_annotated_pictures_without_a_file_are_named(tmp_path: Path) -> None:
    """Annotations without pictures: found by the look-over before the clock, and left out where
    that is asked for.
    """
    (write(tmp_path) / "val2017" / "000000000009.jpg").unlink()
    split = coco.read_coco_split(tmp_path, "val")
    found, _ = file_checks.inspect_split_pictures(split)
    with pytest.raises(RequestError, match=r"1 of 2 images are unreadable: .*000000000009\.jpg"):
        found.check_usability(split.folder, "val", skip=False)
    assert found.drop_broken_pictures(split).image_I.tolist() == [5]


@pytest.mark.parametrize(
    ("prefix", "told", "advice"),
    [
        ("val2017/", "a folder that is already in the path", "take the folder out of file_name"),
        ("val2017\\", "a folder that is already in the path", "take the folder out of file_name"),
        ("/mnt/old/", "a folder that does not hold the image", "take the folder out of file_name"),
        (
            "http://images.cocodataset.org/val2017/",
            "a web address",
            "keep only what follows its last slash",
        ),
    ],
)
def test_what_stands_before_a_file_name_is_named(
    tmp_path: Path, prefix: str, told: str, advice: str
) -> None:
    """Tools write file_name from the root of the data, or COCO's coco_url; every image would be
    called unreadable.
    """
    coco.check_file_names(coco.read_coco_split(write(tmp_path), "val"))
    path = tmp_path / "annotations" / "instances_val2017.json"
    table = json.loads(path.read_text())
    for image in table["images"]:
        image["file_name"] = prefix + image["file_name"]
    path.write_text(json.dumps(table))
    with pytest.raises(RequestError) as caught:
        coco.check_file_names(coco.read_coco_split(tmp_path, "val"))
    assert str(caught.value) == (
        f"{path}: 2 of 2 images have a file_name with {told}: '{prefix}000000000005.jpg' in"
        f" {tmp_path / 'val2017'}; {advice}"
    )


def test_exchanged_sizes_are_told(tmp_path: Path) -> None:
    """Height before width is the commonest slip of converters: boxes would be cut at the wrong
    edge.
    """
    split = coco.read_coco_split(write(tmp_path), "val")
    assert file_checks.inspect_split_pictures(split)[0].resized == 0
    Picture.new("RGB", (10, 12)).save(split.path(0))
    Picture.new("RGB", (24, 20)).save(split.path(1))
    survey = file_checks.collect_picture_survey({"val": split}, {"val": "val2017"}, {})
    assert list(survey.remarks) == [
        "warning: 2 of 2 images have another size than the annotations state: 000000000005.jpg"
        " 10 x 12 instead of 12 x 10 (exchanged), 000000000009.jpg 24 x 20 instead of 12 x 10;"
        " correct width and height, or the images"
    ]


def test_pictures_without_an_annotation_are_not_part_of_the_split(tmp_path: Path) -> None:
    """A file that the document does not know is no sample: COCO's folders are read by their
    documents.
    """
    Picture.new("RGB", (5, 5)).save(write(tmp_path) / "val2017" / "stray.jpg")
    assert len(coco.read_coco_split(tmp_path, "val")) == 2


def test_categories_must_agree(tmp_path: Path) -> None:
    """Label 1 of training would be label 2 of evaluation."""
    write(tmp_path, split="train")
    write(
        tmp_path,
        lambda table: table.update(
            categories=[{"id": 1, "name": "new"}, {"id": 7, "name": "hoop"}, table["categories"][1]]
        ),
    )
    told = (
        "categories differ: id 1 is missing in train and 'new' in val,"
        " id 7 is 'ring' in train and 'hoop' in val; give both"
    )
    with pytest.raises(RequestError, match=told):
        coco.check_equal_categories(
            coco.read_coco_split(tmp_path, "train"), coco.read_coco_split(tmp_path, "val")
        )


def test_shuffled_labels_belong_to_other_pictures(tmp_path: Path) -> None:
    """Nothing is lost, and nothing is where it was for some seed; the same seed gives the same
    again.
    """
    split = coco.read_coco_split(write(tmp_path), "val")
    counts = {tuple(split.shuffle_labels(seed).count_I.tolist()) for seed in range(8)}
    assert counts == {(3, 0), (0, 3)}
    assert split.shuffle_labels(3).count_I.tolist() == split.shuffle_labels(3).count_I.tolist()


def test_masks_are_those_of_the_objects(tmp_path: Path) -> None:
    """Polygons and run lengths: drawn for the objects that are kept, in their order."""
    split = coco.read_coco_split(write(tmp_path), "val")
    masks = split.decode_object_masks(0, split.build_trainable_objects(0))
    assert [int(mask.sum()) for mask in masks] == [16, 16, 10]
    assert masks[0].shape == (10, 12) and masks[0][2:6, 2:6].all()
    assert masks[2].ravel(order="F")[30:40].all()


def test_the_truth_is_in_the_order_of_the_samples(tmp_path: Path) -> None:
    """Answers name samples, and the judge finds the picture by that number; what was left out is
    not asked for.
    """
    split = coco.read_coco_split(write(tmp_path), "val")
    for kept, numbers, count in (
        (split, [5, 9], 3),
        (split.select_images(np.array([False, True])), [9], 0),
    ):
        coco.write_coco_truth(kept, tmp_path)
        truth = average_precision.read_detection_truth(tmp_path)
        assert [image.id for image in truth.images] == numbers and len(truth.annotations) == count
    assert [category.id for category in truth.categories] == [3, 7]


@pytest.mark.parametrize("extent", [(1, 1), (10_000, 8)])
def test_pictures_of_any_shape_are_samples(tmp_path: Path, extent: tuple[int, int]) -> None:
    """One pixel, and ten thousand in a row: read, measured and masked like any other."""
    shape = {"width": extent[0], "height": extent[1]}
    whole = annotation(
        1,
        bbox=[0, 0, *extent],
        area=extent[0] * extent[1],
        segmentation={"size": [extent[1], extent[0]], "counts": [0, extent[0] * extent[1]]},
    )
    split = coco.read_coco_split(
        write(
            tmp_path,
            lambda table: table.update(images=[table["images"][1] | shape], annotations=[whole]),
        ),
        "val",
    )
    assert file_checks.inspect_split_pictures(split)[0].broken == ()
    assert split.build_trainable_objects(0).box_O4.tolist() == [[0, 0, *extent]]
    assert split.decode_object_masks(0, split.build_trainable_objects(0))[0].all()
    assert decoding.read_rgb_picture(split.path(0)).size == extent


@pytest.mark.parametrize("seed", range(6))
def test_compressed_runs_read_as_the_library_wrote_them(seed: int) -> None:
    """Our reader stands between anybody's bytes and C++: it must know exactly what is well
    formed.
    """
    rng = np.random.default_rng(seed)
    height, width = (int(side) for side in rng.integers(1, 200, size=2))
    mask = (rng.random((height, width)) < rng.choice([0.02, 0.5, 0.99])).astype(np.uint8)
    (text,) = rle.encode_masks([mask])
    runs = rle.decode_run_lengths(text)
    rle.check_run_lengths(runs, height, width)
    values = np.repeat(np.arange(len(runs)) % 2, runs)
    assert np.array_equal(values, mask.ravel(order="F"))
    plain = rle.decode_segmentation_mask(
        rle.RunLengths(size=(height, width), counts=[int(run) for run in runs]), height, width
    )
    assert np.array_equal(plain, mask)
    with pytest.raises(ValueError, match="cover|longer"):
        rle.check_run_lengths(runs, height + 1, width)


@pytest.mark.parametrize("text", [b"", b"P", b" 1", b"\xff1", b"pppppppppppppp1"])
def test_corrupt_runs_are_refused(text: bytes) -> None:
    """Empty, cut off, letters below and above, a number without end."""
    with pytest.raises(ValueError, match="run length"):
        rle.decode_run_lengths(text)


def test_negative_runs_are_refused() -> None:
    """Differences may lead below zero, and C++ would count on from there."""
    with pytest.raises(ValueError, match="negative"):
        rle.check_run_lengths(np.array([5, -2, 7]), 2, 5)


def test_an_object_without_outline_has_an_empty_mask() -> None:
    """Boxes alone are COCO too; no mask is compressed to nothing."""
    assert rle.decode_segmentation_mask([], 3, 4).sum() == 0
    assert rle.encode_masks([]) == []


@pytest.mark.parametrize("counts", [[5, 4, 3], "543"])
def test_the_mask_of_another_picture_is_cut_or_filled_up(counts: list[int] | str) -> None:
    """Shuffled labels bring run lengths of pictures of another size."""
    runs = rle.RunLengths(size=(4, 3), counts=counts)
    whole = rle.decode_segmentation_mask(runs, 4, 3)
    assert whole.sum() > 0
    for height, width in ((2, 2), (6, 5), (2, 5)):
        found, shared = (
            rle.decode_segmentation_mask(runs, height, width),
            (min(4, height), min(3, width)),
        )
        assert (
            found.shape == (height, width) and found.sum() == whole[: shared[0], : shared[1]].sum()
        )

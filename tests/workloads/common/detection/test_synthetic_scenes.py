"""Embedded scenes: as COCO writes its own, the same on every machine, and as hard as they say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.common.detection import coco, mask_outlines, rle, synthetic_scenes
from workloads.common.detection.scene_looks import WeavingParameters, WovenScene
from workloads.common.detection.synthetic_scenes import SceneParameters
from workloads.common.pictures import cloth, decoding, file_checks, shapes
from workloads.common.pictures.cloth import Weave

WEAVING = WeavingParameters(
    periods_px=(5.0, 8.0), ground_strength=0.5, rags=(1, 4), rag_radius=(0.07, 0.2)
)
SMALL = SceneParameters(
    pictures={"train": 30, "val": 6},
    classes=("circle", "cross", "triangle"),
    extents=((64, 64), (64, 48)),
    mean_objects=4.0,
    most_objects=9,
    radius=(0.1, 0.3),
    crowd_share=0.3,
    empty_share=0.1,
    surfaces=WEAVING,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_scenes.prepare_scene_folder(tmp_path_factory.mktemp("cache"), SMALL)


@pytest.mark.slow
def test_they_read_as_coco(made: Path) -> None:
    """By the loader that reads the real thing; every picture decodes, and its size is the annotated
    one.
    """
    train, val = (coco.read_coco_split(made, split) for split in ("train", "val"))
    coco.check_equal_categories(train, val)
    assert (len(train), len(val)) == (30, 6)
    assert file_checks.inspect_split_pictures(train)[0].broken == ()
    assert [category.id for category in train.categories] == [1, 3, 5]
    for index in (0, 1):
        assert decoding.read_rgb_picture(train.path(index)).size[::-1] == train.get_picture_size(
            index
        )


def test_what_a_scene_has(made: Path) -> None:
    """Several objects, a crowd here and there, pictures with nothing in them, objects that lie over
    others.
    """
    train = coco.read_coco_split(made, "train")
    found = [train.build_trainable_objects(index) for index in range(len(train))]
    assert 2 < np.mean([len(each) for each in found]) < 6
    assert (
        min(len(each) for each in found) == 0
        and max(len(each) for each in found) <= SMALL.most_objects + 1
    )
    assert 2 < train.crowd_A.sum() < 20
    boxes = np.concatenate([each.box_O4[:, 2:] - each.box_O4[:, :2] for each in found])
    assert boxes.min() >= 2 and boxes.max() > 30
    assert set(train.label_A.tolist()) == {1, 2, 3}


def test_outlines_are_what_is_seen(made: Path) -> None:
    """Polygon, area and box of one object belong together, and no pixel belongs to two objects."""
    train = coco.read_coco_split(made, "train")
    covered = 0
    for index in range(len(train)):
        objects = train.build_trainable_objects(index)
        masks = train.decode_object_masks(index, objects)
        for box, mask in zip(objects.box_O4, masks, strict=True):
            ys, xs = np.nonzero(mask)
            assert box.tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
        stacked = np.array(masks).sum(axis=0) if masks else np.zeros(1)
        covered += int((stacked > 1).sum())
        assert stacked.max() <= 2
    assert covered < 200  # a hole that another object fills: polygons cannot tell


def test_a_picture_is_a_function_of_its_number() -> None:
    """Not of those rendered before, nor of how many there are; another split has other pictures."""
    again = synthetic_scenes.generate_scene(
        replace(SMALL, pictures={"train": 5, "val": 1}), "train", 3
    )
    first = synthetic_scenes.generate_scene(SMALL, "train", 3)
    assert np.array_equal(first.colour_HWC, again.colour_HWC) and list(
        synthetic_scenes.describe_visible_objects(first)
    ) == list(synthetic_scenes.describe_visible_objects(again))
    assert not np.array_equal(
        first.colour_HWC, synthetic_scenes.generate_scene(SMALL, "val", 3).colour_HWC
    )


def test_other_parameters_are_other_folders() -> None:
    """The cache must never answer with pictures of another difficulty."""
    assert (
        SMALL.compute_digest()
        == replace(SMALL).compute_digest()
        != replace(SMALL, mean_objects=4.5).compute_digest()
    )


def test_most_of_an_object_stays_visible() -> None:
    """An object of which nothing is seen could not be learnt, and would count as missed."""
    for number in range(12):
        canvas = synthetic_scenes.generate_scene(SMALL, "train", number)
        seen = [int((canvas.owner_HW == place).sum()) for place in range(len(canvas.labels))]
        assert all(
            each >= synthetic_scenes.MIN_VISIBLE_SHARE * full
            for each, full in zip(seen, canvas.full_px, strict=True)
        )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 0.9))
def test_traced_polygons_draw_the_mask_again(
    seed: int, height: int, width: int, share: float
) -> None:
    """Whatever the mask: its own pixels, its holes filled, and nothing outside."""
    mask = np.random.default_rng(seed).random((height, width)) < share
    drawn = rle.decode_segmentation_mask(
        mask_outlines.trace_mask_polygons(mask), height, width
    ).astype(bool)
    assert not (mask & ~drawn).any()
    outside = np.pad(~mask, 1, constant_values=True)
    reached = np.zeros_like(outside)
    reached[0, 0] = True
    for _ in range(height * width + 8):
        grown = reached.copy()
        for axis, shift in ((0, 1), (0, -1), (1, 1), (1, -1)):
            rolled = np.roll(reached, shift, axis)
            grown |= rolled
        for down, right in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            grown |= np.roll(np.roll(reached, down, 0), right, 1)
        reached = grown & outside
    assert not (drawn & reached[1:-1, 1:-1]).any()


def test_runs_are_the_reference_s() -> None:
    """Column by column, beginning with what is not there."""
    mask = np.array([[0, 1, 0], [1, 1, 0]], dtype=bool)
    assert mask_outlines.compute_mask_run_lengths(mask) == [1, 3, 2]
    assert mask_outlines.compute_mask_run_lengths(~mask) == [0, 1, 3, 2]
    assert mask_outlines.compute_mask_run_lengths(np.zeros((2, 2), dtype=bool)) == [4]


@pytest.mark.parametrize(
    "at", [(0.25, 0.5), (60.0, 20.5), (25.0, 50.0), (-40.0, 20.0), (90.0, 90.0)]
)
@pytest.mark.parametrize("name", sorted(shapes.OUTLINES_PD))
def test_an_outline_across_the_edge_is_the_part_of_a_whole_one(
    name: str, at: tuple[float, float]
) -> None:
    """Only the pixels around an outline are looked at: cut wrongly, they would lie beside it."""
    points_PD, margin = shapes.OUTLINES_PD[name] * 17 + np.array(at), 64
    whole_HW = shapes.compute_inside_mask(points_PD + margin, (50 + 2 * margin, 60 + 2 * margin))
    assert np.array_equal(
        shapes.compute_inside_mask(points_PD, (50, 60)),
        whole_HW[margin : margin + 50, margin : margin + 60],
    )


@pytest.mark.parametrize("name", sorted(shapes.OUTLINES_PD))
def test_annotated_pixels_are_the_painted_ones(name: str) -> None:
    """Two ways of filling an outline: one for the eye, one that is the same on every machine; they
    differ at edges alone.
    """
    points = shapes.OUTLINES_PD[name] * 20 + np.array([30.3, 25.7])
    inside, share = (
        shapes.compute_inside_mask(points, (50, 60)),
        shapes.compute_pixel_coverage(points, (50, 60)),
    )
    assert inside[share > 0.95].mean() > 0.97 and not inside[share < 0.05].any()
    assert abs(inside.sum() - share.sum()) < 0.12 * share.sum()


def test_an_outline_over_the_edge_fills_what_is_inside() -> None:
    """Its crossings lie left of the picture, and above it."""
    square = np.array([(-5.0, -5.0), (3.0, -5.0), (3.0, 4.0), (-5.0, 4.0)])
    assert (
        shapes.compute_inside_mask(square, (6, 8)).sum() == 12
        and shapes.compute_inside_mask(square, (6, 8))[:4, :3].all()
    )


def test_a_class_has_a_weave_and_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A colour or brightness that told the class would find objects without a network."""
    worn: list[list[cloth.Cloth]] = [[], [], []]
    look = WovenScene(weaving=WEAVING, rng=np.random.default_rng(1))
    for label in range(3):
        monkeypatch.setattr(
            cloth,
            "draw_cloth_outline",
            lambda picture_HWC, points_PD, cloth, label=label: worn[label].append(cloth),
        )
        for _ in range(300):
            look.generate_painter(label)(np.zeros((8, 8, 3)), np.zeros((3, 2)))
    assert [{each.weave for each in part} for part in worn] == [{weave} for weave in Weave]
    assert (
        np.ptp([np.mean([each.thread_2C.mean(axis=0) for each in part], axis=0) for part in worn])
        < 10
    )


def test_rags_are_no_objects() -> None:
    """They lie on the ground before any object and are never annotated."""
    bare, ragged = (
        WovenScene(
            weaving=replace(WEAVING, rags=rags), rng=np.random.default_rng(3)
        ).generate_ground((64, 64))
        for rags in ((0, 1), (9, 10))
    )
    assert 0.1 < np.any(bare != ragged, axis=2).mean() < 0.95
    canvas = synthetic_scenes.generate_scene(
        replace(SMALL, empty_share=1.0, crowd_share=0.0), "train", 0
    )
    assert (
        not list(synthetic_scenes.describe_visible_objects(canvas))
        and np.ptp(canvas.colour_HWC) > 50
    )


def test_other_surfaces_are_other_scenes() -> None:
    """Crowds are woven too; a picture of one number is the same again, and another one on other
    surfaces, in a folder of its own.
    """
    canvas = synthetic_scenes.generate_scene(replace(SMALL, crowd_share=1.0), "train", 0)
    assert canvas.crowds == {0} and any(
        entry["iscrowd"] for entry in synthetic_scenes.describe_visible_objects(canvas)
    )
    plainer = replace(SMALL, surfaces=replace(WEAVING, ground_strength=0.1))
    first, second, other = (
        np.asarray(synthetic_scenes.rebuild_scene_picture(scenery, "val", "000000000002.jpg"))
        for scenery in (SMALL, SMALL, plainer)
    )
    assert np.array_equal(first, second) and not np.array_equal(first, other)
    assert SMALL.compute_digest() != plainer.compute_digest()

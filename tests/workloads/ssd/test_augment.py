"""Crops, mirror, jitter: pictures and boxes stay together."""

import numpy as np
import pytest
import torch
from PIL import Image

from suite.input import Box
from workloads.common.detection.coco import Floats, PictureObjects
from workloads.common.inputs.default import draw_picture_view
from workloads.ssd import augment, colours


def objects(*boxes: tuple[float, ...]) -> PictureObjects:
    count = len(boxes)
    box_O4: Floats = np.array(boxes, dtype=np.float32).reshape(-1, 4)
    return PictureObjects(
        box_O4=box_O4,
        label_O=np.arange(1, count + 1),
        crowd_O=np.zeros(count, dtype=np.bool_),
        number_O=np.arange(count),
    )


def marked(box: tuple[float, ...], width: int = 200, height: int = 160) -> Image.Image:
    """A black picture that is white in a box."""
    picture = Image.new("RGB", (width, height))
    left, top, right, bottom = (
        round(edge * side) for edge, side in zip(box, 2 * (width, height), strict=True)
    )
    picture.paste((255, 255, 255), (left, top, right, bottom))
    return picture


def test_pictures_and_boxes_stay_together() -> None:
    """Crop, mirror and resize move both alike: what is white lies in the box, whatever was
    drawn.
    """
    box = (0.3, 0.2, 0.6, 0.7)
    for seed in range(80):
        rng = np.random.default_rng(seed)
        picture = marked(box)
        view, found, _ = augment.sample_augmented_view(picture.size, objects(box), 100, 50, rng)
        ys, xs = np.nonzero(draw_picture_view(picture, view)[..., 0].numpy() > 127)
        seen = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) / 100
        assert np.abs(seen - found.box_O4[0]).max() < 0.03


def test_boxes_stay_inside_and_have_an_area() -> None:
    """Beyond the picture or of no area, the matching would divide by zero."""
    boxes = objects((0.0, 0.0, 0.2, 0.2), (0.4, 0.4, 0.6, 0.9), (0.9, 0.1, 1.0, 0.2))
    counts = set()
    for seed in range(200):
        _, found, _ = augment.sample_augmented_view(
            (50, 40), boxes, 32, 1, np.random.default_rng(seed)
        )
        counts.add(len(found))
        assert len(found) >= 1 and found.box_O4.min() >= 0 and found.box_O4.max() <= 1
        assert (found.box_O4[:, 2:] > found.box_O4[:, :2]).all()
        assert found.box_O4.dtype == np.float32
    assert counts == {1, 2, 3}


def test_a_crop_overlaps_every_object_as_much_as_was_drawn() -> None:
    """The reference asks it of all objects, not of one; and keeps those whose centre lies
    inside.
    """
    boxes = objects((0.0, 0.0, 0.5, 0.5), (0.6, 0.6, 1.0, 1.0))
    crop: Floats = np.array([[0.0, 0.0, 0.5, 0.6]], dtype=np.float32)
    assert augment.find_objects_in_crop(boxes.box_O4, crop, 0.0).tolist() == [[True, False]]
    assert augment.find_objects_in_crop(boxes.box_O4, crop, 0.1).tolist() == [[False, False]]
    assert augment.find_objects_in_crop(boxes.box_O4[:1], crop, 0.7).tolist() == [[True]]
    assert augment.find_objects_in_crop(boxes.box_O4[:1], crop, 0.9).tolist() == [[False]]


def test_crops_have_the_asked_sides_and_aspects() -> None:
    """0.3 to 1 of the picture, between 1:2 and 2:1."""
    crops, shapely = augment.sample_ssd_crops(300, np.random.default_rng(1))
    crops = crops[shapely]
    sides = np.array([crop[2:] - crop[:2] for crop in crops])
    assert 100 < len(crops) < 300
    assert sides.min() >= 0.3 - 1e-6 and np.array(crops).max() <= 1 + 1e-6
    assert (sides[:, 0] / sides[:, 1]).min() >= 0.5 - 1e-5 and (
        sides[:, 0] / sides[:, 1]
    ).max() <= 2 + 1e-5


def sample_one_by_one(
    extent: tuple[int, int], boxes: PictureObjects, tries: int, rng: np.random.Generator
) -> tuple[Box, list[int]]:
    """Draw crops as the reference does, in Python's own arithmetic; the box and the objects in
    it.
    """
    while (least := augment.MIN_CROP_IOU_CHOICES[rng.integers(7)]) != -1.0:
        for _ in range(tries):
            width, height = rng.uniform(0.3, 1.0, size=2)
            left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
            if not 0.5 <= width / height <= 2.0:
                continue
            crop: Floats = np.array([left, top, left + width, top + height], dtype=np.float32)
            if numbers := list_objects_inside(boxes.box_O4, crop, least):
                return augment.round_crop_to_pixels(extent, crop), numbers
    return (0, 0, *extent), list(range(len(boxes)))


def list_objects_inside(box_O4: Floats, crop: Floats, least: float) -> list[int]:
    numbers = []
    area = np.prod(crop[2:] - crop[:2])
    for number, box in enumerate(box_O4):
        shared = np.prod((np.minimum(box[2:], crop[2:]) - np.maximum(box[:2], crop[:2])).clip(0))
        union = np.prod(box[2:] - box[:2]) + area - shared
        if least > 0 and not shared / union > least:
            return []
        centre = (box[:2] + box[2:]) / 2
        if (centre > crop[:2]).all() and (centre < crop[2:]).all():
            numbers.append(number)
    return numbers


@pytest.mark.parametrize("tries", [1, 50])
def test_crops_are_those_drawn_one_by_one(tries: int) -> None:
    """The same crop and objects, and the generator goes on from the same place: what is drawn
    next, mirror and colours, stays as it was.
    """
    boxes = objects((0.0, 0.0, 0.5, 0.5), (0.3, 0.2, 0.6, 0.7), (0.6, 0.6, 1.0, 1.0))
    for seed in range(60):
        some = boxes.select_objects(np.arange(3) <= seed % 3)
        batched, plain = (np.random.default_rng([seed, tries]) for _ in range(2))
        box, found = augment.sample_crop_with_objects((640, 480), some, tries, batched)
        wanted_box, wanted = sample_one_by_one((640, 480), some, tries, plain)
        assert box == wanted_box and found.number_O.tolist() == wanted
        assert batched.bit_generator.state == plain.bit_generator.state


def test_every_overlap_is_drawn() -> None:
    """Seven choices, as the reference has them: with the whole picture among them the search
    ends.
    """
    assert sorted(augment.MIN_CROP_IOU_CHOICES) == [-1.0, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9]


@pytest.mark.parametrize("extent", [(1, 1), (10_000, 2)])
def test_pictures_of_any_shape_come_through(extent: tuple[int, int]) -> None:
    """One pixel has nothing to crop, and ten thousand are squeezed."""
    for seed in range(20):
        view, found, _ = augment.sample_augmented_view(
            extent, objects((0.1, 0.0, 0.9, 1.0)), 32, 1, np.random.default_rng(seed)
        )
        assert (
            draw_picture_view(Image.new("RGB", extent), view).shape == (32, 32, 3)
            and len(found) == 1
        )


def test_a_picture_without_objects_is_shown_whole() -> None:
    """No crop has an object's centre inside, and the search must end."""
    view, found, _ = augment.sample_augmented_view(
        (20, 20), objects(), 16, 1, np.random.default_rng(0)
    )
    assert view.box == (0, 0, 20, 20) and len(found) == 0


def test_colours_change_within_the_reference_s_bounds() -> None:
    """Brightness by up to an eighth: a grey picture stays grey and near."""
    grey = torch.full((40, 4, 4, 3), 128, dtype=torch.uint8)
    drawn = [augment.sample_colour_changes(np.random.default_rng(seed)) for seed in range(40)]
    changed = colours.change_colours(grey, *colours.pack_colour_changes(drawn))
    values = set(changed[:, 0, 0, 0].tolist())
    assert len(values) > 10 and min(values) >= 128 * 0.874 and max(values) <= 128 * 1.126


def test_it_is_a_function_of_its_generator() -> None:
    """The same picture again after a resume."""
    box = (0.3, 0.2, 0.6, 0.7)
    first, second = (
        augment.sample_augmented_view((200, 160), objects(box), 32, 1, np.random.default_rng(4))
        for _ in range(2)
    )
    assert first[::2] == second[::2] and np.array_equal(first[1].box_O4, second[1].box_O4)

"""What the network is shown: sizes, flips, padding, batches of one orientation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from workloads.common.detection import coco
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.device_copies import CopiedBatches, open_copy_stream
from workloads.maskrcnn import data
from workloads.maskrcnn.detector import geometry

HOST = torch.device("cpu")
SAME = data.PictureSizing(min_size=64, max_size=64)


@pytest.mark.parametrize(
    ("height", "width", "wanted"),
    [
        (480, 640, (800, 1066)),  # 1066.67: `int`, not `round`
        (640, 480, (1066, 800)),
        (640, 427, (1199, 800)),
        (800, 1333, (800, 1333)),
        (500, 2000, (333, 1332)),  # the shorter side is rounded, and the longer one follows from it
        (427, 2000, (285, 1334)),
        (1, 1, (800, 800)),
        (1, 10_000, (1, 1333)),
        (10_000, 1, (1333, 1)),
    ],
)
def test_resizing_is_the_reference_s(height: int, width: int, wanted: tuple[int, int]) -> None:
    """800 unless the longer side would exceed 1,333, in the arithmetic of get_size; a strip's one
    pixel stays.
    """
    assert data.PictureSizing(min_size=800, max_size=1333).compute_size(height, width) == wanted


def sample(
    tiny: Path,
    index: int,
    sizing: data.PictureSizing = SAME,
    seeds: range = range(20),
    *,
    flipped: bool,
) -> data.AnnotatedPicture:
    """Give a picture of the training set as one of the seeds flips it or does not."""
    split = coco.read_coco_split(tiny, "train")
    for seed in seeds:
        if (SampleKey(index=index).create_generator(seed).random() < 0.5) == flipped:
            return data.AnnotatedPictures(split, sizing, seed)[SampleKey(index=index)]
    raise AssertionError("no such seed")


def test_a_flip_takes_boxes_and_masks_along(tiny: Path) -> None:
    """Twice mirrored is what it was, and boxes still frame their masks."""
    plain, mirrored = (sample(tiny, 1, flipped=flipped) for flipped in (False, True))
    again = data.apply_horizontal_flip(mirrored)
    for one, other in (
        (plain.picture_HWC, again.picture_HWC),
        (plain.box_O4, again.box_O4),
        (plain.draw_masks(), again.draw_masks()),
        (plain.draw_masks().flip(2), mirrored.draw_masks()),
    ):
        assert torch.equal(one, other)
    assert not torch.equal(plain.picture_HWC, mirrored.picture_HWC)
    for box, mask in zip(mirrored.box_O4.tolist(), mirrored.draw_masks(), strict=True):
        ys, xs = torch.nonzero(mask, as_tuple=True)
        assert np.allclose(
            box,
            [float(xs.min()), float(ys.min()), float(xs.max()) + 1, float(ys.max()) + 1],
            atol=1,
        )


def test_objects_are_resized_with_their_picture(tiny: Path) -> None:
    """Twice as large: boxes and masks too."""
    small, large = (
        sample(tiny, 0, data.PictureSizing(min_size=side, max_size=side), flipped=False)
        for side in (64, 128)
    )
    assert large.picture_HWC.shape[:2] == large.draw_masks().shape[1:] == (128, 128)
    assert torch.allclose(
        geometry.convert_boxes_to_pixel_numbers(large.box_O4),
        2 * geometry.convert_boxes_to_pixel_numbers(small.box_O4),
    )
    assert torch.equal(large.draw_masks()[:, ::2, ::2], small.draw_masks())
    assert torch.equal(large.mask_OFG, small.mask_OFG)


@pytest.mark.parametrize("side", [48, 64, 67, 100, 131, 800])
@pytest.mark.parametrize("flipped", [False, True])
def test_masks_are_those_that_interpolation_enlarges(
    tiny: Path, side: int, *, flipped: bool
) -> None:
    """All pictures, at sizes that are no multiples of theirs, flipped after they are resized."""
    sizing = data.PictureSizing(min_size=side, max_size=2 * side)
    split = coco.read_coco_split(tiny, "train")
    for index in range(len(split)):
        found = sample(tiny, index, sizing, flipped=flipped)
        height, width = found.picture_HWC.shape[:2]
        wanted = (
            functional.interpolate(found.mask_OFG[:, None], size=(height, width), mode="nearest")
            if len(found.mask_OFG)
            else torch.zeros(0, 1, height, width, dtype=torch.uint8)
        )[:, 0]
        target = found.build_target()["masks"]
        assert target.dtype == torch.uint8
        assert torch.equal(target, wanted.flip(2) if flipped else wanted)


@pytest.mark.parametrize("seed", range(5))
def test_pixels_are_those_that_interpolation_of_bytes_selects(seed: int) -> None:
    """Sides up to COCO's and beyond; a number above 255 is two bytes."""
    random = np.random.default_rng(seed)
    for pixels, side in random.integers(1, 2000, size=(200, 2)).tolist():
        number_P = torch.arange(pixels)
        both = torch.stack([number_P % 256, number_P // 256]).to(torch.uint8)[None, :, None]
        low, high = functional.interpolate(both, size=(2, side), mode="nearest")[0, :, 0].long()
        assert torch.equal(data.select_nearest_pixels(pixels, side), low + 256 * high)


class CopyCounter(TorchDispatchMode):
    """Counts copies from one device to another."""

    copies = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any | None = None
    ) -> Any:
        given = kwargs or {}
        moved = str(given.get("device", "cpu")) != "cpu" and args[0].device.type == "cpu"
        self.copies += func is torch.ops.aten._to_copy.default and moved
        return func(*args, **given)


@pytest.mark.parametrize("count", [2, 7])
def test_a_batch_is_a_copy_of_each_kind(tiny: Path, count: int) -> None:
    """However many pictures it has, and everything arrives as it was, in views."""
    samples = [sample(tiny, index, flipped=bool(index % 2)) for index in range(count)]
    packed = data.pack_pictures(samples)
    for found, wanted in zip(packed.unpack_pictures(), samples, strict=True):
        assert found.weight == wanted.weight
        for name in ("picture_HWC", "box_O4", "label_O", "mask_OFG", "mask_row_H", "mask_column_W"):
            assert torch.equal(getattr(found, name), getattr(wanted, name))
    device = torch.device("meta")
    with CopyCounter() as counter:
        (copied,) = CopiedBatches(iter([packed]), device, open_copy_stream(device))
        for each in copied.unpack_pictures():
            assert all(value.device == device for value in each.build_target().values())
            assert each.picture_HWC.device == device
    assert counter.copies == 5


def test_crowds_are_not_learnt(tiny: Path) -> None:
    """Evaluation ignores them, training never sees them."""
    split = coco.read_coco_split(tiny, "train")
    assert split.crowd_A.any()
    for index in range(len(split)):
        found = data.AnnotatedPictures(split, SAME, 1)[SampleKey(index=index)]
        assert (
            len(found.label_O)
            == len(found.mask_OFG)
            == int((~split.build_trainable_objects(index).crowd_O).sum())
        )


def test_an_object_of_one_pixel_is_not_learnt() -> None:
    """Its last pixel is its first, and the reference leaves it out; two pixels, or a little more
    than one, are an object.
    """
    box = np.array([[3, 3, 4, 9], [3, 3, 9, 4], [3, 3, 4.5, 4.5], [3, 3, 5, 5]], dtype=np.float32)
    assert data.find_boxes_wider_than_pixel(box).tolist() == [False, False, True, True]


def test_pictures_are_padded_after_they_are_normalised() -> None:
    """Zero is the mean there: a padding of normalised black would be an edge. Blue comes first."""
    red = Image.new("RGB", (40, 33), (255, 0, 0))
    batch, sizes = data.build_padded_batch(
        [
            torch.from_numpy(
                data.resize_picture_to_bgr(red, data.PictureSizing(min_size=33, max_size=40))
            )
        ],
        torch.device("cpu"),
    )
    assert batch.shape == (1, 3, 64, 64) and sizes == [(33, 40)]
    assert batch[0, :, 0, 0].tolist() == pytest.approx([-102.9801, -115.9465, 255 - 122.7717])
    assert not batch[:, :, 33:].any() and not batch[:, :, :, 40:].any()


@pytest.mark.parametrize("world_size", [1, 2])
def test_evaluation_batches_have_one_padded_size(tiny: Path, world_size: int) -> None:
    """Each picture once over all ranks; one at a time in their order; and no more than were asked
    for.
    """
    split = coco.read_coco_split(tiny, "train")
    seen = []
    for rank in range(world_size):
        planned = data.plan_padded_batches(split, SAME, 2, rank, world_size)
        for keys in planned:
            sizes = {SAME.compute_padded_size(*split.get_picture_size(key.index)) for key in keys}
            assert len(sizes) == 1 and len(keys) <= 2
        assert any(len(keys) == 2 for keys in planned)
        alone = data.plan_padded_batches(split, SAME, 1, rank, world_size)
        assert [key.index for (key,) in alone] == list(range(rank, len(split), world_size))
        seen += [key.index for keys in planned for key in keys]
    assert sorted(seen) == list(range(len(split)))


def test_batches_have_one_orientation() -> None:
    """Wide and tall pictures side by side would be mostly padding; each picture once, the last of a
    kind left over.
    """
    wide = np.random.default_rng(1).random(50) < 0.4
    planned = data.plan_orientation_batches(wide, 4, seed=1, epoch=1)
    assert all(len(set(wide[batch].tolist())) == 1 for batch in planned)
    assert sorted(np.concatenate(planned).tolist()) == list(range(50))
    assert sum(len(batch) < 4 for batch in planned) <= 2
    assert any(wide[batch[0]] for batch in planned[:4]) and any(
        not wide[batch[0]] for batch in planned[:4]
    )
    assert [batch.tolist() for batch in planned] != [
        batch.tolist() for batch in data.plan_orientation_batches(wide, 4, seed=1, epoch=2)
    ]


def test_a_picture_without_objects_is_a_sample(tiny: Path) -> None:
    """Empty arrays of the right shape, whatever it is resized to."""
    empty = data.AnnotatedPicture(
        picture_HWC=torch.zeros(9, 7, 3, dtype=torch.uint8),
        box_O4=torch.zeros(0, 4),
        label_O=torch.zeros(0, dtype=torch.int64),
        mask_OFG=torch.zeros(0, 5, 6, dtype=torch.uint8),
        mask_row_H=data.select_nearest_pixels(5, 9),
        mask_column_W=data.select_nearest_pixels(6, 7),
        weight=1.0,
    )
    assert empty.build_target()["masks"].shape == (0, 9, 7)

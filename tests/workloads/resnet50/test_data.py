"""Order, augmentation and batches: functions of (seed, epoch, index) alone."""

import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from suite.input import Means, Place
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.default import DefaultReader, draw_picture_view
from workloads.resnet50 import data
from workloads.resnet50.images import embedded, imagenet


class Batch(NamedTuple):
    """One batch, without its weights."""

    picture_NHWC: torch.Tensor
    label_N: torch.Tensor


def reader(
    tiny: Path, workers: int, seed: int | None = 5, threads: int = 1
) -> DefaultReader[SampleKey, data.LabelAndWeight, data.LabelBatch]:
    album = data.LabelledAlbum(imagenet.index_imagenet_split(tiny, "train"), 32, seed, 0.3)
    return DefaultReader(
        album, Means(device="cpu", place=Place.CPU, workers=workers, threads=threads)
    )


def batches(
    tiny: Path, workers: int, plan: list[list[SampleKey]], seed: int | None = 5
) -> list[Batch]:
    return [
        Batch(picture_NHWC, labels.label_N)
        for picture_NHWC, labels in reader(tiny, workers, seed).read(plan)
    ]


PLAN = [
    [SampleKey(index=3, epoch=1), SampleKey(index=20, epoch=1)],
    [SampleKey(index=3, epoch=2), SampleKey(index=9, epoch=2)],
]


@pytest.mark.slow
def test_workers_change_nothing(tiny: Path) -> None:
    """The same pictures with none, one and two worker processes."""
    none, one, two = (batches(tiny, workers, PLAN) for workers in (0, 1, 2))
    for first, second, third in zip(none, one, two, strict=True):
        assert torch.equal(first.picture_NHWC, second.picture_NHWC)
        assert torch.equal(first.picture_NHWC, third.picture_NHWC)
        assert torch.equal(first.label_N, third.label_N)


def test_a_skipped_batch_changes_nothing(tiny: Path) -> None:
    """A resumed epoch starts in the middle and sees what the uninterrupted one saw."""
    assert torch.equal(
        batches(tiny, 0, PLAN)[1].picture_NHWC, batches(tiny, 0, PLAN[1:])[0].picture_NHWC
    )


def test_epochs_and_seeds_differ(tiny: Path) -> None:
    """The same crop in every epoch would be no augmentation."""
    first, second = batches(tiny, 0, PLAN)
    assert not torch.equal(first.picture_NHWC[0], second.picture_NHWC[0])
    assert not torch.equal(first.picture_NHWC, batches(tiny, 0, PLAN, seed=6)[0].picture_NHWC)


def test_evaluation_is_not_augmented(tiny: Path) -> None:
    """Scores may not depend on an epoch."""
    first, second = batches(tiny, 0, PLAN, seed=None)
    assert torch.equal(first.picture_NHWC[0], second.picture_NHWC[0])


def test_loaders_leave_the_global_generator_alone(tiny: Path) -> None:
    """DataLoader draws a base seed when it is iterated; a resumed run would draw once more."""
    before = torch.get_rng_state()
    batches(tiny, 0, PLAN)
    assert torch.equal(before, torch.get_rng_state())


def test_a_loader_can_be_left_and_asked_again(tiny: Path) -> None:
    """An epoch that is closed in its middle leaves prefetched batches behind; the next must not get
    them.
    """
    loader = reader(tiny, 1)
    next(loader.read(PLAN))
    again, _ = next(loader.read(PLAN[1:]))
    assert torch.equal(again, batches(tiny, 0, PLAN)[1].picture_NHWC)


def test_threads_change_nothing(tiny: Path) -> None:
    """Where there are no workers, several threads decode a batch: each picture must stay with its
    label.
    """
    alone, together = (list(reader(tiny, 0, threads=threads).read(PLAN)) for threads in (1, 3))
    for (picture_NHWC, labels), (other_NHWC, others) in zip(alone, together, strict=True):
        assert torch.equal(picture_NHWC, other_NHWC) and torch.equal(labels.label_N, others.label_N)


@pytest.mark.parametrize(("size", "short"), [(224, 256), (32, 36), (64, 73)])
def test_the_short_side_is_the_reference_s(size: int, short: int) -> None:
    """256 for 224: int(100 * 224 / 87.5)."""
    assert data.compute_eval_short_side(size) == short


@pytest.mark.parametrize(
    ("extent", "resized"),
    [
        ((500, 375), (341, 256)),
        ((375, 499), (256, 340)),
        ((500, 333), (384, 256)),
        ((80, 80), (256, 256)),
    ],
)
def test_the_long_side_is_the_reference_s(
    extent: tuple[int, int], resized: tuple[int, int]
) -> None:
    """mlcommons/inference, dataset.py, resize_with_aspectratio: `int`, which for 499 by 375 gives
    340 for 340.65; then the middle.
    """
    view = data.build_centre_crop_view(extent, 224)
    assert view.extent == resized
    assert view.window == (
        (resized[0] - 224) // 2,
        (resized[1] - 224) // 2,
        (resized[0] + 224) // 2,
        (resized[1] + 224) // 2,
    )


@pytest.mark.parametrize("extent", [(500, 375), (375, 500), (80, 80), (33, 400), (20, 20)])
def test_evaluation_keeps_the_aspect_and_takes_the_centre(extent: tuple[int, int]) -> None:
    """A picture that is white left of its middle must stay so at the middle of the crop, whatever
    its shape.
    """
    picture = Image.new("RGB", extent)
    picture.paste((255, 255, 255), (0, 0, extent[0] // 2, extent[1]))
    cropped = draw_picture_view(picture, data.build_centre_crop_view(picture.size, 32))
    assert cropped.shape == (32, 32, 3)
    assert cropped[:, :13].min() > 240
    assert cropped[:, 19:].max() < 15


@pytest.mark.parametrize("crops", data.CROP_SAMPLERS)
def test_random_boxes_stay_inside(crops: str) -> None:
    """A box over the edge would be filled with black."""
    rng = np.random.default_rng(0)
    for extent in ((80, 80), (500, 30), (7, 90), (1, 1), (1, 3000)):
        for _ in range(200):
            left, top, right, bottom = data.CROP_SAMPLERS[crops](extent, 0.05, rng)
            assert 0 <= left < right <= extent[0]
            assert 0 <= top < bottom <= extent[1]


def test_random_boxes_have_the_asked_area_and_aspect() -> None:
    """Smaller crops than asked for would make the task another one."""
    rng = np.random.default_rng(1)
    for box in (data.sample_uniform_area_crop, data.sample_reference_crop):
        for _ in range(200):
            left, top, right, bottom = box((400, 400), 0.3, rng)
            width, height = right - left, bottom - top
            assert 0.29 < width * height / 160_000 <= 1.0
            assert 0.74 < width / height < 1.35


MOMENTS = {
    (500, 375): (0.38773, 0.20812, 1.04305, 0.1676, 0.23317, 0.15873, 0.1388, 0.3544, 0.6902),
    (375, 500): (0.37207, 0.19744, 1.03695, 0.16751, 0.15607, 0.24429, 0.1363, 0.3395, 0.6528),
    (1200, 300): (0.17529, 0.05221, 1.05204, 0.16599, 0.39287, 0.09266, 0.112, 0.1676, 0.2514),
}
"""tf.image.sample_distorted_bounding_box of TensorFlow 2.21 with the arguments of T,
imagenet_preprocessing.py, seed 1, n = 100,000.

Width and height of the picture: mean and deviation of area, mean and deviation of aspect, mean left
and top edge, area at 10, 50 and 90 %.
"""


@pytest.mark.parametrize("extent", MOMENTS)
def test_crops_are_the_reference_s(extent: tuple[int, int]) -> None:
    """Moments of TensorFlow's own draws, within five standard errors of 20,000 of ours."""
    rng, count = np.random.default_rng(2), 20_000
    left, top, right, bottom = np.array(
        [data.sample_reference_crop(extent, 0.05, rng) for _ in range(count)], dtype=float
    ).T
    area, aspect = (
        (right - left) * (bottom - top) / (extent[0] * extent[1]),
        (right - left) / (bottom - top),
    )
    moments = [
        area.mean(),
        area.std(),
        aspect.mean(),
        aspect.std(),
        left.mean() / extent[0],
        top.mean() / extent[1],
        *np.percentile(area, [10, 50, 90]),
    ]
    assert moments == pytest.approx(MOMENTS[extent], abs=5 * area.std() / count**0.5 + 0.002)
    assert area.min() >= 0.1


def test_a_picture_that_no_crop_fits_is_shown_whole() -> None:
    """A strip: no box of these aspects covers a tenth of it, and the reference takes all of it, not
    its centre.
    """
    assert data.sample_reference_crop((1000, 20), 0.05, np.random.default_rng(1)) == (
        0,
        0,
        1000,
        20,
    )
    assert data.sample_uniform_area_crop((1000, 20), 0.6, np.random.default_rng(1)) == (
        490,
        0,
        510,
        20,
    )


def test_the_setting_decides_how_crops_are_drawn(tiny: Path) -> None:
    """The album asks the one that it was told."""
    found = imagenet.index_imagenet_split(tiny, "train")
    views = [
        data.LabelledAlbum(found, 32, 5, 0.6, crops)
        .view(SampleKey(index=3, epoch=1), (400, 300))[0]
        .box
        for crops in data.CROP_SAMPLERS
    ]
    rng = [SampleKey(index=3, epoch=1).create_generator(5) for _ in data.CROP_SAMPLERS]
    assert (
        views
        == [
            data.sample_reference_crop((400, 300), 0.6, rng[0]),
            data.sample_uniform_area_crop((400, 300), 0.6, rng[1]),
        ]
        and views[0] != views[1]
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the embedded data small."""
    monkeypatch.setattr(embedded, "EMBEDDED_IMAGES_PER_CLASS", {"train": 2, "val": 1})


def test_the_embedded_data_is_made_once(tmp_path: Path, few: None) -> None:
    """The second run must find it, not make it again."""
    folder = data.prepare_embedded_image_folder(tmp_path)
    marker = folder / "train" / embedded.EMBEDDED_CLASSES[0] / "marker"
    marker.touch()
    assert data.prepare_embedded_image_folder(tmp_path) == folder
    assert marker.exists()


def test_half_made_data_is_made_anew(tmp_path: Path, few: None) -> None:
    """After kill -9 in the middle a `.partial` folder lies there; it must never be taken for the
    data.
    """
    partial = (
        tmp_path
        / f"resnet50-shapes-{embedded.EMBEDDED_IMAGES_VERSION}.partial"
        / "train"
        / embedded.EMBEDDED_CLASSES[0]
    )
    partial.mkdir(parents=True)
    (partial / "rubbish.JPEG").touch()
    folder = data.prepare_embedded_image_folder(tmp_path)
    assert len(imagenet.index_imagenet_split(folder, "train")) == 24
    assert not partial.exists()


def test_several_may_ask_at_once(tmp_path: Path, few: None) -> None:
    """The ranks of one machine start together."""
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(data.prepare_embedded_image_folder(tmp_path)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(imagenet.index_imagenet_split(found[0], "val")) == 12

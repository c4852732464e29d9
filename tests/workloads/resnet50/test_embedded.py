"""The embedded data: deterministic, whole, and with nothing in it that a linear classifier could
use.
"""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from suite.input import Means, Place
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.default import DefaultReader, draw_picture_view
from workloads.common.pictures import file_checks
from workloads.common.pictures.decoding import normalise_pictures, read_rgb_picture
from workloads.resnet50 import data
from workloads.resnet50.images import embedded, imagenet


@pytest.mark.slow
def test_the_set_is_whole(embedded_pictures: Path) -> None:
    """4,800 pictures to train on, 1,008 to evaluate on, twelve classes in both."""
    train, val = (
        imagenet.index_imagenet_split(embedded_pictures, split) for split in ("train", "val")
    )
    imagenet.check_equal_class_folders(train, val)
    assert (len(train), len(val), len(train.classes)) == (4800, 1008, 12)
    assert np.bincount(train.labels).tolist() == [400] * 12
    assert np.bincount(val.labels).tolist() == [84] * 12


@pytest.mark.slow
def test_the_set_is_readable(embedded_pictures: Path) -> None:
    """Every file decodes: the look-over before the clock must not refuse our own data."""
    val = imagenet.index_imagenet_split(embedded_pictures, "val")
    assert file_checks.inspect_split_pictures(val)[0].broken == ()


def test_a_picture_is_a_function_of_its_name() -> None:
    """No order, no global generator, no clock."""
    first = np.asarray(embedded.draw_embedded_image("train", 3, 17))
    np.random.seed(0)
    assert np.array_equal(first, np.asarray(embedded.draw_embedded_image("train", 3, 17)))


def test_pictures_differ() -> None:
    """By number, by class and by split: what is evaluated was never trained on."""
    seen = {
        np.asarray(embedded.draw_embedded_image(*key)).tobytes()
        for key in [("train", 3, 17), ("train", 3, 18), ("train", 4, 17), ("val", 3, 17)]
    }
    assert len(seen) == 4


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pictures of each split, as the whole set has them."""
    folder = tmp_path_factory.mktemp("some")
    for split in ("train", "val"):
        for label, number in ((0, 0), (5, 80), (11, 76)):
            path = folder / split / embedded.EMBEDDED_CLASSES[label] / "a.JPEG"
            path.parent.mkdir(parents=True)
            embedded.draw_embedded_image(split, label, number).save(
                path, "JPEG", quality=embedded.EMBEDDED_JPEG_QUALITY
            )
    return folder


def digests(folder: Path, split: str, seed: int | None) -> list[str]:
    """Hash what the network is shown, to the last bit."""
    album = data.LabelledAlbum(
        imagenet.index_imagenet_split(folder, split), 32, seed, 0.6, "uniform-area"
    )
    reader = DefaultReader(album, Means(device="cpu", place=Place.CPU, workers=0))
    batches = reader.read([[SampleKey(index=index, epoch=1)] for index in range(3)])
    return [
        hashlib.sha256(normalise_pictures(picture_NHWC).contiguous().numpy().tobytes()).hexdigest()[
            :16
        ]
        for picture_NHWC, _ in batches
    ]


def test_golden_evaluation(some: Path) -> None:
    """Other pictures, another decoder, another resize or other means would make results that
    compare with no earlier ones.
    """
    assert digests(some, "val", None) == [
        "0d708ef15538bb90",
        "8e6315be09f9ea99",
        "e16ad57f340b947b",
    ]


def test_golden_training(some: Path) -> None:
    """The same for what is cropped and flipped at random, by seed, epoch and index."""
    assert digests(some, "train", 7) == ["bf41e4e85d28ea37", "5c8a4a0409fc83aa", "414f2a0872619411"]


def pixels(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Give evaluation's pictures at 32 px as rows, with labels on -1/+1 per class."""
    found = imagenet.index_imagenet_split(folder, split)
    seen = (read_rgb_picture(found.path(i)) for i in range(len(found)))
    rows = np.stack(
        [
            draw_picture_view(picture, data.build_centre_crop_view(picture.size, 32))
            .double()
            .numpy()
            .ravel()
            for picture in seen
        ]
    )
    return np.hstack([rows / 255 - 0.5, np.ones((len(rows), 1))]), found.labels


@pytest.mark.slow
def test_a_linear_classifier_misses_by_far(embedded_pictures: Path) -> None:
    """Ridge regression on pixels: far below the target, or the benchmark would not need its
    network.
    """
    train_ND, train_N = pixels(embedded_pictures, "train")
    val_ND, val_N = pixels(embedded_pictures, "val")
    gram_DD = train_ND.T @ train_ND + 300.0 * np.eye(train_ND.shape[1])
    weight_DK = np.linalg.solve(gram_DD, train_ND.T @ (2.0 * np.eye(12)[train_N] - 1.0))
    top1 = float(((val_ND @ weight_DK).argmax(axis=1) == val_N).mean())
    assert top1 < 0.3

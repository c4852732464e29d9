"""A bare network over ImageNet's validation pictures: the pictures, their order and the classes are
torchvision's.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from testbed import PlainEngine, a_run

from extras.networks import classifiers, labelled
from suite.errors import RequestError
from suite.studies.bare_network import Labelled
from suite.studies.batch_loop import build_batch_settings
from workloads.resnet50 import scoring

BATCH = 4
EXTENTS = ((300, 260), (240, 320), (256, 256))
SHARP = 100.0
"""Factor of the last layer's weights: random networks' logits lie so near to each other that
rounding may exchange two.
"""
MEAN, DEVIATION = (
    (0.485, 0.456, 0.406),
    (0.229, 0.224, 0.225),
)  # torchvision, transforms/_presets.py, ImageClassification


def write(folder: Path, classes: int = labelled.IMAGENET_CLASS_COUNT) -> Path:
    """One picture for each class, three different ones in turns."""
    made = []
    for number, extent in enumerate(EXTENTS):
        noise = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
        made.append(folder / f"{number}.jpg")
        folder.mkdir(exist_ok=True)
        Image.fromarray(noise).resize(extent, Image.Resampling.BICUBIC).save(made[-1])
    for label in range(classes):
        place = folder / "val" / f"n{label:08d}"
        place.mkdir(parents=True)
        (place / "a.JPEG").hardlink_to(made[label % len(made)])
    return folder


def seen_by_torchvision(path: Path) -> torch.Tensor:
    """Resize the shorter side to 256, crop 224 in the centre, normalise."""
    with Image.open(path) as picture:
        short = min(picture.size)
        width, height = (256 * side // short for side in picture.size)
        left, top = (width - 224) // 2, (height - 224) // 2
        cut = picture.resize((width, height), Image.Resampling.BILINEAR).crop(
            (left, top, left + 224, top + 224)
        )
    values = torch.from_numpy(np.asarray(cut).copy()).permute(2, 0, 1) / 255
    return (values - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


@pytest.mark.slow
def test_answers_are_the_networks_five_classes_of_each_picture(tmp_path: Path) -> None:
    """A batch that is not full is filled, and what fills it is no answer; labels are numbers of
    sorted class folders.
    """
    data = write(tmp_path / "data")
    network = classifiers.build_classifier("alexnet", 5, None)
    network.classifier[6].weight.data.mul_(SHARP)  # type: ignore[index, union-attr, operator]
    run = a_run("resnet50", data, tmp_path / "cache", build_batch_settings(BATCH))
    inference = labelled.LabelledInference(run, data, "alexnet", network, PlainEngine())
    samples = [0, 1, 2, 7, 999]
    inference.load(samples)
    predictor = inference.open(0, BATCH)
    predictor.warm_up()
    answers = [*predictor(samples[:BATCH]), *predictor(samples[BATCH:])]
    with torch.inference_mode():
        shown = torch.stack(
            [seen_by_torchvision(data / f"{sample % len(EXTENTS)}.jpg") for sample in samples]
        )
        best = network(shown).topk(5).indices.tolist()
    assert [list(scoring.unpack_class_answer(answer)) for answer in answers] == best and best[
        0
    ] != best[1]
    inference.truth(tmp_path)
    assert (
        scoring.read_image_labels(tmp_path) == list(range(labelled.IMAGENET_CLASS_COUNT))
        and inference.sample_count == labelled.IMAGENET_CLASS_COUNT
    )


def test_a_folder_of_other_classes_is_refused(tmp_path: Path) -> None:
    """Labels would be outputs of other classes; a listing names each picture with its bytes."""
    network, data = (classifiers.alexnet(), write(tmp_path / "data"))
    assert isinstance(network, Labelled)
    lines = network.listing(data).splitlines()
    assert (
        len(lines) == labelled.IMAGENET_CLASS_COUNT
        and lines[3] == f"val/n00000003/a.JPEG\t{(data / '0.jpg').stat().st_size}"
    )
    with pytest.raises(
        RequestError, match=r"12 class folders in val; the networks' outputs are ImageNet's 1000"
    ):
        network.listing(write(tmp_path / "other", classes=12))
    with pytest.raises(RequestError, match=r"expected val/<class>/<name>\.JPEG"):
        network.listing(tmp_path)

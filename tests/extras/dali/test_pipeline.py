"""DALI against the default pipeline: the same pictures within a stated tolerance, in the same
order, from the same seeds.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from testbed import PlainEngine

from suite import registry
from suite.input import Album, Extent, Means, Place
from suite.workload import Run
from workloads.common.inputs.batches import SampleKey, plan_epoch_steps, plan_evaluation_batches
from workloads.common.pictures.files import PictureFiles
from workloads.resnet50 import data
from workloads.resnet50.images import imagenet
from workloads.resnet50.inference import ResNet50Inference
from workloads.resnet50.training import ResNet50Training

pytest.importorskip(
    "nvidia.dali", reason="nvidia-dali is not installed: podium-suite[dali] brings it"
)

MakeRun = Callable[..., Run]
TOLERANCE = 0.5
"""Mean absolute difference of a picture's bytes: the default rounds between its two passes of
resizing, DALI does not (0.2 was seen).
"""
EXTENT = (90, 70)


def read(
    name: str,
    album: Album[SampleKey, object, object],
    plan: list[list[SampleKey]],
    workers: int = 0,
) -> list[torch.Tensor]:
    means = Means(device="cpu", place=Place.CPU, workers=workers)
    return [
        picture_NHWC
        for picture_NHWC, _ in registry.load_input_pipeline(name).open(album, means).read(plan)
    ]


def difference(first_NHWC: torch.Tensor, second_NHWC: torch.Tensor) -> float:
    """Give the worst picture's mean difference."""
    assert (
        first_NHWC.shape == second_NHWC.shape
        and first_NHWC.dtype == second_NHWC.dtype == torch.uint8
    )
    return float((first_NHWC.float() - second_NHWC.float()).abs().flatten(1).mean(dim=1).max())


def scene(extent: Extent) -> Image.Image:
    """Patches of all hues, lighter and darker, with soft edges."""
    rng = np.random.default_rng(3)
    patches = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8))
    return patches.resize(extent, Image.Resampling.BICUBIC)


def album(
    tiny: Path, split: str = "train", size: int = 32, seed: int | None = 5
) -> data.LabelledAlbum:
    return data.LabelledAlbum(imagenet.index_imagenet_split(tiny, split), size, seed, 0.3)


PLAN = [
    [SampleKey(index=3, epoch=1), SampleKey(index=20, epoch=1), SampleKey(index=7, epoch=1)],
    [SampleKey(index=3, epoch=2)],
]


@pytest.mark.parametrize("size", [32, 100])
def test_training_pictures_are_the_default_s(tiny: Path, size: int) -> None:
    """The same crops, mirrored alike, smaller and larger than the file's."""
    for ours, dali in zip(
        *(read(name, album(tiny, size=size), PLAN) for name in ("default", "dali")), strict=True
    ):
        assert difference(ours, dali) < TOLERANCE


def test_evaluation_pictures_are_the_default_s(tiny: Path) -> None:
    """Scores of one model must not depend on who decodes."""
    plan = plan_evaluation_batches(12, 5, 0, 1)
    for ours, dali in zip(
        *(read(name, album(tiny, "val", seed=None), plan) for name in ("default", "dali")),
        strict=True,
    ):
        assert difference(ours, dali) < TOLERANCE


def test_labels_stay_with_their_pictures(tiny: Path) -> None:
    """What goes with a batch comes from the workload, by whichever pipeline."""
    means = Means(device="cpu", place=Place.CPU, workers=0)
    for (_, ours), (_, dali) in zip(
        *(
            registry.load_input_pipeline(name).open(album(tiny), means).read(PLAN)
            for name in ("default", "dali")
        ),
        strict=True,
    ):
        assert torch.equal(ours.label_N, dali.label_N) and torch.equal(ours.weight_N, dali.weight_N)


def odd_files(folder: Path) -> Iterator[Path]:
    """What ImageNet and COCO have in a few places."""
    turned = Image.Exif()
    turned[0x0112] = 6  # EXIF 2.32, Orientation: a quarter turn, which neither reference looks at
    kinds = {
        "grey": scene(EXTENT).convert("L"),
        "cmyk": scene(EXTENT).convert("CMYK"),
        "turned": scene(EXTENT),
        "small": scene((5, 40)),
    }
    for name, picture in kinds.items():
        picture.save(
            folder / f"{name}.JPEG", "JPEG", exif=turned if name == "turned" else Image.Exif()
        )
        yield folder / f"{name}.JPEG"
    scene(EXTENT).save(folder / "png.JPEG", "PNG")
    yield folder / "png.JPEG"


def test_odd_files_are_shown_alike(tmp_path: Path) -> None:
    """Grey, CMYK, a PNG that is called JPEG, a turned camera, a sliver."""
    paths = list(odd_files(tmp_path))
    seen: list[list[torch.Tensor]] = []
    for name in ("default", "dali"):
        reader = registry.load_input_pipeline(name).open(
            PictureFiles(partial(data.build_centre_crop_view, size=48)),
            Means(device="cpu", place=Place.CPU, workers=0),
        )
        seen.append([picture_NHWC for picture_NHWC, _ in reader.read([paths])])
    assert difference(seen[0][0], seen[1][0]) < TOLERANCE


def test_a_seed_gives_the_same_pictures_again(tiny: Path) -> None:
    """To the bit, with and without a worker process; another seed gives others."""
    first, again, worker = (read("dali", album(tiny), PLAN, workers) for workers in (0, 0, 1))
    assert all(torch.equal(*pair) for pair in zip(first, again, strict=True)) and all(
        torch.equal(*pair) for pair in zip(first, worker, strict=True)
    )
    assert not torch.equal(first[0], read("dali", album(tiny, seed=6), PLAN)[0])


def test_a_resumed_epoch_sees_what_was_left(tiny: Path) -> None:
    """It begins in the middle; and a reader that was left early shows nothing of what it had
    begun.
    """
    plan = [part for step in plan_epoch_steps(24, 6, 3, 5, 1, 0, 1) for part in step.micro_batches]
    means = Means(device="cpu", place=Place.CPU, workers=0)
    reader = registry.load_input_pipeline("dali").open(album(tiny), means)
    whole = [picture_NHWC for picture_NHWC, _ in reader.read(plan)]
    left = reader.read(plan)
    next(left)
    left.close()  # type: ignore[attr-defined]  # a generator, as the harness closes it
    assert all(
        torch.equal(picture_NHWC, wanted)
        for (picture_NHWC, _), wanted in zip(reader.read(plan[3:]), whole[3:], strict=True)
    )


def test_ranks_share_the_pictures_of_an_epoch(tiny: Path) -> None:
    """Two ranks together see what one sees, each a part."""
    alone = [part for step in plan_epoch_steps(24, 6, 3, 5, 1, 0, 1) for part in step.micro_batches]
    shares = [
        [part for step in plan_epoch_steps(24, 6, 3, 5, 1, rank, 2) for part in step.micro_batches]
        for rank in range(2)
    ]
    seen = [
        picture.numpy().tobytes()
        for share in shares
        for batch in read("dali", album(tiny), share)
        for picture in batch
    ]
    assert sorted(seen) == sorted(
        picture.numpy().tobytes() for batch in read("dali", album(tiny), alone) for picture in batch
    )


def test_a_larger_batch_comes_through(tiny: Path) -> None:
    """DALI is built for a largest batch, and a later reading may have a larger one."""
    reader = registry.load_input_pipeline("dali").open(
        album(tiny), Means(device="cpu", place=Place.CPU, workers=0)
    )
    assert [
        len(picture_NHWC)
        for plan in ([[SampleKey(index=0)]], [[SampleKey(index=index) for index in range(5)]])
        for picture_NHWC, _ in reader.read(plan)
    ] == [1, 5]


def test_resnet50_trains_and_evaluates(make_run: MakeRun) -> None:
    """Through the workload's own entrance: a step, a loss and a score."""
    training = ResNet50Training(replace(make_run(), input="dali"))
    assert list(islice(training.train_epoch(1), 1)) == [8]
    assert 0 < training.loss() < 10  # ln 3 is what guessing costs
    assert 0 <= training.evaluate()["top1"] <= 1


def test_resnet50_is_served_from_the_same_pictures(make_run: MakeRun, tmp_path: Path) -> None:
    """`podium run --input dali` serves what it trained."""
    training = ResNet50Training(make_run())
    training.export(tmp_path)
    seen = []
    for name in ("default", "dali"):
        system = ResNet50Inference(replace(make_run(), input=name), tmp_path, PlainEngine())
        system.load(range(12))
        seen.append(torch.stack([system._held[index] for index in range(12)]))
    assert float((seen[0] - seen[1]).abs().mean()) < TOLERANCE / 255 / 0.22

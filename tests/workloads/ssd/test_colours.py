"""Colours of a batch on a device against Pillow's and torchvision's of one picture: equal bytes."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from workloads.common.detection.torchvision_import import torchvision
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.ssd import augment, colours
from workloads.ssd.colours import ColourChange

FUNCTIONAL = torchvision.transforms.functional
ADJUSTMENTS = {
    ColourChange.BRIGHTNESS: FUNCTIONAL.adjust_brightness,
    ColourChange.CONTRAST: FUNCTIONAL.adjust_contrast,
    ColourChange.SATURATION: FUNCTIONAL.adjust_saturation,
    ColourChange.HUE: FUNCTIONAL.adjust_hue,
}
LEVELS = 256


def change_by_pillow(picture_HW3: torch.Tensor, changes: colours.ColourChanges) -> torch.Tensor:
    picture = Image.fromarray(picture_HW3.numpy())
    for change, factor in changes:
        picture = ADJUSTMENTS[change](picture, factor)
    return torch.from_numpy(np.array(picture))


def draw_noise(count: int, height: int, width: int, seed: int) -> torch.Tensor:
    """Draw colours of every kind: full ones, near greys, few levels."""
    random = torch.Generator().manual_seed(seed)
    full = torch.randint(0, LEVELS, (count, height, width, 3), generator=random)
    near = full[..., :1] + torch.randint(-3, 4, full.shape, generator=random)
    few = full // 85 * 85
    kind = torch.randint(0, 3, (count, height, width, 1), generator=random)
    both = torch.where(kind == 0, full, torch.where(kind == 1, near, few))
    return both.clamp(0, LEVELS - 1).to(torch.uint8)


def check_against_pillow(picture_NHW3: torch.Tensor, changes: list[colours.ColourChanges]) -> None:
    found = colours.change_colours(picture_NHW3, *colours.pack_colour_changes(changes))
    assert found.dtype == torch.uint8 and found.is_contiguous()
    for picture, each, own in zip(picture_NHW3, changes, found, strict=True):
        assert torch.equal(own, change_by_pillow(picture, each)), each


@pytest.mark.parametrize("seed", range(4))
def test_drawn_changes_are_pillow_s(seed: int) -> None:
    """Each picture of a batch has its own order and its own factors."""
    rng = np.random.default_rng(seed)
    check_against_pillow(
        draw_noise(12, 37, 53, seed), [augment.sample_colour_changes(rng) for _ in range(12)]
    )


@pytest.mark.parametrize("order", list(permutations(ColourChange)), ids="-".join)
def test_every_order_is_pillow_s(order: tuple[ColourChange, ...]) -> None:
    """At the factors that clip most, and at those that change nothing."""
    factors = [(1.125, 1.5, 1.5, 0.05), (0.875, 0.5, 0.5, -0.05), (1.0, 1.0, 1.0, 0.0)]
    changes: list[colours.ColourChanges] = [
        tuple((change, each[list(ColourChange).index(change)]) for change in order)
        for each in factors
    ]
    check_against_pillow(draw_noise(len(factors), 16, 21, 7), changes)


def test_pictures_of_files_are_pillow_s(tiny: Path) -> None:
    """The scenes that are trained on, in three epochs' changes."""
    paths = sorted((tiny / "train2017").iterdir())
    assert paths
    for number, path in enumerate(paths):
        picture = torch.from_numpy(np.array(read_rgb_picture(path)))
        changes = [
            augment.sample_colour_changes(np.random.default_rng([number, epoch]))
            for epoch in range(3)
        ]
        check_against_pillow(picture.expand(3, *picture.shape), changes)


@pytest.mark.parametrize("red", range(0, LEVELS, 17))
def test_hue_is_pillow_s_for_every_colour(red: int) -> None:
    """Both conversions, for all greens and blues."""
    level = torch.arange(LEVELS, dtype=torch.uint8)
    rest = torch.meshgrid(level, level, indexing="ij")
    picture_HW3 = torch.stack([torch.full_like(rest[0], red), *rest], dim=-1)
    level_3NP = picture_HW3.flatten(0, 1).T[:, None].float()
    image = Image.fromarray(picture_HW3.numpy())
    found = torch.stack(colours.convert_to_hsv(level_3NP))[:, 0].T.view(picture_HW3.shape)
    assert np.array_equal(found.numpy(), np.array(image.convert("HSV")))
    back = colours.convert_from_hsv(*level_3NP)[:, 0].T.view(picture_HW3.shape)
    bytes_as_hsv = Image.frombytes("HSV", image.size, image.tobytes())
    assert np.array_equal(back.numpy(), np.array(bytes_as_hsv.convert("RGB")))


@pytest.mark.parametrize("size", [(300, 300), (1, 1), (1, 7)])
def test_a_mean_grey_is_pillow_s(size: tuple[int, int]) -> None:
    """Contrast needs the mean of up to 90,000 greys, whose sum fp32 cannot hold."""
    white = torch.full((2, *size, 3), 254, dtype=torch.uint8)
    white[1] = draw_noise(1, *size, 5)[0]
    change: colours.ColourChanges = (
        (ColourChange.CONTRAST, 0.5),
        (ColourChange.HUE, 0.0),
        (ColourChange.BRIGHTNESS, 1.0),
        (ColourChange.SATURATION, 1.0),
    )
    check_against_pillow(white, [change, change])

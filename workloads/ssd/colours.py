"""Colour changes of a batch of images on its device, equal to the byte to Pillow's of one image.

The reference jitters through Pillow: brightness, contrast and saturation blend an image with black,
with its mean grey or with its grey image; a hue is shifted in eight bits. Each change is rounded
to bytes. Pillow, src/libImaging: Blend.c, Convert.c (L, rgb2hsv_row, hsv2rgb_row); torchvision,
transforms/_functional_pil.py.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import torch

# Legend: N images of a batch, S blends of an image, H height, W width, P pixels of an image, 3
# colour channels.
Tensor = torch.Tensor


class ColourChange(StrEnum):
    """A colour adjustment by a factor, as torchvision's `adjust_<name>` defines it; the factor of
    hue is a fraction of the circle.
    """

    BRIGHTNESS = "brightness"
    CONTRAST = "contrast"
    SATURATION = "saturation"
    HUE = "hue"


ColourChanges: TypeAlias = tuple[tuple[ColourChange, float], ...]
"""Each of the four changes once, in the order in which they apply."""
PackedChanges: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Numbers of blends [N, S], their factors [N, S], and shifts of hue [N]."""
BLENDS: Final = tuple(change for change in ColourChange if change is not ColourChange.HUE)
BRIGHTNESS_NUMBER, CONTRAST_NUMBER, _ = range(len(BLENDS))
UNCHANGED: Final = (ColourChange.BRIGHTNESS, 1.0)  # fills up the blends on either side of the hue
GREY_WEIGHTS_3: Final = (19595.0, 38470.0, 7471.0)  # ITU-R 601, in 65,536ths, as in Convert.c
GREY_UNIT: Final = 65536.0
MAX_LEVEL: Final = 255
HUE_SECTORS: Final = 6


def pack_colour_changes(changes: Sequence[ColourChanges]) -> PackedChanges:
    """Pack the changes of a batch: as many blends before the hue as after it, some of which change
    nothing, so that all images take the same steps.
    """
    numbers, factors, shifts = [], [], []
    for each in changes:
        hue_at = [change for change, _ in each].index(ColourChange.HUE)
        blends = [
            blend
            for side in (each[:hue_at], each[hue_at + 1 :])
            for blend in (*side, *[UNCHANGED] * (len(BLENDS) - len(side)))
        ]
        numbers.append([BLENDS.index(change) for change, _ in blends])
        factors.append([factor for _, factor in blends])
        shifts.append(int(each[hue_at][1] * MAX_LEVEL))
    return torch.tensor(numbers), torch.tensor(factors), torch.tensor(shifts)


def change_colours(
    picture_NHW3: Tensor, number_NS: Tensor, factor_NS: Tensor, shift_N: Tensor
) -> Tensor:
    """Apply packed changes to images of bytes; all on one device, which never waits for the
    host.
    """
    level_3NP = picture_NHW3.flatten(1, 2).permute(2, 0, 1).to(torch.float32)
    level_3NP = level_3NP.contiguous()
    steps = list(zip(number_NS.T[..., None], factor_NS.T[..., None], strict=True))
    for number_N1, factor_N1 in steps[: len(BLENDS)]:
        level_3NP = blend_levels(level_3NP, number_N1, factor_N1)
    level_3NP = shift_hue(level_3NP, shift_N[:, None])
    for number_N1, factor_N1 in steps[len(BLENDS) :]:
        level_3NP = blend_levels(level_3NP, number_N1, factor_N1)
    changed_NP3 = level_3NP.to(torch.uint8).permute(1, 2, 0).contiguous()
    return changed_NP3.view(picture_NHW3.shape)


def blend_levels(level_3NP: Tensor, number_N1: Tensor, factor_N1: Tensor) -> Tensor:
    """Interpolate, or extrapolate, from black, the mean grey or the grey image to each image."""
    red_NP, green_NP, blue_NP = (
        level * weight for level, weight in zip(level_3NP, GREY_WEIGHTS_3, strict=True)
    )
    grey_NP = red_NP.add_(green_NP).add_(blue_NP).add_(GREY_UNIT / 2).div_(GREY_UNIT).floor_()
    pixels = grey_NP.shape[1]
    total_N1 = grey_NP.to(torch.int32).sum(dim=1, keepdim=True)
    mean_N1 = (2 * total_N1 + pixels).div_(2 * pixels, rounding_mode="floor").to(torch.float32)
    other_NP = torch.where(number_N1 == CONTRAST_NUMBER, mean_N1, grey_NP)
    other_NP = other_NP.masked_fill_(number_N1 == BRIGHTNESS_NUMBER, 0.0)
    # two operations, since a fused one would round once where Pillow rounds twice
    mixed_3NP = (level_3NP - other_NP).mul_(factor_N1).add_(other_NP)
    return mixed_3NP.clamp_(0, MAX_LEVEL).floor_()


def shift_hue(level_3NP: Tensor, shift_N1: Tensor) -> Tensor:
    """Convert to hue, saturation and value of eight bits each, shift the hue, and convert back."""
    hue_NP, saturation_NP, value_NP = convert_to_hsv(level_3NP)
    return convert_from_hsv((hue_NP + shift_N1).remainder_(MAX_LEVEL + 1), saturation_NP, value_NP)


def convert_to_hsv(level_3NP: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert to hue, saturation and value; whole numbers up to 255."""
    red_NP, green_NP, _ = level_3NP
    value_NP = level_3NP.amax(dim=0)
    spread_NP = value_NP - level_3NP.amin(dim=0)
    from_red_NP, from_green_NP, from_blue_NP = (value_NP - level_3NP).div_(spread_NP.clamp(min=1))
    # Pillow adds in double precision and keeps single precision: rounding twice decides some hues
    turned_NP = torch.where(
        green_NP == value_NP,
        (2.0 + from_red_NP.double()).sub_(from_blue_NP),
        (4.0 + from_green_NP.double()).sub_(from_red_NP),
    ).float()
    turned_NP = torch.where(red_NP == value_NP, from_blue_NP - from_green_NP, turned_NP)
    share_NP = turned_NP.double().div_(HUE_SECTORS).add_(1.0).remainder_(1.0).float()
    hue_NP = share_NP.double().mul_(MAX_LEVEL).floor_().float().masked_fill_(spread_NP == 0, 0.0)
    saturation_NP = (spread_NP / value_NP.clamp(min=1)).mul_(MAX_LEVEL).floor_()
    return hue_NP, saturation_NP, value_NP


def convert_from_hsv(hue_NP: Tensor, saturation_NP: Tensor, value_NP: Tensor) -> Tensor:
    """Convert hue, saturation and value, up to 255 each, to red, green and blue; [3, N, P]."""
    position_NP = (hue_NP * HUE_SECTORS).div_(MAX_LEVEL)
    sector_NP = position_NP.floor()
    inside_NP, share_NP = position_NP - sector_NP, saturation_NP / MAX_LEVEL
    low_NP, falling_NP, rising_NP = (
        (value_NP * (1 - part_NP)).add_(0.5).floor_()
        for part_NP in (share_NP, share_NP * inside_NP, share_NP * (1 - inside_NP))
    )
    sector_NP = sector_NP.to(torch.int64).remainder_(HUE_SECTORS)
    wheel = (value_NP, falling_NP, low_NP, low_NP, rising_NP, value_NP)
    wheel_6NP = torch.stack(wheel)  # of red; green and blue are two and four sectors behind
    channels = [
        wheel_6NP.gather(0, (sector_NP + behind).remainder_(HUE_SECTORS)[None])[0]
        for behind in (0, 4, 2)
    ]
    return torch.stack(channels)

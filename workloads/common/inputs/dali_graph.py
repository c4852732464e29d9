"""DALI's image processing as one graph: decode the crop, resize it, flip it, change its colours.

Every number is an input, so the graph draws nothing at random. Colours change as in Pillow: a blend
with black, with the mean grey or with the grey image, truncated to integers; and a rotation of
the hue in its hexagon.
"""

from typing import Any, Final

from nvidia.dali import backend, fn, math, pipeline_def, types

from suite.input import Change, Place

CHANGE_NUMBERS: Final = {change: number for number, change in enumerate(Change, 1)}
"""The number of each change in the graph; 0: none."""
BRIGHTNESS_NUMBER, CONTRAST_NUMBER, SATURATION_NUMBER, HUE_NUMBER = (
    CHANGE_NUMBERS[change]
    for change in (Change.BRIGHTNESS, Change.CONTRAST, Change.SATURATION, Change.HUE)
)
HUE_SECTORS: Final = 6  # of the hue hexagon
RED_SECTOR_OFFSET, GREEN_SECTOR_OFFSET, BLUE_SECTOR_OFFSET = (
    5,
    3,
    1,
    # offsets of the three channels in it: Smith 1978, Color gamut transform pairs, as a closed
    # formula
)
MAX_CHANNEL_LEVEL: Final = 255.0
ORIENTATION_OPTIONS: Final = (
    {"adjust_orientation": False}
    if backend.GetSchema("decoders__ImageSlice").HasArgument("adjust_orientation")
    else {}
)
"""Ignores the EXIF orientation; older decoders always do."""


# no type information published
@pipeline_def(enable_conditionals=True)  # type: ignore[untyped-decorator]
def define_picture_graph(place: Place, steps: int) -> Any:
    """Define the graph for `steps` colour changes; an image's numbers are in the order height,
    width.
    """
    jpeg = fn.external_source(name="jpeg", dtype=types.UINT8, ndim=1)
    start, stop = (
        fn.external_source(name=name, dtype=types.INT32, ndim=1) for name in ("start", "stop")
    )
    low, high, size = (
        fn.external_source(name=name, dtype=types.FLOAT, ndim=1) for name in ("low", "high", "size")
    )
    mirrored = fn.external_source(name="mirrored", dtype=types.INT32, ndim=0)
    decoder = "mixed" if place is Place.MIXED else "cpu"
    picture = fn.decoders.image_slice(
        jpeg,
        device=decoder,
        start=start,
        end=stop,
        axes=[0, 1],
        output_type=types.RGB,
        **ORIENTATION_OPTIONS,
    )
    picture = picture.gpu() if place is Place.GPU else picture
    picture = fn.resize(
        picture,
        size=size,
        roi_start=low,
        roi_end=high,
        interp_type=types.INTERP_LINEAR,
        antialias=True,
    )
    picture = fn.flip(picture, horizontal=mirrored)
    for step in range(steps):
        change = fn.external_source(name=f"change{step}", dtype=types.INT32, ndim=0)
        factor = fn.external_source(name=f"factor{step}", dtype=types.FLOAT, ndim=0)
        picture = apply_dali_colour_change(
            picture, change, factor if place is Place.CPU else factor.gpu()
        )
    return picture


def apply_dali_colour_change(picture: Any, change: Any, factor: Any) -> Any:
    """Apply one change; DALI splits the batch by its kind."""
    if change == HUE_NUMBER:
        result = rotate_hue(picture, factor)
    elif change == SATURATION_NUMBER:
        result = mix_pictures(picture, convert_to_grey(picture), factor)
    elif change == CONTRAST_NUMBER:
        result = mix_pictures(
            picture, math.floor(fn.reductions.mean(convert_to_grey(picture)) + 0.5), factor
        )
    elif change == BRIGHTNESS_NUMBER:
        result = mix_pictures(picture, 0.0, factor)
    else:
        result = picture
    return result


def convert_to_grey(picture: Any) -> Any:
    """Convert to one grey channel with ITU-R 601 weights."""
    return fn.color_space_conversion(picture, image_type=types.RGB, output_type=types.GRAY)


def mix_pictures(picture: Any, other: Any, factor: Any) -> Any:
    """Interpolate, or extrapolate, from another image to this one (Pillow's ImageEnhance)."""
    return fn.cast(
        math.floor(math.clamp(picture * factor + other * (1.0 - factor), 0.0, MAX_CHANNEL_LEVEL)),
        dtype=types.UINT8,
    )


def rotate_hue(picture: Any, share: Any) -> Any:
    """Rotate the hue by a fraction of the circle; the largest and smallest channel values stay the
    same.
    """
    red, green, blue = (
        fn.cast(picture[:, :, channel : channel + 1], dtype=types.FLOAT) for channel in range(3)
    )
    top, spread = (
        math.max(red, math.max(green, blue)),
        math.max(red, math.max(green, blue)) - math.min(red, math.min(green, blue)),
    )
    is_red = fn.cast(red == top, dtype=types.FLOAT)
    is_green = fn.cast(green == top, dtype=types.FLOAT) * (1.0 - is_red)
    is_blue = 1.0 - is_red - is_green
    inside = is_red * (green - blue) + is_green * (blue - red) + is_blue * (red - green)
    hue = (
        inside / math.max(spread, 1.0)
        + 2.0 * is_green
        + 4.0 * is_blue
        + (1.0 + share) * HUE_SECTORS
    )
    channels = [
        compute_hue_channel(hue + offset, top, spread)
        for offset in (RED_SECTOR_OFFSET, GREEN_SECTOR_OFFSET, BLUE_SECTOR_OFFSET)
    ]
    return fn.cast(fn.cat(*channels, axis=2), dtype=types.UINT8)


def compute_hue_channel(position: Any, top: Any, spread: Any) -> Any:
    """Return a channel's value from its position in the hexagon."""
    position = position - math.floor(position / HUE_SECTORS) * HUE_SECTORS
    return top - spread * math.clamp(math.min(position, 4.0 - position), 0.0, 1.0)

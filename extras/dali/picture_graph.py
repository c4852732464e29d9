"""DALI's image processing as one graph: decode the crop, resize it, flip it.

Every number is an input, so the graph draws nothing at random.
"""

from typing import Any

from nvidia.dali import backend, fn, pipeline_def, types

from suite.input import Place


def get_orientation_options() -> dict[str, bool]:
    """Return the options that ignore the EXIF orientation; older decoders always do."""
    if backend.GetSchema("decoders__ImageSlice").HasArgument("adjust_orientation"):
        return {"adjust_orientation": False}
    return {}


# no type information published
@pipeline_def  # type: ignore[untyped-decorator]
def define_picture_graph(place: Place) -> Any:
    """Define the graph; an image's numbers are in the order height, width."""
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
        **get_orientation_options(),
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
    return fn.flip(picture, horizontal=mirrored)

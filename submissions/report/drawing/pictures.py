"""Draws ground truth and detections over an image, or on an empty frame if the image must not be
shown.
"""

from typing import Final

from markupsafe import Markup

from suite.examples import Example, Outline

OUTLINE_COLOURS: Final = (
    "#ff4d4d",
    "#2dd4bf",
    "#facc15",
    "#60a5fa",
    "#f472b6",
    "#a3e635",
    "#fb923c",
    "#c084fc",
    "#22d3ee",
    "#e5e7eb",
)
"""Class colours over images, cycled, as COCO's own viewers colour classes; bright, with a dark
edge, so that they show on any image.
"""
EDGE_COLOUR: Final = "#000000"
MAX_PICTURE_PX: Final = 220
"""Maximum width or height of an image, in CSS pixels."""


def draw_example_picture(example: Example, which: str) -> Markup:
    """Draw `truth` or `found` over the image of an example; if `which` is empty, draw the image
    only.
    """
    outlines = {"truth": example.truth, "found": example.found}.get(which, ())
    width, height = example.width or 1, example.height or 1
    factor = MAX_PICTURE_PX / max(width, height)
    unit = max(width, height) / MAX_PICTURE_PX
    name = {"truth": "annotated", "found": "found"}.get(which, "picture")
    labels = "; ".join(map(format_outline_label, outlines))
    words = (
        f"Sample {example.sample}, {name}: {labels or ('nothing' if which else example.expected)}"
    )
    image = Markup('<image href="{}" width="{}" height="{}" preserveAspectRatio="none"/>').format(
        example.picture, width, height
    )
    frame = Markup(
        '<rect width="{}" height="{}" fill="none" stroke="currentColor" stroke-opacity="0.35"'
        ' stroke-width="{:.3f}"/>'
    ).format(width, height, unit)
    body = Markup("").join(draw_outline(each, unit) for each in outlines)
    return Markup(
        '<svg class="picture" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{:.0f}"'
        ' height="{:.0f}">{}{}{}</svg>'
    ).format(
        words,
        width,
        height,
        width * factor,
        height * factor,
        image if example.picture else "",
        frame,
        body,
    )


def format_outline_label(outline: Outline) -> str:
    if outline.score is not None:
        return f"{outline.label} {outline.score:.2f}"
    return outline.label


def draw_outline(outline: Outline, unit: float) -> Markup:
    """Draw one object: its mask lightly filled, its box with a dark edge, so that it shows on any
    image.
    """
    colour = OUTLINE_COLOURS[outline.colour % len(OUTLINE_COLOURS)]
    left, top, width, height = outline.box
    shape = Markup("").join(draw_mask_polygon(each, colour, unit) for each in outline.polygons)
    box = Markup(
        '<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="none" stroke="{}"'
        ' stroke-width="{:.3f}"/>'
    )
    corners = (left, top, max(width, 0), max(height, 0))
    return (
        shape
        + box.format(*corners, EDGE_COLOUR, 3.4 * unit)
        + box.format(*corners, colour, 1.8 * unit)
    )


def draw_mask_polygon(points: tuple[float, ...], colour: str, unit: float) -> Markup:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(points[::2], points[1::2], strict=False))
    return Markup(
        '<polygon points="{}" fill="{}" fill-opacity="0.35" stroke="{}" stroke-width="{:.3f}"/>'
    ).format(path, colour, colour, unit)

"""Draws ground truth and detections over an image, or on an empty frame if the image may not be
shown.
"""

from typing import Final

from markupsafe import Markup

from suite.examples import Example, Outline

PALETTE: Final = (
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
EDGE: Final = "#000000"
LARGEST: Final = 220
"""Maximum width or height of an image, in CSS pixels."""


def draw(example: Example, which: str) -> Markup:
    """Draw `truth` or `found` over the image of an example; an empty `which` draws the image
    only.
    """
    outlines = {"truth": example.truth, "found": example.found}.get(which, ())
    width, height = example.width or 1, example.height or 1
    factor = LARGEST / max(width, height)
    unit = max(width, height) / LARGEST
    name = {"truth": "annotated", "found": "found"}.get(which, "picture")
    words = (
        f"Sample {example.sample}, {name}:"
        f" {'; '.join(map(said, outlines)) or ('nothing' if which else example.expected)}"
    )
    image = Markup('<image href="{}" width="{}" height="{}" preserveAspectRatio="none"/>').format(
        example.picture, width, height
    )
    frame = Markup(
        '<rect width="{}" height="{}" fill="none" stroke="currentColor" stroke-opacity="0.35"'
        ' stroke-width="{:.3f}"/>'
    ).format(width, height, unit)
    body = Markup("").join(outlined(each, unit) for each in outlines)
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


def said(outline: Outline) -> str:
    """Label an object."""
    return f"{outline.label} {outline.score:.2f}" if outline.score is not None else outline.label


def outlined(outline: Outline, unit: float) -> Markup:
    """Draw one object: its mask lightly filled, its box with a dark edge, so that it shows on any
    image.
    """
    colour = PALETTE[outline.colour % len(PALETTE)]
    left, top, width, height = outline.box
    shape = Markup("").join(polygon(each, colour, unit) for each in outline.polygons)
    box = Markup(
        '<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="none" stroke="{}"'
        ' stroke-width="{:.3f}"/>'
    )
    place = (left, top, max(width, 0), max(height, 0))
    return shape + box.format(*place, EDGE, 3.4 * unit) + box.format(*place, colour, 1.8 * unit)


def polygon(points: tuple[float, ...], colour: str, unit: float) -> Markup:
    """Draw one polygon of a mask."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(points[::2], points[1::2], strict=False))
    return Markup(
        '<polygon points="{}" fill="{}" fill-opacity="0.35" stroke="{}" stroke-width="{:.3f}"/>'
    ).format(path, colour, colour, unit)

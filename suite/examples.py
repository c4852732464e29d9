"""Examples of answers: what a report shows of a model. Entry points of the group `podium.examples`; no framework is imported for them.

An entry point is a function of (answers, truth, embedded, cache) that gives an `Examples`. `embedded` says that the truth is that of podium's
own data: pictures and sentences of other data belong to somebody else, and are not shown.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ExampleKind(StrEnum):
    """What an answer is."""

    LABELS = "labels"
    BOXES = "boxes"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A box, and where there is a mask its polygons; all in pixels of the picture."""

    label: str
    score: float | None
    """Of a detection; None for what was annotated."""
    box: tuple[float, float, float, float]
    """Left, top, width, height."""
    polygons: tuple[tuple[float, ...], ...] = ()
    """x and y in turn."""
    colour: int = 0
    """Number of the class, which the colour follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What the model made of one sample."""

    sample: int
    right: bool | None
    """None if right and wrong are no question."""
    expected: str
    answered: str
    source: str = ""
    """The sentence that was to be translated."""
    picture: str = ""
    """A data: URL; empty if none may be shown, or none can be drawn here."""
    width: int = 0
    height: int = 0
    """Of the picture, in pixels; 0 where there is none."""
    truth: tuple[Outline, ...] = ()
    found: tuple[Outline, ...] = ()
    quality: float | None = None
    """0-1: how good the answer is by itself."""


class Examples(Protocol):
    """The answers of one accuracy run beside their truth."""

    kind: ExampleKind

    def __len__(self) -> int:
        """Count the samples."""
        ...

    def quality(self, sample: int) -> float:
        """Say how good an answer is, 0-1; a missing one is 0."""
        ...

    def example(self, sample: int) -> Example:
        """Show one."""
        ...

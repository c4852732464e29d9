"""Example answers that a report shows of a model: what the parts `examples` and `episode` of a
workload (suite.workload.Workload) return; they import no framework.

`examples` is a function of (answers, truth, embedded, cache) that returns an `Examples`. `embedded`
is true for podium's own data; images and sentences of other data belong to third parties and are
not shown.

`episode` is a function of what a training log has of one evaluation
(suite.workload.ExampleTraining) that returns an `Episode`, and raises ValueError where it is none:
the log may be anybody's.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol


class ExampleKind(StrEnum):
    """Kind of an answer."""

    LABELS = "labels"
    BOXES = "boxes"
    TEXT = "text"
    FRAMES = "frames"
    """Pictures of one episode in their order."""


DEFAULT_TEXT_NAMES: Final = ("Source", "Translation")
"""What a model reads and what it answers, unless its examples have other `names`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A box, and where there is a mask its polygons; all in pixels of the picture."""

    label: str
    score: float | None
    """Score of a detection; None for ground truth."""
    box: tuple[float, float, float, float]
    """Left, top, width, height."""
    polygons: tuple[tuple[float, ...], ...] = ()
    """x and y in turn."""
    colour: int = 0
    """Class number, which determines the colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What the model made of one sample."""

    sample: int
    right: bool | None
    """Whether the answer is right; None if that does not apply."""
    expected: str
    answered: str
    source: str = ""
    """The source sentence of a translation."""
    picture: str = ""
    """A data: URL; empty if the image may not be shown or cannot be drawn here."""
    width: int = 0
    height: int = 0
    """Height of the image in pixels; 0 if there is none."""
    truth: tuple[Outline, ...] = ()
    found: tuple[Outline, ...] = ()
    quality: float | None = None
    """0-1: quality of this single answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """What happened in one game, or whatever else a policy is evaluated by."""

    title: str
    description: str
    frames: tuple[Example, ...]
    """Images in their order, numbered by `sample`; `expected` says what each shows."""
    estimates: tuple[tuple[float, float], ...]
    """What the policy thought of its chances, 0-1, at numbers of frames."""
    epoch_name: str = "epoch"
    """What the workload calls an epoch."""


class Examples(Protocol):
    """The answers of one accuracy run with their ground truth. One with a text `legend` says in it
    what the marks in its pictures mean.
    """

    kind: ExampleKind

    def __len__(self) -> int:
        """Count the samples."""
        ...

    def quality(self, sample: int) -> float:
        """Return the quality of an answer, 0-1; 0 if it is missing."""
        ...

    def example(self, sample: int) -> Example:
        """Return one example."""
        ...

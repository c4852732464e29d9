"""The input-pipeline interface: a workload specifies crop, size, flip and colour of each image, a pipeline decodes and applies them.

No pipeline knows a workload by name. Whatever is drawn at random is drawn by the workload, from the seed, the epoch and the number of
the sample; a pipeline only carries it out, so that every one of them shows the same pictures in the same order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

K_contra = TypeVar("K_contra", contravariant=True)
"""What a workload names a picture by."""
K = TypeVar("K")
N = TypeVar("N")
"""What goes with one picture: a label, targets."""
C = TypeVar("C")
"""The same for a batch."""
C_co = TypeVar("C_co", covariant=True)

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels."""
Extent: TypeAlias = tuple[int, int]
"""Width and height in pixels."""


class Change(StrEnum):
    """A change of colours by a factor, as torchvision's `adjust_<name>` makes it of a picture; hue's is a share of the circle."""

    BRIGHTNESS = "brightness"
    CONTRAST = "contrast"
    SATURATION = "saturation"
    HUE = "hue"


class Place(StrEnum):
    """Where a pipeline works: the setting `input.device`."""

    CPU = "cpu"
    MIXED = "mixed"
    """Decoded by the GPU's decoder, and all that follows on the GPU."""
    GPU = "gpu"
    """Decoded on the CPU, and all that follows on the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one picture is to look like: a part of it, resized (bilinear; smaller with antialiasing), mirrored, its colours changed."""

    box: Box
    """The part of the file's picture that is shown, cut out before it is resized: nothing beside it shines through."""
    extent: Extent
    """What the part is resized to."""
    window: Box | None = None
    """What is kept of that, in pixels of it; None: all. As large in all views of a batch."""
    mirrored: bool = False
    """Left to right."""
    changes: tuple[tuple[Change, float], ...] = ()
    """In the order in which they are made, each rounded to bytes."""


class Album(Protocol[K_contra, N, C_co]):
    """The pictures that a workload wants shown; pickles, since worker processes ask it."""

    def path(self, key: K_contra, /) -> Path:
        """Return where a picture is stored."""

    def view(self, key: K_contra, extent: Extent, /) -> tuple[View, N]:
        """Say what a picture of that extent is to look like, and what goes with it; a function of both alone."""

    def together(self, notes: Sequence[N], /) -> C_co:
        """Put what goes with the pictures of a batch side by side; pickles, and pins its memory by `pin_memory` where it has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a pipeline may use."""

    device: str
    """The run's."""
    place: Place
    workers: int
    """Processes, or a pipeline's own threads, that decode; 0: the caller's process."""
    threads: int = 1
    """Of the caller's process, where there are no workers."""


class Reader(Protocol[K, C_co]):
    """An open pipeline over one album."""

    def read(self, batches: Sequence[list[K]], /) -> Iterator[tuple[Any, C_co]]:
        """Yield (pictures as bytes, N H W C, a tensor of torch; notes) of each batch, and read no other.

        What is yielded belongs to the caller. It may be closed early, and asked again.
        """


class Input(Protocol):
    """An input pipeline. Registered as an entry point of the group `podium.inputs`."""

    name: ClassVar[str]
    places: ClassVar[tuple[Place, ...]]
    """Where it can work."""

    def missing(self, device: str, place: Place) -> str | None:
        """Say what this machine lacks for it on a run's device, or None; imports no framework."""

    def open(self, album: Album[K, N, C], means: Means) -> Reader[K, C]:
        """Prepare to read an album; MissingError if it cannot be."""

"""The input-pipeline interface: a workload specifies crop, size and flip of each image; a pipeline
decodes and applies them. What changes colours only is the training step's, on its device.

No pipeline knows a workload by name. The workload draws all random values, from the seed, the epoch
and the sample's number; a pipeline only applies them, so that all pipelines yield the same images
in the same order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

K_contra = TypeVar("K_contra", contravariant=True)
"""The workload's key of an image."""
K = TypeVar("K")
N = TypeVar("N")
"""Annotation of one image: a label, targets."""
C = TypeVar("C")
"""Annotations of a batch."""
C_co = TypeVar("C_co", covariant=True)

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels."""
Extent: TypeAlias = tuple[int, int]
"""Width and height in pixels."""


class Place(StrEnum):
    """Where a pipeline runs: the setting `input.device`."""

    CPU = "cpu"
    MIXED = "mixed"
    """Decoded by the GPU's decoder; everything after that runs on the GPU too."""
    GPU = "gpu"
    """Decoded on the CPU; everything after that runs on the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How to transform one image: crop, resize (bilinear; antialiased when downscaling), flip."""

    box: Box
    """The crop of the file's image, taken before resizing: no pixel outside it contributes."""
    extent: Extent
    """Size that the crop is resized to."""
    window: Box | None = None
    """Second crop, in pixels of the resized image; None: all of it. The same size in all views of a
    batch.
    """
    mirrored: bool = False
    """Flipped horizontally."""


class Album(Protocol[K_contra, N, C_co]):
    """The images of a workload, with their views; picklable, since worker processes use it."""

    def path(self, key: K_contra, /) -> Path:
        """Return the path of an image."""

    def view(self, key: K_contra, extent: Extent, /) -> tuple[View, N]:
        """Return the view of an image of this size, and its annotation; depends on key and size
        only.
        """

    def together(self, notes: Sequence[N], /) -> C_co:
        """Collate the annotations of a batch; the result is picklable, and has `pin_memory` if it
        has memory to pin.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Resources that a pipeline may use."""

    device: str
    """Device of the run."""
    place: Place
    workers: int
    """Processes, or the pipeline's own threads, that decode; 0: the calling process."""
    threads: int = 1
    """Threads of the calling process, if there are no workers."""


class Reader(Protocol[K_contra, C_co]):
    """An open pipeline over one album."""

    def read(self, batches: Sequence[Sequence[K_contra]], /) -> Iterator[tuple[Any, C_co]]:
        """Yield (images as uint8, N H W C, a torch tensor; annotations) per batch, and read nothing
        beyond these batches.

        The caller owns what is yielded. The iterator may be closed early, and `read` called again.
        """


class Input(Protocol):
    """An input pipeline. Registered as an entry point of the group `podium.inputs`."""

    name: ClassVar[str]
    places: ClassVar[tuple[Place, ...]]
    """Places where it can run."""

    def missing(self, device: str, place: Place) -> str | None:
        """Return what this machine lacks to run it on a run's device, or None; imports no
        framework.
        """

    def open(self, album: Album[K, N, C], means: Means) -> Reader[K, C]:
        """Prepare to read an album; MissingError if that is impossible here."""

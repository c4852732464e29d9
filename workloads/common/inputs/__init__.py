"""Input pipelines, and how a workload comes by the one that a run names."""

from typing import TypeVar

from suite import registry
from suite.errors import MissingError
from suite.input import Album, Means, Place, Reader
from suite.workload import Run
from workloads.common.values import text

K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")


def opened(run: Run, album: Album[K, N, C], workers: int, threads: int = 1) -> Reader[K, C]:
    """Open the run's pipeline over an album; MissingError says what this machine lacks for it."""
    pipeline = registry.input_pipeline(run.input)
    place = Place(text(run.settings, "input.device"))
    if why := pipeline.missing(run.device, place):
        raise MissingError(f"--input {run.input}: {why}")
    return pipeline.open(album, Means(device=run.device, place=place, workers=workers, threads=threads))

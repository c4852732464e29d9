"""Input pipelines, and the lookup of a run's pipeline."""

from typing import TypeVar

from suite import registry
from suite.errors import MissingError
from suite.input import Album, Input, Means, Place, Reader
from suite.workload import Run
from workloads.common.setting_values import require_text_setting

K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")


def open_input_reader(
    run: Run, album: Album[K, N, C], workers: int, threads: int = 1
) -> Reader[K, C]:
    """Open the run's pipeline over an album; MissingError if this machine lacks something
    for it.
    """
    return require_input_pipeline(run).open(
        album,
        Means(device=run.device, place=resolve_input_place(run), workers=workers, threads=threads),
    )


def require_input_pipeline(run: Run) -> Input:
    """Return the run's pipeline; MissingError if this machine lacks something for it. Imports no
    framework.
    """
    pipeline = registry.load_input_pipeline(run.input)
    if why := pipeline.missing(run.device, resolve_input_place(run)):
        raise MissingError(f"--input {run.input}: {why}")
    return pipeline


def resolve_input_place(run: Run) -> Place:
    """Return where the pipeline runs: on the CPU or a GPU."""
    return Place(require_text_setting(run.settings, "input.device"))

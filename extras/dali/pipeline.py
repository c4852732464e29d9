"""NVIDIA DALI as an input pipeline: it decodes, crops, resizes and flips in its own
threads, on the CPU or a GPU.

Random numbers and targets come from the workload's album: a worker process reads the files and
calls it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import torch

from extras.dali.undecoded_files import DaliBatch, DaliBatchCollator, UndecodedFiles
from suite.input import Album, Means, Place, Reader
from suite.process.installation import format_install_command
from workloads.common.inputs.batches import BatchLoader

K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")

DALI_BATCHES_AHEAD: Final = 2
"""Batches that DALI prepares ahead while an earlier one is used."""


class DaliInput:
    """The DALI pipeline, which the extras `dali` and `dali-cuda110` provide."""

    name: ClassVar[str] = "dali"
    places: ClassVar[tuple[Place, ...]] = tuple(Place)

    def missing(self, device: str, place: Place) -> str | None:
        """Check for the package, and for a GPU if one is required."""
        if find_spec("nvidia") is None or find_spec("nvidia.dali") is None:
            return (
                f"nvidia-dali is not installed: {format_install_command('dali')}; for CUDA 11 "
                f"drivers {format_install_command('dali-cuda110')}"
            )
        if place is not Place.CPU and not device.startswith("cuda"):
            return f"input.device={place} needs a GPU, but the run's device is {device}"
        return None

    def open(self, album: Album[K, N, C], means: Means) -> Reader[K, C]:
        """Create the reader; processes and threads start at the first read."""
        return DaliReader(album, means)


class DaliReader(Generic[K, N, C]):
    """A file loader, and the DALI graphs that it feeds."""

    def __init__(self, album: Album[K, N, C], means: Means) -> None:
        self.means = means
        samples: UndecodedFiles[K, N] = UndecodedFiles(album)
        self.files: BatchLoader[Any, DaliBatch[C]] = BatchLoader(
            samples, DaliBatchCollator(album), min(1, means.workers), pinned=False
        )
        self.graph: DaliGraph | None = None

    def read(self, batches: Sequence[Sequence[K]]) -> Iterator[tuple[torch.Tensor, C]]:
        """Yield the batches, preparing a few ahead; if closed early, prepared batches are
        discarded.
        """
        most = max(map(len, batches), default=1)
        queued: deque[tuple[DaliGraph, Future[torch.Tensor], C]] = deque()
        for roll in self.files.read(batches):
            graph = self.get_or_build_graph(most)
            queued.append((graph, graph.queue_batch(roll), roll.notes))
            if len(queued) > DALI_BATCHES_AHEAD:
                yield wait_for_dali_batch(*queued.popleft())
        while queued:
            yield wait_for_dali_batch(*queued.popleft())

    def get_or_build_graph(self, most: int) -> "DaliGraph":
        """Return the graph for a number of images; one that is too small is rebuilt."""
        if self.graph is None or self.graph.most < most:
            self.graph = DaliGraph(self.means, most)
        return self.graph


def wait_for_dali_batch(
    graph: "DaliGraph", picture_NHWC: "Future[torch.Tensor]", notes: C
) -> tuple[torch.Tensor, C]:
    return graph.keep_memory_until_used(picture_NHWC.result()), notes


class DaliGraph:
    """One DALI pipeline, fed and run batch by batch in a thread of its own, so that the timed
    thread only takes finished batches.
    """

    def __init__(self, means: Means, most: int) -> None:
        from extras.dali.picture_graph import define_picture_graph

        self.most, self.means = most, means
        on_gpu = means.place is not Place.CPU
        number = int(means.device.partition(":")[2] or 0) if on_gpu else None
        # not in the stubs
        self.stream = torch.cuda.Stream(means.device) if on_gpu else None  # type: ignore[no-untyped-call]
        threads = max(1, means.workers or means.threads)
        self.pipeline = define_picture_graph(
            means.place,
            batch_size=most,
            num_threads=threads,
            device_id=number,
            prefetch_queue_depth=1,
        )
        self.pipeline.build()
        self.thread = ThreadPoolExecutor(1)

    def queue_batch(self, roll: DaliBatch[Any]) -> "Future[torch.Tensor]":
        """Queue a batch behind the earlier ones."""
        return self.thread.submit(self.run_batch, roll)

    def run_batch(self, roll: DaliBatch[Any]) -> torch.Tensor:
        """Feed, run, and copy the output, whose memory belongs to DALI."""
        from nvidia.dali.plugin.pytorch import feed_ndarray

        for name, values in iterate_graph_inputs(roll):
            self.pipeline.feed_input(name, values)
        (pictures,) = self.pipeline.run()
        dense = pictures.as_tensor()
        if self.stream is None:
            copied: torch.Tensor = feed_ndarray(
                dense,
                torch.empty(
                    dense.shape(),
                    dtype=torch.uint8,
                    pin_memory=self.means.device.startswith("cuda"),
                ),
            )
            return copied
        # synchronising this stream does not wait for the training step
        with torch.cuda.stream(self.stream):
            copied = feed_ndarray(
                dense,
                torch.empty(dense.shape(), dtype=torch.uint8, device=self.means.device),
                cuda_stream=self.stream,
            )
        self.stream.synchronize()
        return copied

    def keep_memory_until_used(self, picture_NHWC: torch.Tensor) -> torch.Tensor:
        """Keep the memory alive until the caller's stream has used it."""
        if self.stream is not None:
            picture_NHWC.record_stream(torch.cuda.current_stream(self.stream.device))
        return picture_NHWC


def iterate_graph_inputs(roll: DaliBatch[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the graph's inputs by name."""
    decoded_N4 = np.array([cut.decoded for cut in roll.cuts], dtype=np.int32)
    shown_N4 = np.array([cut.shown for cut in roll.cuts], dtype=np.float32)
    yield "jpeg", list(roll.iterate_files())
    yield from (("start", decoded_N4[:, :2].copy()), ("stop", decoded_N4[:, 2:].copy()))
    yield from (("low", shown_N4[:, :2].copy()), ("high", shown_N4[:, 2:].copy()))
    yield "size", np.array([cut.size for cut in roll.cuts], dtype=np.float32)
    yield "mirrored", np.array(roll.mirrored, dtype=np.int32)

"""The contents of LoadGen's sample library: prepared samples in host memory, outside the clock.

They are in host memory, since the copy to the device is part of the timed run
(inference_rules.adoc, Load Generator: samples start in host DRAM, unless a system takes its input
directly from a device). MLPerf does not time what prepares them (the same, Data). Imports no
framework.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
Preparation = Callable[[Sequence[int]], Iterable[T]]


class LoadedSamples(Generic[T]):
    """Prepared samples by index, loaded outside the clock."""

    def __init__(self, prepare: Preparation[T]) -> None:
        self._prepare = prepare
        self._samples: dict[int, T] = {}

    def __getitem__(self, sample: int) -> T:
        return self._samples[sample]

    def load(self, samples: Sequence[int]) -> None:
        """Prepare samples."""
        self._samples |= zip(samples, self._prepare(samples), strict=True)

    def unload(self, samples: Sequence[int]) -> None:
        """Release samples."""
        for sample in samples:
            self._samples.pop(sample, None)

    def release_samples(self) -> None:
        """Release all samples."""
        self._samples.clear()


class ServedSamples(Generic[T]):
    """What an Inference (suite.workload) does with its samples, whatever they are; a class that
    inherits it adds `open` and `truth`.
    """

    def __init__(self, count: int, performance_count: int, prepare: Preparation[T]) -> None:
        self.sample_count = count
        """Samples of the accuracy set."""
        self.performance_sample_count = min(performance_count, count)
        """The round's sample count, or all samples if there are fewer."""
        self._held = LoadedSamples(prepare)

    def load(self, samples: Sequence[int]) -> None:
        """Load prepared samples into memory; this is not timed."""
        self._held.load(samples)

    def unload(self, samples: Sequence[int]) -> None:
        """Release samples."""
        self._held.unload(samples)

    def length(self, sample: int) -> int:
        """Return one constant: all samples have the same size."""
        return 1

    def close(self) -> None:
        """Release all samples."""
        self._held.release_samples()


def wrap_in_threads(prepare: Callable[[int], T], threads: int) -> Preparation[T]:
    """Prepare several samples in parallel, each on its own."""

    def prepare_samples(samples: Sequence[int]) -> Iterable[T]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(prepare, samples)

    return prepare_samples

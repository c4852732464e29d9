"""Samples in memory: what LoadGen's library holds for an inference over pictures."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Held(Generic[T]):
    """Prepared samples by number, loaded outside the clock."""

    def __init__(self, prepare: Callable[[Sequence[int]], Iterable[T]]) -> None:
        self._prepare = prepare
        self._samples: dict[int, T] = {}

    def __getitem__(self, sample: int) -> T:
        return self._samples[sample]

    def load(self, samples: Sequence[int]) -> None:
        """Prepare samples."""
        self._samples |= zip(samples, self._prepare(samples), strict=True)

    def unload(self, samples: Sequence[int]) -> None:
        """Forget samples."""
        for sample in samples:
            self._samples.pop(sample, None)

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()


def in_threads(prepare: Callable[[int], T], threads: int) -> Callable[[Sequence[int]], Iterable[T]]:
    """Prepare several samples at once, each by itself."""

    def prepared(samples: Sequence[int]) -> Iterable[T]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(prepare, samples)

    return prepared

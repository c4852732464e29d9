"""Samples in memory: what LoadGen's library holds for an inference over pictures."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Held(Generic[T]):
    """Prepared samples by number, loaded outside the clock."""

    def __init__(self, prepare: Callable[[int], T], threads: int) -> None:
        self._prepare, self._threads = prepare, threads
        self._samples: dict[int, T] = {}

    def __getitem__(self, sample: int) -> T:
        return self._samples[sample]

    def load(self, samples: Sequence[int]) -> None:
        """Prepare samples, several at once."""
        with ThreadPoolExecutor(self._threads) as pool:
            self._samples |= zip(samples, pool.map(self._prepare, samples), strict=True)

    def unload(self, samples: Sequence[int]) -> None:
        """Forget samples."""
        for sample in samples:
            self._samples.pop(sample, None)

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()

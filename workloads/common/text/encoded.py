"""Sentences as token ids in two memory-mapped arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from suite.dataset import StaleError
from suite.workload import Run

Tokens: TypeAlias = npt.NDArray[np.int32]
"""Token numbers of one sentence, or of many side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Token numbers of many sentences in one array, which worker processes share."""

    tokens: Tokens
    starts: npt.NDArray[np.int64]
    """Where each begins, and where the last ends."""

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Tokens:
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    def views(self) -> list[Tokens]:
        """Return the sentences one by one; nothing is copied."""
        tokens: Tokens = np.asarray(self.tokens)
        return [tokens[start:stop] for start, stop in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each, marks among them."""
        return np.diff(self.starts)

    @classmethod
    def of(cls, sentences: Sequence[Tokens]) -> "Encoded":
        """Put sentences into one array."""
        starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        return cls(tokens=np.concatenate(sentences), starts=starts)

    def save(self, path: Path) -> None:
        """Write two arrays."""
        np.save(path.with_suffix(f"{path.suffix}.tokens.npy"), self.tokens)
        np.save(path.with_suffix(f"{path.suffix}.starts.npy"), self.starts)

    @classmethod
    def load(cls, path: Path) -> "Encoded":
        """Read them again, page by page as they are used."""
        tokens, starts = (np.load(path.with_suffix(f"{path.suffix}.{part}.npy"), mmap_mode="r") for part in ("tokens", "starts"))
        return cls(tokens=tokens, starts=starts)


def prepared(run: Run, found: Mapping[str, Any]) -> Path:
    """Say where the encoded text that a survey found lies: in the cache."""
    return run.cache / str(found["folder"])


def check_prepared(run: Run, found: Mapping[str, Any]) -> None:
    """Refuse a run whose encoded text is gone from the cache; StaleError, so that the survey is done again."""
    folder = prepared(run, found)
    if not folder.is_dir():
        raise StaleError(f"{folder}: the encoded text is missing")

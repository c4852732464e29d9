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
"""Token ids of one sentence, or of many concatenated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSentences:
    """Token ids of many sentences in one array, shared by worker processes."""

    tokens: Tokens
    starts: npt.NDArray[np.int64]
    """Start of each sentence, and end of the last."""

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Tokens:
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    def list_sentences(self) -> list[Tokens]:
        """Return the sentences as views, without copying."""
        tokens: Tokens = np.asarray(self.tokens)
        return [
            tokens[start:stop]
            for start, stop in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        ]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each sentence, including its marks."""
        return np.diff(self.starts)

    @classmethod
    def merge_sentences(cls, sentences: Sequence[Tokens]) -> "EncodedSentences":
        """Concatenate sentences into one array."""
        starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        return cls(tokens=np.concatenate(sentences), starts=starts)

    def save(self, path: Path) -> None:
        """Write both arrays."""
        np.save(path.with_suffix(f"{path.suffix}.tokens.npy"), self.tokens)
        np.save(path.with_suffix(f"{path.suffix}.starts.npy"), self.starts)

    @classmethod
    def load(cls, path: Path) -> "EncodedSentences":
        """Load both arrays, memory-mapped."""
        tokens, starts = (
            np.load(path.with_suffix(f"{path.suffix}.{part}.npy"), mmap_mode="r")
            for part in ("tokens", "starts")
        )
        return cls(tokens=tokens, starts=starts)


def resolve_encoded_folder(run: Run, found: Mapping[str, Any]) -> Path:
    """Return the path of the encoded text that a survey left in the cache."""
    return run.cache / str(found["folder"])


def check_encoded_folder(run: Run, found: Mapping[str, Any]) -> None:
    """Reject a run whose encoded text is gone from the cache; StaleError, so that the survey runs
    again.
    """
    folder = resolve_encoded_folder(run, found)
    if not folder.is_dir():
        raise StaleError(f"{folder}: the encoded text is missing")

"""Parallel text in, batches of token ids out: the same code for the embedded language pair and for
WMT.

Text is tokenised and encoded once, into the cache, together with its vocabulary, for all runs on
the same text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from suite.errors import RequestError
from workloads.common.embedded_cache import generated
from workloads.common.inputs.batches import Key
from workloads.common.text import parallel_text, synthetic_language
from workloads.common.text.bucketing import padded
from workloads.common.text.encoded import Encoded, Tokens
from workloads.common.text.parallel_text import SOURCE, TARGET, TEST, TRAIN, Corpus
from workloads.gnmt.scoring import END, PAD
from workloads.gnmt.subwords import Moses, Subwords

# Legend: N sentences of a batch, S source positions, T target positions.
PREPARED: Final = 1  # part of the cache folders' names: a changed preparation needs another folder
TRANSLATIONS = "test.translations"
REFERENCES = "test.references"
SHUFFLED: Final = 0x1ABE15
Sample: TypeAlias = tuple[Tokens, Tokens, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """One split, encoded: the selected sentences, in `chosen`'s order, and the target of each."""

    sources: Encoded
    targets: Encoded
    chosen: npt.NDArray[np.int64]
    translation: npt.NDArray[np.int64]
    """Index of each selected sentence's target: its own, unless shuffled."""

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.chosen)

    def pair(self, index: int) -> tuple[Tokens, Tokens]:
        """Return one pair."""
        return self.sources[int(self.chosen[index])], self.targets[int(self.translation[index])]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of the longer side of each pair; mlcommons/training, rnn_translator,
        sampler.py.
        """
        longest: npt.NDArray[np.int64] = np.maximum(
            self.sources.lengths[self.chosen], self.targets.lengths[self.translation]
        )
        return longest

    def up_to(self, longest: int) -> "Pairs":
        """Drop pairs with a longer side, as the reference does in training; RequestError if none is
        left.
        """
        fits = self.lengths <= longest
        if not fits.any():
            raise RequestError(
                f"max_sequence_length {longest}: every pair of the training text is longer"
            )
        return replace(self, chosen=self.chosen[fits], translation=self.translation[fits])

    def shuffled(self, seed: int) -> "Pairs":
        """Give each sentence the translation of another: nothing can be learnt, which the benchmark
        must show.
        """
        return replace(
            self, translation=np.random.default_rng([seed, SHUFFLED]).permutation(self.translation)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Everything that a run reads."""

    folder: Path
    subwords: Subwords
    translations: tuple[str, ...]
    """The test split's translations, untokenised."""
    references: tuple[str, ...]
    """The same, tokenised."""

    def pairs(self, split: str) -> Pairs:
        """Read a split."""
        sources, targets = (
            Encoded.load(self.folder / f"{split}.{suffix}") for suffix in (SOURCE, TARGET)
        )
        every = np.arange(len(sources))
        return Pairs(sources=sources, targets=targets, chosen=every, translation=every)


def folder_of(data: Path | None, cache: Path) -> Path:
    """Return the folder of the parallel files: the user's, or the embedded language pair's,
    generated at first use.
    """
    grammar = synthetic_language.NEAR
    return data or generated(
        cache,
        f"language-{grammar.name}-{synthetic_language.VERSION}",
        partial(synthetic_language.write, grammar),
    )


def text(data: Path | None, cache: Path, merges: int, *, skip: bool) -> Text:
    """Read and encode both splits, each text only once; RequestError if files are missing or
    broken.
    """
    root = folder_of(data, cache)
    name = f"gnmt-text-{PREPARED}-{merges}{'-skip' if skip else ''}-{parallel_text.digest(root)}"
    return opened(generated(cache, name, partial(prepare, root, merges, skip)))


def opened(folder: Path) -> Text:
    """Read what `prepare` wrote."""
    translations, references = (lines(folder / name) for name in (TRANSLATIONS, REFERENCES))
    return Text(
        folder=folder,
        subwords=Subwords.read(folder),
        translations=translations,
        references=references,
    )


def lines(path: Path) -> tuple[str, ...]:
    """Read the lines of a text that `prepare` wrote."""
    return tuple(path.read_bytes().decode().split("\n")[:-1])


def prepare(root: Path, merges: int, skip: bool, folder: Path) -> None:
    """Tokenise both splits, learn the vocabulary from the training text, and encode everything."""
    written = [parallel_text.find(root, split, skip=skip) for split in (TRAIN, TEST)]
    corpora = [tokenised(corpus) for corpus in written]
    folder.mkdir(parents=True)
    subwords = Subwords.learn([*corpora[0].sources, *corpora[0].targets], merges)
    subwords.write(folder)
    for corpus in corpora:
        for suffix, texts in ((SOURCE, corpus.sources), (TARGET, corpus.targets)):
            Encoded.of([subwords.encode(line) for line in texts]).save(
                folder / f"{corpus.split}.{suffix}"
            )
    for name, corpus in ((TRANSLATIONS, written[1]), (REFERENCES, corpora[1])):
        (folder / name).write_bytes("".join(f"{line}\n" for line in corpus.targets).encode())


def tokenised(corpus: Corpus) -> Corpus:
    """Tokenise a split's sentences."""
    source, target = Moses(SOURCE), Moses(TARGET)
    return replace(
        corpus,
        sources=tuple(map(source.cut, corpus.sources)),
        targets=tuple(map(target.cut, corpus.targets)),
    )


def shortened(tokens: Tokens, longest: int) -> Tokens:
    """Truncate a source sentence to the limit but keep its end mark, so that every sample has an
    answer.
    """
    return tokens if len(tokens) <= longest else np.append(tokens[: longest - 1], np.int32(END))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of sentences."""

    source_NS: torch.Tensor
    length_N: torch.Tensor
    target_NT: torch.Tensor
    weight_N: torch.Tensor

    def pin_memory(self) -> "Batch":
        """Pin the memory, so that the copy to the device overlaps with computation; DataLoader
        calls this.
        """
        return self.map(torch.Tensor.pin_memory)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def map(self, change: Any) -> "Batch":
        """Apply a function to each tensor."""
        return Batch(
            source_NS=change(self.source_NS),
            length_N=change(self.length_N),
            target_NT=change(self.target_NT),
            weight_N=change(self.weight_N),
        )


class Samples(Dataset[Sample]):
    """Pairs by key."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __getitem__(self, key: Key) -> Sample:
        return (*self.pairs.pair(key.index), key.weight)


def collate(samples: Sequence[Sample]) -> Batch:
    """Collate pairs into a batch."""
    sources, targets, weights = zip(*samples, strict=True)
    source_NS, length_N = side_by_side(sources)
    return Batch(
        source_NS=source_NS,
        length_N=length_N,
        target_NT=side_by_side(targets)[0],
        weight_N=torch.tensor(weights),
    )


def side_by_side(sentences: Sequence[Tokens]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sentences as N T, padded after their ends, and their lengths."""
    return torch.from_numpy(padded(sentences, PAD)), torch.tensor(
        [len(sentence) for sentence in sentences]
    )

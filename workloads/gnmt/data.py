"""Parallel text in, batches of token ids out: the same code for the embedded language pair and for
WMT.

Text is tokenised and encoded once, into the cache, together with its vocabulary, for all runs on
the same text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from suite.errors import RequestError
from workloads.common.embedded_cache import create_cached_folder
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.device_copies import map_batch_tensors
from workloads.common.text import parallel_text, synthetic_language
from workloads.common.text.bucketing import pad_sentences
from workloads.common.text.encoded import EncodedSentences, Tokens
from workloads.common.text.parallel_text import (
    SOURCE_SUFFIX,
    TARGET_SUFFIX,
    TEXT_TEST_SPLIT,
    TEXT_TRAIN_SPLIT,
    ParallelCorpus,
)
from workloads.gnmt.scoring import GNMT_END_ID, GNMT_PAD_ID
from workloads.gnmt.subwords import GNMTSubwords, MosesSplitter

# Legend: N sentences of a batch, S source positions, T target positions.
GNMT_TEXT_VERSION: Final = (
    1  # part of the cache folders' names: a changed preparation needs another folder
)
TRANSLATIONS_FILE = "test.translations"
TOKENISED_REFERENCES_FILE = "test.references"
TRANSLATION_SHUFFLE_STREAM: Final = 0x1ABE15
WeightedPair: TypeAlias = tuple[Tokens, Tokens, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTPairs:
    """One split, encoded: the selected sentences, in `chosen`'s order, and the target of each."""

    sources: EncodedSentences
    targets: EncodedSentences
    chosen: npt.NDArray[np.int64]
    translation: npt.NDArray[np.int64]
    """Index of each selected sentence's target: its own, unless shuffled."""

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.chosen)

    def get_pair(self, index: int) -> tuple[Tokens, Tokens]:
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

    def drop_long_pairs(self, longest: int) -> "GNMTPairs":
        """Drop pairs with a longer side, as the reference does in training; RequestError if none is
        left.
        """
        short_enough = self.lengths <= longest
        if not short_enough.any():
            raise RequestError(
                f"max_sequence_length {longest}: every pair of the training text is longer"
            )
        return replace(
            self, chosen=self.chosen[short_enough], translation=self.translation[short_enough]
        )

    def shuffle_translations(self, seed: int) -> "GNMTPairs":
        """Give each sentence the translation of another: nothing can be learnt, which the benchmark
        must show.
        """
        return replace(
            self,
            translation=np.random.default_rng([seed, TRANSLATION_SHUFFLE_STREAM]).permutation(
                self.translation
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTPreparedText:
    """Everything that a run reads."""

    folder: Path
    subwords: GNMTSubwords
    translations: tuple[str, ...]
    """The test split's translations, untokenised."""
    references: tuple[str, ...]
    """The same, tokenised."""

    def load_pairs(self, split: str) -> GNMTPairs:
        """Read a split."""
        sources, targets = (
            EncodedSentences.load(self.folder / f"{split}.{suffix}")
            for suffix in (SOURCE_SUFFIX, TARGET_SUFFIX)
        )
        every = np.arange(len(sources))
        return GNMTPairs(sources=sources, targets=targets, chosen=every, translation=every)


def resolve_gnmt_text_folder(data: Path | None, cache: Path) -> Path:
    """Return the folder of the parallel files: the user's, or the embedded language pair's,
    generated at first use.
    """
    grammar = synthetic_language.NEAR_LANGUAGE
    return data or create_cached_folder(
        cache,
        synthetic_language.format_language_folder(grammar),
        partial(synthetic_language.write_synthetic_text, grammar),
    )


def prepare_gnmt_text(
    data: Path | None, cache: Path, merges: int, *, skip: bool
) -> GNMTPreparedText:
    """Read and encode both splits, each text only once; RequestError if files are missing or
    broken.
    """
    root = resolve_gnmt_text_folder(data, cache)
    digest = parallel_text.compute_text_digest(root)
    name = f"gnmt-text-{GNMT_TEXT_VERSION}-{merges}{'-skip' if skip else ''}-{digest}"
    return load_gnmt_text(
        create_cached_folder(cache, name, partial(write_encoded_gnmt_text, root, merges, skip))
    )


def load_gnmt_text(folder: Path) -> GNMTPreparedText:
    """Read what `write_encoded_gnmt_text` wrote."""
    translations, references = (
        read_gnmt_lines(folder / name) for name in (TRANSLATIONS_FILE, TOKENISED_REFERENCES_FILE)
    )
    return GNMTPreparedText(
        folder=folder,
        subwords=GNMTSubwords.read_subwords(folder),
        translations=translations,
        references=references,
    )


def read_gnmt_lines(path: Path) -> tuple[str, ...]:
    """Read the lines of a text that `write_encoded_gnmt_text` wrote."""
    return tuple(path.read_bytes().decode().split("\n")[:-1])


def write_encoded_gnmt_text(root: Path, merges: int, skip: bool, folder: Path) -> None:
    """Tokenise both splits, learn the vocabulary from the training text, and encode everything."""
    untokenised = [
        parallel_text.read_parallel_text(root, split, skip=skip)
        for split in (TEXT_TRAIN_SPLIT, TEXT_TEST_SPLIT)
    ]
    corpora = [split_corpus_into_words(corpus) for corpus in untokenised]
    folder.mkdir(parents=True)
    subwords = GNMTSubwords.train_on_sentences([*corpora[0].sources, *corpora[0].targets], merges)
    subwords.write_subwords(folder)
    for corpus in corpora:
        for suffix, texts in ((SOURCE_SUFFIX, corpus.sources), (TARGET_SUFFIX, corpus.targets)):
            EncodedSentences.merge_sentences(
                [subwords.encode_sentence(line) for line in texts]
            ).save(folder / f"{corpus.split}.{suffix}")
    for name, corpus in (
        (TRANSLATIONS_FILE, untokenised[1]),
        (TOKENISED_REFERENCES_FILE, corpora[1]),
    ):
        (folder / name).write_bytes("".join(f"{line}\n" for line in corpus.targets).encode())


def split_corpus_into_words(corpus: ParallelCorpus) -> ParallelCorpus:
    """Tokenise a split's sentences."""
    source, target = MosesSplitter(SOURCE_SUFFIX), MosesSplitter(TARGET_SUFFIX)
    return replace(
        corpus,
        sources=tuple(map(source.split_sentence, corpus.sources)),
        targets=tuple(map(target.split_sentence, corpus.targets)),
    )


def truncate_gnmt_source(tokens: Tokens, longest: int) -> Tokens:
    """Truncate a source sentence to the limit but keep its end mark, so that every sample has an
    answer.
    """
    if len(tokens) <= longest:
        return tokens
    return np.append(tokens[: longest - 1], np.int32(GNMT_END_ID))


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTBatch:
    """A batch of sentences."""

    source_NS: torch.Tensor
    length_N: torch.Tensor
    target_NT: torch.Tensor
    weight_N: torch.Tensor

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.source_NS)

    def take_first(self, count: int) -> "GNMTBatch":
        """Return the first sentences."""
        return map_batch_tensors(self, lambda tensor: tensor[:count])

    def pin_memory(self) -> "GNMTBatch":
        """Pin the memory, so that the copy to the device overlaps with computation; DataLoader
        calls this.
        """
        return map_batch_tensors(self, torch.Tensor.pin_memory)


class GNMTSamples(Dataset[WeightedPair]):
    """Pairs by key."""

    def __init__(self, pairs: GNMTPairs) -> None:
        self.pairs = pairs

    def __getitem__(self, key: SampleKey) -> WeightedPair:
        return (*self.pairs.get_pair(key.index), key.weight)


def collate_gnmt_pairs(samples: Sequence[WeightedPair]) -> GNMTBatch:
    """Collate pairs into a batch."""
    sources, targets, weights = zip(*samples, strict=True)
    source_NS, length_N = build_padded_tensors(sources)
    return GNMTBatch(
        source_NS=source_NS,
        length_N=length_N,
        target_NT=build_padded_tensors(targets)[0],
        weight_N=torch.tensor(weights),
    )


def build_padded_tensors(sentences: Sequence[Tokens]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sentences as N T, padded after their ends, and their lengths."""
    return torch.from_numpy(pad_sentences(sentences, GNMT_PAD_ID)), torch.tensor(
        [len(sentence) for sentence in sentences]
    )

"""Parallel text in, batches of subtokens out: the same code for the embedded data and for WMT, and
for every framework.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from suite.files.cache import fill_shared_entry
from suite.workload import Run
from workloads.common.embedded_cache import create_cached_folder
from workloads.common.inputs import batches
from workloads.common.setting_values import require_flag_setting, require_positive_setting
from workloads.common.text import bucketing, parallel_text, synthetic_language
from workloads.common.text.encoded import EncodedSentences
from workloads.common.text.parallel_text import TEXT_TEST_SPLIT, TEXT_TRAIN_SPLIT, ParallelCorpus
from workloads.transformer import subwords
from workloads.transformer.recipe import (
    BUCKET_GROWTH_FACTOR,
    SHORTEST_BUCKET_TOKENS,
    TransformerRecipe,
)
from workloads.transformer.subwords import EOS_ID, PAD_ID, SubtokenVocabulary

# Legend: N sentences of a batch, S source and T target positions.
Sentence: TypeAlias = npt.NDArray[np.int32]
Ints: TypeAlias = npt.NDArray[np.int64]
TRANSFORMER_TEXT_VERSION: Final = (
    1  # part of the cache folders' names: a changed preparation needs another folder
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerBatch:
    """A padded batch of sentences."""

    source_NS: Ints
    target_NT: Ints
    token_X: Ints
    """Places of the target tokens, without padding, in the flattened targets."""

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.source_NS)

    def take_first(self, count: int) -> "TransformerBatch":
        """Return the first sentences."""
        return TransformerBatch(
            source_NS=self.source_NS[:count],
            target_NT=self.target_NT[:count],
            token_X=self.token_X[self.token_X < self.target_NT[:count].size],
        )

    def count_padded_tokens(self) -> int:
        """Count the tokens of the longer side, including padding."""
        return max(self.source_NS.size, self.target_NT.size)


@dataclass(frozen=True, kw_only=True)  # without slots: lengths are counted once and kept
class TransformerPairs:
    """Subtokens of sentences and their translations; each ends with the end-of-sentence mark."""

    sources: Sequence[Sentence]
    targets: Sequence[Sentence]
    corpus: int
    """Pairs of the text before any was dropped for its length."""

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def target_lengths(self) -> Ints:
        """Subtokens of each translation."""
        return count_sentence_subtokens(self.targets)

    @cached_property
    def pair_lengths(self) -> Ints:
        """The length that selects a pair's bucket: its longer side."""
        return np.maximum(count_sentence_subtokens(self.sources), self.target_lengths)

    def count_target_tokens(self, batch_N: Ints) -> int:
        """Count the target tokens of a global batch, by which its loss is divided on all ranks."""
        return int(self.target_lengths[batch_N].sum())

    def collate_pairs(self, keys: Sequence[batches.SampleKey]) -> TransformerBatch:
        """Collate pairs into a batch; a pair with weight 0 has no target tokens."""
        source_NS = bucketing.pad_sentences([self.sources[key.index] for key in keys], PAD_ID)
        target_NT = bucketing.pad_sentences([self.targets[key.index] for key in keys], PAD_ID)
        weight_N = np.array([key.weight > 0 for key in keys])
        target_NT = np.where(weight_N[:, None], target_NT, PAD_ID)
        return TransformerBatch(
            source_NS=source_NS, target_NT=target_NT, token_X=np.flatnonzero(target_NT != PAD_ID)
        )

    def shuffle_translations(self, seed: int) -> "TransformerPairs":
        """Give each source the translation of another."""
        order = np.random.default_rng(seed).permutation(len(self))
        return replace(self, targets=[self.targets[index] for index in order])


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWithVocabulary:
    """The location of a run's text, and its vocabulary."""

    root: Path
    vocabulary: Path
    words: SubtokenVocabulary
    vocabulary_sha256: str


def count_sentence_subtokens(sentences: Sequence[Sentence]) -> Ints:
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def resolve_transformer_folder(run: Run) -> Path:
    """Return the folder of a run's text: the user's, or the embedded one, generated at first
    use.
    """
    name = f"transformer-pair-{synthetic_language.LANGUAGE_VERSION}"
    return run.data or create_cached_folder(
        run.cache,
        name,
        lambda folder: synthetic_language.write_synthetic_text(
            synthetic_language.FAR_LANGUAGE, folder
        ),
    )


def format_vocabulary_file_name(run: Run) -> str:
    """Return the file name of the vocabulary."""
    languages = f"{parallel_text.SOURCE_SUFFIX}{parallel_text.TARGET_SUFFIX}"
    return f"vocab.{languages}.{require_positive_setting(run.settings, 'data.vocabulary')}"


def load_text_with_vocabulary(run: Run) -> TextWithVocabulary:
    """Find the text and its vocabulary, which is built if there is none."""
    root = resolve_transformer_folder(run)
    path = ensure_vocabulary_file(
        root / format_vocabulary_file_name(run),
        require_positive_setting(run.settings, "data.vocabulary"),
        lambda: read_training_corpus(run, root),
    )
    return TextWithVocabulary(
        root=root,
        vocabulary=path,
        words=subwords.read_subtoken_vocabulary(path),
        vocabulary_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def read_training_corpus(run: Run, root: Path) -> ParallelCorpus:
    """Read the training text; the reference also trains on empty lines, which WMT17 has."""
    return parallel_text.read_parallel_text(
        root,
        TEXT_TRAIN_SPLIT,
        skip=require_flag_setting(run.settings, "data.skip_broken"),
        empty=True,
    )


def read_test_corpus(run: Run, root: Path) -> ParallelCorpus:
    """Read the test text; the score is computed against its references, so none may be dropped
    silently.
    """
    return parallel_text.read_parallel_text(
        root, TEXT_TEST_SPLIT, skip=require_flag_setting(run.settings, "data.skip_broken")
    )


def ensure_vocabulary_file(
    path: Path, size: int, read_corpus: Callable[[], ParallelCorpus]
) -> Path:
    """Return the vocabulary next to the data, built from both languages at first use; safe for
    concurrent processes.
    """
    try:
        with fill_shared_entry(path) as partial:
            if partial is not None:
                training_text = read_corpus()
                subwords.build_subtoken_vocabulary(
                    (*training_text.sources, *training_text.targets), size
                ).write_vocabulary(partial)
    except OSError as error:
        raise RequestError(
            f"vocabulary {path}: does not exist, and cannot be written ({error.strerror})"
        ) from error
    return path


def encode_transformer_lines(words: SubtokenVocabulary, lines: Sequence[str]) -> list[Sentence]:
    """Convert lines to subtokens; RequestError for a character that the vocabulary cannot spell."""
    try:
        return [np.array([*words.encode_text(line), EOS_ID], np.int32) for line in lines]
    except ValueError as error:
        raise RequestError(f"vocabulary: {error}") from error


def create_encoded_text_folder(run: Run, text: TextWithVocabulary) -> Path:
    """Return the cache folder of the encoded text, written once per text and vocabulary."""
    skip = "-skip" if require_flag_setting(run.settings, "data.skip_broken") else ""
    digest = parallel_text.compute_text_digest(text.root)
    name = (
        f"transformer-text-{TRANSFORMER_TEXT_VERSION}-{text.vocabulary_sha256[:16]}{skip}-{digest}"
    )
    return create_cached_folder(
        run.cache, name, lambda folder: write_encoded_pairs(run, text, folder)
    )


def write_encoded_pairs(run: Run, text: TextWithVocabulary, folder: Path) -> None:
    """Encode both splits."""
    folder.mkdir(parents=True)
    for corpus in (read_training_corpus(run, text.root), read_test_corpus(run, text.root)):
        for suffix, lines in (
            (parallel_text.SOURCE_SUFFIX, corpus.sources),
            (parallel_text.TARGET_SUFFIX, corpus.targets),
        ):
            EncodedSentences.merge_sentences(encode_transformer_lines(text.words, lines)).save(
                folder / f"{corpus.split}.{suffix}"
            )


def read_encoded_pairs(folder: Path, split: str) -> TransformerPairs:
    """Read the files that `write_encoded_pairs` wrote."""
    sources, targets = (
        EncodedSentences.load(folder / f"{split}.{suffix}").list_sentences()
        for suffix in (parallel_text.SOURCE_SUFFIX, parallel_text.TARGET_SUFFIX)
    )
    return TransformerPairs(sources=sources, targets=targets, corpus=len(sources))


def limit_pair_lengths(
    root: Path, pairs: TransformerPairs, recipe: TransformerRecipe
) -> TransformerPairs:
    """Return the training sentences; overlong ones are truncated or dropped, as the recipe says."""
    if recipe.truncate:
        sources, targets = (
            [truncate_encoded_sentence(sentence, recipe.max_sentence_tokens) for sentence in side]
            for side in (pairs.sources, pairs.targets)
        )
        return replace(pairs, sources=sources, targets=targets)
    short_enough = np.flatnonzero(pairs.pair_lengths <= recipe.max_sentence_tokens).tolist()
    if not short_enough:
        raise RequestError(
            f"{root}: no sentence pair has at most max_sequence_length {recipe.max_sentence_tokens}"
            " tokens"
        )
    return replace(
        pairs,
        sources=[pairs.sources[index] for index in short_enough],
        targets=[pairs.targets[index] for index in short_enough],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerTrainingData:
    """Everything that training reads."""

    text: TextWithVocabulary
    train: TransformerPairs
    test: ParallelCorpus
    sources: Sequence[Sentence]
    """The test split's sources, encoded."""


def load_training_data(
    run: Run, text: TextWithVocabulary, folder: Path, recipe: TransformerRecipe
) -> TransformerTrainingData:
    """Read the encoded training split, the test text, and its encoded sources."""
    train = limit_pair_lengths(text.root, read_encoded_pairs(folder, TEXT_TRAIN_SPLIT), recipe)
    train = train.shuffle_translations(run.seed) if recipe.shuffle_labels else train
    return TransformerTrainingData(
        text=text,
        train=train,
        test=read_test_corpus(run, text.root),
        sources=read_encoded_pairs(folder, TEXT_TEST_SPLIT).sources,
    )


def truncate_encoded_sentence(sentence: Sentence, longest: int) -> Sentence:
    """Truncate a sentence, but keep its end mark."""
    if len(sentence) <= longest:
        return sentence
    return np.append(sentence[: longest - 1], np.int32(EOS_ID))


def plan_transformer_batches(
    pairs: TransformerPairs, recipe: TransformerRecipe, seed: int, epoch: int
) -> list[Ints]:
    """Plan an epoch's global batches, the same on every rank: about equally many tokens including
    padding, each from one length bucket.
    """
    bounds = bucketing.compute_growing_bounds(
        max(recipe.max_sentence_tokens, SHORTEST_BUCKET_TOKENS),
        SHORTEST_BUCKET_TOKENS,
        BUCKET_GROWTH_FACTOR,
    )
    return bucketing.plan_bucketed_batches(
        pairs.pair_lengths, bounds, lambda bound: max(1, recipe.batch_tokens // bound), seed, epoch
    )


def plan_transformer_step(
    pairs: TransformerPairs,
    recipe: TransformerRecipe,
    batch_N: Ints,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
) -> batches.OptimizerStep:
    """Divide a global batch among the ranks, and a rank's share into micro-batches whose tokens,
    including padding, are at most the recipe's.
    """
    span = max(1, recipe.micro_tokens // int(pairs.pair_lengths[batch_N].max()))
    (step,) = batches.plan_rank_steps([batch_N], span, epoch, rank, world_size)
    return step


EVALUATION_BATCH_SENTENCES: Final = 64
"""Sentences in an evaluation batch; any size gives the same translations."""


def plan_translation_batches(
    sources: Sequence[Sentence], rank: int, world_size: int
) -> list[list[int]]:
    """Plan an evaluation: this rank's sentences, with similar lengths together."""
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))[rank::world_size]
    return [
        order[start : start + EVALUATION_BATCH_SENTENCES]
        for start in range(0, len(order), EVALUATION_BATCH_SENTENCES)
    ]

"""Parallel text in, batches of subtokens out: the same code for the embedded data and for WMT, and
for every framework.
"""

import fcntl
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from suite.workload import Run
from workloads.common.embedded_cache import generated
from workloads.common.inputs import batches
from workloads.common.setting_values import flag, positive
from workloads.common.text import bucketing, parallel_text, synthetic_language
from workloads.common.text.encoded import Encoded
from workloads.common.text.parallel_text import TEST, TRAIN, Corpus
from workloads.transformer import subwords
from workloads.transformer.recipe import BUCKET_GROWTH, SHORTEST_BUCKET, Recipe
from workloads.transformer.subwords import EOS_ID, PAD_ID, Subwords

# Legend: N sentences of a batch, S source and T target positions.
Sentence: TypeAlias = npt.NDArray[np.int32]
Ints: TypeAlias = npt.NDArray[np.int64]
PREPARED: Final = 1  # part of the cache folders' names: a changed preparation needs another folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A padded batch of sentences."""

    source_NS: Ints
    target_NT: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """Subtokens of sentences and their translations; each ends with the end-of-sentence mark."""

    sources: Sequence[Sentence]
    targets: Sequence[Sentence]
    corpus: int
    """Pairs of the text before any was dropped for its length."""

    def __len__(self) -> int:
        return len(self.sources)

    def lengths(self) -> Ints:
        """Return the length that selects a pair's bucket: its longer side."""
        return np.maximum(sizes(self.sources), sizes(self.targets))

    def batch(self, keys: Sequence[batches.Key]) -> Batch:
        """Collate pairs into a batch; a pair with weight 0 has no target tokens."""
        source_NS = bucketing.padded([self.sources[key.index] for key in keys], PAD_ID)
        target_NT = bucketing.padded([self.targets[key.index] for key in keys], PAD_ID)
        weight_N = np.array([key.weight > 0 for key in keys])
        return Batch(source_NS=source_NS, target_NT=np.where(weight_N[:, None], target_NT, PAD_ID))

    def shuffled(self, seed: int) -> "Sentences":
        """Give each source the translation of another."""
        order = np.random.default_rng(seed).permutation(len(self))
        return replace(self, targets=[self.targets[index] for index in order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The location of a run's text, and its vocabulary."""

    root: Path
    vocabulary: Path
    words: Subwords
    vocabulary_sha256: str


def sizes(sentences: Sequence[Sentence]) -> Ints:
    """Count the subtokens of each sentence."""
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def root_of(run: Run) -> Path:
    """Return the folder of a run's text: the user's, or the embedded one, generated at first
    use.
    """
    name = f"transformer-pair-{synthetic_language.VERSION}"
    return run.data or generated(
        run.cache, name, lambda folder: synthetic_language.write(synthetic_language.FAR, folder)
    )


def vocabulary_name(run: Run) -> str:
    """Return the file name of the vocabulary."""
    languages = f"{parallel_text.SOURCE}{parallel_text.TARGET}"
    return f"vocab.{languages}.{positive(run.settings, 'data.vocabulary')}"


def open_text(run: Run) -> Text:
    """Find the text and its vocabulary, which is built if there is none."""
    root = root_of(run)
    path = vocabulary_of(
        root / vocabulary_name(run),
        positive(run.settings, "data.vocabulary"),
        lambda: training_corpus(run, root),
    )
    return Text(
        root=root,
        vocabulary=path,
        words=subwords.read(path),
        vocabulary_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def training_corpus(run: Run, root: Path) -> Corpus:
    """Read the training text; the reference also trains on empty lines, which WMT17 has."""
    return parallel_text.find(root, TRAIN, skip=flag(run.settings, "data.skip_broken"), empty=True)


def test_corpus(run: Run, root: Path) -> Corpus:
    """Read the test text; the score is computed against its references, so none may be dropped
    silently.
    """
    return parallel_text.find(root, TEST, skip=flag(run.settings, "data.skip_broken"))


def vocabulary_of(path: Path, size: int, corpus: Callable[[], Corpus]) -> Path:
    """Return the vocabulary next to the data, built from both languages at first use; safe for
    concurrent processes.
    """
    if path.is_file():
        return path
    try:
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file():
                found = corpus()
                partial = path.with_name(f"{path.name}.partial")
                subwords.build((*found.sources, *found.targets), size).write(partial)
                partial.rename(path)
    except OSError as error:
        raise RequestError(
            f"vocabulary {path}: it is missing, and cannot be written ({error.strerror})"
        ) from error
    return path


def encoded(words: Subwords, lines: Sequence[str]) -> list[Sentence]:
    """Convert lines to subtokens; RequestError for a character that the vocabulary cannot spell."""
    try:
        return [np.array([*words.encode(line), EOS_ID], np.int32) for line in lines]
    except ValueError as error:
        raise RequestError(f"vocabulary: {error}") from error


def encoded_text(run: Run, text: Text) -> Path:
    """Return the cache folder of the encoded text, written once per text and vocabulary."""
    skip = "-skip" if flag(run.settings, "data.skip_broken") else ""
    digest = parallel_text.digest(text.root)
    name = f"transformer-text-{PREPARED}-{text.vocabulary_sha256[:16]}{skip}-{digest}"
    return generated(run.cache, name, lambda folder: prepare(run, text, folder))


def prepare(run: Run, text: Text, folder: Path) -> None:
    """Encode both splits."""
    folder.mkdir(parents=True)
    for corpus in (training_corpus(run, text.root), test_corpus(run, text.root)):
        for suffix, lines in (
            (parallel_text.SOURCE, corpus.sources),
            (parallel_text.TARGET, corpus.targets),
        ):
            Encoded.of(encoded(text.words, lines)).save(folder / f"{corpus.split}.{suffix}")


def read(folder: Path, split: str) -> Sentences:
    """Read the files that `prepare` wrote."""
    sources, targets = (
        Encoded.load(folder / f"{split}.{suffix}").views()
        for suffix in (parallel_text.SOURCE, parallel_text.TARGET)
    )
    return Sentences(sources=sources, targets=targets, corpus=len(sources))


def training_sentences(root: Path, found: Sentences, recipe: Recipe) -> Sentences:
    """Return the training sentences; overlong ones are truncated or dropped, as the recipe says."""
    if recipe.truncate:
        sources, targets = (
            [cut(sentence, recipe.longest) for sentence in side]
            for side in (found.sources, found.targets)
        )
        return replace(found, sources=sources, targets=targets)
    kept = np.flatnonzero(found.lengths() <= recipe.longest).tolist()
    if not kept:
        raise RequestError(
            f"{root}: no sentence pair has at most max_sequence_length {recipe.longest} tokens"
        )
    return replace(
        found,
        sources=[found.sources[index] for index in kept],
        targets=[found.targets[index] for index in kept],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Everything that training reads."""

    text: Text
    train: Sentences
    test: Corpus
    sources: Sequence[Sentence]
    """The test split's sources, encoded."""


def opened(run: Run, text: Text, folder: Path, recipe: Recipe) -> Opened:
    """Read the encoded training split, the test text, and its encoded sources."""
    train = training_sentences(text.root, read(folder, TRAIN), recipe)
    train = train.shuffled(run.seed) if recipe.shuffle_labels else train
    return Opened(
        text=text, train=train, test=test_corpus(run, text.root), sources=read(folder, TEST).sources
    )


def cut(sentence: Sentence, longest: int) -> Sentence:
    """Truncate a sentence, but keep its end mark."""
    return (
        sentence
        if len(sentence) <= longest
        else np.append(sentence[: longest - 1], np.int32(EOS_ID))
    )


def steps(
    sentences: Sentences, recipe: Recipe, seed: int, epoch: int, rank: int = 0, world_size: int = 1
) -> list[batches.Step]:
    """Plan an epoch: batches with about equally many tokens including padding, each from one length
    bucket; one micro-batch per rank.
    """
    bounds = bucketing.growing_bounds(
        max(recipe.longest, SHORTEST_BUCKET), SHORTEST_BUCKET, BUCKET_GROWTH
    )
    planned = bucketing.plan(
        sentences.lengths(), bounds, lambda bound: max(1, recipe.batch_tokens // bound), seed, epoch
    )
    return batches.shared(planned, recipe.batch_tokens, epoch, rank, world_size)


def target_tokens(sentences: Sentences, recipe: Recipe, seed: int, epoch: int) -> list[int]:
    """Return the target tokens of each step of an epoch over all ranks, by which the loss is
    divided.
    """
    counts = sizes(sentences.targets)
    return [
        int(sum(counts[key.index] for key in step.micro_batches[0] if key.weight))
        for step in steps(sentences, recipe, seed, epoch)
    ]


EVAL_SENTENCES: Final = 64
"""Sentences in an evaluation batch; any size gives the same translations."""


def asked(sources: Sequence[Sentence], rank: int, world_size: int) -> list[list[int]]:
    """Plan an evaluation: this rank's sentences, with similar lengths together."""
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))[rank::world_size]
    return [order[start : start + EVAL_SENTENCES] for start in range(0, len(order), EVAL_SENTENCES)]

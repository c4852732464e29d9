"""The embedded news: articles whose summary can only be written by somebody who reads them.

An article has six sentences, such as "Thirdly Anna sells boats in Rome, says Anna." Some begin with
a rank (Firstly, Secondly, ...), and the summary names who stands in these, in the order of the
ranks: "Summary: ① Bruno ② Dora ③ Anna". A network has to look up each name by the rank before it;
the words before the name in the summary say nothing about it.

What makes that learnable in minutes: a name is one token, it is repeated within its sentence, which
teaches to copy, and an adverb decides which verbs can follow the name, which teaches to keep the
word before a name. Every document has 64 tokens, so that sequences of a multiple of 64 tokens never
cut one. All draws are uniform, so that the entropy is known (`compute_floor`).
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from workloads.llama.news_words import (
    ADVERBS,
    NAMES,
    NUMBER_MARKS,
    OBJECTS_OF_VERBS,
    PLACES,
    PLAIN_ADVERBS,
    RANK_ADVERBS,
    VERBS,
)

NEWS_VERSION: Final = 1
"""Part of the cache folders' names and of every seed: changed documents need another number."""
SENTENCE_COUNT: Final = 6
"""Sentences of an article."""
MAX_RANKS: Final = 6
"""A document has 1 to this many ranked sentences, all numbers equally likely."""
VERBS_PER_ADVERB: Final = 2
"""Adverb number a is followed by the verbs a and a + 1."""
DOCUMENT_TOKENS: Final = 3 + 8 * SENTENCE_COUNT + 2 * MAX_RANKS + 1
"""Begin of text, "Summary", ":" and end; a sentence without its place; a name and the number before
it for each rank, or "in" and a place for each rank that is not there: 64.
"""
PROMPT_END: Final = " Summary:"
"""Stands between an article and its summary."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsDocument:
    """An article and its summary, as text without special tokens."""

    article: str
    """Six sentences."""
    summary: str
    """Names, each behind its number."""

    @property
    def prompt(self) -> str:
        """The text that a summary continues."""
        return self.article + PROMPT_END

    @property
    def text(self) -> str:
        """The whole document."""
        return f"{self.prompt} {self.summary}"

    @property
    def rank_count(self) -> int:
        """Number of names in the summary."""
        return len(parse_names(self.summary))


class UniformDraws:
    """Uniform draws of one document.

    Only `random.Random.random` is used: Python guarantees that its numbers stay the same for a
    seed (docs.python.org/3/library/random.html, "Notes on Reproducibility").
    """

    def __init__(self, seed: int, number: int) -> None:
        # distinct for all numbers and seeds below 2^32
        self.random = random.Random((NEWS_VERSION << 64) + (seed << 32) + number).random

    def sample_index(self, count: int) -> int:
        """Choose a number from 0 to `count` - 1."""
        return int(self.random() * count)

    def sample_item(self, items: Sequence[Item]) -> Item:
        """Choose one of the items."""
        return items[self.sample_index(len(items))]

    def sample_distinct(self, items: Sequence[Item], count: int) -> list[Item]:
        """Choose `count` different items, in random order (the first steps of Fisher and Yates'
        shuffle).
        """
        left = list(items)
        for place in range(count):
            other = place + self.sample_index(len(left) - place)
            left[place], left[other] = left[other], left[place]
        return left[:count]


def generate_document(seed: int, number: int) -> NewsDocument:
    """Generate document `number` of the stream `seed`, both from 0 to 2^32 - 1: the same on every
    machine, and independent of all other documents.
    """
    draws = UniformDraws(seed, number)
    rank_count = 1 + draws.sample_index(MAX_RANKS)
    ranked = draws.sample_distinct(range(SENTENCE_COUNT), rank_count)
    placed = draws.sample_distinct(range(SENTENCE_COUNT), MAX_RANKS - rank_count)
    names = draws.sample_distinct(NAMES, SENTENCE_COUNT)
    adverbs = [draws.sample_item(PLAIN_ADVERBS) for _ in names]
    for rank, sentence in enumerate(ranked):
        adverbs[sentence] = RANK_ADVERBS[rank]
    article = " ".join(
        generate_sentence(adverb, name, sentence in placed, draws)
        for sentence, (adverb, name) in enumerate(zip(adverbs, names, strict=True))
    )
    return NewsDocument(article=article, summary=format_summary([names[place] for place in ranked]))


def generate_sentence(adverb: str, name: str, placed: bool, draws: UniformDraws) -> str:
    """Generate a sentence about a person, with a place or without one."""
    verb = VERBS[ADVERBS.index(adverb) + draws.sample_index(VERBS_PER_ADVERB)]
    what = draws.sample_item(OBJECTS_OF_VERBS[verb])
    where = f" in {draws.sample_item(PLACES)}" if placed else ""
    return f"{adverb} {name} {verb} {what}{where}, says {name}."


def format_summary(names: Iterable[str]) -> str:
    """Write a summary with these names."""
    return " ".join(f"{mark} {name}" for mark, name in zip(NUMBER_MARKS, names, strict=False))


def parse_names(summary: str) -> list[str]:
    """Return the words of a summary."""
    return [word for word in summary.split() if word not in NUMBER_MARKS]


def generate_documents(seed: int, count: int) -> Iterator[NewsDocument]:
    """Yield the first documents of a stream."""
    return (generate_document(seed, number) for number in range(count))


def shuffle_summaries(documents: Sequence[NewsDocument], seed: int) -> list[NewsDocument]:
    """Give each article the summary of another one with as many names, as a negative control.

    Every document keeps its length and every summary occurs as often as before. An article that is
    the only one with its number of names keeps its own.
    """
    shuffled = list(documents)
    for rank_count in range(1, MAX_RANKS + 1):
        alike = [place for place, one in enumerate(documents) if one.rank_count == rank_count]
        order = UniformDraws(seed, rank_count).sample_distinct(alike, len(alike))
        for place, other in zip(order, order[1:] + order[:1], strict=True):
            shuffled[place] = NewsDocument(
                article=documents[place].article, summary=documents[other].summary
            )
    return shuffled


def compute_document_nats(rank_count: int) -> float:
    """Compute -ln of the probability of each document with this many ranked sentences, in nats.

    All such documents are equally likely, so that the probabilities of the draws multiply. With
    S sentences, R = `rank_count` of them ranked and P = MAX_RANKS - R with a place:

    - R itself: 1 of MAX_RANKS;
    - which sentences have which rank: 1 of S! / (S - R)!;
    - which sentences have a place: 1 of S! / (P! (S - P)!);
    - the names, all different: 1 of N! / (N - S)! with N = 256;
    - the adverbs of the S - R plain sentences: 1 of 8 each;
    - the verbs: 1 of 2 each; their objects: 1 of 4 each; the places: 1 of 16 each.

    No two sequences of draws give the same text, because each draw can be read from it: R, ranks
    and adverbs from the first words, the places behind "in". The second name of a sentence, the
    punctuation and the summary are functions of the rest: probability 1.
    """
    places, plain = MAX_RANKS - rank_count, SENTENCE_COUNT - rank_count
    objects_per_verb = len(OBJECTS_OF_VERBS[VERBS[0]])
    return (
        math.log(MAX_RANKS)
        + math.log(math.perm(SENTENCE_COUNT, rank_count))
        + math.log(math.comb(SENTENCE_COUNT, places))
        + math.log(math.perm(len(NAMES), SENTENCE_COUNT))
        + plain * math.log(len(PLAIN_ADVERBS))
        + SENTENCE_COUNT * math.log(VERBS_PER_ADVERB * objects_per_verb)
        + places * math.log(len(PLACES))
    )


def compute_floor() -> float:
    """Compute the lowest expected loss that any model can reach, in nats per token.

    By Gibbs' inequality (Cover and Thomas 2006, Elements of Information Theory, theorem 2.6.3) no
    model's expected -ln of a document's probability is below the entropy, the mean of
    `compute_document_nats` over the numbers of ranks. A document has 64 tokens, whatever its
    number; in a stream of documents all 64 are predicted, the begin of the next one as a
    certainty, and a loss over the labels of whole documents is a mean over 64 tokens. Where the
    first token of a document is no label, as at the start of a sequence that predicts one token
    less than it has, the sum of the losses is the same, and the mean is 64/63 of this.
    """
    nats = [compute_document_nats(rank_count) for rank_count in range(1, MAX_RANKS + 1)]
    return sum(nats) / len(nats) / DOCUMENT_TOKENS


def compute_sample_floor(documents: Sequence[NewsDocument]) -> float:
    """Compute the loss of the generator's own probabilities on these documents, in nats per token:
    it differs from `compute_floor` by the numbers of ranks that were drawn.
    """
    nats = sum(compute_document_nats(one.rank_count) for one in documents)
    return nats / len(documents) / DOCUMENT_TOKENS

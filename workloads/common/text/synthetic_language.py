"""The embedded language pair: sentences from a small grammar, with their translations.

A lexicon of pseudo-words, an unlimited supply of names, and rules by which the second language
differs from the first: adjectives and
determiners follow their noun and agree with it, prepositions follow their phrase, adverbs and the
future marker follow the
verb, and the verb agrees with its subject. In the harder form the verb comes at the end of its
clause, after all embedded clauses,
and relative clauses precede their noun. Each word has one meaning; order and forms are what must be
learnt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from workloads.common.text import parallel_text
from workloads.common.text.parallel_text import Corpus

VERSION: Final = 1  # part of the cache folders' names: changed sentences need another folder

Pair: TypeAlias = tuple[list[str], list[str]]
"""The words of a phrase in both languages."""
Entry: TypeAlias = tuple[str, str]
"""One word in both languages."""

GENDERS: Final = ("ae", "oo", "uu")
SOURCE_SOUNDS: Final = (tuple("bdfgklmnprst"), tuple("aeiou"))
TARGET_SOUNDS: Final = (
    ("ch", "h", "j", "q", "sh", "v", "w", "x", "z", "zh"),
    ("ae", "ie", "oo", "uu", "y"),
)
NOUNS, VERBS, ADJECTIVES, ADVERBS, PREPOSITIONS, DETERMINERS, CONJUNCTIONS = (
    150,
    70,
    66,
    20,
    12,
    8,
    4,
)  # 330 words
NAME_SYLLABLES: Final = 20
TENSES: Final = (("s", "", "ish"), ("d", "d", "osh"), ("", "", "ash"))
"""Endings of the source's verb in singular and plural, and of the target's: present, past,
future.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Difficulty of the language pair; the shares are the probabilities that a phrase or clause has
    something.
    """

    name: str
    far: bool
    """Verbs at the end and relative clauses before their noun, instead of only local changes."""
    adjective: float
    proper_name: float
    preposition: float
    adverb: float
    second_clause: float
    sub_clause: float
    relative: float
    skew: float
    """1: all words are equally frequent; the higher, the more frequent are the first words of each
    kind.
    """
    tenses: tuple[int, ...]
    train: int
    test: int


NEAR: Final = Grammar(
    name="near",
    far=False,
    adjective=0.5,
    proper_name=0.08,
    preposition=0.5,
    adverb=0.3,
    second_clause=0.05,
    sub_clause=0.0,
    relative=0.0,
    skew=2.0,
    tenses=(0, 2),
    train=10_000,
    test=512,
)
FAR: Final = Grammar(
    name="far",
    far=True,
    adjective=0.4,
    proper_name=0.12,
    preposition=0.5,
    adverb=0.3,
    second_clause=0.4,
    sub_clause=0.4,
    relative=0.25,
    skew=1.0,
    tenses=(0, 1, 2),
    train=20_000,
    test=512,
)


class Lexicon:
    """All words in both languages, the same on every machine."""

    def __init__(self) -> None:
        rng = np.random.default_rng([VERSION, 0])
        words = zip(stems(SOURCE_SOUNDS, 2, rng), stems(TARGET_SOUNDS, 2, rng), strict=False)
        self.nouns = [
            (*word, GENDERS[number % len(GENDERS)])
            for number, word in enumerate(islice(words, NOUNS))
        ]
        counts = (VERBS, ADJECTIVES, ADVERBS, PREPOSITIONS, DETERMINERS, CONJUNCTIONS)
        kinds = [list(islice(words, count)) for count in counts]
        (
            self.verbs,
            self.adjectives,
            self.adverbs,
            self.prepositions,
            self.determiners,
            self.conjunctions,
        ) = kinds
        self.future, self.that, self.which = islice(words, 3)
        self.syllables = list(
            islice(
                zip(stems(SOURCE_SOUNDS, 1, rng), stems(TARGET_SOUNDS, 1, rng), strict=False),
                NAME_SYLLABLES,
            )
        )


def stems(
    sounds: tuple[tuple[str, ...], ...], syllables: int, rng: np.random.Generator
) -> Iterator[str]:
    """Yield all words with this many syllables, in random order."""
    found = ["".join(word) for word in product(*sounds * syllables)]
    return (found[place] for place in rng.permutation(len(found)))


class Speaker:
    """Generates sentences from a stream of random numbers."""

    def __init__(self, grammar: Grammar, lexicon: Lexicon, rng: np.random.Generator) -> None:
        self.grammar, self.lexicon, self.rng = grammar, lexicon, rng

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < share)

    def pick(self, entries: list[Entry]) -> Entry:
        """Choose a word at random."""
        return entries[self.number(len(entries))]

    def number(self, count: int) -> int:
        """Choose a number below `count` at random."""
        if self.grammar.skew == 1.0:
            return int(self.rng.integers(count))
        return int(count * self.rng.random() ** self.grammar.skew)

    def sentence(self) -> tuple[str, str]:
        """Generate a sentence: its text in both languages."""
        source, target = self.clause(depth=0)
        if self.chance(self.grammar.second_clause):
            joint, more = self.pick(self.lexicon.conjunctions), self.clause(depth=0)
            source, target = [*source, ",", joint[0], *more[0]], [*target, ",", joint[1], *more[1]]
        return written(source), written(target)

    def clause(self, depth: int) -> Pair:
        """Generate a clause; `depth`: number of enclosing clauses."""
        subject, many = self.noun_phrase(depth)
        verb = self.verb(many)
        if depth == 0 and self.chance(self.grammar.sub_clause):
            inner, mark = self.clause(depth + 1), self.lexicon.that
            what: Pair = [mark[0], *inner[0]], [*inner[1], mark[1]]
        else:
            what = self.noun_phrase(depth)[0]
        return self.ordered(subject, verb, what, self.place(depth))

    def ordered(self, subject: Pair, verb: Pair, what: Pair, place: Pair) -> Pair:
        """Put the parts of a clause in each language's order."""
        source = [*subject[0], *verb[0], *what[0], *place[0]]
        if self.grammar.far:
            return source, [*subject[1], *place[1], *what[1], *verb[1]]
        return source, [*subject[1], *verb[1], *what[1], *place[1]]

    def verb(self, many: bool) -> Pair:
        """Generate a verb in one of three tenses, with or without an adverb."""
        source, target = self.pick(self.lexicon.verbs)
        tense = self.grammar.tenses[int(self.rng.integers(len(self.grammar.tenses)))]
        one, several, ending = TENSES[tense]
        before, after = [], [f"{target}{ending}{'en' if many else ''}"]
        if tense == len(TENSES) - 1:
            before, after = [self.lexicon.future[0]], [*after, self.lexicon.future[1]]
        if self.chance(self.grammar.adverb):
            adverb = self.pick(self.lexicon.adverbs)
            before, after = [*before, adverb[0]], [*after, adverb[1]]
        return [*before, source + (several if many else one)], after

    def place(self, depth: int) -> Pair:
        """Generate a place, or nothing."""
        if not self.chance(self.grammar.preposition):
            return [], []
        source, target = self.pick(self.lexicon.prepositions)
        phrase = self.noun_phrase(depth)[0]
        return [source, *phrase[0]], [*phrase[1], target]

    def noun_phrase(self, depth: int) -> tuple[Pair, bool]:
        """Generate a noun phrase, and return whether it is plural."""
        if self.chance(self.grammar.proper_name):
            return self.name(), False
        many = self.chance(0.35)
        noun, noun_there, gender = self.lexicon.nouns[self.number(NOUNS)]
        determiner, determiner_there = self.pick(self.lexicon.determiners)
        before, after = [determiner], [f"{noun_there}{'en' if many else ''}"]
        if self.chance(self.grammar.adjective):
            adjective = self.pick(self.lexicon.adjectives)
            before, after = [*before, adjective[0]], [*after, adjective[1] + gender]
        source, target = (
            [*before, noun + ("s" if many else "")],
            [
                *after,
                determiner_there + ("en" if many else gender),
            ],
        )
        if depth < 2 and self.chance(self.grammar.relative):
            return self.related(source, target, many, depth), many
        return (source, target), many

    def related(self, source: list[str], target: list[str], many: bool, depth: int) -> Pair:
        """Attach a relative clause to a noun phrase."""
        verb, whom, mark = self.verb(many), self.noun_phrase(depth + 1)[0], self.lexicon.which
        return [*source, mark[0], *verb[0], *whom[0]], [*whom[1], *verb[1], mark[1], *target]

    def name(self) -> Pair:
        """Generate a name; its translation has a syllable for each of its own."""
        syllables = [self.pick(self.lexicon.syllables) for _ in range(int(self.rng.integers(2, 4)))]
        source, target = ("".join(part) for part in zip(*syllables, strict=True))
        return [source.capitalize()], [target.capitalize()]


def written(words: list[str]) -> str:
    """Join words with normal punctuation: a capital at the start, a full stop at the end, no space
    before a comma.
    """
    text = " ".join(words).replace(" ,", ",")
    return f"{text[0].upper()}{text[1:]}."


def corpora(grammar: Grammar) -> tuple[Corpus, Corpus]:
    """Generate both splits, train and test; no sentence occurs twice, within a split or across
    both.
    """
    speaker = Speaker(grammar, Lexicon(), np.random.default_rng([VERSION, 1, int(grammar.far)]))
    pairs: dict[str, str] = {}
    while len(pairs) < grammar.train + grammar.test:
        source, target = speaker.sentence()
        pairs.setdefault(source, target)
    sources, targets, cut = tuple(pairs), tuple(pairs.values()), grammar.train
    return Corpus(split="train", sources=sources[:cut], targets=targets[:cut]), Corpus(
        split="test", sources=sources[cut:], targets=targets[cut:]
    )


def write(grammar: Grammar, folder: Path) -> None:
    """Write both splits as parallel files."""
    folder.mkdir(parents=True)
    for corpus in corpora(grammar):
        parallel_text.write(corpus, folder)

"""The embedded language pair: sentences from a small grammar, with their translations.

A lexicon of pseudo-words, an unlimited supply of names, and rules by which the second language
differs from the first: adjectives and determiners follow their noun and agree with it, prepositions
follow their phrase, adverbs and the future marker follow the verb, and the verb agrees with its
subject. In the harder form the verb comes at the end of its clause, after all embedded clauses, and
relative clauses precede their noun. Each word has one meaning; order and forms are what must be
learnt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from workloads.common.text import parallel_text
from workloads.common.text.parallel_text import ParallelCorpus

LANGUAGE_VERSION: Final = (
    1  # part of the cache folders' names: changed sentences need another folder
)

PhrasePair: TypeAlias = tuple[list[str], list[str]]
"""The words of a phrase in both languages."""
WordPair: TypeAlias = tuple[str, str]
"""One word in both languages."""

GENDER_ENDINGS: Final = ("ae", "oo", "uu")
SOURCE_SOUNDS: Final = (tuple("bdfgklmnprst"), tuple("aeiou"))
TARGET_SOUNDS: Final = (
    ("ch", "h", "j", "q", "sh", "v", "w", "x", "z", "zh"),
    ("ae", "ie", "oo", "uu", "y"),
)
# 330 words
(
    NOUN_COUNT,
    VERB_COUNT,
    ADJECTIVE_COUNT,
    ADVERB_COUNT,
    PREPOSITION_COUNT,
    DETERMINER_COUNT,
    CONJUNCTION_COUNT,
) = (
    150,
    70,
    66,
    20,
    12,
    8,
    4,
)
NAME_SYLLABLE_COUNT: Final = 20
TENSE_ENDINGS: Final = (("s", "", "ish"), ("d", "d", "osh"), ("", "", "ash"))
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


NEAR_LANGUAGE: Final = Grammar(
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
    train=2_000,
    test=512,
)
FAR_LANGUAGE: Final = Grammar(
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
        rng = np.random.default_rng([LANGUAGE_VERSION, 0])
        words = zip(
            generate_word_stems(SOURCE_SOUNDS, 2, rng),
            generate_word_stems(TARGET_SOUNDS, 2, rng),
            strict=False,
        )
        self.nouns = [
            (*word, GENDER_ENDINGS[number % len(GENDER_ENDINGS)])
            for number, word in enumerate(islice(words, NOUN_COUNT))
        ]
        counts = (
            VERB_COUNT,
            ADJECTIVE_COUNT,
            ADVERB_COUNT,
            PREPOSITION_COUNT,
            DETERMINER_COUNT,
            CONJUNCTION_COUNT,
        )
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
                zip(
                    generate_word_stems(SOURCE_SOUNDS, 1, rng),
                    generate_word_stems(TARGET_SOUNDS, 1, rng),
                    strict=False,
                ),
                NAME_SYLLABLE_COUNT,
            )
        )


def generate_word_stems(
    sounds: tuple[tuple[str, ...], ...], syllables: int, rng: np.random.Generator
) -> Iterator[str]:
    """Yield all words with this many syllables, in random order."""
    found = ["".join(word) for word in product(*sounds * syllables)]
    return (found[index] for index in rng.permutation(len(found)))


class SentenceGenerator:
    """Generates sentences from a stream of random numbers."""

    def __init__(self, grammar: Grammar, lexicon: Lexicon, rng: np.random.Generator) -> None:
        self.grammar, self.lexicon, self.rng = grammar, lexicon, rng

    def is_drawn(self, share: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < share)

    def sample_word(self, entries: list[WordPair]) -> WordPair:
        """Choose a word at random."""
        return entries[self.sample_index(len(entries))]

    def sample_index(self, count: int) -> int:
        """Choose a number below `count` at random."""
        if self.grammar.skew == 1.0:
            return int(self.rng.integers(count))
        return int(count * self.rng.random() ** self.grammar.skew)

    def generate_sentence(self) -> tuple[str, str]:
        """Generate a sentence: its text in both languages."""
        source, target = self.generate_clause(depth=0)
        if self.is_drawn(self.grammar.second_clause):
            joint, more = self.sample_word(self.lexicon.conjunctions), self.generate_clause(depth=0)
            source, target = [*source, ",", joint[0], *more[0]], [*target, ",", joint[1], *more[1]]
        return format_sentence(source), format_sentence(target)

    def generate_clause(self, depth: int) -> PhrasePair:
        """Generate a clause; `depth`: number of enclosing clauses."""
        subject, many = self.generate_noun_phrase(depth)
        verb = self.generate_verb(many)
        if depth == 0 and self.is_drawn(self.grammar.sub_clause):
            inner, mark = self.generate_clause(depth + 1), self.lexicon.that
            what: PhrasePair = [mark[0], *inner[0]], [*inner[1], mark[1]]
        else:
            what = self.generate_noun_phrase(depth)[0]
        return self.order_clause(subject, verb, what, self.generate_place_phrase(depth))

    def order_clause(
        self, subject: PhrasePair, verb: PhrasePair, what: PhrasePair, place: PhrasePair
    ) -> PhrasePair:
        """Put the parts of a clause in each language's order."""
        source = [*subject[0], *verb[0], *what[0], *place[0]]
        if self.grammar.far:
            return source, [*subject[1], *place[1], *what[1], *verb[1]]
        return source, [*subject[1], *verb[1], *what[1], *place[1]]

    def generate_verb(self, many: bool) -> PhrasePair:
        """Generate a verb in one of three tenses, with or without an adverb."""
        source, target = self.sample_word(self.lexicon.verbs)
        tense = self.grammar.tenses[int(self.rng.integers(len(self.grammar.tenses)))]
        one, several, ending = TENSE_ENDINGS[tense]
        before, after = [], [f"{target}{ending}{'en' if many else ''}"]
        if tense == len(TENSE_ENDINGS) - 1:
            before, after = [self.lexicon.future[0]], [*after, self.lexicon.future[1]]
        if self.is_drawn(self.grammar.adverb):
            adverb = self.sample_word(self.lexicon.adverbs)
            before, after = [*before, adverb[0]], [*after, adverb[1]]
        return [*before, source + (several if many else one)], after

    def generate_place_phrase(self, depth: int) -> PhrasePair:
        """Generate a place, or nothing."""
        if not self.is_drawn(self.grammar.preposition):
            return [], []
        source, target = self.sample_word(self.lexicon.prepositions)
        phrase = self.generate_noun_phrase(depth)[0]
        return [source, *phrase[0]], [*phrase[1], target]

    def generate_noun_phrase(self, depth: int) -> tuple[PhrasePair, bool]:
        """Generate a noun phrase, and return whether it is plural."""
        if self.is_drawn(self.grammar.proper_name):
            return self.generate_proper_name(), False
        many = self.is_drawn(0.35)
        noun, noun_there, gender = self.lexicon.nouns[self.sample_index(NOUN_COUNT)]
        determiner, determiner_there = self.sample_word(self.lexicon.determiners)
        before, after = [determiner], [f"{noun_there}{'en' if many else ''}"]
        if self.is_drawn(self.grammar.adjective):
            adjective = self.sample_word(self.lexicon.adjectives)
            before, after = [*before, adjective[0]], [*after, adjective[1] + gender]
        source, target = (
            [*before, noun + ("s" if many else "")],
            [
                *after,
                determiner_there + ("en" if many else gender),
            ],
        )
        if depth < 2 and self.is_drawn(self.grammar.relative):
            return self.attach_relative_clause(source, target, many, depth), many
        return (source, target), many

    def attach_relative_clause(
        self, source: list[str], target: list[str], many: bool, depth: int
    ) -> PhrasePair:
        """Attach a relative clause to a noun phrase."""
        verb, whom, mark = (
            self.generate_verb(many),
            self.generate_noun_phrase(depth + 1)[0],
            self.lexicon.which,
        )
        return [*source, mark[0], *verb[0], *whom[0]], [*whom[1], *verb[1], mark[1], *target]

    def generate_proper_name(self) -> PhrasePair:
        """Generate a name; its translation has a syllable for each of its own."""
        syllables = [
            self.sample_word(self.lexicon.syllables) for _ in range(int(self.rng.integers(2, 4)))
        ]
        source, target = ("".join(part) for part in zip(*syllables, strict=True))
        return [source.capitalize()], [target.capitalize()]


def format_sentence(words: list[str]) -> str:
    """Join words with normal punctuation: a capital at the start, a full stop at the end, no space
    before a comma.
    """
    text = " ".join(words).replace(" ,", ",")
    return f"{text[0].upper()}{text[1:]}."


def generate_corpora(grammar: Grammar) -> tuple[ParallelCorpus, ParallelCorpus]:
    """Generate both splits, train and test; no sentence occurs twice, within a split or across
    both.
    """
    sentences = SentenceGenerator(
        grammar, Lexicon(), np.random.default_rng([LANGUAGE_VERSION, 1, int(grammar.far)])
    )
    pairs: dict[str, str] = {}
    while len(pairs) < grammar.train + grammar.test:
        source, target = sentences.generate_sentence()
        pairs.setdefault(source, target)
    sources, targets, cut = tuple(pairs), tuple(pairs.values()), grammar.train
    return ParallelCorpus(
        split="train", sources=sources[:cut], targets=targets[:cut]
    ), ParallelCorpus(split="test", sources=sources[cut:], targets=targets[cut:])


def format_language_folder(grammar: Grammar) -> str:
    """Return the name of a language's folder in the cache: other sentences need another one."""
    return f"language-{grammar.name}-{grammar.train}-{LANGUAGE_VERSION}"


def write_synthetic_text(grammar: Grammar, folder: Path) -> None:
    """Write both splits as parallel files."""
    folder.mkdir(parents=True)
    for corpus in generate_corpora(grammar):
        parallel_text.write_parallel_text(corpus, folder)

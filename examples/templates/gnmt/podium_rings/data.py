"""Sentences and their translations, a line each; generated once into the cache if the user supplies
none.

    DIR/train.source, DIR/train.target
    DIR/val.source, DIR/val.target

Words are separated by spaces. The vocabulary is that of the training files.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from podium_rings.scoring import END, UNKNOWN

from suite.errors import RequestError
from suite.files.cache import fill_cache_entry
from suite.workload import Run

SIDES: Final = ("source", "target")
LENGTH: Final = 12
"""Words of a sentence, at most."""
COUNTS: Final = {"train": 3000, "val": 256}
"""Generated sentences."""
NOUNS, ADJECTIVES = 40, 24
FEWEST_PAIRS: Final = 2
"""Of an adjective and its noun, in a generated sentence."""
ENDINGS: Final = ("a", "o")
"""Of a translated adjective, by the gender of the noun behind it: no word can be translated
alone.
"""
IRREGULAR: Final = 0.05
"""Share of adjectives with the other ending: where every model
scores 1, none is compared.
"""
SEED: Final = 20_26

# Legend: N samples, L places of a sentence.


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One part of the data set; the network's sizes follow from it."""

    input_NX: torch.Tensor
    """Words of the source, N L; END from the end of the sentence on."""
    label_N: torch.Tensor
    """Words of the translation, N L, likewise."""
    outputs: int
    """Words of the vocabulary."""


def load(run: Run, part: str) -> Samples:
    """Read train or val; RequestError if a file is missing, or a sentence is too long."""
    folder = run.data or generate(run.cache / "rings")
    train = read_pair(folder, "train")
    words = sorted({word for lines in train for line in lines for word in line})
    number = {word: place for place, word in enumerate(words, max(END, UNKNOWN) + 1)}
    source, target = train if part == "train" else read_pair(folder, part)
    if len(source) != len(target):
        raise RequestError(
            f"{folder}: {part}.source has {len(source)} lines, and {part}.target has {len(target)}"
        )
    input_NL, label_NL = (
        torch.tensor([encode(line, number) for line in lines]) for lines in (source, target)
    )
    outputs = max(END, UNKNOWN) + 1 + len(words)
    return Samples(input_NX=input_NL, label_N=label_NL, outputs=outputs)


def read_pair(folder: Path, part: str) -> list[list[list[str]]]:
    """Read the sentences of both sides of a part."""
    return [read(folder / f"{part}.{side}") for side in SIDES]


def read(path: Path) -> list[list[str]]:
    """Read the sentences of one file."""
    try:
        lines = [line.split() for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {error}") from error
    for place, line in enumerate(lines, 1):
        if not 0 < len(line) < LENGTH:
            raise RequestError(
                f"{path}:{place}: {len(line)} words; a sentence has 1 to {LENGTH - 1}"
            )
    if not lines:
        raise RequestError(f"{path}: no sentences")
    return lines


def encode(line: list[str], number: dict[str, int]) -> list[int]:
    """Return the numbers of a sentence's words, with END behind them."""
    found = [number.get(word, UNKNOWN) for word in line]
    return found + [END] * (LENGTH - len(found))


def generate(folder: Path) -> Path:
    """Generate both parts, always the same; existing files are kept."""
    for place, (part, count) in enumerate(COUNTS.items()):
        generator = np.random.default_rng(SEED + place)
        pairs = [translate_sentence(generator) for _ in range(count)]
        for side, sentences in zip(SIDES, zip(*pairs, strict=True), strict=True):
            with fill_cache_entry(folder / f"{part}.{side}") as partial:
                if partial is not None:
                    partial.write_text("".join(f"{each}\n" for each in sentences), "utf-8")
    return folder


def translate_sentence(generator: np.random.Generator) -> tuple[str, str]:
    """Draw a sentence of pairs of an adjective and a noun, and translate it: an adjective agrees
    with the noun behind it.
    """
    source, target = [], []
    for _ in range(generator.integers(FEWEST_PAIRS, LENGTH // 2)):
        adjective, noun = generator.integers(ADJECTIVES), generator.integers(NOUNS)
        source += [f"adj{adjective}", f"noun{noun}"]
        gender = noun + (generator.random() < IRREGULAR)
        target += [f"a{adjective}{ENDINGS[gender % len(ENDINGS)]}", f"n{noun}"]
    return " ".join(source), " ".join(target)

"""Measures how often the tests behind `podium precision` err: in pairs of equally good systems, and
in pairs of which one loses 1 %.

Two systems answer the same samples; each answer of the second is spoiled or mended by chance. Right
or wrong answers go through McNemar's test, means (as of ROUGE) and BLEU through the paired
bootstrap, with the samplers that workloads use (workloads/common/score_samplers.py, bleu.py). The
ratio is the share of false alarms / 0.05.

    python benchmarks/paired.py --trials 400 --format json
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

from suite.measurement.paired import compare_drawn_scores, draw_scores
from workloads.common.score_samplers import build_mean_sampler, build_share_sampler
from workloads.common.text.bleu import BleuForm, build_bleu_sampler

SEED: Final = 64
ALARM_LIMIT: Final = 0.05
LOSS: Final = 0.01
CHANGED: Final = 0.04
"""Share of the samples that the second system answers otherwise, either way."""
WORDS: Final = tuple(f"w{number}" for number in range(300))
SENTENCE_WORDS: Final = 12
WRONG_WORDS: Final = 0.3
"""Share of the words of both translations that are wrong."""

Sampler = Any
Pair = Callable[[np.random.Generator, int, float], tuple[Sampler, Sampler, int]]
"""Builds two systems of so many samples, of which the second loses a share of its score; with the
number of samples that they answer differently.
"""


def build_shares(
    generator: np.random.Generator, samples: int, loss: float
) -> tuple[Sampler, Sampler, int]:
    """Right or wrong answers, three quarters of them right."""
    right_S = generator.random(samples) < 0.75
    changed_S = generator.random(samples) < CHANGED
    second_S = np.where(changed_S, generator.random(samples) < 0.75, right_S)
    second_S &= generator.random(samples) >= loss
    sides = [build_share_sampler({"score": each.tolist()}) for each in (right_S, second_S)]
    return sides[0], sides[1], int((right_S != second_S).sum())


def build_means(
    generator: np.random.Generator, samples: int, loss: float
) -> tuple[Sampler, Sampler, int]:
    """Values between 0 and 1, most of them 1, as those of ROUGE."""
    first_S = draw_values(generator, samples)
    changed_S = generator.random(samples) < CHANGED
    second_S = np.where(changed_S, draw_values(generator, samples), first_S)
    second_S = np.where(generator.random(samples) < loss, 0.0, second_S)
    sides = [build_mean_sampler({"score": each.tolist()}) for each in (first_S, second_S)]
    return sides[0], sides[1], int((first_S != second_S).sum())


def draw_values(generator: np.random.Generator, samples: int) -> Any:
    """Draw values of which three quarters are 1."""
    return np.where(generator.random(samples) < 0.75, 1.0, generator.random(samples))


def build_translations(
    generator: np.random.Generator, samples: int, loss: float
) -> tuple[Sampler, Sampler, int]:
    """Sentences, of which both systems get words wrong by chance."""
    references = [generator.choice(WORDS, SENTENCE_WORDS).tolist() for _ in range(samples)]
    first = [spoil_words(generator, each, WRONG_WORDS) for each in references]
    second = list(first)
    for place in np.flatnonzero(generator.random(samples) < 10 * CHANGED):
        second[place] = spoil_words(generator, references[place], WRONG_WORDS)
    for place in np.flatnonzero(generator.random(samples) < 2 * loss):
        second[place] = spoil_words(generator, references[place], 1.0)
    texts = [[" ".join(each) for each in side] for side in (references, first, second)]
    sides = [build_bleu_sampler(BleuForm.TOKENS, each, texts[0]) for each in texts[1:]]
    return sides[0], sides[1], sum(map(str.__ne__, texts[1], texts[2]))


def spoil_words(generator: np.random.Generator, words: Sequence[str], share: float) -> list[str]:
    """Replace a share of the words by others."""
    return [str(generator.choice(WORDS)) if generator.random() < share else word for word in words]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of score."""

    name: str
    build: Pair
    samples: int
    """As many as the smoke profile has."""


CASES: Final = (
    Case(name="right or wrong, McNemar", build=build_shares, samples=2048),
    Case(name="means, bootstrap", build=build_means, samples=512),
    Case(name="BLEU, bootstrap", build=build_translations, samples=512),
)


def measure(case: Case, trials: int, samples: int) -> dict[str, Any]:
    """Count alarms of equal systems and of systems that lose."""
    generator = np.random.default_rng(SEED)
    counts = {}
    seconds = time.perf_counter()
    for name, loss in (("false_alarms", 0.0), ("found", LOSS)):
        counts[name] = 0
        for _ in range(trials):
            first, second, differing = case.build(generator, samples, loss)
            found = compare_drawn_scores(draw_scores(second), draw_scores(first), differing)
            counts[name] += sum(each.is_separable for each in found.values())
    seconds = time.perf_counter() - seconds
    return {
        "case": case.name,
        "samples": samples,
        "trials": trials,
        **counts,
        "ratio": counts["false_alarms"] / trials / ALARM_LIMIT,
        "power": counts["found"] / trials,
        "ms_per_test": 1000 * seconds / (2 * trials),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=400, help="pairs of each kind")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_tiny_option(parser)
    options = parser.parse_args()
    trials = choose_size(options.trials, 4)
    found = [measure(case, trials, choose_size(case.samples, 64)) for case in CASES]
    if options.format == "json":
        json.dump({"hardware": hardware(), "cases": found}, sys.stdout, indent=2)
        print()
        return
    print(hardware())
    for each in found:
        print(
            f"{each['case']}, {each['samples']} samples: {each['false_alarms']} of {trials} equal"
            f" pairs told apart (ratio {each['ratio']:.2f}), {each['found']} of {trials} that lose"
            f" 1 % found; {each['ms_per_test']:.1f} ms a test"
        )


if __name__ == "__main__":
    main()

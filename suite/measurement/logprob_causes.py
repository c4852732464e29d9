"""How the log-probabilities that a system says differ from PyTorch's in fp32, and what the
differences come from.

A token that the network is sure of says nothing: an error e of a logit changes the log-probability
of a token of probability p by (1 - p) e. So differences are divided by 1 - p, which gives errors of
logits, and tokens with p above SURE_PROBABILITY are left out.

Rounding. A number format with unit roundoff u makes errors in proportion to u: 2^-8 in bf16, 2^-11
in fp16 and tf32, 2^-24 in fp32 (IEEE 754-2019, section 3.6; Higham 2002, Accuracy and Stability of
Numerical Algorithms, section 2.2). How a network's layers add them up is not estimated but
measured: PyTorch forces the same tokens in bf16, and the root of the mean square of its errors is
what bf16 makes of this network and these tokens. Another engine rounds as often, in another order.
Between two formats lies the mean of their exponents: what is more than 2^1.5 times, half the way to
a format of five bits, is not bf16's rounding.

Causes. Weights rounded to a format, other positions and another prompt each change every
log-probability by an amount that PyTorch computes. If a cause is there, the least-squares factor of
its column is 1, what is left is rounding, and if not the factor is about 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from suite.loadgen.logprob_record import (
    BASE_COLUMN,
    BEST_COLUMN,
    BF16_COLUMN,
    BF16_WEIGHTS_COLUMN,
    FP16_WEIGHTS_COLUMN,
    FP32_COLUMN,
    PROMPT_COLUMN,
    REFERENCE_COLUMNS,
    SAID_COLUMN,
    SCALING_COLUMN,
    find_logarithms,
)
from suite.loadgen.usage_record import NOT_STATED
from suite.terms import Precision

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Legend: N tokens of which the network is not sure.
Floats: TypeAlias = "npt.NDArray[np.float64]"

SURE_PROBABILITY: Final = 0.99
LEAST_UNSURE: Final = 64
"""House rule: of fewer tokens the root of the mean square is known to no better than 9 %."""
ROUNDOFF_EXPONENTS: Final[Mapping[Precision, int]] = {
    Precision.FP32: -24,
    Precision.FP16: -11,
    Precision.BF16: -8,
}
MOST_ROUNDING: Final = 2.0**1.5
"""Times bf16's own errors: half the way, on the logarithmic scale, to 2^-5."""
FP16_AND_BF16: Final = 2.0**-1.5
FP32_AND_FP16: Final = 2.0**-9.5
"""Borders between two formats, in the same unit: the means of their exponents."""
COARSEST_FORMAT: Final = 2.0**5.5
"""The same: half the way from 2^-4, the roundoff of fp8 (E4M3, Micikevicius et al. 2022,
arXiv:2209.05433), to 2^-1, which keeps nothing.
"""
FORMAT_WORDS: Final[Mapping[str, str]] = {
    "float32": "fp32",
    "f32": "fp32",
    "all f32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
}
"""Other words for the formats, in small letters: PyTorch's, and those of llama.cpp (src/llama.cpp,
llama_model_ftype_name), which its server states.
"""
CAUSE_FACTORS: Final = (0.5, 1.5)
"""A cause that is there has a factor of 1; these are nearer to it than to none, or to twice it."""
CAUSE_T: Final = 5.0
"""House rule: of a factor's distance from 0 in standard errors, by chance once in a million."""
LEAST_CORRELATION: Final = 0.1
"""A smaller one is no effect worth naming, however many tokens show it (Cohen 1988, Statistical
Power Analysis, section 3.2: 0.1 is small).
"""
FIRST_TOKEN_TIMES: Final = 3.0
"""House rule: an end of the prompt that is wrong makes the first token's error as many times the
others'; wrong weights were measured at 1.4 times.
"""
LIKELIEST_SHARE: Final = 0.5
"""House rule: weights that belong to a checkpoint choose its likeliest token more often."""
OTHER_WEIGHTS: Final = "other weights"
OTHER_POSITIONS: Final = "other positions"
OTHER_PROMPT: Final = "other prompt"
OTHER_FORMAT: Final = "other number format than stated"
LARGE: Final = "other weights or positions"
COARSE: Final = "other weights or positions, or a coarser number format than bf16"
WEIGHT_FORMATS: Final[Mapping[str, Precision]] = {
    FP16_WEIGHTS_COLUMN: Precision.FP16,
    BF16_WEIGHTS_COLUMN: Precision.BF16,
}
"""Format that a cause rounds weights to."""
CAUSE_WORDS: Final[Mapping[str, str]] = {
    SCALING_COLUMN: "Llama 3.1's scaling of positions where the checkpoint has none, or none",
    BASE_COLUMN: "another base of the rotations",
    PROMPT_COLUMN: "prompts without their first token",
    FP16_WEIGHTS_COLUMN: "weights rounded to fp16",
    BF16_WEIGHTS_COLUMN: "weights rounded to bf16",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogprobDifferences:
    """How log-probabilities differ from the reference's, in nats."""

    values: int
    """That are compared: tokens, or classes of pictures."""
    mean: float
    """Of the absolute differences, as the following."""
    p99: float
    largest: float
    by_place: tuple[float, ...] = ()
    """Mean at places 1, 2 to 3, 4 to 7 and so on of an answer; empty of classes."""
    times_bf16: float | None = None
    """Errors of logits as a multiple of those that bf16 makes in PyTorch; None of too few tokens,
    and of classes.
    """
    number_format: str = ""
    """That the errors are those of: fp32, fp16 (or tf32), bf16; empty if of none, or not known."""
    finding: str = ""
    """What is not as stated, as far as the differences show; empty if nothing is."""
    evidence: str = ""
    """For the format, or for the finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseFit:
    """How much of a cause is in the errors."""

    name: str
    factor: float
    t: float
    left: float
    """Errors without the cause, as a multiple of bf16's own."""

    @property
    def is_present(self) -> bool:
        """Return whether the cause is there, and nothing but rounding beside it."""
        low, high = CAUSE_FACTORS
        is_clear = low <= self.factor <= high and self.t >= CAUSE_T
        return is_clear and self.left <= MOST_ROUNDING

    def __str__(self) -> str:
        return f"{CAUSE_WORDS[self.name]} (factor {self.factor:.2f}, t {self.t:.0f})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogitErrors:
    """Errors of logits, of the tokens of which the network is not sure."""

    said_N: Floats
    place_N: Any
    position_N: Any
    columns: Mapping[str, Floats]
    """Of each cause."""

    @property
    def times_bf16(self) -> float:
        """Return their size as a multiple of bf16's own."""
        return self.compare_with_bf16(self.said_N)

    def compare_with_bf16(self, error_N: Floats) -> float:
        """Return the size of errors as a multiple of bf16's own."""
        own = compute_root_mean_square(self.columns[BF16_COLUMN])
        return compute_root_mean_square(error_N) / own if own else math.inf

    def fit_cause(self, name: str) -> CauseFit:
        """Fit the factor of one cause, by least squares."""
        cause_N = self.columns[name]
        square = float(cause_N @ cause_N)
        if square == 0:
            return CauseFit(name=name, factor=0.0, t=0.0, left=self.times_bf16)
        factor = float(self.said_N @ cause_N) / square
        rest_N = self.said_N - factor * cause_N
        error = math.sqrt(float(rest_N @ rest_N) / (len(rest_N) - 1) / square)
        return CauseFit(
            name=name,
            factor=factor,
            t=factor / error if error else math.inf,
            left=self.compare_with_bf16(rest_N),
        )

    def find_cause(self, *names: str) -> CauseFit | None:
        """Return the cause that is there, of several the clearest; None if none is."""
        fits = [fit for fit in map(self.fit_cause, names) if fit.is_present]
        return max(fits, key=lambda fit: fit.t, default=None)

    def measure_first_place(self) -> float:
        """Return the mean error at the first token, as a multiple of that at the others."""
        is_first_N = self.place_N == 0
        size_N = abs(self.said_N)
        if is_first_N.all() or not is_first_N.any():
            return 0.0
        return float(size_N[is_first_N].mean() / max(size_N[~is_first_N].mean(), 1e-30))

    def measure_growth(self) -> float:
        """Return by how many standard errors the rank correlation of errors and positions is above
        0 (Spearman; Kendall and Gibbons 1990, section 4.15); 0 of one below LEAST_CORRELATION.
        """
        correlation = compute_correlation(
            rank_values(abs(self.said_N)), rank_values(self.position_N)
        )
        is_small = correlation < LEAST_CORRELATION
        return 0.0 if is_small else correlation * math.sqrt(len(self.said_N) - 1)


def compute_root_mean_square(values: Floats) -> float:
    """Return the root of the mean square."""
    return math.sqrt(float(values @ values) / len(values))


def compute_correlation(one: Floats, other: Floats) -> float:
    """Return Pearson's correlation; 0 of a constant."""
    one, other = one - one.mean(), other - other.mean()
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale else 0.0


def rank_values(values: Any) -> Floats:
    """Return the rank of each value, equal ones with the mean of theirs."""
    import numpy as np

    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middles: Floats = ends - (counts - 1) / 2
    return middles[places]


def measure_absolute_differences(one: Any, other: Any) -> LogprobDifferences | None:
    """Compare two arrays of log-probabilities, where both are some; None of none."""
    import numpy as np

    known = find_logarithms(one) & find_logarithms(other)
    if not known.any():
        return None
    difference = np.abs(np.float64(one[known]) - np.float64(other[known]))
    return LogprobDifferences(
        values=len(difference),
        mean=float(difference.mean()),
        p99=float(np.quantile(difference, 0.99)),
        largest=float(difference.max()),
    )


def average_by_place(difference: Any, place: Any) -> tuple[float, ...]:
    """Return the mean at places 1, 2 to 3, 4 to 7 and so on, counted from 1; 0 of none. A place
    below that, which only an edited file has, counts as the first.
    """
    import numpy as np

    group = np.int64(np.log2(np.maximum(np.int64(place), 0) + 1))
    counts = np.bincount(group)
    sums = np.bincount(group, weights=difference)
    return tuple(map(float, sums / np.maximum(counts, 1)))


def compute_logit_errors(said: Any, reference: Any) -> LogitErrors:
    """Compute the errors of logits from rows of both files that belong together."""
    import numpy as np

    fp32: Floats = np.asarray(reference[FP32_COLUMN], np.float64)
    probability = np.exp(fp32)
    unsure = probability <= SURE_PROBABILITY
    left_N = 1 - probability[unsure]
    return LogitErrors(
        said_N=(np.asarray(said[SAID_COLUMN], np.float64) - fp32)[unsure] / left_N,
        place_N=said["place"][unsure],
        position_N=reference["position"][unsure],
        columns={
            name: (np.asarray(reference[name], np.float64) - fp32)[unsure] / left_N
            for name in (BF16_COLUMN, *CAUSE_WORDS)
        },
    )


def count_other_prompts(said: Any, reference: Any) -> tuple[int, int]:
    """Count the answers whose prompt has another number of tokens by the server's count, and those
    for which it states one.
    """
    first = said["place"] == 0
    stated = said["prompt_tokens"][first]
    wanted = reference["position"][first]
    is_stated = stated != NOT_STATED
    return int((is_stated & (stated != wanted)).sum()), int(is_stated.sum())


def explain_large_errors(
    errors: LogitErrors, said: Any, reference: Any, stated: str
) -> tuple[str, str]:
    """Return the finding of errors that no rounding to bf16 makes, and the evidence for it; no
    finding of errors that the stated format may make.
    """
    other, counted = count_other_prompts(said, reference)
    if other:
        return OTHER_PROMPT, f"`usage` counts other prompt tokens in {other} of {counted} answers"
    if fit := errors.find_cause(PROMPT_COLUMN):
        return OTHER_PROMPT, str(fit)
    share = float((reference[FP32_COLUMN] >= reference[BEST_COLUMN]).mean())
    told = f"errors {errors.times_bf16:.0f} times bf16's, {share:.0%} of the tokens the likeliest"
    is_small = errors.times_bf16 < COARSEST_FORMAT and share >= LIKELIEST_SHARE
    if is_small and is_coarse_format(stated):
        return "", f"{told}, as a format coarser than bf16 may make them"
    first = errors.measure_first_place()
    if first >= FIRST_TOKEN_TIMES:
        return OTHER_PROMPT, f"the first token's errors are {first:.1f} times the others'"
    growth = errors.measure_growth()
    if growth >= CAUSE_T:
        return OTHER_POSITIONS, f"errors grow with the position ({growth:.0f} standard errors)"
    if share < LIKELIEST_SHARE:
        return OTHER_WEIGHTS, told
    return (LARGE if errors.times_bf16 >= COARSEST_FORMAT else COARSE), told


def name_stated_format(stated: str) -> str:
    """Return podium's name of a number format that somebody states; other words as they are."""
    word = stated.strip().lower()
    return FORMAT_WORDS.get(word, word)


def is_coarse_format(stated: str) -> bool:
    """Return whether a format is stated, and rounds to fewer bits than bf16."""
    return bool(stated) and stated != Precision.TF32 and stated not in ROUNDOFF_EXPONENTS


def find_number_format(errors: LogitErrors) -> tuple[Precision, str]:
    """Return the number format that makes errors of this size, and the evidence for it."""
    times = errors.times_bf16
    told = f"errors {times:.2g} times bf16's"
    if times < FP32_AND_FP16:
        return Precision.FP32, told
    return (Precision.FP16 if times < FP16_AND_BF16 else Precision.BF16), told


def judge_rounding(errors: LogitErrors, stated: str) -> tuple[Precision, str, str]:
    """Return the number format that small errors are those of, the finding ("" if it may be as
    stated), and the evidence.

    Weights that are rounded to another format are another one. Of errors alone only larger ones
    are: an engine may compute more precisely than its weights are stored. Nothing is known of
    other formats than ROUNDOFF_EXPONENTS.
    """
    by_size, told = find_number_format(errors)
    fit = errors.find_cause(*WEIGHT_FORMATS)
    found = WEIGHT_FORMATS[fit.name] if fit else by_size
    evidence = f"{fit}, {told}" if fit else told
    allowed = Precision.FP16 if stated == Precision.TF32 else stated
    if allowed not in ROUNDOFF_EXPONENTS:
        return found, "", evidence
    is_coarser = ROUNDOFF_EXPONENTS[found] > ROUNDOFF_EXPONENTS[Precision(allowed)]
    is_other = is_coarser or (fit is not None and found != allowed)
    return found, OTHER_FORMAT if is_other else "", evidence


def compare_said_tokens(said: Any, reference: Any, stated: str) -> LogprobDifferences | None:
    """Compare what a system said of its tokens with PyTorch's word in fp32; rows that are no
    logarithms, which the judge finds, are left out.

    Args:
        said: rows of SAID_FIELDS.
        reference: rows of REFERENCE_FIELDS, each of the same sample and place.
        stated: the system's number format, by whoever states it.
    """
    import numpy as np

    stated = name_stated_format(stated)
    known = find_logarithms(said[SAID_COLUMN])
    for column in REFERENCE_COLUMNS:
        known &= find_logarithms(reference[column])
    said, reference = said[known], reference[known]
    found = measure_absolute_differences(said[SAID_COLUMN], reference[FP32_COLUMN])
    if found is None:
        return None
    difference = np.abs(said[SAID_COLUMN] - reference[FP32_COLUMN])
    found = replace(found, by_place=average_by_place(difference, said["place"]))
    errors = compute_logit_errors(said, reference)
    if len(errors.said_N) < LEAST_UNSURE:
        few = f"{len(errors.said_N)} tokens of which the network is not sure, too few"
        return replace(found, evidence=few)
    found = replace(found, times_bf16=errors.times_bf16)
    if fit := errors.find_cause(SCALING_COLUMN, BASE_COLUMN):
        return replace(found, finding=OTHER_POSITIONS, evidence=str(fit))
    if errors.times_bf16 > MOST_ROUNDING:
        finding, evidence = explain_large_errors(errors, said, reference, stated)
        return replace(found, finding=finding, evidence=evidence)
    number_format, finding, evidence = judge_rounding(errors, stated)
    return replace(found, number_format=number_format, finding=finding, evidence=evidence)

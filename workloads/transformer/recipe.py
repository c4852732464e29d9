"""The settings of a run as typed records, with their log names; imports no framework."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import Schedule
from workloads.common.setting_values import Settings, flag, number, positive, text, whole

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_transformer.yaml: what a log must have.
LOGGED: Final = (
    "opt_name",
    "global_batch_size",
    "opt_base_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_adam_beta_1",
    "opt_adam_beta_2",
    "opt_adam_epsilon",
    "max_sequence_length",
)
TRUNCATE: Final = "truncate"
SHORTEST_BUCKET, BUCKET_GROWTH = (
    8,
    1.1,
)  # mlcommons/training, translation/tensorflow/transformer/utils/dataset.py


def hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in LOGGED if key in settings}


def inverse_square_root(base: float, width: int, warm_up_steps: int) -> Schedule:
    """base x width^-0.5 x min(1, s / W) / sqrt(max(s, W)); Vaswani et al. 2017, section 5.3; steps
    of the formula count from 1.
    """

    def rate(step: int) -> float:
        number, warm_up = step + 1, max(warm_up_steps, 1)
        return float(base * width**-0.5 * min(1.0, number / warm_up) * max(number, warm_up) ** -0.5)

    return rate


def entropy_of_labels(smoothing: float, vocabulary: int) -> float:
    """Return the cross-entropy, in nats, of a perfect model on smoothed labels; metrics.py,
    normalizing_constant.
    """
    shares = [(1.0, 1.0 - smoothing), (vocabulary - 1.0, smoothing / (vocabulary - 1))]
    return -sum(count * share * math.log(share) for count, share in shares if share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The network's sizes."""

    layers: int
    """Number of encoder layers, and of decoder layers."""
    width: int
    filter: int
    """Width between the two linear layers that follow attention."""
    heads: int
    vocabulary: int
    """Number of embedded subtokens."""

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise RequestError(
                f"model.width {self.width} is not a multiple of twice model.heads {self.heads}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The network's sizes except for the vocabulary, which depends on the data."""

    layers: int
    width: int
    filter: int
    heads: int

    @classmethod
    def of(cls, settings: Settings) -> "Sizes":
        """Read the settings."""
        return cls(
            **{
                key: positive(settings, f"model.{key}")
                for key in ("layers", "width", "filter", "heads")
            }
        )

    def shape(self, vocabulary: int) -> Shape:
        """Return the full shape."""
        return Shape(
            layers=self.layers,
            width=self.width,
            filter=self.filter,
            heads=self.heads,
            vocabulary=vocabulary,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Search parameters of decoding."""

    beam: int
    alpha: float
    extra_length: int
    """Tokens by which a translation may exceed its source."""

    @classmethod
    def of(cls, settings: Settings) -> "Decoding":
        """Read the settings."""
        return cls(
            beam=positive(settings, "decode.beam"),
            alpha=number(settings, "decode.alpha"),
            extra_length=whole(settings, "decode.extra_length"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The training recipe of one run."""

    batch_tokens: int
    base_rate: float
    warm_up_steps: int
    beta_1: float
    beta_2: float
    epsilon: float
    longest: int
    """Tokens of a training sentence, including its end mark."""
    truncate: bool
    """Whether to truncate longer sentences instead of dropping them."""
    smoothing: float
    dropout: float
    shuffle_labels: bool
    sizes: Sizes

    @classmethod
    def of(cls, settings: Settings) -> "Recipe":
        """Read the settings; RequestError names an invalid one."""
        return cls(
            batch_tokens=positive(settings, "global_batch_size"),
            base_rate=number(settings, "opt_base_learning_rate"),
            warm_up_steps=whole(settings, "opt_learning_rate_warmup_steps"),
            beta_1=number(settings, "opt_adam_beta_1"),
            beta_2=number(settings, "opt_adam_beta_2"),
            epsilon=number(settings, "opt_adam_epsilon"),
            longest=positive(settings, "max_sequence_length"),
            truncate=text(settings, "data.over_length") == TRUNCATE,
            smoothing=number(settings, "loss.label_smoothing"),
            dropout=number(settings, "model.dropout"),
            shuffle_labels=flag(settings, "data.shuffle_labels"),
            sizes=Sizes.of(settings),
        )

    def schedule(self) -> Schedule:
        """Return the learning-rate schedule."""
        return inverse_square_root(self.base_rate, self.sizes.width, self.warm_up_steps)

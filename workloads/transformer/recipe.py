"""The settings of a run as typed records, with their log names; imports no framework."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import RateSchedule
from workloads.common.setting_values import (
    Settings,
    require_flag_setting,
    require_integer_setting,
    require_number_setting,
    require_positive_setting,
    require_text_setting,
)

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_transformer.yaml: what a log must have.
TRANSFORMER_LOGGED_HYPERPARAMETERS: Final = (
    "opt_name",
    "global_batch_size",
    "opt_base_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_adam_beta_1",
    "opt_adam_beta_2",
    "opt_adam_epsilon",
    "max_sequence_length",
)
TRUNCATE_CHOICE: Final = "truncate"
MICRO_TOKENS_SETTING: Final = "data.micro_tokens"
SHORTEST_BUCKET_TOKENS, BUCKET_GROWTH_FACTOR = (
    8,
    1.1,
)  # mlcommons/training, translation/tensorflow/transformer/utils/dataset.py


def select_transformer_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in TRANSFORMER_LOGGED_HYPERPARAMETERS if key in settings}


def build_inverse_root_schedule(base: float, width: int, warm_up_steps: int) -> RateSchedule:
    """base x width^-0.5 x min(1, s / W) / sqrt(max(s, W)); Vaswani et al. 2017, section 5.3; steps
    of the formula count from 1.
    """

    def compute_rate(step: int) -> float:
        number, warm_up = step + 1, max(warm_up_steps, 1)
        return float(base * width**-0.5 * min(1.0, number / warm_up) * max(number, warm_up) ** -0.5)

    return compute_rate


def compute_smoothed_label_entropy(smoothing: float, vocabulary: int) -> float:
    """Return the cross-entropy, in nats, of a perfect model on smoothed labels; metrics.py,
    normalizing_constant.
    """
    shares = [(1.0, 1.0 - smoothing), (vocabulary - 1.0, smoothing / (vocabulary - 1))]
    return -sum(count * share * math.log(share) for count, share in shares if share)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerShape:
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
class ConfiguredNetworkSizes:
    """The network's sizes except for the vocabulary, which depends on the data."""

    layers: int
    width: int
    filter: int
    heads: int

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "ConfiguredNetworkSizes":
        """Read the settings."""
        return cls(
            **{
                key: require_positive_setting(settings, f"model.{key}")
                for key in ("layers", "width", "filter", "heads")
            }
        )

    def build_shape(self, vocabulary: int) -> TransformerShape:
        """Return the full shape."""
        return TransformerShape(
            layers=self.layers,
            width=self.width,
            filter=self.filter,
            heads=self.heads,
            vocabulary=vocabulary,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingParameters:
    """Search parameters of decoding."""

    beam: int
    alpha: float
    extra_length: int
    """Tokens by which a translation may exceed its source."""

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "DecodingParameters":
        """Read the settings."""
        return cls(
            beam=require_positive_setting(settings, "decode.beam"),
            alpha=require_number_setting(settings, "decode.alpha"),
            extra_length=require_integer_setting(settings, "decode.extra_length"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerRecipe:
    """The training recipe of one run."""

    batch_tokens: int
    micro_tokens: int
    """Tokens, including padding, that a rank processes at once."""
    base_rate: float
    warm_up_steps: int
    beta_1: float
    beta_2: float
    epsilon: float
    max_sentence_tokens: int
    """Tokens of a training sentence, including its end mark."""
    truncate: bool
    """Whether to truncate longer sentences instead of dropping them."""
    smoothing: float
    dropout: float
    shuffle_labels: bool
    sizes: ConfiguredNetworkSizes

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "TransformerRecipe":
        """Read the settings; RequestError names an invalid one."""
        batch_tokens = require_positive_setting(settings, "global_batch_size")
        return cls(
            batch_tokens=batch_tokens,
            micro_tokens=require_positive_setting(settings, MICRO_TOKENS_SETTING)
            if MICRO_TOKENS_SETTING in settings
            else batch_tokens,
            base_rate=require_number_setting(settings, "opt_base_learning_rate"),
            warm_up_steps=require_integer_setting(settings, "opt_learning_rate_warmup_steps"),
            beta_1=require_number_setting(settings, "opt_adam_beta_1"),
            beta_2=require_number_setting(settings, "opt_adam_beta_2"),
            epsilon=require_number_setting(settings, "opt_adam_epsilon"),
            max_sentence_tokens=require_positive_setting(settings, "max_sequence_length"),
            truncate=require_text_setting(settings, "data.over_length") == TRUNCATE_CHOICE,
            smoothing=require_number_setting(settings, "loss.label_smoothing"),
            dropout=require_number_setting(settings, "model.dropout"),
            shuffle_labels=require_flag_setting(settings, "data.shuffle_labels"),
            sizes=ConfiguredNetworkSizes.build_from_settings(settings),
        )

    def build_schedule(self) -> RateSchedule:
        """Return the learning-rate schedule."""
        return build_inverse_root_schedule(self.base_rate, self.sizes.width, self.warm_up_steps)

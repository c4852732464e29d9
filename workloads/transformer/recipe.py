"""The settings of a run as typed records, with their log names; imports no framework."""

import math
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from workloads.common.optimisation.schedules import RateSchedule
from workloads.common.setting_values import (
    SettingsRecord,
    declare_field,
    declare_flag,
    declare_integer,
    declare_number,
    declare_positive,
    require_text_setting,
)

TRUNCATE_CHOICE: Final = "truncate"
MICRO_TOKENS_SETTING: Final = "data.micro_tokens"
# mlcommons/training, translation/tensorflow/transformer/utils/dataset.py
SHORTEST_BUCKET_TOKENS, BUCKET_GROWTH_FACTOR = (
    8,
    1.1,
)


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
class ConfiguredNetworkSizes(SettingsRecord):
    """The network's sizes except for the vocabulary, which depends on the data."""

    layers: int = declare_positive("model.layers")
    width: int = declare_positive("model.width")
    filter: int = declare_positive("model.filter")
    heads: int = declare_positive("model.heads")

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
class DecodingParameters(SettingsRecord):
    """Search parameters of decoding."""

    beam: int = declare_positive("decode.beam")
    alpha: float = declare_number("decode.alpha")
    extra_length: int = declare_integer("decode.extra_length")
    """Tokens by which a translation may exceed its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerRecipe(SettingsRecord):
    """The training recipe of one run."""

    batch_tokens: int = declare_positive("global_batch_size")
    micro_tokens: int = declare_positive(MICRO_TOKENS_SETTING, "global_batch_size")
    """Tokens, including padding, that a rank processes at once."""
    base_rate: float = declare_number("opt_base_learning_rate")
    warm_up_steps: int = declare_integer("opt_learning_rate_warmup_steps")
    beta_1: float = declare_number("opt_adam_beta_1")
    beta_2: float = declare_number("opt_adam_beta_2")
    epsilon: float = declare_number("opt_adam_epsilon")
    max_sentence_tokens: int = declare_positive("max_sequence_length")
    """Tokens of a training sentence, including its end mark."""
    truncate: bool = declare_field(
        lambda settings: require_text_setting(settings, "data.over_length") == TRUNCATE_CHOICE
    )
    """Whether to truncate longer sentences instead of dropping them."""
    smoothing: float = declare_number("loss.label_smoothing")
    dropout: float = declare_number("model.dropout")
    shuffle_labels: bool = declare_flag("data.shuffle_labels")
    sizes: ConfiguredNetworkSizes = declare_field(ConfiguredNetworkSizes.build_from_settings)

    def build_schedule(self) -> RateSchedule:
        """Return the learning-rate schedule."""
        return build_inverse_root_schedule(self.base_rate, self.sizes.width, self.warm_up_steps)

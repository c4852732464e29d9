"""The settings of a run as one typed record, with their log names; imports no framework."""

from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from workloads.common.optimisation.schedules import RateSchedule
from workloads.common.setting_values import (
    Settings,
    SettingsRecord,
    declare_field,
    declare_flag,
    declare_integer,
    declare_number,
    declare_positive,
    require_flag_setting,
    require_positive_setting,
)

# mlcommons/training, rnn_translator, lr_scheduler.py: fraction of the rate at which the warm-up
# starts
WARMUP_START_FACTOR: Final = 0.01
MICRO_BATCH_SETTING: Final = "data.micro_batch"
MIN_GNMT_LAYERS: Final = 2  # one queries the attention, the other receives its result
GNMT_ADAM_BETAS: Final = (0.9, 0.999)  # Kingma and Ba 2015, as in rnn_translator
GNMT_ADAM_EPSILON: Final = 1e-8  # the same


def build_gnmt_schedule(
    base: float, warmup_steps: int, remain_steps: int, interval: int, factor: float, max_decays: int
) -> RateSchedule:
    """Rise exponentially from a hundredth, stay constant, then decay by `factor` at `remain_steps`
    and after each interval, `max_decays` in all.

    mlcommons/training, rnn_translator, lr_scheduler.py, WarmupMultiStepLR.
    """

    def compute_rate(step: int) -> float:
        if step < warmup_steps:
            return float(base * WARMUP_START_FACTOR ** ((warmup_steps - step) / warmup_steps))
        decays = (
            0 if step < remain_steps else min((step - remain_steps) // interval + 1, max_decays)
        )
        return float(base * factor**decays)

    return compute_rate


def declare_usual_schedule(key: str) -> bool:
    """Declare a field that may not be true, since the alternative schedules have no code."""

    def refuse_alternative(settings: Settings) -> bool:
        if require_flag_setting(settings, key):
            raise RequestError(
                f"setting {key}: the alternative schedules are not implemented; --set {key}=false"
            )
        return False

    return declare_field(refuse_alternative)


def require_layer_count(settings: Settings) -> int:
    """Return the number of layers; RequestError if there are too few."""
    layers = require_positive_setting(settings, "model.layers")
    if layers < MIN_GNMT_LAYERS:
        raise RequestError(f"setting model.layers: {layers} is below {MIN_GNMT_LAYERS}")
    return layers


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTRecipe(SettingsRecord):
    """The training recipe of one run."""

    batch_size: int = declare_positive("global_batch_size")
    micro_batch: int = declare_positive(MICRO_BATCH_SETTING, "global_batch_size")
    """Pairs that a rank processes at once."""
    base_rate: float = declare_number("opt_base_learning_rate")
    decay_factor: float = declare_number("opt_learning_rate_decay_factor")
    decay_interval: int = declare_positive("opt_learning_rate_decay_interval")
    decay_steps: int = declare_integer("opt_learning_rate_decay_steps")
    remain_steps: int = declare_integer("opt_learning_rate_remain_steps")
    alternative_decay: bool = declare_usual_schedule("opt_learning_rate_alt_decay_func")
    alternative_warmup: bool = declare_usual_schedule("opt_learning_rate_alt_warmup_func")
    warmup_steps: int = declare_integer("opt_learning_rate_warmup_steps")
    max_sequence_length: int = declare_positive("max_sequence_length")
    """Tokens of either side, including start and end marks; longer pairs are dropped."""
    max_answer_length: int = declare_positive("data.max_answer_length")
    """Maximum tokens of a source to translate, and of its answer."""
    buckets: int = declare_positive("data.buckets")
    width: int = declare_positive("model.width")
    layers: int = declare_field(require_layer_count)
    """Number of layers in the encoder, and in the decoder."""
    dropout: float = declare_number("model.dropout")
    initial: float = declare_number("model.initial")
    """All initial weights are uniform between minus and plus this value."""
    smoothing: float = declare_number("loss.label_smoothing")
    clip_norm: float = declare_number("optimizer.clip_norm")
    workers: int = declare_integer("data.workers")
    shuffle_labels: bool = declare_flag("data.shuffle_labels")

    @property
    def schedule(self) -> RateSchedule:
        """Return the learning-rate schedule."""
        return build_gnmt_schedule(
            self.base_rate,
            self.warmup_steps,
            self.remain_steps,
            self.decay_interval,
            self.decay_factor,
            self.decay_steps,
        )

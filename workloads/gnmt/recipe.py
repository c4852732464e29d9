"""The settings of a run as one typed record, with their log names; imports no framework."""

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
)

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_gnmt.yaml: what a log must have
GNMT_LOGGED_HYPERPARAMETERS: Final = (
    "global_batch_size",
    "opt_base_learning_rate",
    "opt_learning_rate_alt_decay_func",
    "opt_learning_rate_alt_warmup_func",
    "opt_learning_rate_decay_factor",
    "opt_learning_rate_decay_interval",
    "opt_learning_rate_decay_steps",
    "opt_learning_rate_remain_steps",
    "opt_learning_rate_warmup_steps",
    "max_sequence_length",
)
ALTERNATIVE_SCHEDULE_SETTINGS: Final = (
    "opt_learning_rate_alt_decay_func",
    "opt_learning_rate_alt_warmup_func",
)
# mlcommons/training, rnn_translator, lr_scheduler.py: fraction of the rate at which the warm-up
# starts
WARMUP_START_FACTOR: Final = 0.01
MICRO_BATCH_SETTING: Final = "data.micro_batch"
MIN_GNMT_LAYERS: Final = 2  # one queries the attention, the other receives its result
GNMT_ADAM_BETAS: Final = (0.9, 0.999)  # Kingma and Ba 2015, as in rnn_translator
GNMT_ADAM_EPSILON: Final = 1e-8  # the same


def select_gnmt_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in GNMT_LOGGED_HYPERPARAMETERS if key in settings}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTRecipe:
    """The training recipe of one run."""

    batch_size: int
    micro_batch: int
    """Pairs that a rank processes at once."""
    base_rate: float
    decay_factor: float
    decay_interval: int
    decay_steps: int
    remain_steps: int
    warmup_steps: int
    max_sequence_length: int
    """Tokens of either side, including start and end marks; longer pairs are dropped."""
    max_answer_length: int
    """Maximum tokens of a source to translate, and of its answer."""
    buckets: int
    merges: int
    width: int
    layers: int
    """Number of layers in the encoder, and in the decoder."""
    dropout: float
    initial: float
    """All initial weights are uniform between minus and plus this value."""
    smoothing: float
    clip_norm: float
    workers: int
    shuffle_labels: bool
    skip_broken: bool

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "GNMTRecipe":
        """Read the settings; RequestError names an invalid one."""
        for key in ALTERNATIVE_SCHEDULE_SETTINGS:
            if require_flag_setting(settings, key):
                raise RequestError(
                    f"setting {key}: the alternative schedules are not implemented; --set"
                    f" {key}=false"
                )
        if require_positive_setting(settings, "model.layers") < MIN_GNMT_LAYERS:
            raise RequestError(
                f"setting model.layers: {settings['model.layers']} is below {MIN_GNMT_LAYERS}"
            )
        batch_size = require_positive_setting(settings, "global_batch_size")
        return cls(
            batch_size=batch_size,
            micro_batch=require_positive_setting(settings, MICRO_BATCH_SETTING)
            if MICRO_BATCH_SETTING in settings
            else batch_size,
            base_rate=require_number_setting(settings, "opt_base_learning_rate"),
            decay_factor=require_number_setting(settings, "opt_learning_rate_decay_factor"),
            decay_interval=require_positive_setting(settings, "opt_learning_rate_decay_interval"),
            decay_steps=require_integer_setting(settings, "opt_learning_rate_decay_steps"),
            remain_steps=require_integer_setting(settings, "opt_learning_rate_remain_steps"),
            warmup_steps=require_integer_setting(settings, "opt_learning_rate_warmup_steps"),
            max_sequence_length=require_positive_setting(settings, "max_sequence_length"),
            max_answer_length=require_positive_setting(settings, "data.max_answer_length"),
            buckets=require_positive_setting(settings, "data.buckets"),
            merges=require_integer_setting(settings, "data.merges"),
            width=require_positive_setting(settings, "model.width"),
            layers=require_positive_setting(settings, "model.layers"),
            dropout=require_number_setting(settings, "model.dropout"),
            initial=require_number_setting(settings, "model.initial"),
            smoothing=require_number_setting(settings, "loss.label_smoothing"),
            clip_norm=require_number_setting(settings, "optimizer.clip_norm"),
            workers=require_integer_setting(settings, "data.workers"),
            shuffle_labels=require_flag_setting(settings, "data.shuffle_labels"),
            skip_broken=require_flag_setting(settings, "data.skip_broken"),
        )

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

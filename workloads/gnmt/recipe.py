"""The settings of a run as one typed record, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import Schedule
from workloads.common.setting_values import Settings, flag, number, positive, whole

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_gnmt.yaml: what a log must have
LOGGED: Final = (
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
ALTERNATIVES: Final = ("opt_learning_rate_alt_decay_func", "opt_learning_rate_alt_warmup_func")
# mlcommons/training, rnn_translator, lr_scheduler.py: fraction of the rate at which the warm-up
# starts
WARMUP_START: Final = 0.01
FEWEST_LAYERS: Final = 2  # one queries the attention, the other receives its result
BETAS: Final = (0.9, 0.999)  # Kingma and Ba 2015, as in rnn_translator
EPSILON: Final = 1e-8  # the same


def hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in LOGGED if key in settings}


def warmed_and_halved(
    base: float, warmup_steps: int, remain_steps: int, interval: int, factor: float, times: int
) -> Schedule:
    """Rise exponentially from a hundredth, stay constant, then decay by `factor` at `remain_steps`
    and after each interval, `times` in all.

    mlcommons/training, rnn_translator, lr_scheduler.py, WarmupMultiStepLR.
    """

    def rate(step: int) -> float:
        if step < warmup_steps:
            return float(base * WARMUP_START ** ((warmup_steps - step) / warmup_steps))
        falls = 0 if step < remain_steps else min((step - remain_steps) // interval + 1, times)
        return float(base * factor**falls)

    return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The training recipe of one run."""

    batch_size: int
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
    def of(cls, settings: Settings) -> "Recipe":
        """Read the settings; RequestError names an invalid one."""
        for key in ALTERNATIVES:
            if flag(settings, key):
                raise RequestError(
                    f"setting {key}: the alternative schedules are not implemented; --set"
                    f" {key}=false"
                )
        if positive(settings, "model.layers") < FEWEST_LAYERS:
            raise RequestError(
                f"setting model.layers: {settings['model.layers']} is below {FEWEST_LAYERS}"
            )
        return cls(
            batch_size=positive(settings, "global_batch_size"),
            base_rate=number(settings, "opt_base_learning_rate"),
            decay_factor=number(settings, "opt_learning_rate_decay_factor"),
            decay_interval=positive(settings, "opt_learning_rate_decay_interval"),
            decay_steps=whole(settings, "opt_learning_rate_decay_steps"),
            remain_steps=whole(settings, "opt_learning_rate_remain_steps"),
            warmup_steps=whole(settings, "opt_learning_rate_warmup_steps"),
            max_sequence_length=positive(settings, "max_sequence_length"),
            max_answer_length=positive(settings, "data.max_answer_length"),
            buckets=positive(settings, "data.buckets"),
            merges=whole(settings, "data.merges"),
            width=positive(settings, "model.width"),
            layers=positive(settings, "model.layers"),
            dropout=number(settings, "model.dropout"),
            initial=number(settings, "model.initial"),
            smoothing=number(settings, "loss.label_smoothing"),
            clip_norm=number(settings, "optimizer.clip_norm"),
            workers=whole(settings, "data.workers"),
            shuffle_labels=flag(settings, "data.shuffle_labels"),
            skip_broken=flag(settings, "data.skip_broken"),
        )

    @property
    def schedule(self) -> Schedule:
        """Return the learning-rate schedule."""
        return warmed_and_halved(
            self.base_rate,
            self.warmup_steps,
            self.remain_steps,
            self.decay_interval,
            self.decay_factor,
            self.decay_steps,
        )

"""The settings of a run as one typed record, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import (
    RateSchedule,
    build_linear_warmup,
    build_step_decay,
)
from workloads.common.setting_values import (
    Settings,
    require_flag_setting,
    require_integer_setting,
    require_number_setting,
    require_numbers_setting,
    require_positive_setting,
    require_text_setting,
)

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_ssd.yaml: what a log must have.
SSD_LOGGED_HYPERPARAMETERS: Final = (
    "global_batch_size",
    "model_bn_span",
    "max_samples",
    "opt_base_learning_rate",
    "opt_weight_decay",
    "opt_learning_rate_warmup_factor",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_decay_boundary_epochs",
)
SSD_MOMENTUM: Final = 0.9  # mlcommons/training, single_stage_detector/ssd, train.py
SSD_RATE_DECAY_FACTOR: Final = 0.1  # train.py: at each of the boundaries


def select_ssd_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in SSD_LOGGED_HYPERPARAMETERS if key in settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class SSDRecipe:
    """The training recipe of one run."""

    batch_size: int
    span: int
    """Images in a micro-batch, over which batch-norm computes its statistics."""
    max_samples: int
    """Crops tried for each overlap."""
    base_rate: float
    weight_decay: float
    warmup_factor: int
    warmup_steps: int
    decay_epochs: tuple[float, ...]
    clip_norm: float | None
    """Gradient norm above which gradients are clipped."""
    configuration: str
    start_weights: str
    workers: int
    compiled: bool
    """Whether the steps are compiled before the clock starts."""
    recorded: bool
    """Whether they are recorded as CUDA graphs then."""
    shuffle_labels: bool
    skip_broken: bool

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "SSDRecipe":
        """Read the settings; RequestError names an invalid one."""
        return cls(
            batch_size=require_positive_setting(settings, "global_batch_size"),
            span=require_positive_setting(settings, "model_bn_span"),
            max_samples=require_positive_setting(settings, "max_samples"),
            base_rate=require_number_setting(settings, "opt_base_learning_rate"),
            weight_decay=require_number_setting(settings, "opt_weight_decay"),
            warmup_factor=require_integer_setting(settings, "opt_learning_rate_warmup_factor"),
            warmup_steps=require_integer_setting(settings, "opt_learning_rate_warmup_steps"),
            decay_epochs=require_numbers_setting(
                settings, "opt_learning_rate_decay_boundary_epochs"
            ),
            clip_norm=require_number_setting(settings, "sgd.clip_norm") or None,
            configuration=require_text_setting(settings, "model.configuration"),
            start_weights=require_text_setting(settings, "model.start_weights"),
            workers=require_integer_setting(settings, "data.workers"),
            compiled=require_flag_setting(settings, "train.compile"),
            recorded=require_flag_setting(settings, "train.graphs"),
            shuffle_labels=require_flag_setting(settings, "data.shuffle_labels"),
            skip_broken=require_flag_setting(settings, "data.skip_broken"),
        )

    def build_schedule(self, steps_per_epoch: int) -> RateSchedule:
        """Return the learning-rate schedule."""
        boundaries = [round(epoch * steps_per_epoch) for epoch in self.decay_epochs]
        return build_linear_warmup(
            build_step_decay(self.base_rate, SSD_RATE_DECAY_FACTOR, boundaries),
            self.base_rate,
            self.warmup_steps,
            self.warmup_factor,
        )

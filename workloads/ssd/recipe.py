"""The settings of a run as one typed record, with their log names; imports no framework."""

from dataclasses import dataclass
from typing import Final

from workloads.common.optimisation.schedules import (
    RateSchedule,
    build_linear_warmup,
    build_step_decay,
)
from workloads.common.setting_values import (
    SettingsRecord,
    declare_field,
    declare_flag,
    declare_integer,
    declare_number,
    declare_numbers,
    declare_positive,
    declare_text,
    require_number_setting,
)

SSD_MOMENTUM: Final = 0.9  # mlcommons/training, single_stage_detector/ssd, train.py
SSD_RATE_DECAY_FACTOR: Final = 0.1  # train.py: at each of the boundaries


@dataclass(frozen=True, slots=True, kw_only=True)
class SSDRecipe(SettingsRecord):
    """The training recipe of one run."""

    batch_size: int = declare_positive("global_batch_size")
    span: int = declare_positive("model_bn_span")
    """Images in a micro-batch, over which batch-norm computes its statistics."""
    max_samples: int = declare_positive("max_samples")
    """Crops tried for each overlap."""
    base_rate: float = declare_number("opt_base_learning_rate")
    weight_decay: float = declare_number("opt_weight_decay")
    warmup_factor: int = declare_integer("opt_learning_rate_warmup_factor")
    warmup_steps: int = declare_integer("opt_learning_rate_warmup_steps")
    decay_epochs: tuple[float, ...] = declare_numbers("opt_learning_rate_decay_boundary_epochs")
    clip_norm: float | None = declare_field(
        lambda settings: require_number_setting(settings, "sgd.clip_norm") or None
    )
    """Gradient norm above which gradients are clipped."""
    configuration: str = declare_text("model.configuration")
    start_weights: str = declare_text("model.start_weights")
    workers: int = declare_integer("data.workers")
    compiled: bool = declare_flag("train.compile")
    """Whether the steps are compiled before the clock starts."""
    recorded: bool = declare_flag("train.graphs")
    """Whether they are recorded as CUDA graphs then."""
    shuffle_labels: bool = declare_flag("data.shuffle_labels")

    def build_schedule(self, steps_per_epoch: int) -> RateSchedule:
        """Return the learning-rate schedule."""
        boundaries = [round(epoch * steps_per_epoch) for epoch in self.decay_epochs]
        return build_linear_warmup(
            build_step_decay(self.base_rate, SSD_RATE_DECAY_FACTOR, boundaries),
            self.base_rate,
            self.warmup_steps,
            self.warmup_factor,
        )

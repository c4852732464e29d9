"""The settings of a run as one typed record, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import (
    RateSchedule,
    build_linear_warmup,
    build_polynomial_decay,
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

SGD, LARS = "sgd", "lars"

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_resnet.yaml: what a log must have, by
# optimizer.
# The warm-up key of SGD has no prefix there.
RESNET50_LOGGED_HYPERPARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    SGD: (
        "opt_name",
        "global_batch_size",
        "sgd_opt_base_learning_rate",
        "sgd_opt_end_learning_rate",
        "sgd_opt_learning_rate_decay_poly_power",
        "sgd_opt_learning_rate_decay_steps",
        "sgd_opt_weight_decay",
        "sgd_opt_momentum",
        "model_bn_span",
        "opt_learning_rate_warmup_epochs",
    ),
    LARS: (
        "opt_name",
        "global_batch_size",
        "lars_opt_base_learning_rate",
        "lars_opt_end_learning_rate",
        "lars_opt_learning_rate_decay_poly_power",
        "lars_opt_learning_rate_decay_steps",
        "lars_epsilon",
        "lars_opt_learning_rate_warmup_epochs",
        "lars_opt_momentum",
        "lars_opt_weight_decay",
    ),
}


def select_resnet50_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {
        key: settings[key]
        for key in RESNET50_LOGGED_HYPERPARAMETERS[require_text_setting(settings, "opt_name")]
        if key in settings
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet50Recipe:
    """The training recipe of one run."""

    optimizer: str
    batch_size: int
    span: int
    """Images in a micro-batch, over which batch-norm computes its statistics."""
    base_rate: float
    end_rate: float
    power: float
    decay_steps: int
    warmup_epochs: int
    weight_decay: float
    momentum: float
    epsilon: float
    nesterov: bool
    decay: str
    decay_epochs: tuple[float, ...]
    decay_factor: float
    smoothing: float
    zero_init: bool
    start: str
    """Which initial weight distributions to use."""
    picture_size: int
    smallest_area: float
    crops: str
    """How random crops are drawn."""
    workers: int
    compiled: bool
    """Whether the steps are compiled before the clock starts."""
    recorded: bool
    """Whether they are recorded as CUDA graphs then."""
    shuffle_labels: bool
    skip_broken: bool

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "ResNet50Recipe":
        """Read the settings; RequestError names an invalid one."""
        name = require_text_setting(settings, "opt_name")
        prefix = f"{name}_opt_"
        warmup = (
            "opt_learning_rate_warmup_epochs"
            if name == SGD
            else f"{prefix}learning_rate_warmup_epochs"
        )
        return cls(
            optimizer=name,
            batch_size=require_positive_setting(settings, "global_batch_size"),
            span=require_positive_setting(settings, "model_bn_span"),
            base_rate=require_number_setting(settings, f"{prefix}base_learning_rate"),
            end_rate=require_number_setting(settings, f"{prefix}end_learning_rate"),
            power=require_number_setting(settings, f"{prefix}learning_rate_decay_poly_power"),
            decay_steps=require_integer_setting(settings, f"{prefix}learning_rate_decay_steps"),
            warmup_epochs=require_integer_setting(settings, warmup),
            weight_decay=require_number_setting(settings, f"{prefix}weight_decay"),
            momentum=require_number_setting(settings, f"{prefix}momentum"),
            epsilon=require_number_setting(settings, "lars_epsilon"),
            nesterov=require_flag_setting(settings, "sgd.nesterov"),
            decay=require_text_setting(settings, "schedule.decay"),
            decay_epochs=require_numbers_setting(settings, "schedule.decay_epochs"),
            decay_factor=require_number_setting(settings, "schedule.decay_factor"),
            smoothing=require_number_setting(settings, "loss.label_smoothing"),
            zero_init=require_flag_setting(settings, "model.zero_init"),
            start=require_text_setting(settings, "model.start"),
            picture_size=require_positive_setting(settings, "data.picture_size"),
            smallest_area=require_number_setting(settings, "data.smallest_crop_area"),
            crops=require_text_setting(settings, "data.crops"),
            workers=require_integer_setting(settings, "data.workers"),
            compiled=require_flag_setting(settings, "train.compile"),
            recorded=require_flag_setting(settings, "train.graphs"),
            shuffle_labels=require_flag_setting(settings, "data.shuffle_labels"),
            skip_broken=require_flag_setting(settings, "data.skip_broken"),
        )

    def build_schedule(self, steps_per_epoch: int) -> RateSchedule:
        """Return the learning-rate schedule."""
        warm_up = self.warmup_epochs * steps_per_epoch
        if self.decay == "step":
            boundaries = [round(epoch * steps_per_epoch) for epoch in self.decay_epochs]
            return build_linear_warmup(
                build_step_decay(self.base_rate, self.decay_factor, boundaries),
                self.base_rate,
                warm_up,
            )
        falling = build_polynomial_decay(
            self.base_rate, self.end_rate, self.power, warm_up, self.decay_steps
        )
        return build_linear_warmup(falling, self.base_rate, warm_up)

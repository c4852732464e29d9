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
    SettingsRecord,
    declare_field,
    declare_flag,
    declare_integer,
    declare_number,
    declare_numbers,
    declare_positive,
    declare_text,
    require_integer_setting,
    require_number_setting,
    require_text_setting,
    select_present_settings,
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
    name = require_text_setting(settings, "opt_name")
    return select_present_settings(settings, RESNET50_LOGGED_HYPERPARAMETERS[name])


def format_optimizer_key(settings: Settings, key: str) -> str:
    """Return the name of a setting that each optimizer has under its own prefix."""
    return f"{require_text_setting(settings, 'opt_name')}_opt_{key}"


def choose_warmup_key(settings: Settings) -> str:
    """Return the name of the optimizer's warm-up."""
    if require_text_setting(settings, "opt_name") == SGD:
        return "opt_learning_rate_warmup_epochs"
    return format_optimizer_key(settings, "learning_rate_warmup_epochs")


def declare_optimizer_number(key: str) -> float:
    """Declare a field that is a number, and that each optimizer has under its own prefix."""
    return declare_field(
        lambda settings: require_number_setting(settings, format_optimizer_key(settings, key))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet50Recipe(SettingsRecord):
    """The training recipe of one run."""

    optimizer: str = declare_text("opt_name")
    batch_size: int = declare_positive("global_batch_size")
    span: int = declare_positive("model_bn_span")
    """Images in a micro-batch, over which batch-norm computes its statistics."""
    base_rate: float = declare_optimizer_number("base_learning_rate")
    end_rate: float = declare_optimizer_number("end_learning_rate")
    power: float = declare_optimizer_number("learning_rate_decay_poly_power")
    decay_steps: int = declare_field(
        lambda settings: require_integer_setting(
            settings, format_optimizer_key(settings, "learning_rate_decay_steps")
        )
    )
    warmup_epochs: int = declare_field(
        lambda settings: require_integer_setting(settings, choose_warmup_key(settings))
    )
    weight_decay: float = declare_optimizer_number("weight_decay")
    momentum: float = declare_optimizer_number("momentum")
    epsilon: float = declare_number("lars_epsilon")
    nesterov: bool = declare_flag("sgd.nesterov")
    decay: str = declare_text("schedule.decay")
    decay_epochs: tuple[float, ...] = declare_numbers("schedule.decay_epochs")
    decay_factor: float = declare_number("schedule.decay_factor")
    smoothing: float = declare_number("loss.label_smoothing")
    zero_init: bool = declare_flag("model.zero_init")
    start: str = declare_text("model.start")
    """Which initial weight distributions to use."""
    picture_size: int = declare_positive("data.picture_size")
    smallest_area: float = declare_number("data.smallest_crop_area")
    crops: str = declare_text("data.crops")
    """How random crops are drawn."""
    workers: int = declare_integer("data.workers")
    compiled: bool = declare_flag("train.compile")
    """Whether the steps are compiled before the clock starts."""
    recorded: bool = declare_flag("train.graphs")
    """Whether they are recorded as CUDA graphs then."""
    shuffle_labels: bool = declare_flag("data.shuffle_labels")

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

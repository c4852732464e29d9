"""The settings of a run as one typed record, with their log names; imports no framework."""

from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from workloads.common.optimisation.schedules import (
    RateSchedule,
    build_step_decay,
    build_warmup_from_factor,
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
    require_number_setting,
    require_numbers_setting,
)

ANCHOR_LEVEL_COUNT: Final = 5  # pyramid levels with anchors; Lin et al. 2017, section 4.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRCNNRecipe(SettingsRecord):
    """The training recipe of one run."""

    batch_size: int = declare_positive("global_batch_size")
    micro_batch: int = declare_positive("data.micro_batch")
    """Images that a rank processes at once."""
    evaluation_batch: int = declare_positive("data.evaluation_batch")
    """The same in evaluations; images of one batch have one padded size."""
    base_rate: float = declare_number("opt_base_learning_rate")
    warmup_steps: int = declare_integer("opt_learning_rate_warmup_steps")
    warmup_factor: float = declare_number("opt_learning_rate_warmup_factor")
    decay_factor: float = declare_number("opt_learning_rate_decay_factor")
    decay_steps: tuple[float, ...] = declare_numbers("opt_learning_rate_decay_steps")
    momentum: float = declare_number("sgd.momentum")
    weight_decay: float = declare_number("sgd.weight_decay")
    clip_norm: float | None = declare_field(
        lambda settings: require_number_setting(settings, "sgd.clip_norm") or None
    )
    min_size: int = declare_positive("min_image_size")
    max_size: int = declare_positive("max_image_size")
    start_weights: str = declare_text("model.start_weights")
    """A file, or empty for random ones."""
    start_sha256: str = declare_text("model.start_sha256")
    workers: int = declare_integer("data.workers")
    shuffle_labels: bool = declare_flag("data.shuffle_labels")

    def build_schedule(self) -> RateSchedule:
        """Return the learning rate of each step; T:maskrcnn, solver/lr_scheduler.py,
        WarmupMultiStepLR.
        """
        falling = build_step_decay(
            self.base_rate, self.decay_factor, [round(step) for step in self.decay_steps]
        )
        return build_warmup_from_factor(falling, self.warmup_factor, self.warmup_steps)


def require_anchor_sizes(settings: Settings) -> tuple[int, ...]:
    """Return the anchor side of each level, in pixels."""
    sizes = tuple(int(size) for size in require_numbers_setting(settings, "model.anchor_sizes"))
    if len(sizes) != ANCHOR_LEVEL_COUNT or min(sizes) < 1:
        raise RequestError(
            f"setting model.anchor_sizes: {list(sizes)}, but the pyramid has {ANCHOR_LEVEL_COUNT}"
            " levels"
        )
    return sizes

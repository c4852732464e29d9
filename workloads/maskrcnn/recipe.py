"""The settings of a run as one typed record, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import (
    RateSchedule,
    build_step_decay,
    build_warmup_from_factor,
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

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_maskrcnn.yaml: what a log must have.
MASKRCNN_LOGGED_HYPERPARAMETERS: Final = (
    "global_batch_size",
    "opt_base_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_warmup_factor",
    "num_image_candidates",
    "opt_learning_rate_decay_factor",
    "opt_learning_rate_decay_steps",
    "min_image_size",
    "max_image_size",
)
ANCHOR_LEVEL_COUNT: Final = 5  # pyramid levels with anchors; Lin et al. 2017, section 4.1


def select_maskrcnn_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in MASKRCNN_LOGGED_HYPERPARAMETERS if key in settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRCNNRecipe:
    """The training recipe of one run."""

    batch_size: int
    micro_batch: int
    """Images that a rank processes at once."""
    evaluation_batch: int
    """The same in evaluations; images of one batch have one padded size."""
    base_rate: float
    warmup_steps: int
    warmup_factor: float
    decay_factor: float
    decay_steps: tuple[float, ...]
    momentum: float
    weight_decay: float
    clip_norm: float | None
    candidates: int
    min_size: int
    max_size: int
    start_weights: str
    """A file, or empty for random ones."""
    start_sha256: str
    workers: int
    shuffle_labels: bool
    skip_broken: bool

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "MaskRCNNRecipe":
        """Read the settings; RequestError names an invalid one."""
        return cls(
            batch_size=require_positive_setting(settings, "global_batch_size"),
            micro_batch=require_positive_setting(settings, "data.micro_batch"),
            evaluation_batch=require_positive_setting(settings, "data.evaluation_batch"),
            base_rate=require_number_setting(settings, "opt_base_learning_rate"),
            warmup_steps=require_integer_setting(settings, "opt_learning_rate_warmup_steps"),
            warmup_factor=require_number_setting(settings, "opt_learning_rate_warmup_factor"),
            decay_factor=require_number_setting(settings, "opt_learning_rate_decay_factor"),
            decay_steps=require_numbers_setting(settings, "opt_learning_rate_decay_steps"),
            momentum=require_number_setting(settings, "sgd.momentum"),
            weight_decay=require_number_setting(settings, "sgd.weight_decay"),
            clip_norm=require_number_setting(settings, "sgd.clip_norm") or None,
            candidates=require_positive_setting(settings, "num_image_candidates"),
            min_size=require_positive_setting(settings, "min_image_size"),
            max_size=require_positive_setting(settings, "max_image_size"),
            start_weights=require_text_setting(settings, "model.start_weights"),
            start_sha256=require_text_setting(settings, "model.start_sha256"),
            workers=require_integer_setting(settings, "data.workers"),
            shuffle_labels=require_flag_setting(settings, "data.shuffle_labels"),
            skip_broken=require_flag_setting(settings, "data.skip_broken"),
        )

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

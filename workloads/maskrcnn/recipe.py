"""The settings of a run as one typed record, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import Schedule, stepped, warmed_up_from
from workloads.common.setting_values import Settings, flag, number, numbers, positive, text, whole

# mlcommons/logging 0.7.1, mlp_compliance/0.7.0/closed_maskrcnn.yaml: what a log must have.
LOGGED: Final = (
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
LEVELS: Final = 5  # pyramid levels with anchors; Lin et al. 2017, section 4.1


def hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    return {key: settings[key] for key in LOGGED if key in settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The training recipe of one run."""

    batch_size: int
    micro_batch: int
    """Pictures that a rank processes at once."""
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
    def of(cls, settings: Settings) -> "Recipe":
        """Read the settings; RequestError names an invalid one."""
        return cls(
            batch_size=positive(settings, "global_batch_size"),
            micro_batch=positive(settings, "data.micro_batch"),
            base_rate=number(settings, "opt_base_learning_rate"),
            warmup_steps=whole(settings, "opt_learning_rate_warmup_steps"),
            warmup_factor=number(settings, "opt_learning_rate_warmup_factor"),
            decay_factor=number(settings, "opt_learning_rate_decay_factor"),
            decay_steps=numbers(settings, "opt_learning_rate_decay_steps"),
            momentum=number(settings, "sgd.momentum"),
            weight_decay=number(settings, "sgd.weight_decay"),
            clip_norm=number(settings, "sgd.clip_norm") or None,
            candidates=positive(settings, "num_image_candidates"),
            min_size=positive(settings, "min_image_size"),
            max_size=positive(settings, "max_image_size"),
            start_weights=text(settings, "model.start_weights"),
            start_sha256=text(settings, "model.start_sha256"),
            workers=whole(settings, "data.workers"),
            shuffle_labels=flag(settings, "data.shuffle_labels"),
            skip_broken=flag(settings, "data.skip_broken"),
        )

    def schedule(self) -> Schedule:
        """Return the learning rate of each step; T:maskrcnn, solver/lr_scheduler.py,
        WarmupMultiStepLR.
        """
        falling = stepped(
            self.base_rate, self.decay_factor, [round(step) for step in self.decay_steps]
        )
        return warmed_up_from(falling, self.warmup_factor, self.warmup_steps)


def anchor_sizes(settings: Settings) -> tuple[int, ...]:
    """Return the anchor side of each level, in pixels."""
    found = tuple(int(size) for size in numbers(settings, "model.anchor_sizes"))
    if len(found) != LEVELS or min(found) < 1:
        raise RequestError(
            f"setting model.anchor_sizes: {list(found)}, but the pyramid has {LEVELS} levels"
        )
    return found

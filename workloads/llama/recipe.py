"""The settings of a run as typed records, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.optimisation.schedules import (
    RateSchedule,
    build_cosine_decay,
    build_linear_warmup,
)
from workloads.common.setting_values import (
    Settings,
    SettingsRecord,
    declare_field,
    declare_flag,
    declare_integer,
    declare_number,
    declare_positive,
    require_number_setting,
    select_present_settings,
)
from workloads.llama.shape import UNSCALED_FACTOR, LlamaShape, build_rope_scaling

# mlcommons/logging 6.0, closed_llama31_8b.yaml: what a log must have.
LLAMA_LOGGED_HYPERPARAMETERS: Final = (
    "opt_name",
    "global_batch_size",
    "gradient_accumulation_steps",
    "max_sequence_length",
    "opt_base_learning_rate",
    "opt_end_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_decay_steps",
    "opt_learning_rate_decay_schedule",
    "opt_adamw_beta_1",
    "opt_adamw_beta_2",
    "opt_adamw_epsilon",
    "opt_adamw_weight_decay",
    "opt_gradient_clip_norm",
)


SCHEDULE_PARTS: Final = ("opt_learning_rate_warmup_steps", "opt_learning_rate_decay_steps")
MAX_STEPS: Final = "max_steps"
"""Logged, not set: the steps of warm-up and decay together; the same file."""


def select_llama_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing.
    """
    found = select_present_settings(settings, LLAMA_LOGGED_HYPERPARAMETERS)
    parts = [found.get(key) for key in SCHEDULE_PARTS]
    if all(isinstance(part, int) for part in parts):
        found[MAX_STEPS] = sum(int(str(part)) for part in parts)
    return found


def declare_decay(key: str) -> float:
    """Declare a field that is the decay of a running mean; RequestError if it is 1: the mean would
    stay 0, and AdamW divides by 1 minus it.
    """

    def read_decay(settings: Settings) -> float:
        decay = require_number_setting(settings, key)
        if decay >= 1:
            raise RequestError(f"{key} {decay} is not below 1, so that its mean would never change")
        return decay

    return declare_field(read_decay)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaRecipe(SettingsRecord):
    """The training recipe of one run."""

    batch_size: int = declare_positive("global_batch_size")
    """Sequences of an optimizer step, over all ranks."""
    accumulation_steps: int = declare_positive("gradient_accumulation_steps")
    """Micro-batches of a step on each rank."""
    sequence_length: int = declare_positive("max_sequence_length")
    """Tokens that a sequence predicts."""
    base_rate: float = declare_number("opt_base_learning_rate")
    end_rate: float = declare_number("opt_end_learning_rate")
    warm_up_steps: int = declare_integer("opt_learning_rate_warmup_steps")
    decay_steps: int = declare_integer("opt_learning_rate_decay_steps")
    """Steps of the decay, after the warm-up."""
    beta_1: float = declare_decay("opt_adamw_beta_1")
    beta_2: float = declare_decay("opt_adamw_beta_2")
    epsilon: float = declare_number("opt_adamw_epsilon")
    weight_decay: float = declare_number("opt_adamw_weight_decay")
    clip_norm: float = declare_number("opt_gradient_clip_norm")
    initial_deviation: float = declare_number("model.initial_deviation")
    """Standard deviation of the initial weights."""
    shuffle_documents: bool = declare_flag("data.shuffle_documents")
    shard: bool = declare_flag("train.shard")
    """Whether the ranks divide weights, gradients and optimizer state among themselves."""
    recompute: bool = declare_flag("train.recompute")
    """Whether the backward pass computes each layer's activations again."""
    compile_layers: bool = declare_flag("train.compile")
    layers: int = declare_positive("model.layers")
    width: int = declare_positive("model.width")
    heads: int = declare_positive("model.heads")
    key_value_heads: int = declare_positive("model.key_value_heads")
    feed_forward: int = declare_positive("model.feed_forward")
    rope_theta: float = declare_number("model.rope_theta")
    rope_factor: float = declare_number("model.rope_factor")
    """By which long wavelengths of positions are stretched; 1: they are not."""
    rope_low: float = declare_number("model.rope_low")
    rope_high: float = declare_number("model.rope_high")
    rope_old_context: int = declare_positive("model.rope_old_context")
    norm_epsilon: float = declare_number("model.norm_epsilon")
    tied: bool = declare_flag("model.tied")
    """Whether the embedding also computes the logits."""

    def build_shape(self, vocabulary: int, context: int) -> LlamaShape:
        """Return the network's shape; RequestError if its sizes do not fit one another."""
        return LlamaShape(
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            key_value_heads=self.key_value_heads,
            feed_forward=self.feed_forward,
            vocabulary=vocabulary,
            context=context,
            rope_theta=self.rope_theta,
            rope_scaling=build_rope_scaling(
                self.rope_factor, self.rope_low, self.rope_high, self.rope_old_context
            ),
            norm_epsilon=self.norm_epsilon,
            tied=self.tied,
        )

    def build_schedule(self) -> RateSchedule:
        """Return the learning-rate schedule: linear warm-up, then half a cosine."""
        last_step = self.warm_up_steps + self.decay_steps
        decay = build_cosine_decay(self.base_rate, self.end_rate, self.warm_up_steps, last_step)
        return build_linear_warmup(decay, self.base_rate, self.warm_up_steps)

    def compute_micro_batch(self, world_size: int) -> int:
        """Return the sequences of a micro-batch; RequestError if the ranks cannot divide a step
        into equal ones.
        """
        parts = self.accumulation_steps * world_size
        if self.batch_size % parts:
            raise RequestError(
                f"global_batch_size {self.batch_size} is not a multiple of"
                f" gradient_accumulation_steps {self.accumulation_steps} times {world_size} ranks"
            )
        return self.batch_size // parts


def list_shape_settings(shape: LlamaShape) -> dict[str, HyperValue]:
    """Return the settings with which a network has a shape, but for what its data say."""
    scaling = shape.rope_scaling
    settings: dict[str, HyperValue] = {
        "model.layers": shape.layers,
        "model.width": shape.width,
        "model.heads": shape.heads,
        "model.key_value_heads": shape.key_value_heads,
        "model.feed_forward": shape.feed_forward,
        "model.rope_theta": shape.rope_theta,
        "model.rope_factor": UNSCALED_FACTOR if scaling is None else scaling.factor,
        "model.norm_epsilon": shape.norm_epsilon,
        "model.tied": shape.tied,
    }
    if scaling is not None:
        settings |= {
            "model.rope_low": scaling.low,
            "model.rope_high": scaling.high,
            "model.rope_old_context": scaling.old_context,
        }
    return settings


def format_shape_value(value: HyperValue) -> str:
    """Format a setting of the shape as `--set` takes it."""
    return str(value).lower()

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
    require_flag_setting,
    require_integer_setting,
    require_number_setting,
    require_positive_setting,
)
from workloads.llama.shape import LlamaShape, build_rope_scaling

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
    found = {key: settings[key] for key in LLAMA_LOGGED_HYPERPARAMETERS if key in settings}
    parts = [found.get(key) for key in SCHEDULE_PARTS]
    if all(isinstance(part, int) for part in parts):
        found[MAX_STEPS] = sum(int(str(part)) for part in parts)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaRecipe:
    """The training recipe of one run."""

    batch_size: int
    """Sequences of an optimizer step, over all ranks."""
    accumulation_steps: int
    """Micro-batches of a step on each rank."""
    sequence_length: int
    """Tokens that a sequence predicts."""
    base_rate: float
    end_rate: float
    warm_up_steps: int
    decay_steps: int
    """Steps of the decay, after the warm-up."""
    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay: float
    clip_norm: float
    initial_deviation: float
    """Standard deviation of the initial weights."""
    shuffle_documents: bool
    shard: bool
    """Whether the ranks divide weights, gradients and optimizer state among themselves."""
    recompute: bool
    """Whether the backward pass computes each layer's activations again."""
    compile_layers: bool
    layers: int
    width: int
    heads: int
    key_value_heads: int
    feed_forward: int
    rope_theta: float
    rope_factor: float
    """By which long wavelengths of positions are stretched; 1: they are not."""

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "LlamaRecipe":
        """Read the settings; RequestError names an invalid one."""
        return cls(
            batch_size=require_positive_setting(settings, "global_batch_size"),
            accumulation_steps=require_positive_setting(settings, "gradient_accumulation_steps"),
            sequence_length=require_positive_setting(settings, "max_sequence_length"),
            base_rate=require_number_setting(settings, "opt_base_learning_rate"),
            end_rate=require_number_setting(settings, "opt_end_learning_rate"),
            warm_up_steps=require_integer_setting(settings, "opt_learning_rate_warmup_steps"),
            decay_steps=require_integer_setting(settings, "opt_learning_rate_decay_steps"),
            beta_1=require_decay_setting(settings, "opt_adamw_beta_1"),
            beta_2=require_decay_setting(settings, "opt_adamw_beta_2"),
            epsilon=require_number_setting(settings, "opt_adamw_epsilon"),
            weight_decay=require_number_setting(settings, "opt_adamw_weight_decay"),
            clip_norm=require_number_setting(settings, "opt_gradient_clip_norm"),
            initial_deviation=require_number_setting(settings, "model.initial_deviation"),
            shuffle_documents=require_flag_setting(settings, "data.shuffle_documents"),
            shard=require_flag_setting(settings, "train.shard"),
            recompute=require_flag_setting(settings, "train.recompute"),
            compile_layers=require_flag_setting(settings, "train.compile"),
            layers=require_positive_setting(settings, "model.layers"),
            width=require_positive_setting(settings, "model.width"),
            heads=require_positive_setting(settings, "model.heads"),
            key_value_heads=require_positive_setting(settings, "model.key_value_heads"),
            feed_forward=require_positive_setting(settings, "model.feed_forward"),
            rope_theta=require_number_setting(settings, "model.rope_theta"),
            rope_factor=require_number_setting(settings, "model.rope_factor"),
        )

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
            rope_scaling=build_rope_scaling(self.rope_factor),
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


def require_decay_setting(settings: Settings, key: str) -> float:
    """Read the decay of a running mean; RequestError if it is 1: the mean would stay 0, and AdamW
    divides by 1 minus it.
    """
    decay = require_number_setting(settings, key)
    if decay >= 1:
        raise RequestError(f"{key} {decay} is not below 1, so that its mean would never change")
    return decay

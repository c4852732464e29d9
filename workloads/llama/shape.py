"""The network's sizes, and their form in the `config.json` of a published checkpoint; imports no
framework.

Grattafiori et al. 2024, "The Llama 3 Herd of Models", arXiv:2407.21783, section 3.2, table 3. The
keys are those of transformers' `LlamaConfig` (transformers 4.43 and newer).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from suite.errors import RequestError
from suite.files.untrusted_files import MAX_INTEGER_BITS

LLAMA_MODEL_TYPE: Final = "llama"
LLAMA_ARCHITECTURE: Final = "LlamaForCausalLM"
SCALED_ROPE_TYPE: Final = "llama3"
PLAIN_ROPE_TYPE: Final = "default"
DEFAULT_ROPE_THETA: Final = 10_000.0
"""Of a file that names none; Su et al. 2021, arXiv:2104.09864, section 3.2.2."""

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How Llama 3.1 stretches the wavelengths of its positions for a longer context.

    Wavelengths below old context / high are kept, those above old context / low are multiplied by
    the factor, and between the two the frequencies are interpolated.
    """

    factor: float
    low: float
    high: float
    old_context: int
    """Positions that the network was trained on before the stretching."""

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and 0 < self.low < self.high and self.old_context > 0):
            raise RequestError(
                f"llama: rope scaling has factor {self.factor:g}, low {self.low:g}, high"
                f" {self.high:g}, old context {self.old_context}; allowed: a factor of 1 or more,"
                " 0 < low < high, and a positive context"
            )

    def __str__(self) -> str:
        return (
            f"factor {self.factor:g} (low {self.low:g}, high {self.high:g}, old context"
            f" {self.old_context})"
        )


UNSCALED_FACTOR: Final = 1.0
"""Of wavelengths that are not stretched."""


def build_rope_scaling(
    factor: float, low: float, high: float, old_context: int
) -> RopeScaling | None:
    """Return Llama 3.1's scaling with this factor; None for 1."""
    if factor == UNSCALED_FACTOR:
        return None
    return RopeScaling(factor=factor, low=low, high=high, old_context=old_context)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """The network's sizes; RequestError for sizes that do not fit one another."""

    layers: int
    width: int
    heads: int
    key_value_heads: int
    """Each serves `heads / key_value_heads` heads of queries."""
    feed_forward: int
    """Width between the linear layers that follow attention."""
    vocabulary: int
    """Number of embedded tokens."""
    context: int
    """Longest sequence, in tokens."""
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    norm_epsilon: float = 1e-5
    tied: bool = False
    """Whether the embedding also computes the logits."""

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise RequestError(f"llama: {name} is {getattr(self, name)}; allowed: 1 or more")
        if self.width % (2 * self.heads):
            raise RequestError(
                f"llama: width {self.width} is no multiple of twice its {self.heads} heads"
            )
        if self.heads % self.key_value_heads:
            raise RequestError(
                f"llama: {self.heads} heads are no multiple of {self.key_value_heads} key/value"
                " heads"
            )
        if not (self.rope_theta > 1 and self.norm_epsilon > 0):
            raise RequestError(
                f"llama: rope_theta is {self.rope_theta:g} and norm_epsilon"
                f" {self.norm_epsilon:g}; allowed: more than 1, and more than 0"
            )

    @property
    def head_width(self) -> int:
        """Numbers of one head."""
        return self.width // self.heads

    @property
    def group(self) -> int:
        """Heads of queries that share a head of keys and values."""
        return self.heads // self.key_value_heads

    def describe_differences(self, other: "LlamaShape") -> str:
        """Say how another shape differs, each size as "this instead of other"; "" if it does
        not.
        """
        pairs = [
            (field.name, getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        ]
        return ", ".join(
            f"{name} {format_size(mine)} instead of {format_size(its)}"
            for name, mine, its in pairs
            if mine != its
        )


def format_size(value: object) -> str:
    """Format one of a shape's sizes for a person."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


COUNTS: Final = (
    "layers",
    "width",
    "heads",
    "key_value_heads",
    "feed_forward",
    "vocabulary",
    "context",
)
"""The shape's numbers of things."""

CONFIG_KEYS: Final = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
    "context": "max_position_embeddings",
}
"""The shape's numbers under their names in `config.json`."""
SCALING_KEYS: Final = {
    "factor": "factor",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "old_context": "original_max_position_embeddings",
}


def convert_shape_to_config(shape: LlamaShape, dtype: str) -> dict[str, Any]:
    """Return the shape in the form of `config.json`, for weights of the type `dtype`, such as
    "float32".

    rope_theta and rope_scaling stand where transformers 4 wrote them, which later versions and vLLM
    read, too.
    """
    scaling = None
    if shape.rope_scaling is not None:
        scaling = {"rope_type": SCALED_ROPE_TYPE} | {
            key: getattr(shape.rope_scaling, name) for name, key in SCALING_KEYS.items()
        }
    return {
        "architectures": [LLAMA_ARCHITECTURE],
        "model_type": LLAMA_MODEL_TYPE,
        **{key: getattr(shape, name) for name, key in CONFIG_KEYS.items()},
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "rope_theta": shape.rope_theta,
        "rope_scaling": scaling,
        "rms_norm_eps": shape.norm_epsilon,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": dtype,
    }


def convert_config_to_shape(config: Mapping[str, Any], source: str) -> LlamaShape:
    """Return the shape that a `config.json` describes; RequestError, which begins with `source`, if
    it is another network's, or lacks a number.
    """
    check_supported_network(config, source)
    numbers = {
        name: require_config_number(config, key, int, source) for name, key in CONFIG_KEYS.items()
    }
    heads = numbers["heads"]
    theta, scaling = convert_rope_config(config, source)
    try:
        shape = LlamaShape(
            **numbers,
            key_value_heads=require_config_number(
                config, "num_key_value_heads", int, source, heads
            ),
            rope_theta=theta,
            rope_scaling=scaling,
            norm_epsilon=require_config_number(config, "rms_norm_eps", float, source),
            tied=bool(config.get("tie_word_embeddings", False)),
        )
    except RequestError as error:
        raise RequestError(f"{source}: {error}") from error
    head_width = require_config_number(config, "head_dim", int, source, shape.head_width)
    if head_width != shape.head_width:
        raise RequestError(
            f"{source}: head_dim is {head_width}; only width / heads, {shape.head_width}, is"
            " supported"
        )
    return shape


def check_supported_network(config: Mapping[str, Any], source: str) -> None:
    """RequestError for what the network here cannot be: another architecture, biases, another
    activation, or quantised weights.
    """
    allowed = {
        "model_type": (LLAMA_MODEL_TYPE,),
        "hidden_act": ("silu", None),
        "attention_bias": (False, None),
        "mlp_bias": (False, None),
        "quantization_config": (None,),
    }
    for key, values in allowed.items():
        found = config.get(key)
        if found not in values:
            supported = "none" if values[0] is None else format_config_value(values[0]).strip("'")
            shown = format_config_value(found)
            raise RequestError(f"{source}: {key} is {shown}; supported: {supported}")


def format_config_value(value: object) -> str:
    """Return a value of a configuration as the file has it, cut at 80 characters; names are in
    single quotes.
    """
    return f"{repr(value) if isinstance(value, str) else json.dumps(value, default=str):.80}"


def convert_rope_config(config: Mapping[str, Any], source: str) -> tuple[float, RopeScaling | None]:
    """Return theta and the scaling of positions, from `rope_theta` and `rope_scaling`, or from
    `rope_parameters`, as transformers 5 writes them.
    """
    table = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(table, Mapping):
        raise RequestError(f"{source}: rope_scaling is {format_config_value(table)}, not a table")
    top = require_config_number(config, "rope_theta", float, source, DEFAULT_ROPE_THETA)
    theta = require_config_number(table, "rope_theta", float, source, top)
    kind = table.get("rope_type", table.get("type", PLAIN_ROPE_TYPE))
    if kind == PLAIN_ROPE_TYPE:
        return theta, None
    if kind != SCALED_ROPE_TYPE:
        raise RequestError(
            f"{source}: rope scaling of type {format_config_value(kind)}; supported:"
            f" {PLAIN_ROPE_TYPE}, {SCALED_ROPE_TYPE}"
        )
    stretch, low, high = (
        require_config_number(table, SCALING_KEYS[name], float, source)
        for name in ("factor", "low", "high")
    )
    old_context = require_config_number(table, SCALING_KEYS["old_context"], int, source)
    return theta, RopeScaling(factor=stretch, low=low, high=high, old_context=old_context)


def build_number_error(source: str, key: str, found: object, kind: type) -> RequestError:
    """Build the error of a value that is missing, or is no number of this kind."""
    wanted = "a whole number" if kind is int else "a number"
    if found is None:
        return RequestError(f"{source}: {key} is missing; {wanted} is wanted")
    return RequestError(f"{source}: {key} is {format_config_value(found)}, not {wanted}")


def require_config_number(
    table: Mapping[str, Any], key: str, kind: type[N], source: str, default: N | None = None
) -> N:
    """Return a number of a table, or the default where it is absent or null; RequestError if it is
    no finite number of that kind.
    """
    found = table.get(key)
    if found is None:
        found = default
    if isinstance(found, int) and found.bit_length() > MAX_INTEGER_BITS:
        found = "too large"
    if isinstance(found, int | kind) and not isinstance(found, bool) and math.isfinite(found):
        return kind(found)
    raise build_number_error(source, key, found, kind)

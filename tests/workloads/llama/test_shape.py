"""The sizes, and `config.json` of checkpoints from elsewhere."""

from dataclasses import replace
from typing import Any

import pytest

from suite.errors import RequestError
from workloads.llama.shape import (
    LlamaShape,
    RopeScaling,
    convert_config_to_shape,
    convert_shape_to_config,
)

from .conftest import SHAPE


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, rope_scaling=None, tied=True)])
def test_a_shape_comes_back_from_its_config(shape: LlamaShape) -> None:
    assert convert_config_to_shape(convert_shape_to_config(shape, "float32"), "it") == shape


def test_both_ways_to_write_positions_are_read() -> None:
    """transformers 5 writes rope_parameters; published files have rope_theta and rope_scaling."""
    config = convert_shape_to_config(SHAPE, "float32")
    new = config | {
        "rope_theta": None,
        "rope_scaling": None,
        "rope_parameters": {**config["rope_scaling"], "rope_theta": 500_000.0},
    }
    assert convert_config_to_shape(new, "it") == SHAPE


def test_old_files_name_no_key_value_heads() -> None:
    """Llama 1 and 2 of 7B had as many as heads, and no keys for them, for biases or for theta."""
    config = convert_shape_to_config(replace(SHAPE, rope_scaling=None), "float16")
    for key in ("num_key_value_heads", "head_dim", "rope_theta", "rope_scaling", "mlp_bias"):
        del config[key]
    found = convert_config_to_shape(config, "it")
    assert (found.key_value_heads, found.rope_theta) == (SHAPE.heads, 10_000.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "mistral"}, "it: model_type is 'mistral'; supported: llama"),
        ({"hidden_act": "gelu"}, "it: hidden_act is 'gelu'; supported: silu"),
        ({"attention_bias": True}, "it: attention_bias is true; supported: false"),
        ({"mlp_bias": True}, "it: mlp_bias is true; supported: false"),
        (
            {"quantization_config": {"bits": 4}},
            'it: quantization_config is {"bits": 4}; supported: none',
        ),
        ({"head_dim": 16}, "it: head_dim is 16; only width / heads, 8, is supported"),
        ({"num_key_value_heads": 4}, "it: llama: 6 heads are no multiple of 4 key/value heads"),
        ({"hidden_size": 50}, "it: llama: width 50 is no multiple of twice its 6 heads"),
        ({"num_hidden_layers": 0}, "it: llama: layers is 0; allowed: 1 or more"),
        ({"vocab_size": None}, "it: vocab_size is missing; a whole number is wanted"),
        ({"vocab_size": 3.5}, "it: vocab_size is 3.5, not a whole number"),
        ({"vocab_size": True}, "it: vocab_size is true, not a whole number"),
        ({"rms_norm_eps": "small"}, "it: rms_norm_eps is 'small', not a number"),
        ({"rope_theta": 0}, "rope_theta is 0 and norm_epsilon 1e-05"),
        ({"rope_scaling": "much"}, "it: rope_scaling is 'much', not a table"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "it: rope scaling of type 'yarn'"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "it: factor is missing; a number is wanted"),
    ],
)
def test_what_it_cannot_be_is_said(changes: dict[str, Any], said: str) -> None:
    """The weights would load, and compute something else."""
    with pytest.raises(RequestError) as error:
        convert_config_to_shape(convert_shape_to_config(SHAPE, "float32") | changes, "it")
    assert said in str(error.value)


def test_a_stretch_has_an_order() -> None:
    with pytest.raises(RequestError, match="0 < low < high"):
        RopeScaling(factor=8.0, low=4.0, high=1.0, old_context=32)


def test_a_difference_is_named() -> None:
    other = replace(SHAPE, width=96, tied=True)
    assert SHAPE.describe_differences(other) == "width 48 instead of 96, tied false instead of true"
    assert SHAPE.describe_differences(SHAPE) == ""

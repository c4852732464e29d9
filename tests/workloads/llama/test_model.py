"""The network: against transformers', and what training needs of it."""

from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch.nn import functional

from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape, convert_shape_to_config

from .conftest import SHAPE, build_network

FULL = LlamaShape(
    layers=32,
    width=4096,
    heads=32,
    key_value_heads=8,
    feed_forward=14336,
    vocabulary=128256,
    context=8192,
    rope_theta=500_000.0,
    rope_scaling=SHAPE.rope_scaling,
)


def test_it_has_its_full_size() -> None:
    """Llama 3.1 8B has 8.03e9 weights (arXiv:2407.21783)."""
    with torch.device("meta"):
        network = LlamaNetwork(FULL)
    assert sum(weight.numel() for weight in network.parameters()) == 8_030_261_248


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        replace(SHAPE, rope_scaling=None),
        replace(SHAPE, key_value_heads=SHAPE.heads),
        replace(SHAPE, key_value_heads=1, norm_epsilon=1e-3),
        replace(SHAPE, tied=True),
    ],
    ids=["scaled", "unscaled", "every head its keys", "one head of keys", "tied"],
)
def test_logits_are_those_of_transformers(shape: LlamaShape, transformers: ModuleType) -> None:
    """A checkpoint from elsewhere would be another model here; positions go beyond the old context."""
    network = build_network(shape)
    config = transformers.LlamaConfig.from_dict(convert_shape_to_config(shape, "float32"))
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.load_state_dict(network.state_dict())
    token_BT = torch.randint(shape.vocabulary, (3, shape.context))
    with torch.no_grad():
        ours_BTV, theirs_BTV = network(token_BT), theirs(token_BT).logits
    assert ours_BTV.std() > 0.5
    assert torch.allclose(ours_BTV, theirs_BTV, rtol=0, atol=1e-5)


def test_a_position_does_not_see_what_comes(network: LlamaNetwork) -> None:
    """A model that sees the word it is asked for learns nothing."""
    token_BT = torch.randint(SHAPE.vocabulary, (2, 20))
    changed_BT = token_BT.clone()
    changed_BT[:, 12:] = (changed_BT[:, 12:] + 1) % SHAPE.vocabulary
    before, after = network(token_BT), network(changed_BT)
    assert torch.allclose(before[:, :12], after[:, :12], atol=1e-5)
    assert not torch.allclose(before[:, 12:], after[:, 12:], atol=1e-2)


def test_recomputed_activations_give_the_same_gradients() -> None:
    """Recomputing saves memory; it must not change what is learnt."""
    token_BT = torch.randint(SHAPE.vocabulary, (2, 20))
    gradients = []
    for recompute in (False, True):
        network = build_network()
        network.recompute = recompute
        logit_BTV = network(token_BT)
        functional.cross_entropy(
            logit_BTV[:, :-1].flatten(0, 1), token_BT[:, 1:].flatten()
        ).backward()
        gradients.append({name: weight.grad for name, weight in network.named_parameters()})
    plain, recomputed = gradients
    assert len(plain) == 3 * 9 + 3
    assert all(
        gradient is not None and gradient.equal(plain[name])
        for name, gradient in recomputed.items()
    )


def test_initial_weights_have_the_deviation_asked_for() -> None:
    """Kaiming's initial weights, torch's default, start elsewhere."""
    network = LlamaNetwork(replace(SHAPE, vocabulary=2000), 0.06)
    for name, weight in network.named_parameters():
        if weight.ndim == 1:
            assert weight.eq(1).all(), name
        else:
            assert weight.std().item() == pytest.approx(0.06, rel=0.1), name


def test_a_network_of_the_device_meta_can_be_filled() -> None:
    """Shards of ranks are filled in place; whatever is in no parameter would stay empty."""
    with torch.device("meta"):
        network = LlamaNetwork(SHAPE)
    network.to_empty(device="cpu")
    network.load_state_dict(build_network().state_dict())
    token_BT = torch.randint(SHAPE.vocabulary, (1, 9))
    assert network(token_BT).equal(build_network()(token_BT))


def test_norms_are_computed_in_fp32() -> None:
    """Squares of 300 numbers near 200 exceed what bf16 adds without loss."""
    norm = build_network(replace(SHAPE, width=300)).model.norm
    input_BW = 200 + torch.randn(4, 300)
    wide = norm(input_BW.bfloat16().float())
    assert norm.bfloat16()(input_BW.bfloat16()).equal(wide.bfloat16())

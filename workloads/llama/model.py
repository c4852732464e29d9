"""Llama 3.1: Grattafiori et al. 2024, arXiv:2407.21783, section 3.2.

A decoder of pre-normalised layers: RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467; torch
computes it in fp32 for states in bf16, too), rotary positions (Su et al. 2021, arXiv:2104.09864)
with Llama 3.1's scaling, grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245), SwiGLU
(Shazeer 2020, arXiv:2002.05202); no biases. The names of the weights are those of transformers'
`LlamaForCausalLM`.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, cast

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from workloads.llama.shape import LlamaShape, RopeScaling

# Legend: B sequences, T positions, W width, H heads of queries, G heads of keys and values, D width
# of a head, F half of it (the pairs that a position rotates), V tokens of the vocabulary.
INITIAL_DEVIATION: Final = 0.02
"""Standard deviation of initial weights; NVIDIA/NeMo, collections/llm/gpt/model/llama.py,
Llama31Config: init_method_std.
"""
KEPT_ROTATION_RATES: Final = 16
"""Pairs of shape and device whose rates are kept: a process has one network or two."""


def compute_rotation_rates(shape: LlamaShape) -> torch.Tensor:
    """Return the angle, F, in radians per position, by which each pair of a head's numbers is
    rotated.
    """
    pairs_F = torch.arange(0, shape.head_width, 2, dtype=torch.float32) / shape.head_width
    rate_F = 1.0 / shape.rope_theta**pairs_F
    if shape.rope_scaling is None:
        return rate_F
    return compute_stretched_rates(rate_F, shape.rope_scaling)


@lru_cache(maxsize=KEPT_ROTATION_RATES)
def keep_rotation_rates(shape: LlamaShape, device: torch.device) -> torch.Tensor:
    """Return these rates on a device, the same tensor each time: the host would wait for a copy."""
    with torch.inference_mode(False):  # an evaluation may be the first to ask
        return compute_rotation_rates(shape).to(device)


def compute_stretched_rates(rate_F: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Apply Llama 3.1's scaling; meta-llama/llama-models, models/llama3/model.py: apply_scaling."""
    turns_F = scaling.old_context * rate_F / (2 * math.pi)
    kept_F = ((turns_F - scaling.low) / (scaling.high - scaling.low)).clamp(0.0, 1.0)
    return kept_F * rate_F + (1 - kept_F) * rate_F / scaling.factor


def compute_rotations(rate_F: torch.Tensor, position_T: torch.Tensor) -> torch.Tensor:
    """Return cosines and sines, 2 T F in fp32, of the angles at each position."""
    angle_TF = position_T.to(torch.float32).unsqueeze(-1) * rate_F
    return torch.stack([angle_TF.cos(), angle_TF.sin()])


def rotate_heads(heads_BHTD: torch.Tensor, rotation_2TF: torch.Tensor) -> torch.Tensor:
    """Rotate queries or keys by their positions, in fp32; number i of a head forms a pair with
    number i + D / 2.
    """
    cosine_TF, sine_TF = rotation_2TF
    cosine_TD = torch.cat([cosine_TF, cosine_TF], dim=-1)
    sine_TD = torch.cat([-sine_TF, sine_TF], dim=-1)
    head_BHTD = heads_BHTD.float()
    # whole heads at once: kernels over halves, which do not lie side by side, take twice as long
    other_BHTD = head_BHTD.roll(sine_TF.shape[-1], dims=-1)
    rotated_BHTD = head_BHTD * cosine_TD + other_BHTD * sine_TD
    return rotated_BHTD.to(heads_BHTD.dtype)


class LlamaAttention(nn.Module):
    """Grouped-query self-attention; a position attends to itself and earlier ones."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.head_width = shape.head_width
        shared = shape.key_value_heads * shape.head_width
        self.q_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.k_proj = nn.Linear(shape.width, shared, bias=False)
        self.v_proj = nn.Linear(shape.width, shared, bias=False)
        self.o_proj = nn.Linear(shape.width, shape.width, bias=False)

    def compute_attention(
        self, input_BTW: torch.Tensor, rotation_2TF: torch.Tensor
    ) -> torch.Tensor:
        """Map B T W to B T W."""
        query_BHTD, key_BGTD, value_BGTD = (
            self.split_heads(project(input_BTW))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended_BHTD = functional.scaled_dot_product_attention(
            rotate_heads(query_BHTD, rotation_2TF),
            rotate_heads(key_BGTD, rotation_2TF),
            value_BGTD,
            is_causal=True,
            enable_gqa=query_BHTD.shape[1] != key_BGTD.shape[1],
        )
        joined_BTW: torch.Tensor = self.o_proj(attended_BHTD.transpose(1, 2).flatten(2))
        return joined_BTW

    def split_heads(self, joint_BTX: torch.Tensor) -> torch.Tensor:
        """Return a projection's heads, B x heads x T x D."""
        count, positions, joint = joint_BTX.shape
        shape_BTHD = count, positions, joint // self.head_width, self.head_width
        return joint_BTX.view(shape_BTHD).transpose(1, 2)


class LlamaFeedForward(nn.Module):
    """SwiGLU between two linear layers."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.width, bias=False)

    def compute_output(self, input_BTW: torch.Tensor) -> torch.Tensor:
        """Map B T W to B T W."""
        gated = functional.silu(self.gate_proj(input_BTW)) * self.up_proj(input_BTW)
        output_BTW: torch.Tensor = self.down_proj(gated)
        return output_BTW


class LlamaLayer(nn.Module):
    """Attention, then the feed-forward layer, each on a normalised input and added to it."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(shape)
        self.mlp = LlamaFeedForward(shape)
        self.input_layernorm, self.post_attention_layernorm = (
            nn.RMSNorm(shape.width, shape.norm_epsilon) for _ in range(2)
        )

    def forward(self, input_BTW: torch.Tensor, rotation_2TF: torch.Tensor) -> torch.Tensor:
        """Map B T W to B T W."""
        middle_BTW = input_BTW + self.self_attn.compute_attention(
            self.input_layernorm(input_BTW), rotation_2TF
        )
        output_BTW: torch.Tensor = middle_BTW + self.mlp.compute_output(
            self.post_attention_layernorm(middle_BTW)
        )
        return output_BTW


class LlamaStack(nn.Module):
    """Embedding, layers and the last norm: all but the output layer."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(LlamaLayer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, shape.norm_epsilon)


class LlamaNetwork(nn.Module):
    """The language model.

    Args:
        shape: its sizes.
        deviation: standard deviation of the initial weights; norms begin at 1.
        recompute: compute each layer's activations again in the backward pass, instead of keeping
            them; T x W numbers of a sequence are kept for each layer.
    """

    def __init__(
        self,
        shape: LlamaShape,
        deviation: float = INITIAL_DEVIATION,
        *,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.shape, self.recompute = shape, recompute
        self.model = LlamaStack(shape)
        self.lm_head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.tie_output()
        self.reset_weights(deviation)

    @property
    def layers(self) -> Iterable[LlamaLayer]:
        """Return the layers with their type, which ModuleList loses."""
        return cast(Iterable[LlamaLayer], self.model.layers)

    def tie_output(self) -> None:
        """Let the embedding compute the logits if the shape says so; again after anything that
        replaces parameters, such as `to_empty`.
        """
        if self.shape.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    @torch.no_grad()
    def reset_weights(self, deviation: float) -> None:
        """Draw initial weights; for a network built on the device "meta", after `to_empty`."""
        for weight in self.parameters():
            if weight.ndim == 1:
                nn.init.ones_(weight)
            else:
                nn.init.normal_(weight, std=deviation)

    def forward(self, token_BT: torch.Tensor) -> torch.Tensor:
        """Return the logits, B T V, of the token that follows each position.

        Args:
            token_BT: int64 or int32; every sequence begins at position 0, and padding may follow
                it, since no position attends to a later one.
        """
        logit_BTV: torch.Tensor = self.lm_head(self.compute_states(token_BT))
        return logit_BTV

    def compute_states(self, token_BT: torch.Tensor) -> torch.Tensor:
        """Return the normalised states, B T W, from which the output layer computes logits."""
        rotation_2TF = compute_rotations(
            keep_rotation_rates(self.shape, token_BT.device),
            torch.arange(token_BT.shape[1], device=token_BT.device),
        )
        state_BTW = self.model.embed_tokens(token_BT)
        for layer in self.layers:
            state_BTW = self.run_layer(layer, state_BTW, rotation_2TF)
        normal_BTW: torch.Tensor = self.model.norm(state_BTW)
        return normal_BTW

    def run_layer(
        self, layer: LlamaLayer, state_BTW: torch.Tensor, rotation_2TF: torch.Tensor
    ) -> torch.Tensor:
        """Run a layer; in training with `recompute`, without keeping its activations."""
        if self.recompute and torch.is_grad_enabled():
            again: torch.Tensor = checkpoint(layer, state_BTW, rotation_2TF, use_reentrant=False)
            return again
        output_BTW: torch.Tensor = layer(state_BTW, rotation_2TF)
        return output_BTW

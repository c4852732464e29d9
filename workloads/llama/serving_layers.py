"""The network as the generator runs it: joint weight matrices, a key/value cache, and one pass over
new tokens of many sequences.

Yu et al. 2022, "Orca", OSDI '22, section 3.2: tokens of sequences of any length share the linear
layers, and attention alone is computed for each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch.nn import functional

from workloads.llama.model import LlamaLayer, LlamaNetwork, compute_rotation_rates
from workloads.llama.shape import LlamaShape

# Legend: N new tokens, R live rows of the cache, P prompts of a block, T positions of a block, S
# cached positions that are looked at, W width, H heads of queries, G heads of keys and values, Q
# heads of queries of one of them, D width of a head, F half of it, X joint numbers, V vocabulary.
HIDDEN_LOGIT: Final = float("-inf")
"""Added to the attention logit of a position behind the end of its sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBlock:
    """Prompts that are read together, padded to one length; they lie one after another among the
    new tokens.
    """

    first: int
    """Number of the block's first token among the new tokens."""
    prompts: int
    positions: int

    @property
    def end(self) -> int:
        """Number of the token behind the block."""
        return self.first + self.prompts * self.positions


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokens:
    """The input of one pass: the newest token of each live row, then the blocks of prompts."""

    token_N: torch.Tensor
    position_N: torch.Tensor
    """Of each token in its sequence."""
    place_N: torch.Tensor
    """Of each token in the cache."""
    rows: int
    """Live rows: the first ones of the cache."""
    longest: int
    """Positions of the longest live row, its newest token included."""
    mask_R11S: torch.Tensor | None
    """Added to attention logits; None if all rows have the same length."""
    blocks: Sequence[PromptBlock] = ()


class ServingLayer:
    """A layer's weights, inputs x outputs, those of the same input joined.

    Rows of queries and keys are permuted so that the two numbers of a head that are rotated
    together are neighbours, a complex number; the products of queries and keys stay the same.
    """

    def __init__(self, layer: LlamaLayer, shape: LlamaShape, dtype: torch.dtype) -> None:
        attention, feed_forward = layer.self_attn, layer.mlp
        self.attention_norm_W = layer.input_layernorm.weight.float()
        self.feed_forward_norm_W = layer.post_attention_layernorm.weight.float()
        self.joint_WX = join_weights(
            dtype,
            pair_rotated_rows(attention.q_proj.weight, shape.head_width),
            pair_rotated_rows(attention.k_proj.weight, shape.head_width),
            attention.v_proj.weight,
        )
        self.out_WW = join_weights(dtype, attention.o_proj.weight)
        self.gate_up_WX = join_weights(
            dtype, feed_forward.gate_proj.weight, feed_forward.up_proj.weight
        )
        self.down_XW = join_weights(dtype, feed_forward.down_proj.weight)


def pair_rotated_rows(weight_XW: torch.Tensor, head_width: int) -> torch.Tensor:
    """Reorder a projection's rows: number i of a head and number i + D / 2 become neighbours."""
    rows, width = weight_XW.shape
    halves = weight_XW.view(rows // head_width, 2, head_width // 2, width)
    return halves.transpose(1, 2).reshape(rows, width)


def join_weights(dtype: torch.dtype, *weights_XW: torch.Tensor) -> torch.Tensor:
    """Join projections of one input, inputs x outputs in memory: with few rows of input, the
    products of MKL are up to twice as fast as with the transposed matrix.
    """
    return torch.cat(weights_XW).to(dtype).t().contiguous()


class ServingNetwork:
    """Weights and cache.

    Args:
        network: on the device that serves; its weights are copied.
        rows: sequences that are live at once.
        longest: positions of a row.
        dtype: type of weights, cache, states and logits; norms and rotations are computed in fp32.
    """

    def __init__(self, network: LlamaNetwork, rows: int, longest: int, dtype: torch.dtype) -> None:
        shape = network.shape
        self.shape, self.longest, self.dtype = shape, longest, dtype
        stack = network.model
        self.embedding_VW = stack.embed_tokens.weight.detach().to(dtype)
        self.device = self.embedding_VW.device
        self.layers = [ServingLayer(layer, shape, dtype) for layer in network.layers]
        self.norm_W = stack.norm.weight.float()
        self.output_WV = join_weights(dtype, network.lm_head.weight)
        self.epsilon = torch.tensor(shape.norm_epsilon, device=self.device)
        self.position_S = torch.arange(longest, device=self.device)
        angle_SF = torch.outer(
            self.position_S.float(), compute_rotation_rates(shape).to(self.device)
        )
        self.rotation_S1F = torch.polar(torch.ones_like(angle_SF), angle_SF).unsqueeze(1)
        self.spare_place = rows * longest
        """Place in the cache that padding writes to."""
        kinds = 2, shape.key_value_heads, shape.head_width
        self.cache_LXX = torch.zeros(
            shape.layers,
            self.spare_place + 1,
            math.prod(kinds),
            dtype=dtype,
            device=self.device,
        )
        by_row = self.cache_LXX[:, :-1].view(shape.layers, rows, longest, *kinds)
        self.rows_2LRGSD = by_row.permute(3, 0, 1, 4, 2, 5)
        """The same, as attention looks at it: keys and values, layers, rows."""

    def move_row(self, source: int, target: int, length: int) -> None:
        """Copy the first positions of a row of the cache to another row."""
        first, second = source * self.longest, target * self.longest
        self.cache_LXX[:, second : second + length] = self.cache_LXX[:, first : first + length]

    def build_mask(self, position_R: torch.Tensor, longest: int) -> torch.Tensor:
        """Return the mask that hides what lies behind the newest token of each live row."""
        hidden_RS = self.position_S[:longest] > position_R.unsqueeze(1)
        mask_RS = torch.zeros(hidden_RS.shape, dtype=self.dtype, device=self.device)
        return mask_RS.masked_fill_(hidden_RS, HIDDEN_LOGIT)[:, None, None]

    def advance_rows(self, last: NewTokens, token_R: torch.Tensor) -> NewTokens:
        """Return the input of the pass behind the last one, with the tokens that it chose, for the
        same live rows.
        """
        position_R = last.position_N[: last.rows] + 1
        longest, mask_R11S = last.longest + 1, last.mask_R11S
        return NewTokens(
            token_N=token_R,
            position_N=position_R,
            place_N=last.place_N[: last.rows] + 1,
            rows=last.rows,
            longest=longest,
            mask_R11S=None if mask_R11S is None else self.build_mask(position_R, longest),
        )

    def compute_logits(self, new: NewTokens) -> torch.Tensor:
        """Return the logits, R V, of the next token of each live row; the new tokens are cached.

        Behind the last layer's keys and values, the tokens inside prompts have no use.
        """
        state_NW = functional.embedding(new.token_N, self.embedding_VW)
        rotation_N1F = self.rotation_S1F[new.position_N]
        live_2LRGSD = self.rows_2LRGSD[:, :, : new.rows, :, : new.longest]
        for layer, cache_XX, key_RGSD, value_RGSD in zip(
            self.layers, self.cache_LXX, *live_2LRGSD, strict=True
        ):
            joint_NX = self.normalise_states(state_NW, layer.attention_norm_W) @ layer.joint_WX
            self.cache_tokens(joint_NX, rotation_N1F, cache_XX, new.place_N)
            attended_RW = self.attend_to_cache(joint_NX[: new.rows], key_RGSD, value_RGSD, new)
            blocks = () if layer is self.layers[-1] else new.blocks
            attended_NW = self.attend_in_blocks(attended_RW, joint_NX, blocks)
            state_NW = torch.addmm(state_NW[: len(attended_NW)], attended_NW, layer.out_WW)
            gate_NX, up_NX = (
                self.normalise_states(state_NW, layer.feed_forward_norm_W) @ layer.gate_up_WX
            ).chunk(2, dim=-1)
            state_NW = torch.addmm(state_NW, functional.silu(gate_NX).mul_(up_NX), layer.down_XW)
        return self.normalise_states(state_NW, self.norm_W) @ self.output_WV

    def normalise_states(self, state_NW: torch.Tensor, weight_W: torch.Tensor) -> torch.Tensor:
        """RMSNorm, in fp32; on a CPU in two thirds of the time of torch's."""
        wide_NW = state_NW.float()
        norm_N1 = torch.linalg.vector_norm(wide_NW, dim=-1, keepdim=True)
        mean_square_N1 = torch.addcmul(self.epsilon, norm_N1, norm_N1, value=1 / self.shape.width)
        return (wide_NW * mean_square_N1.rsqrt_()).mul_(weight_W).to(self.dtype)

    def cache_tokens(
        self,
        joint_NX: torch.Tensor,
        rotation_N1F: torch.Tensor,
        cache_XX: torch.Tensor,
        place_N: torch.Tensor,
    ) -> None:
        """Rotate queries and keys in place, and cache keys and values."""
        shape = self.shape
        turned = (shape.heads + shape.key_value_heads) * shape.head_width
        rotate_pairs(joint_NX[:, :turned], rotation_N1F)
        cache_XX.index_copy_(0, place_N, joint_NX[:, shape.width :])

    def attend_to_cache(
        self,
        joint_RX: torch.Tensor,
        key_RGSD: torch.Tensor,
        value_RGSD: torch.Tensor,
        new: NewTokens,
    ) -> torch.Tensor:
        """Return what the newest token of each live row attends to, R W.

        Heads that share keys stand where positions of queries would, so that nothing is repeated.
        """
        shape = self.shape
        query_RGQD = joint_RX[:, : shape.width].view(
            -1, shape.key_value_heads, shape.group, shape.head_width
        )
        attended_RGQD = functional.scaled_dot_product_attention(
            query_RGQD, key_RGSD, value_RGSD, new.mask_R11S
        )
        return attended_RGQD.reshape(-1, shape.width)

    def attend_in_blocks(
        self, attended_RW: torch.Tensor, joint_NX: torch.Tensor, blocks: Sequence[PromptBlock]
    ) -> torch.Tensor:
        """Append what the tokens of blocks attend to."""
        if not blocks:
            return attended_RW
        return torch.cat([attended_RW, *(self.attend_in_block(joint_NX, each) for each in blocks)])

    def attend_in_block(self, joint_NX: torch.Tensor, block: PromptBlock) -> torch.Tensor:
        """Return what the tokens of a block of prompts attend to, P T x W: themselves and earlier
        ones of their prompt.
        """
        shape = self.shape
        heads_PXTD = (
            joint_NX[block.first : block.end]
            .view(block.prompts, block.positions, -1, shape.head_width)
            .transpose(1, 2)
        )
        query_PHTD, key_PGTD, value_PGTD = torch.tensor_split(
            heads_PXTD, [shape.heads, shape.heads + shape.key_value_heads], dim=1
        )
        attended_PHTD = functional.scaled_dot_product_attention(
            query_PHTD,
            key_PGTD.repeat_interleave(shape.group, dim=1),
            value_PGTD.repeat_interleave(shape.group, dim=1),
            is_causal=True,
        )
        return attended_PHTD.transpose(1, 2).reshape(-1, shape.width)


def rotate_pairs(heads_NX: torch.Tensor, rotation_N1F: torch.Tensor) -> None:
    """Rotate neighbouring numbers of queries and keys in place, in fp32."""
    pairs = rotation_N1F.shape[-1]
    wide_NX = heads_NX.float()  # the same memory if they are in fp32
    torch.view_as_complex(wide_NX.view(len(wide_NX), -1, pairs, 2)).mul_(rotation_N1F)
    if wide_NX.dtype != heads_NX.dtype:
        heads_NX.copy_(wide_NX)

"""The Transformer (big): Vaswani et al. 2017, arXiv:1706.03762, with layer normalisation before
each sub-layer, as in the reference.

mlcommons/training, translation/tensorflow/transformer/model: transformer.py, attention_layer.py,
ffn_layer.py, embedding_layer.py and model_utils.py.
"""

import math
from collections.abc import Iterable
from typing import Final, cast

import torch
from torch import nn
from torch.nn import functional

from workloads.transformer.recipe import TransformerShape
from workloads.transformer.subwords import PAD_ID
from workloads.transformer.translation.decoding import HIDDEN_SLOT_LOGIT

# Legend: B sentences, S source and T target positions, W width, H heads, D width of a head, F width
# between the two linear
# layers, V subtokens, N target tokens of a batch, K hypotheses of a sentence, C continuations of a
# hypothesis, L layers,
# P parts (query, key, value), M slots of a cache: slot p K + k holds what hypothesis k wrote at
# position p.
LAYER_NORM_EPSILON: Final = 1e-6  # transformer.py, LayerNormalization
MAX_POSITION_TIMESCALE: Final = 1e4  # model_utils.py, get_position_encoding: max_timescale


def encode_positions(position_T: torch.Tensor, width: int) -> torch.Tensor:
    """Return the position encoding: sines, then cosines, with wavelengths from 2 pi to 20,000 pi
    positions.
    """
    waves = width // 2
    step = math.log(MAX_POSITION_TIMESCALE) / (waves - 1)
    rate_X = torch.exp(torch.arange(waves, device=position_T.device, dtype=torch.float32) * -step)
    angle_TX = position_T.to(torch.float32).unsqueeze(-1) * rate_X
    return torch.cat([angle_TX.sin(), angle_TX.cos()], dim=-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention without biases; all projections of the same input are one matrix
    product.
    """

    def __init__(self, shape: TransformerShape, dropout: float) -> None:
        super().__init__()
        self.width, self.heads, self.dropout = shape.width, shape.heads, dropout
        self.out = build_joint_linear(shape.width, 1)

    def split_projection(self, joint_BTX: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Split a joint projection into its parts, each B H T D."""
        count, positions, width = joint_BTX.shape
        shaped_PBHTD = joint_BTX.view(
            count, positions, width // self.width, self.heads, self.width // self.heads
        ).permute(2, 0, 3, 1, 4)
        return shaped_PBHTD.unbind(0)

    def compute_attention(
        self,
        query_BHTD: torch.Tensor,
        key_BHSD: torch.Tensor,
        value_BHSD: torch.Tensor,
        mask_B1TS: torch.Tensor | None,
        *,
        causal: bool = False,
    ) -> torch.Tensor:
        """Compute attention, and merge the heads to B T W."""
        share = self.dropout if self.training else 0.0
        return self.merge_heads(
            functional.scaled_dot_product_attention(
                query_BHTD, key_BHSD, value_BHSD, mask_B1TS, share, is_causal=causal
            )
        )

    def merge_heads(self, attended_BHTD: torch.Tensor) -> torch.Tensor:
        """Concatenate the heads to B T W."""
        joined_BTW: torch.Tensor = self.out(attended_BHTD.transpose(1, 2).flatten(2))
        return joined_BTW


class SelfAttention(MultiHeadAttention):
    """Attention with queries, keys and values from one input."""

    def __init__(self, shape: TransformerShape, dropout: float) -> None:
        super().__init__(shape, dropout)
        self.qkv = build_joint_linear(shape.width, 3)

    def project_queries_keys_values(self, input_BTW: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return queries, keys and values."""
        return self.split_projection(self.qkv(input_BTW))

    def compute_cached_attention(
        self,
        parts_PBHKD: tuple[torch.Tensor, ...],
        key_BHMD: torch.Tensor,
        value_BHMD: torch.Tensor,
        mask_B1KM: torch.Tensor,
    ) -> torch.Tensor:
        """Attend to the slots of a cache and to each hypothesis's own current position, without
        concatenating the two.
        """
        query_BHKD, own_key_BHKD, own_value_BHKD = parts_PBHKD
        scaled_BHKD = query_BHKD * query_BHKD.shape[-1] ** -0.5
        logit_BHKM = scaled_BHKD @ key_BHMD.transpose(2, 3) + mask_B1KM
        own_BHK1 = (scaled_BHKD * own_key_BHKD).sum(-1, keepdim=True)
        share_BHKX = torch.cat([logit_BHKM, own_BHK1], dim=-1).softmax(-1)
        return self.merge_heads(
            share_BHKX[..., :-1] @ value_BHMD + share_BHKX[..., -1:] * own_value_BHKD
        )


class SourceAttention(MultiHeadAttention):
    """Attention with queries from the target, keys and values from the source."""

    def __init__(self, shape: TransformerShape, dropout: float) -> None:
        super().__init__(shape, dropout)
        self.query, self.memory = (
            build_joint_linear(shape.width, 1),
            build_joint_linear(shape.width, 2),
        )

    def project_queries(self, input_BTW: torch.Tensor) -> torch.Tensor:
        """Return the target's queries."""
        return self.split_projection(self.query(input_BTW))[0]

    def project_keys_values(self, memory_BSW: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the source's keys and values."""
        return self.split_projection(self.memory(memory_BSW))


def build_joint_linear(width: int, parts: int) -> nn.Linear:
    """Build a joint linear layer for several parts, each initialised on its own."""
    layer = nn.Linear(width, parts * width, bias=False)
    for part in layer.weight.chunk(parts):
        nn.init.xavier_uniform_(part)
    return layer


class FeedForward(nn.Module):
    """The feed-forward layer: two linear layers with biases and a ReLU between them."""

    def __init__(self, shape: TransformerShape, dropout: float) -> None:
        super().__init__()
        self.inner, self.outer = (
            nn.Linear(shape.width, shape.filter),
            nn.Linear(shape.filter, shape.width),
        )
        self.dropout = nn.Dropout(dropout)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, input_BTW: torch.Tensor) -> torch.Tensor:
        """Map B T W to B T W."""
        output_BTW: torch.Tensor = self.outer(self.dropout(functional.relu(self.inner(input_BTW))))
        return output_BTW


class TransformerEncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with a residual connection."""

    def __init__(self, shape: TransformerShape, dropout: float) -> None:
        super().__init__()
        self.attention, self.filter = SelfAttention(shape, dropout), FeedForward(shape, dropout)
        self.attention_norm, self.filter_norm = (
            nn.LayerNorm(shape.width, LAYER_NORM_EPSILON) for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_BSW: torch.Tensor, mask_B11S: torch.Tensor) -> torch.Tensor:
        """Map B S W to B S W."""
        query, key, value = self.attention.project_queries_keys_values(
            self.attention_norm(input_BSW)
        )
        middle_BSW = input_BSW + self.dropout(
            self.attention.compute_attention(query, key, value, mask_B11S)
        )
        output_BSW: torch.Tensor = middle_BSW + self.dropout(
            self.filter(self.filter_norm(middle_BSW))
        )
        return output_BSW


class TransformerDecoderLayer(nn.Module):
    """Self-attention, attention to the source, and feed-forward, each with a residual
    connection.
    """

    def __init__(self, shape: TransformerShape, dropout: float) -> None:
        super().__init__()
        self.attention, self.source, self.filter = (
            SelfAttention(shape, dropout),
            SourceAttention(shape, dropout),
            FeedForward(shape, dropout),
        )
        self.attention_norm, self.source_norm, self.filter_norm = (
            nn.LayerNorm(shape.width, LAYER_NORM_EPSILON) for _ in range(3)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, input_BTW: torch.Tensor, memory_BSW: torch.Tensor, mask_B11S: torch.Tensor
    ) -> torch.Tensor:
        """Map B T W to B T W; a position attends to itself and earlier ones."""
        query, key, value = self.attention.project_queries_keys_values(
            self.attention_norm(input_BTW)
        )
        middle_BTW = input_BTW + self.dropout(
            self.attention.compute_attention(query, key, value, None, causal=True)
        )
        key, value = self.source.project_keys_values(memory_BSW)
        return self.run_after_self_attention(middle_BTW, key, value, mask_B11S)

    def run_after_self_attention(
        self,
        input_BTW: torch.Tensor,
        key_BHSD: torch.Tensor,
        value_BHSD: torch.Tensor,
        mask_B11S: torch.Tensor,
    ) -> torch.Tensor:
        """Run the layer after self-attention; shared by training and decoding."""
        query = self.source.project_queries(self.source_norm(input_BTW))
        middle_BTW = input_BTW + self.dropout(
            self.source.compute_attention(query, key_BHSD, value_BHSD, mask_B11S)
        )
        output_BTW: torch.Tensor = middle_BTW + self.dropout(
            self.filter(self.filter_norm(middle_BTW))
        )
        return output_BTW


class TransformerNetwork(nn.Module):
    """Encoder and decoder; one matrix serves source and target embeddings and the output layer."""

    def __init__(self, shape: TransformerShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.width))
        nn.init.normal_(self.embedding, std=shape.width**-0.5)  # embedding_layer.py
        self.encoder = nn.ModuleList(
            TransformerEncoderLayer(shape, dropout) for _ in range(shape.layers)
        )
        self.decoder = nn.ModuleList(
            TransformerDecoderLayer(shape, dropout) for _ in range(shape.layers)
        )
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(shape.width, LAYER_NORM_EPSILON) for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)

    @property
    def decoder_layers(self) -> Iterable[TransformerDecoderLayer]:
        """Return the decoder's layers with their type, which ModuleList loses."""
        return cast(Iterable[TransformerDecoderLayer], self.decoder)

    def compute_embeddings(self, token_BT: torch.Tensor, position_T: torch.Tensor) -> torch.Tensor:
        """Embed tokens; the padding token, which also starts a target sentence, is embedded as its
        position only.
        """
        scale = self.shape.width**0.5
        found_BTW = functional.embedding(token_BT, self.embedding) * (
            (token_BT != PAD_ID) * scale
        ).unsqueeze(-1)
        embedded_BTW: torch.Tensor = self.dropout(
            found_BTW + encode_positions(position_T, self.shape.width)
        )
        return embedded_BTW

    def encode_source(self, source_BS: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the encoder's output and the source mask."""
        mask_B11S = build_attention_mask(source_BS == PAD_ID)[:, None, None]
        memory_BSW = self.compute_embeddings(
            source_BS, torch.arange(source_BS.shape[1], device=source_BS.device)
        )
        for layer in self.encoder:
            memory_BSW = layer(memory_BSW, mask_B11S)
        return self.encoder_norm(memory_BSW), mask_B11S

    def forward(
        self, source_BS: torch.Tensor, target_BT: torch.Tensor, token_N: torch.Tensor
    ) -> torch.Tensor:
        """Return the states, N x W, from which the output layer predicts target tokens, each from
        the source and the preceding tokens.

        `token_N`: places of the tokens in the flattened targets, which a caller knows without
        waiting for the device: all but padding.
        """
        memory_BSW, mask_B11S = self.encode_source(source_BS)
        before_BT = functional.pad(target_BT, (1, 0), value=PAD_ID)[:, :-1]
        state_BTW = self.compute_embeddings(
            before_BT, torch.arange(target_BT.shape[1], device=target_BT.device)
        )
        for layer in self.decoder:
            state_BTW = layer(state_BTW, memory_BSW, mask_B11S)
        state_NW: torch.Tensor = self.decoder_norm(state_BTW).flatten(0, 1).index_select(0, token_N)
        return state_NW

    def compute_output_logits(self, state_NW: torch.Tensor) -> torch.Tensor:
        """Return the logits, N x V, of the tokens that states predict."""
        return functional.linear(state_NW, self.embedding)


def build_attention_mask(hide: torch.Tensor) -> torch.Tensor:
    """Turn a boolean mask (True: hidden) into an additive mask for attention logits."""
    return torch.zeros(hide.shape, device=hide.device).masked_fill_(hide, HIDDEN_SLOT_LOGIT)


class TransformerServingEncoder(nn.Module):
    """The network that runs once per sentence: the encoder, and the keys and values that each
    decoder layer takes from it.
    """

    def __init__(self, transformer: TransformerNetwork) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, source_BS: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and the values, each L B H S D."""
        memory_BSW, _ = self.transformer.encode_source(source_BS)
        parts = [
            layer.source.project_keys_values(memory_BSW)
            for layer in self.transformer.decoder_layers
        ]
        key_LBHSD, value_LBHSD = (torch.stack(list(kind)) for kind in zip(*parts, strict=True))
        return key_LBHSD, value_LBHSD


class TransformerServingDecoderStep(nn.Module):
    """The network that runs once per position: a sentence's hypotheses share its cache, and each
    attends to the slots of its own history.

    Reordering hypotheses copies nothing: only `mask_BKM` changes, which defines the slots that each
    one sees. The caches are read-only; this position's additions are returned, and the owner of the
    caches writes them, so an engine without in-place writes copies no cache.
    """

    def __init__(self, transformer: TransformerNetwork) -> None:
        super().__init__()
        self.transformer = transformer
        self.output = nn.Linear(
            transformer.shape.width, transformer.shape.vocabulary, bias=False, device="meta"
        )
        self.output.weight = transformer.embedding

    def forward(
        self,
        token_BK: torch.Tensor,
        position_1: torch.Tensor,
        mask_BKM: torch.Tensor,
        source_BS: torch.Tensor,
        memory_key_LBHSD: torch.Tensor,
        memory_value_LBHSD: torch.Tensor,
        key_LBHMD: torch.Tensor,
        value_LBHMD: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the log-probabilities and the tokens of the best 2 K continuations, and this
        position's keys and values, L B H K D.

        The mask may be shorter than the caches: slots beyond it are ignored.
        """
        logit_BKV, *new = self.compute_logits(
            token_BK,
            position_1,
            mask_BKM,
            source_BS,
            memory_key_LBHSD,
            memory_value_LBHSD,
            key_LBHMD,
            value_LBHMD,
        )
        logit_BKC, token_BKC = logit_BKV.float().topk(
            min(2 * token_BK.shape[1], logit_BKV.shape[-1])
        )
        score_BKC = logit_BKC - logit_BKV.float().logsumexp(dim=-1, keepdim=True)
        return score_BKC, token_BKC, new[0], new[1]

    def compute_logits(
        self,
        token_BK: torch.Tensor,
        position_1: torch.Tensor,
        mask_BKM: torch.Tensor,
        source_BS: torch.Tensor,
        memory_key_LBHSD: torch.Tensor,
        memory_value_LBHSD: torch.Tensor,
        key_LBHMD: torch.Tensor,
        value_LBHMD: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the logits, B K V, and this position's keys and values."""
        count, visible_slots = token_BK.shape[1], mask_BKM.shape[2]
        earlier_M = torch.arange(visible_slots, device=token_BK.device) < position_1 * count
        mask_B1KM = torch.where(earlier_M, mask_BKM, HIDDEN_SLOT_LOGIT).unsqueeze(1)
        mask_B11S = build_attention_mask(source_BS == PAD_ID)[:, None, None]
        cached = zip(
            key_LBHMD[:, :, :, :visible_slots].unbind(),
            value_LBHMD[:, :, :, :visible_slots].unbind(),
            strict=True,
        )
        memory = zip(memory_key_LBHSD.unbind(), memory_value_LBHSD.unbind(), strict=True)
        state_BKW, new = self.transformer.compute_embeddings(token_BK, position_1), []
        for layer, slots, sources in zip(
            self.transformer.decoder_layers, cached, memory, strict=True
        ):
            parts = layer.attention.project_queries_keys_values(layer.attention_norm(state_BKW))
            state_BKW = layer.run_after_self_attention(
                state_BKW + layer.attention.compute_cached_attention(parts, *slots, mask_B1KM),
                *sources,
                mask_B11S,
            )
            new.append(parts[1:])
        key_LBHKD, value_LBHKD = (torch.stack(list(kind)) for kind in zip(*new, strict=True))
        logit_BKV: torch.Tensor = self.output(self.transformer.decoder_norm(state_BKW))
        return logit_BKV, key_LBHKD, value_LBHKD

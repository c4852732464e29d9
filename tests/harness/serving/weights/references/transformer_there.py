"""The Transformer over TensorFlow's variables: mlcommons/training,
translation/tensorflow/transformer/model, transformer.py, attention_layer.py, ffn_layer.py.

A function of variables by their names in TensorFlow's checkpoint; kernels are inputs x outputs. One
pair of sentences without padding.
"""

import math
from collections.abc import Iterator, Mapping

import torch

# Legend: T positions of a sentence, M of the one that is attended to, W width, H heads, D width of
# a head, V subtokens.
State = Mapping[str, torch.Tensor]
ROOT = "model/Transformer"
EMBEDDING = f"{ROOT}/embedding_shared_weights/embedding_and_softmax/weights"
NORM = ("layer_normalization/layer_norm_scale", "layer_normalization/layer_norm_bias")
FARTHEST = 1e4
EPSILON = 1e-6


def variables(
    layers: int, width: int, inner: int, words: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names and shapes of all variables."""
    yield EMBEDDING, (words, width)
    for side in ("en", "de"):
        stack = f"{ROOT}/{side}code/{side}coder_stack"
        yield from ((f"{stack}/{norm}", (width,)) for norm in NORM)
        for layer in range(layers):
            parts = [
                ("self_attention", "self_attention"),
                *([("encdec_attention", "attention")] if side == "de" else []),
            ]
            for outer, scope in parts:
                yield from ((f"{stack}/layer_{layer}/{outer}/{norm}", (width,)) for norm in NORM)
                yield from (
                    (f"{stack}/layer_{layer}/{outer}/{scope}/{name}/kernel", (width, width))
                    for name in ("q", "k", "v", "output_transform")
                )
            base = f"{stack}/layer_{layer}/ffn"
            yield from ((f"{base}/{norm}", (width,)) for norm in NORM)
            for name, shape in (("filter_layer", (width, inner)), ("output_layer", (inner, width))):
                yield f"{base}/feed_foward_network/{name}/kernel", shape
                yield f"{base}/feed_foward_network/{name}/bias", shape[1:]


def logits(
    state: State, layers: int, heads: int, source_T: torch.Tensor, target_T: torch.Tensor
) -> torch.Tensor:
    """Return the logits T V of a target sentence's subtokens."""
    memory_MW = embedded(state, source_T) + waves(len(source_T), state[EMBEDDING].shape[1])
    encoder = f"{ROOT}/encode/encoder_stack"
    for layer in range(layers):
        base = f"{encoder}/layer_{layer}"
        normed = normalised(state, f"{base}/self_attention", memory_MW)
        memory_MW = memory_MW + attended(
            state, f"{base}/self_attention/self_attention", heads, normed, normed
        )
        memory_MW = memory_MW + filtered(state, f"{base}/ffn", memory_MW)
    return decoded(state, layers, heads, normalised(state, encoder, memory_MW), target_T)


def decoded(
    state: State, layers: int, heads: int, memory_MW: torch.Tensor, target_T: torch.Tensor
) -> torch.Tensor:
    """Return the logits T V; each position sees the ones before, and the first sees zeros."""
    before_TW = torch.cat([torch.zeros(1, memory_MW.shape[1]), embedded(state, target_T)[:-1]])
    state_TW = before_TW + waves(len(target_T), memory_MW.shape[1])
    decoder = f"{ROOT}/decode/decoder_stack"
    for layer in range(layers):
        base = f"{decoder}/layer_{layer}"
        normed = normalised(state, f"{base}/self_attention", state_TW)
        state_TW = state_TW + attended(
            state, f"{base}/self_attention/self_attention", heads, normed, normed, future=False
        )
        query = normalised(state, f"{base}/encdec_attention", state_TW)
        state_TW = state_TW + attended(
            state, f"{base}/encdec_attention/attention", heads, query, memory_MW
        )
        state_TW = state_TW + filtered(state, f"{base}/ffn", state_TW)
    return normalised(state, decoder, state_TW) @ state[EMBEDDING].t()


def embedded(state: State, token_T: torch.Tensor) -> torch.Tensor:
    """Look subtokens up."""
    return state[EMBEDDING][token_T] * math.sqrt(state[EMBEDDING].shape[1])


def waves(positions: int, width: int) -> torch.Tensor:
    """Return sines, then cosines, of each position."""
    half = width // 2
    angles = [
        [place / FARTHEST ** (number / (half - 1)) for number in range(half)]
        for place in range(positions)
    ]
    return torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in angles])


def normalised(state: State, scope: str, input_TW: torch.Tensor) -> torch.Tensor:
    """Normalise each position."""
    mean_T1 = input_TW.mean(1, keepdim=True)
    variance_T1 = (input_TW - mean_T1).square().mean(1, keepdim=True)
    scale, bias = (state[f"{scope}/{norm}"] for norm in NORM)
    return (input_TW - mean_T1) / (variance_T1 + EPSILON).sqrt() * scale + bias


def attended(
    state: State,
    scope: str,
    heads: int,
    query_TW: torch.Tensor,
    memory_MW: torch.Tensor,
    *,
    future: bool = True,
) -> torch.Tensor:
    """Attend head by head; the heads are consecutive slices of the width."""
    query, key, value = (
        input_XW @ state[f"{scope}/{name}/kernel"]
        for name, input_XW in (("q", query_TW), ("k", memory_MW), ("v", memory_MW))
    )
    hidden_TM = (
        torch.zeros(len(query_TW), len(memory_MW))
        if future
        else torch.full((len(query_TW), len(memory_MW)), -1e9).triu(1)
    )
    found = []
    for query_TD, key_MD, value_MD in zip(
        *(each.chunk(heads, 1) for each in (query, key, value)), strict=True
    ):
        share_TM = (query_TD @ key_MD.t() / math.sqrt(query_TD.shape[1]) + hidden_TM).softmax(1)
        found.append(share_TM @ value_MD)
    return torch.cat(found, 1) @ state[f"{scope}/output_transform/kernel"]


def filtered(state: State, scope: str, input_TW: torch.Tensor) -> torch.Tensor:
    """Apply normalisation and the two dense layers."""
    inner, outer = (
        f"{scope}/feed_foward_network/{name}" for name in ("filter_layer", "output_layer")
    )
    middle = (
        normalised(state, scope, input_TW) @ state[f"{inner}/kernel"] + state[f"{inner}/bias"]
    ).clamp(min=0)
    return middle @ state[f"{outer}/kernel"] + state[f"{outer}/bias"]

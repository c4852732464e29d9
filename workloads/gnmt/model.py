"""GNMT v2: Wu et al. 2016, arXiv:1609.08144, in the form of mlcommons/training, rnn_translator,
seq2seq/models.

Four LSTM layers encode, the first bidirectional; four decode; both numbers may be reduced to two.
The first decoder layer's output queries the attention, whose context joins the input of the layers
above; layers have residuals from the third on. Both sides share one embedding.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from suite.errors import RequestError
from workloads.common import weights
from workloads.common.optimisation import recomputation
from workloads.gnmt.scoring import GNMT_PAD_ID

# Legend: N sentences of a batch, S source positions, T target positions, X = N T, K beams, B = N K,
# H hidden width, L decoder layers, V vocabulary.
GNMT_NAME: Final = "gnmt"
GNMT_FRAMEWORK: Final = "torch"
MAX_INITIAL_WEIGHT: Final = (
    0.1  # rnn_translator, train.py, --init-weight: all weights uniform on (-0.1, 0.1)
)
# seq2seq/utils.py, init_lstm_; attention.py
ZERO_BIAS_SUFFIXES: Final = (
    "bias_hh_l0",
    "attention.bias",
)
MASKED_ATTENTION_SCORE: Final = -65504.0  # rnn_translator, attention.py: fp16's lowest value


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTDescription:
    """What a server needs to know about exported weights."""

    workload: str
    framework: str
    width: int
    layers: int
    vocabulary: int
    vocabulary_sha256: str
    max_answer_length: int


class GNMTAttention(nn.Module):
    """Bahdanau, Cho, Bengio 2015, arXiv:1409.0473, normalised after Salimans and Kingma 2016: score
    = g v/|v| tanh(W q + U k + b).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.direction = nn.Parameter(torch.empty(width))
        self.scale = nn.Parameter(torch.empty(1))
        self.bias = nn.Parameter(torch.empty(width))

    def compute_keys(self, memory_NSH: torch.Tensor) -> torch.Tensor:
        """Return U k + b in the format of U k: of the sum with the queries, N T S H, only a key's
        own axes carry the bias.
        """
        key_NSH: torch.Tensor = self.key(memory_NSH)
        return key_NSH + self.bias.to(key_NSH.dtype)

    def forward(
        self,
        query_NTH: torch.Tensor,
        memory_NSH: torch.Tensor,
        key_NSH: torch.Tensor,
        known_NS: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the context N T H of each query, and the attention weights N T S over the source
        positions. `key_NSH`: see `compute_keys`.
        """
        inputs = (self.query(query_NTH), key_NSH, self.direction, self.scale)
        sum_bytes = query_NTH.numel() * key_NSH.shape[1] * recomputation.FP32_BYTES
        if self.training and sum_bytes > recomputation.LARGEST_KEPT_BYTES:
            score_NTS = recomputation.recompute_in_backward(compute_attention_scores, *inputs)
        else:
            score_NTS = compute_attention_scores(*inputs)
        score_NTS = score_NTS.float().masked_fill(~known_NS[:, None], MASKED_ATTENTION_SCORE)
        share_NTS = score_NTS.softmax(-1)
        return share_NTS.to(memory_NSH.dtype) @ memory_NSH, share_NTS


def compute_attention_scores(
    query_NTH: torch.Tensor,
    key_NSH: torch.Tensor,
    direction_H: torch.Tensor,
    scale_1: torch.Tensor,
) -> torch.Tensor:
    """Return the scores N T S of projected queries and keys; its sum, N T S H, is the largest
    tensor of a step.
    """
    both_NTSH = query_NTH[:, :, None] + key_NSH[:, None]
    score_NTS: torch.Tensor = torch.tanh(both_NTSH) @ (direction_H / direction_H.norm() * scale_1)
    return score_NTS


class GNMTEncoder(nn.Module):
    """Encodes source sentences."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.onward = nn.LSTM(width, width, batch_first=True)
        self.backward_ = nn.LSTM(width, width, batch_first=True)
        self.layers = nn.ModuleList(
            [
                nn.LSTM(2 * width if level == 0 else width, width, batch_first=True)
                for level in range(layers - 1)
            ]
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, embedded_NSH: torch.Tensor, length_N: torch.Tensor) -> torch.Tensor:
        """Return the memory N S H; positions after a sentence's end are meaningless."""
        mirror_NS1 = compute_mirrored_positions(length_N, embedded_NSH.shape[1])[..., None]
        dropped_NSH = self.dropout(embedded_NSH)
        onward_NSH = run_lstm_layer(self.onward, dropped_NSH)
        back_NSH = run_lstm_layer(
            self.backward_, dropped_NSH.gather(1, mirror_NS1.expand_as(dropped_NSH))
        )
        hidden = torch.cat([onward_NSH, back_NSH.gather(1, mirror_NS1.expand_as(back_NSH))], dim=-1)
        for level, layer in enumerate(self.layers):
            above = run_lstm_layer(layer, self.dropout(hidden))
            hidden = above + hidden if level else above
        return hidden


def compute_mirrored_positions(length_N: torch.Tensor, longest: int) -> torch.Tensor:
    """Index each sentence's positions N S from its own end; positions after the end stay in
    place.
    """
    position_S = torch.arange(longest, device=length_N.device)
    return torch.where(
        position_S < length_N[:, None], length_N[:, None] - 1 - position_S, position_S
    )


def run_lstm_layer(layer: nn.Module, input_NTH: torch.Tensor) -> torch.Tensor:
    """Return the outputs N T H of an LSTM layer; in fp32 where the processor has no LSTM in
    autocast's type.
    """
    output_NTH: torch.Tensor
    if not torch.is_autocast_enabled("cpu") or has_cpu_lstm(torch.get_autocast_dtype("cpu")):
        output_NTH, _ = layer(input_NTH)
        return output_NTH
    with torch.autocast("cpu", enabled=False):
        output_NTH, _ = layer(input_NTH.float())
        return output_NTH


@cache
def has_cpu_lstm(dtype: torch.dtype) -> bool:
    """Return whether this processor runs an LSTM under autocast in a type: oneDNN's bf16 needs
    AVX-512.
    """
    with torch.random.fork_rng(devices=[]):  # the weights' draws leave the run's as they are
        layer = nn.LSTM(1, 1)
    try:
        with torch.no_grad(), torch.autocast("cpu", dtype):
            layer(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True


class GNMTDecoder(nn.Module):
    """Decodes target sentences."""

    def __init__(self, width: int, layers: int, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.LSTM(2 * width if level else width, width, batch_first=True)
                for level in range(layers)
            ]
        )
        self.attention = GNMTAttention(width)
        self.classifier = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, embedded_NTH: torch.Tensor, memory_NSH: torch.Tensor, known_NS: torch.Tensor
    ) -> torch.Tensor:
        """Return the states N T H from which the classifier predicts the next token at each
        position, for all positions at once.
        """
        key_NSH = self.attention.compute_keys(memory_NSH)
        hidden_NTH = run_lstm_layer(self.layers[0], self.dropout(embedded_NTH))
        context_NTH, _ = self.attention(hidden_NTH, memory_NSH, key_NSH, known_NS)
        for level, layer in enumerate(self.layers[1:]):
            both_NTH = torch.cat([hidden_NTH, context_NTH], dim=-1)
            above_NTH = run_lstm_layer(layer, self.dropout(both_NTH))
            hidden_NTH = above_NTH + hidden_NTH if level else above_NTH
        return hidden_NTH


class GNMTNetwork(nn.Module):
    """Encoder, decoder and their shared embedding."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        dropout: float = 0.0,
        initial: float = MAX_INITIAL_WEIGHT,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=GNMT_PAD_ID)
        self.encoder = GNMTEncoder(width, layers, dropout)
        self.decoder = GNMTDecoder(width, layers, vocabulary, dropout)
        self.reset_parameters(width, initial)

    @torch.no_grad()
    def reset_parameters(self, width: int, initial: float) -> None:
        """Initialise weights, and the reference's random biases, uniformly; attention and recurrent
        biases to 0, the attention scale to 1/sqrt(width).

        T, rnn_translator, seq2seq: utils.py, init_lstm_; models/decoder.py, Classifier;
        models/attention.py.
        """
        for name, parameter in self.named_parameters():
            if name.endswith(ZERO_BIAS_SUFFIXES):
                parameter.zero_()
            else:
                parameter.uniform_(-initial, initial)
        self.embedding.weight[GNMT_PAD_ID].zero_()
        self.decoder.attention.scale.fill_(width**-0.5)

    def forward(
        self, source_NS: torch.Tensor, length_N: torch.Tensor, target_NT: torch.Tensor
    ) -> torch.Tensor:
        """Return the states N T H from which the token after each target token is predicted."""
        memory_NSH = self.encoder(self.embedding(source_NS), length_N)
        state_NTH: torch.Tensor = self.decoder(
            self.embedding(target_NT), memory_NSH, source_NS != GNMT_PAD_ID
        )
        return state_NTH

    def compute_output_logits(self, state_NTH: torch.Tensor) -> torch.Tensor:
        """Return the logits N T V of the tokens that states predict."""
        logit_NTV: torch.Tensor = self.decoder.classifier(state_NTH)
        return logit_NTV


class GNMTServingEncoder(nn.Module):
    """The encoder as a separate network for serving; attention keys are computed once per
    sentence.
    """

    def __init__(self, model: GNMTNetwork) -> None:
        super().__init__()
        self.embedding, self.encoder, self.attention = (
            model.embedding,
            model.encoder,
            model.decoder.attention,
        )

    def forward(
        self, source_NS: torch.Tensor, length_N: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return memory and keys, N S H each."""
        memory_NSH = self.encoder(self.embedding(source_NS), length_N)
        return memory_NSH, self.attention.compute_keys(memory_NSH)


class GNMTServingDecoderStep(nn.Module):
    """One decoder step as a separate network; its state has the same size at every step."""

    def __init__(self, model: GNMTNetwork) -> None:
        super().__init__()
        self.embedding, self.decoder = model.embedding, model.decoder

    def forward(
        self,
        token_NK: torch.Tensor,
        hidden_BLH: torch.Tensor,
        cell_BLH: torch.Tensor,
        memory_NSH: torch.Tensor,
        key_NSH: torch.Tensor,
        known_NS: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Return the next token's logits N K V, the attention N K S, and the next hidden and cell
        states.
        """
        sentences, beams = token_NK.shape
        out_BH = self.embedding(token_NK).flatten(0, 1)
        context_BH, share_NKS, states = out_BH, known_NS, []
        for level, layer in enumerate(self.decoder.layers):
            input_BH = torch.cat([out_BH, context_BH], dim=-1) if level else out_BH
            state = run_lstm_step(layer, input_BH, hidden_BLH[:, level], cell_BLH[:, level])
            out_BH = state[0] + out_BH if level > 1 else state[0]
            states.append(state)
            if level == 0:
                context_NKH, share_NKS = self.decoder.attention(
                    out_BH.view(sentences, beams, -1), memory_NSH, key_NSH, known_NS
                )
                context_BH = context_NKH.flatten(0, 1)
        logit_BV = self.decoder.classifier(out_BH)
        hidden, cell = (torch.stack([state[part] for state in states], dim=1) for part in range(2))
        return logit_BV.view(sentences, beams, -1), share_NKS, hidden, cell


def run_lstm_step(
    layer: nn.Module, input_BH: torch.Tensor, hidden_BH: torch.Tensor, cell_BH: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run one step of an LSTM layer."""
    weight_ih, weight_hh, bias_ih, bias_hh = layer.parameters()
    return torch.lstm_cell(input_BH, (hidden_BH, cell_BH), weight_ih, weight_hh, bias_ih, bias_hh)


def compute_padded_losses(
    logit_XV: torch.Tensor, label_X: torch.Tensor, smoothing: float
) -> torch.Tensor:
    """Return each token's cross-entropy, 0 for padding; Szegedy et al. 2015, section 7: `smoothing`
    is spread over the vocabulary.
    """
    return functional.cross_entropy(
        logit_XV.float(),
        label_X,
        ignore_index=GNMT_PAD_ID,
        label_smoothing=smoothing,
        reduction="none",
    )


def compute_sentence_losses(
    network: GNMTNetwork, state_NTH: torch.Tensor, label_NT: torch.Tensor, smoothing: float
) -> torch.Tensor:
    """Return each sentence's cross-entropy, summed over the tokens that its states predict; logits
    are computed in chunks.
    """

    def compute_chunk_losses(state_XH: torch.Tensor, label_X: torch.Tensor) -> torch.Tensor:
        return compute_padded_losses(network.compute_output_logits(state_XH), label_X, smoothing)

    losses = recomputation.compute_losses_in_chunks(
        compute_chunk_losses,
        state_NTH.flatten(0, 1),
        label_NT.flatten(),
        network.embedding.num_embeddings,
    )
    return torch.cat(losses).view_as(label_NT).sum(1)


def build_seeded_gnmt(
    seed: int,
    vocabulary: int,
    width: int,
    layers: int,
    dropout: float,
    initial: float = MAX_INITIAL_WEIGHT,
) -> GNMTNetwork:
    """Build the network of a seed, the same on every rank, independent of the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GNMTNetwork(vocabulary, width, layers, dropout, initial)


def load_gnmt_checkpoint(folder: Path) -> tuple[GNMTNetwork, GNMTDescription]:
    """Rebuild an exported network in evaluation mode; RequestError if it belongs to another
    workload or framework.
    """
    description = weights.read_weights_description(folder, GNMTDescription, GNMT_NAME)
    if description.framework != GNMT_FRAMEWORK:
        raise RequestError(
            f"checkpoint {folder}: its framework is {description.framework}, but {GNMT_NAME}"
            f" supports only {GNMT_FRAMEWORK}"
        )
    return (
        weights.build_exported_network(
            lambda: GNMTNetwork(description.vocabulary, description.width, description.layers),
            folder,
            GNMT_NAME,
        ),
        description,
    )

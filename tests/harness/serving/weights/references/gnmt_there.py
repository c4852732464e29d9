"""GNMT v2 with the reference's names and layers: mlcommons/training,
rnn_translator/pytorch/seq2seq/models, gnmt.py, encoder.py, decoder.py, attention.py.

One sentence at a time, without padding, so that neither packing nor masks can hide a difference.
"""

import torch
from torch import nn

# Legend: S source words, T target words, H width, V vocabulary; one sentence, so there is no batch.


class Attention(nn.Module):
    """Normalised Bahdanau attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear_q, self.linear_k = (
            nn.Linear(width, width, bias=False),
            nn.Linear(width, width, bias=False),
        )
        self.linear_att, self.normalize_bias = (
            nn.Parameter(torch.empty(width)),
            nn.Parameter(torch.empty(width)),
        )
        self.normalize_scalar = nn.Parameter(torch.empty(1))

    def forward(self, query_TH: torch.Tensor, memory_SH: torch.Tensor) -> torch.Tensor:
        """Return each query's context T H."""
        both_TSH = self.linear_q(query_TH).unsqueeze(1) + self.linear_k(memory_SH).unsqueeze(0)
        unit_H = self.linear_att / self.linear_att.square().sum().sqrt()
        score_TS = torch.einsum(
            "tsh,h->ts", torch.tanh(both_TSH + self.normalize_bias), unit_H * self.normalize_scalar
        )
        return torch.einsum("ts,sh->th", score_TS.softmax(1), memory_SH)


class AttentionLayer(nn.Module):
    """The first decoder layer, whose output queries the attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn, self.attn = nn.LSTM(width, width), Attention(width)


class Classifier(nn.Module):
    """Logits of the next word."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, words)


class Encoder(nn.Module):
    """A layer in two directions, one above both, and two with residual connections."""

    def __init__(self, width: int, layers: int, embedder: nn.Embedding) -> None:
        super().__init__()
        self.embedder = embedder
        self.rnn_layers = nn.ModuleList(
            [
                nn.LSTM(width, width, bidirectional=True),
                nn.LSTM(2 * width, width),
                *(nn.LSTM(width, width) for _ in range(layers - 2)),
            ]
        )

    def forward(self, word_S: torch.Tensor) -> torch.Tensor:
        """Return the memory S H."""
        state: torch.Tensor = self.embedder(word_S)
        for level, layer in enumerate(self.rnn_layers):
            above, _ = layer(state)
            state = above + state if level >= 2 else above
        return state


class Decoder(nn.Module):
    """A layer with attention, whose context joins the input of every layer above; residual
    connections from the third on.
    """

    def __init__(self, width: int, layers: int, words: int, embedder: nn.Embedding) -> None:
        super().__init__()
        self.embedder = embedder
        self.att_rnn = AttentionLayer(width)
        self.rnn_layers = nn.ModuleList(nn.LSTM(2 * width, width) for _ in range(layers - 1))
        self.classifier = Classifier(width, words)

    def forward(self, word_T: torch.Tensor, memory_SH: torch.Tensor) -> torch.Tensor:
        """Return logits T V."""
        state, _ = self.att_rnn.rnn(self.embedder(word_T))
        context_TH = self.att_rnn.attn(state, memory_SH)
        for level, layer in enumerate(self.rnn_layers):
            above, _ = layer(torch.cat([state, context_TH], 1))
            state = above + state if level >= 1 else above
        logit_TV: torch.Tensor = self.classifier.classifier(state)
        return logit_TV


class Reference(nn.Module):
    """Encoder and decoder with one embedding."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        embedder = nn.Embedding(words, width)
        self.encoder, self.decoder = (
            Encoder(width, layers, embedder),
            Decoder(width, layers, words, embedder),
        )

    def forward(self, source_S: torch.Tensor, target_T: torch.Tensor) -> torch.Tensor:
        """Return logits T V of one pair of sentences."""
        logit_TV: torch.Tensor = self.decoder(target_T, self.encoder(source_S))
        return logit_TV

"""A small network that translates each word by its neighbours."""

from collections.abc import Sequence

import torch
from torch import nn

# Legend: N sentences, L places, E features, K words of the vocabulary.


class Translator(nn.Module):
    """An embedding, two convolutions over the places, and a linear layer."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(outputs, width)
        self.first = nn.Conv1d(width, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(2 * width, outputs)

    def forward(self, word_NL: torch.Tensor) -> torch.Tensor:
        """Return the logits of each place, N L K."""
        x_NLE = self.embedding(word_NL)
        y_NEL = nn.functional.relu(self.first(x_NLE.transpose(1, 2)))
        y_NEL = nn.functional.relu(self.second(y_NEL))
        return self.head(torch.cat([x_NLE, y_NEL.transpose(1, 2)], dim=2))


def build(width: int, sizes: Sequence[int], outputs: int) -> nn.Module:
    """Build the network: sentences in, for each place one logit per word out; for sentences of any
    length, so `sizes` is not needed.
    """
    return Translator(width, outputs)

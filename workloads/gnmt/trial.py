"""A tiny GNMT for `podium doctor`: bidirectional LSTM layers, attention, a stepwise decoder."""

from collections.abc import Sequence

import torch

from suite.engine import Network
from workloads.common.dtype_trial import TorchTrial, network
from workloads.gnmt import inference, model

SIZE = (2, 16)
"""Layers and width."""
SENTENCES = 2
LENGTH = 3


def translator(device: str) -> model.GNMT:
    """Build the network."""
    layers, width = SIZE
    return model.GNMT(vocabulary=16, width=width, layers=layers).to(device)


def trial(device: str) -> TorchTrial:
    """Return the loss of a batch, and the serving networks."""
    source_NS, length_N = inference.read_inputs(SENTENCES, LENGTH, device)

    def loss() -> torch.Tensor:
        logit_NTV = translator(device)(source_NS, length_N, source_NS[:, :-1])
        return model.loss_N(logit_NTV, source_NS[:, 1:], smoothing=0.1).sum()

    def networks() -> Sequence[Network[torch.Tensor]]:
        made, step = translator(device), inference.write_inputs(SENTENCES, LENGTH, SIZE, device)
        return [
            network(f"{model.NAME}-encoder", model.Reader(made), (source_NS, length_N), outputs=2),
            network(f"{model.NAME}-decoder", model.Writer(made), step, outputs=4),
        ]

    return TorchTrial(device, loss, networks)

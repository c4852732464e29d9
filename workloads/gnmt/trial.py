"""A tiny GNMT for `podium doctor`: bidirectional LSTM layers, attention, a stepwise decoder."""

from collections.abc import Sequence

import torch

from suite.engine import Network
from workloads.common.dtype_trial import TorchPrecisionTrial, describe_trial_network
from workloads.gnmt import inference, model

GNMT_TRIAL_LAYERS_AND_WIDTH = (2, 16)
"""Layers and width."""
GNMT_TRIAL_SENTENCES = 2
GNMT_TRIAL_TOKENS = 3


def build_gnmt_trial_network(device: str) -> model.GNMTNetwork:
    layers, width = GNMT_TRIAL_LAYERS_AND_WIDTH
    return model.GNMTNetwork(vocabulary=16, width=width, layers=layers).to(device)


def build_gnmt_trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch, and the serving networks."""
    source_NS, length_N = inference.build_gnmt_encoder_inputs(
        GNMT_TRIAL_SENTENCES, GNMT_TRIAL_TOKENS, device
    )

    def compute_trial_loss() -> torch.Tensor:
        network = build_gnmt_trial_network(device)
        state_NTH = network(source_NS, length_N, source_NS[:, :-1])
        return model.compute_sentence_losses(
            network, state_NTH, source_NS[:, 1:], smoothing=0.1
        ).sum()

    def describe_trial_networks() -> Sequence[Network[torch.Tensor]]:
        model_network, step = (
            build_gnmt_trial_network(device),
            inference.build_gnmt_decoder_inputs(
                GNMT_TRIAL_SENTENCES, GNMT_TRIAL_TOKENS, GNMT_TRIAL_LAYERS_AND_WIDTH, device
            ),
        )
        return [
            describe_trial_network(
                f"{model.GNMT_NAME}-encoder",
                model.GNMTServingEncoder(model_network),
                (source_NS, length_N),
                outputs=2,
            ),
            describe_trial_network(
                f"{model.GNMT_NAME}-decoder",
                model.GNMTServingDecoderStep(model_network),
                step,
                outputs=4,
            ),
        ]

    return TorchPrecisionTrial(device, compute_trial_loss, describe_trial_networks)

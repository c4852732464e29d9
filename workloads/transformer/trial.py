"""A tiny Transformer for `podium doctor`: attention, matrix products, layer normalisation, a
stepwise decoder.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch.nn import functional

from suite.engine import Network
from workloads.common.dtype_trial import TorchPrecisionTrial
from workloads.transformer.model import (
    TransformerNetwork,
    TransformerServingDecoderStep,
    TransformerServingEncoder,
)
from workloads.transformer.recipe import TransformerShape
from workloads.transformer.system_under_test import describe_transformer_networks
from workloads.transformer.translation.torch_tensors import TorchConverter

TRANSFORMER_TRIAL_SHAPE: Final = TransformerShape(
    layers=1, width=16, filter=32, heads=2, vocabulary=16
)
TRANSFORMER_TRIAL_BEAM: Final = 2
TRANSFORMER_TRIAL_TOKEN: Final = 3
TRANSFORMER_TRIAL_SMOOTHING: Final = 0.1


def trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch, and the serving networks."""
    source_BS = torch.full((2, 4), TRANSFORMER_TRIAL_TOKEN, device=device)

    def compute_trial_loss() -> torch.Tensor:
        network = TransformerNetwork(TRANSFORMER_TRIAL_SHAPE).to(device)
        every_N = torch.arange(source_BS.numel(), device=device)
        logit_NV = network.compute_output_logits(network(source_BS, source_BS, every_N))
        return functional.cross_entropy(
            logit_NV.float(), source_BS.flatten(), label_smoothing=TRANSFORMER_TRIAL_SMOOTHING
        )

    def describe_trial_networks() -> Sequence[Network[torch.Tensor]]:
        transformer = TransformerNetwork(TRANSFORMER_TRIAL_SHAPE)
        return describe_transformer_networks(
            "torch",
            TransformerServingEncoder(transformer),
            TransformerServingDecoderStep(transformer),
            TorchConverter(device).copy_to_device,
            TRANSFORMER_TRIAL_SHAPE,
            TRANSFORMER_TRIAL_BEAM,
        )

    return TorchPrecisionTrial(device, compute_trial_loss, describe_trial_networks)

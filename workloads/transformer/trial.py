"""A tiny Transformer for `podium doctor`: attention, matrix products, layer normalisation, a
stepwise decoder.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch.nn import functional

from suite.engine import Network
from workloads.common.dtype_trial import TorchTrial
from workloads.transformer.model import DecoderStep, Encoder, Transformer
from workloads.transformer.recipe import Shape
from workloads.transformer.system_under_test import described
from workloads.transformer.translation.torch_tensors import TorchTensors

SHAPE: Final = Shape(layers=1, width=16, filter=32, heads=2, vocabulary=16)
BEAM: Final = 2
TOKEN: Final = 3
SMOOTHING: Final = 0.1


def trial(device: str) -> TorchTrial:
    """Return the loss of a batch, and the serving networks."""
    source_BS = torch.full((2, 4), TOKEN, device=device)

    def loss() -> torch.Tensor:
        logit_NV = Transformer(SHAPE).to(device)(source_BS, source_BS)
        return functional.cross_entropy(
            logit_NV.float(), source_BS.flatten(), label_smoothing=SMOOTHING
        )

    def networks() -> Sequence[Network[torch.Tensor]]:
        made = Transformer(SHAPE)
        return described(
            "torch", Encoder(made), DecoderStep(made), TorchTensors(device).put, SHAPE, BEAM
        )

    return TorchTrial(device, loss, networks)

"""A tiny Llama for `podium doctor`: norms, rotations, grouped-query attention, a gated layer."""

from collections.abc import Sequence
from typing import Final

import torch
from torch.nn import functional

from suite.engine import Network
from workloads.common.dtype_trial import TorchPrecisionTrial
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape

LLAMA_TRIAL_SHAPE: Final = LlamaShape(
    layers=1,
    width=16,
    heads=4,
    key_value_heads=2,
    feed_forward=32,
    vocabulary=16,
    context=8,
    rope_theta=10_000.0,
)
LLAMA_TRIAL_TOKEN: Final = 3


def build_llama_trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch; no engine serves the network, its generator does."""
    token_BT = torch.full((2, 5), LLAMA_TRIAL_TOKEN, device=device)

    def compute_trial_loss() -> torch.Tensor:
        logit_BTV = LlamaNetwork(LLAMA_TRIAL_SHAPE).to(device)(token_BT[:, :-1])
        return functional.cross_entropy(logit_BTV.flatten(0, 1).float(), token_BT[:, 1:].flatten())

    def list_no_networks() -> Sequence[Network[torch.Tensor]]:
        return ()

    return TorchPrecisionTrial(device, compute_trial_loss, list_no_networks)

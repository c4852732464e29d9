"""A tiny network like Mini-Go's for `podium doctor`: a residual tower with two heads."""

import torch

from workloads.common.dtype_trial import TorchTrial, network
from workloads.minigo import model

TINY = model.Description(workload=model.NAME, board=5, planes=13, filters=8, blocks=1, hidden=8)


def trial(device: str) -> TorchTrial:
    """Give the loss of a batch, and the network."""

    def planes() -> torch.Tensor:
        return torch.zeros(2, TINY.planes, TINY.board, TINY.board, device=device).contiguous(
            memory_format=torch.channels_last
        )

    def loss() -> torch.Tensor:
        logit_NA, value_N = model.MiniGo(TINY).to(device)(planes())
        policy = torch.nn.functional.cross_entropy(
            logit_NA.float(), torch.zeros(2, dtype=torch.long, device=device)
        )
        return policy + torch.nn.functional.mse_loss(value_N.float(), torch.ones(2, device=device))

    return TorchTrial(
        device,
        loss,
        lambda: [network(model.NAME, model.MiniGo(TINY).to(device), (planes(),), outputs=2)],
    )

"""A tiny network like Mini-Go's for `podium doctor`: a residual tower with two heads."""

import torch

from workloads.common.dtype_trial import TorchPrecisionTrial, describe_trial_network
from workloads.minigo import model

MINIGO_TRIAL_DESCRIPTION = model.MiniGoDescription(
    workload=model.MINIGO_NAME, board=5, planes=13, filters=8, blocks=1, hidden=8
)


def build_minigo_trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch, and the network."""

    def build_empty_planes() -> torch.Tensor:
        return torch.zeros(
            2,
            MINIGO_TRIAL_DESCRIPTION.planes,
            MINIGO_TRIAL_DESCRIPTION.board,
            MINIGO_TRIAL_DESCRIPTION.board,
            device=device,
        ).contiguous(memory_format=torch.channels_last)

    def compute_trial_loss() -> torch.Tensor:
        logit_NA, value_N = model.MiniGoNetwork(MINIGO_TRIAL_DESCRIPTION).to(device)(
            build_empty_planes()
        )
        policy = torch.nn.functional.cross_entropy(
            logit_NA.float(), torch.zeros(2, dtype=torch.long, device=device)
        )
        return policy + torch.nn.functional.mse_loss(value_N.float(), torch.ones(2, device=device))

    return TorchPrecisionTrial(
        device,
        compute_trial_loss,
        lambda: [
            describe_trial_network(
                model.MINIGO_NAME,
                model.MiniGoNetwork(MINIGO_TRIAL_DESCRIPTION).to(device),
                (build_empty_planes(),),
                outputs=2,
            )
        ],
    )

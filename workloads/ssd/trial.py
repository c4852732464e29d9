"""A tiny network like SSD for `podium doctor`: convolutions, batch-norm, an extra block, a pair of
heads on each of two feature maps.
"""

import torch
from torch import nn

from workloads.common.dtype_trial import (
    TRIAL_CHANNELS,
    TorchPrecisionTrial,
    TrialStem,
    describe_trial_network,
    generate_trial_pictures,
)
from workloads.ssd import model

SSD_TRIAL_CLASSES = 3


class SSDTrialNetwork(nn.Module):
    """The network."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.extra = (
            TrialStem(),
            model.build_extra_block(TRIAL_CHANNELS, TRIAL_CHANNELS // 2, TRIAL_CHANNELS, 2, 1),
        )
        self.place, self.kind = (
            model.build_ssd_head(TRIAL_CHANNELS, 4, 1),
            model.build_ssd_head(TRIAL_CHANNELS, SSD_TRIAL_CLASSES, 1),
        )

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return offsets and logits of both maps."""
        first_NCHW = self.stem(picture_NCHW)
        maps = (first_NCHW, self.extra(first_NCHW))
        offsets, logits = (
            [model.split_map_by_box(head(each), size) for each in maps]
            for head, size in ((self.place, 4), (self.kind, SSD_TRIAL_CLASSES))
        )
        return torch.cat(offsets, dim=1), torch.cat(logits, dim=1)


def build_ssd_trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch, and the network."""

    def compute_trial_loss() -> torch.Tensor:
        offset_NB4, logit_NBK = SSDTrialNetwork().to(device)(generate_trial_pictures(device))
        total: torch.Tensor = (
            offset_NB4.float().abs().sum() + logit_NBK.float().logsumexp(dim=-1).sum()
        )
        return total

    return TorchPrecisionTrial(
        device,
        compute_trial_loss,
        lambda: [
            describe_trial_network(
                model.SSD_NAME, SSDTrialNetwork(), (generate_trial_pictures(device),), outputs=2
            )
        ],
    )

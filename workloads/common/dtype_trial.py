"""Tiny PyTorch networks that test which precisions this machine's kernels support: one training
step, and compilation by an engine.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from suite.engine import Network, Precision
from workloads.common.optimisation import mixed_precision as formats

# Legend: N images of a batch, C channels, H height, W width.
TRIAL_PICTURE_NCHW = (2, 3, 32, 32)
TRIAL_CHANNELS = 8


class TorchPrecisionTrial:
    """A differentiable loss, and networks; both are rebuilt each time, since engines modify modules
    in place.
    """

    def __init__(
        self,
        device: str,
        loss: Callable[[], torch.Tensor],
        networks: Callable[[], Sequence[Network[torch.Tensor]]],
    ) -> None:
        self._device, self._loss, self._networks = device, loss, networks

    @property
    def networks(self) -> Sequence[Network[torch.Tensor]]:
        """Return the networks that an engine is to compile."""
        torch.manual_seed(0)  # an export is cached under the hash of its weights
        return self._networks()

    def step(self, precision: Precision) -> None:
        """Run a training step as the workloads here do: a forward pass under autocast, a scaled
        loss, a backward pass.
        """
        formats.prepare_training_precision(self._device, precision)
        torch.manual_seed(0)
        with formats.build_autocast(self._device, precision):
            loss = self._loss()
        scaler = formats.build_loss_scaler(self._device, precision)
        scaler.scale(loss.float()).backward()  # type: ignore[no-untyped-call]


class TrialStem(nn.Module):
    """The typical first layers of image networks: convolution, batch-norm, pooling, and a strided
    convolution.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(TRIAL_PICTURE_NCHW[1], TRIAL_CHANNELS, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(TRIAL_CHANNELS),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
            nn.Conv2d(TRIAL_CHANNELS, TRIAL_CHANNELS, 3, padding=1, bias=False),
            nn.BatchNorm2d(TRIAL_CHANNELS),
            nn.ReLU(inplace=True),
        )

    def forward(self, picture_NCHW: torch.Tensor) -> torch.Tensor:
        """Return a map of a quarter of the size."""
        map_NCHW: torch.Tensor = self.layers(picture_NCHW)
        return map_NCHW


def generate_trial_pictures(device: str) -> torch.Tensor:
    """Create a batch of noise, channels-last as in the workloads."""
    return torch.rand(TRIAL_PICTURE_NCHW, device=device).contiguous(
        memory_format=torch.channels_last
    )


def describe_trial_network(
    name: str, module: nn.Module, inputs: tuple[torch.Tensor, ...], outputs: int = 1
) -> Network[torch.Tensor]:
    """Describe a network for an engine; its inputs and outputs are named by number."""
    return Network(
        name=f"{name}-trial",
        module=module,
        framework="torch",
        inputs=inputs,
        input_names=tuple(f"input{number}" for number in range(len(inputs))),
        output_names=tuple(f"output{number}" for number in range(outputs)),
    )

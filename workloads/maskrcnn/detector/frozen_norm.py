"""Batch-norm that stays as it was loaded, in the type of its input.

torchvision's layer computes in fp32 whatever it gets: under autocast every convolution's output
would be widened, and every ReLU after it would be in fp32 too.
"""

from typing import Any, Final

import torch

from workloads.common.detection.ops import torchvision

# Legend: N images, C channels, H height, W width.
TorchvisionFrozenNorm: Any = torchvision.ops.FrozenBatchNorm2d
FROZEN_NORM_EPSILON: Final = 0.0  # T:maskrcnn, layers/batch_norm.py: the reference adds none


class FrozenBatchNorm(TorchvisionFrozenNorm):  # type: ignore[misc]  # torchvision has no types
    """Scales and shifts each channel; both are computed when the weights are loaded."""

    affine: torch.Tensor
    """Scale and shift, [2, C, 1, 1] in fp32; in no file, since the layer's four buffers give it."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=FROZEN_NORM_EPSILON)
        self.register_buffer("affine", self._compute_affine(), persistent=False)

    def _compute_affine(self) -> torch.Tensor:
        scale_C = self.weight * (self.running_var + self.eps).rsqrt()
        return torch.stack([scale_C, self.bias - self.running_mean * scale_C])[:, :, None, None]

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.affine.copy_(self._compute_affine())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise N C H W in one pass over it; fp32 inside, rounded once to the input's type."""
        scale_1C11, shift_1C11 = self.affine.to(x.dtype)[:, None].unbind()
        return torch.addcmul(shift_1C11, x, scale_1C11)

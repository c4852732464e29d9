"""Linear layers with weights packed once in oneDNN's layout: PyTorch on a CPU repacks them for
every product.

Small row counts, as in a decoder step, gain most. Measured on one core with AVX-512, 1024 x 4096: 4
rows 2.3 ms and
0.8 ms, 16 rows 4.0 and 2.1, 64 rows 8.8 and 5.8; all figures come from `benchmarks/decoding.py`.
"""

from typing import TypeGuard

import torch
from torch import nn

EXPECTED_ROW_COUNT = 32
"""Row count that the layout is optimised for; any number of rows works."""


class PackedLinear(nn.Module):
    """An nn.Linear for inference."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(
            layer.weight.detach(), EXPECTED_ROW_COUNT
        )
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiply, and add the bias."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self.packed, self.bias, "none", [], ""
        )
        return product


def can_pack_linear_layers() -> bool:
    """Check whether this build of PyTorch has these operators, which belong to its compiler and are
    not a public API.
    """
    try:
        with torch.inference_mode():
            PackedLinear(nn.Linear(8, 8))(torch.zeros(2, 8))
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return True


def pack_linear_layers(module: nn.Module) -> int:
    """Replace the linear layers of a module, in place; return their count."""
    if not can_pack_linear_layers():
        return 0
    children = [
        (part, name, child) for part in module.modules() for name, child in part.named_children()
    ]
    found = [(part, name, child) for part, name, child in children if is_packable_linear(child)]
    for part, name, child in found:
        setattr(part, name, PackedLinear(child))
    return len(found)


def is_packable_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Check for a linear layer in fp32 on the CPU; not a subclass, which may do more."""
    return (
        type(layer) is nn.Linear
        and layer.weight.dtype is torch.float32
        and layer.weight.device.type == "cpu"
    )

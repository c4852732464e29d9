"""Linear layers with weights packed once in oneDNN's layout: PyTorch on a CPU repacks them at every product.

Few rows at a time, as a decoder step has them, gain most. Measured on one core with AVX-512, 1024 x 4096: 4 rows 2.3 ms and
0.8 ms, 16 rows 4.0 and 2.1, 64 rows 8.8 and 5.8; `benchmarks/decoding.py` has the whole of it.
"""

from typing import TypeGuard

import torch
from torch import nn

ROWS_EXPECTED = 32
"""What the layout is chosen for; any number of rows may come."""


class PackedLinear(nn.Module):
    """An nn.Linear for inference."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), ROWS_EXPECTED)
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiply, and add the bias."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.bias, "none", [], "")
        return product


def can_pack() -> bool:
    """Tell whether this build of PyTorch has these operators, which are its compiler's and not promised."""
    try:
        with torch.inference_mode():
            PackedLinear(nn.Linear(8, 8))(torch.zeros(2, 8))
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return True


def pack(module: nn.Module) -> int:
    """Replace the linear layers of a module, in place; give how many there were."""
    if not can_pack():
        return 0
    children = [(part, name, child) for part in module.modules() for name, child in part.named_children()]
    found = [(part, name, child) for part, name, child in children if packable(child)]
    for part, name, child in found:
        setattr(part, name, PackedLinear(child))
    return len(found)


def packable(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Tell linear layers in fp32 on the CPU; no subclass, which may do more."""
    return type(layer) is nn.Linear and layer.weight.dtype is torch.float32 and layer.weight.device.type == "cpu"

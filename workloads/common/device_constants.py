"""Constants that stay on their device: creating one there copies it from pageable memory, for which
the host waits until the device has finished everything before.
"""

from functools import cache
from typing import Any

import torch


@cache
def keep_constant_on_device(
    values: tuple[Any, ...], device: torch.device, times: int = 1
) -> torch.Tensor:
    """Return numbers, repeated along their last axis, as an fp32 tensor on a device, the same one
    each time; nobody changes it.
    """
    with torch.inference_mode(False):  # training may use what an evaluation asked for first
        return torch.tensor(values, dtype=torch.float32).tile((times,)).to(device)

"""LARS: layer-wise adaptive rates. You, Gitman, Ginsburg 2017, arXiv:1708.03888, in the form of MLPerf's reference.

mlcommons/training, retired_benchmarks/resnet-tf2, lars_optimizer.py, for each layer with weights w and gradient g:

    trust = eta |w| / (|g| + weight_decay |w| + epsilon)      1 where |w| or |g| is 0
    m     = momentum m - lr trust (g + weight_decay w)
    w     = w + m

Biases and batch-norm parameters (groups with `adapt` false) have trust 1 and no decay.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

ETA: Final = 0.001  # lars_optimizer.py, argument `eeta`


class Lars(torch.optim.Optimizer):
    """The published update; a group's `adapt` says whether its layers have a trust ratio and weight decay."""

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = 0.9, weight_decay: float = 0.0, epsilon: float = 0.0, eta: float = ETA
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "epsilon": epsilon, "eta": eta, "adapt": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # torch overloads it, with the same result
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)
        return loss

    def _update(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        update = gradient
        if group["adapt"]:
            update = gradient.add(weight, alpha=group["weight_decay"]).mul_(trust_ratio(weight, gradient, group))
        momentum = state["momentum_buffer"]
        momentum.mul_(group["momentum"]).sub_(update, alpha=group["lr"])
        weight.add_(momentum)


def trust_ratio(weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """Compute the layer's trust ratio on its device, without synchronising."""
    w, g = weight.norm(), gradient.norm()
    ratio = group["eta"] * w / (g + group["weight_decay"] * w + group["epsilon"])
    return torch.where((w > 0) & (g > 0), ratio, torch.ones_like(ratio))

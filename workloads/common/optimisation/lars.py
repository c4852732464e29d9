"""LARS: layer-wise adaptive rates. You, Gitman, Ginsburg 2017, arXiv:1708.03888, in the form of
MLPerf's reference.

mlcommons/training, retired_benchmarks/resnet-tf2, lars_optimizer.py, for each layer with weights w
and gradient g:

    trust = eta |w| / (|g| + weight_decay |w| + epsilon)      1 where |w| or |g| is 0
    m     = momentum m - lr trust (g + weight_decay w)
    w     = w + m

Biases and batch-norm parameters (groups with `adapt` false) have trust 1 and no decay.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

LARS_ETA: Final = 0.001  # lars_optimizer.py, argument `eeta`


class Lars(torch.optim.Optimizer):
    """The published update; a group's `adapt` determines whether its layers have a trust ratio and
    weight decay.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        epsilon: float = 0.0,
        eta: float = LARS_ETA,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "weight_decay": weight_decay,
                "epsilon": epsilon,
                "eta": eta,
                "adapt": True,
            },
        )

    @torch.no_grad()
    # torch overloads it, with the same result
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group_layers_for_update(
                [weight for weight in group["params"] if weight.grad is not None]
            ):
                self._update_layers(weights, group)
        return loss

    def _update_layers(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        updates = [weight.grad for weight in weights if weight.grad is not None]
        if group["adapt"]:
            ratios = compute_trust_ratios(weights, updates, group)
            updates = list(torch._foreach_add(updates, weights, alpha=group["weight_decay"]))
            torch._foreach_mul_(updates, ratios)
        momenta = [self._get_or_create_momentum(weight) for weight in weights]
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, updates, alpha=-group["lr"])
        torch._foreach_add_(weights, momenta)

    def _get_or_create_momentum(self, weight: torch.Tensor) -> torch.Tensor:
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        momentum: torch.Tensor = state["momentum_buffer"]
        return momentum


def group_layers_for_update(weights: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Group the layers that are updated together: on a CPU each separately, so that it stays in the
    cache; on a GPU all together, in a few kernels.
    """
    if weights and weights[0].is_cuda:
        yield weights
    else:
        yield from ([weight] for weight in weights)


def compute_trust_ratios(
    weights: list[torch.Tensor], gradients: list[torch.Tensor], group: dict[str, Any]
) -> list[torch.Tensor]:
    """Compute each layer's trust ratio, a scalar on its device, without synchronising."""
    w, g = torch.stack(torch._foreach_norm(weights)), torch.stack(torch._foreach_norm(gradients))
    ratio = group["eta"] * w / (g + group["weight_decay"] * w + group["epsilon"])
    return list(torch.where((w > 0) & (g > 0), ratio, torch.ones_like(ratio)).unbind())

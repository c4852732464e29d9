"""LARS, step by step in float64 against the published formula written by hand."""

import copy
import math

import pytest
import torch

from workloads.common.optimisation import lars
from workloads.common.optimisation.lars import LARS_ETA, Lars

MOMENTUM, DECAY, EPSILON = 0.9, 2e-4, 1e-3


def by_hand(
    weights: list[float], gradients: list[list[float]], rates: list[float], *, adapt: bool
) -> list[float]:
    """You et al. 2017 with momentum as MLPerf's reference has it, on plain Python floats."""
    w, m = list(weights), [0.0] * len(weights)
    for g, rate in zip(gradients, rates, strict=True):
        norm_w, norm_g = math.sqrt(sum(x * x for x in w)), math.sqrt(sum(x * x for x in g))
        decay = DECAY if adapt else 0.0
        trust = (
            LARS_ETA * norm_w / (norm_g + decay * norm_w + EPSILON)
            if adapt and norm_w > 0 and norm_g > 0
            else 1.0
        )
        m = [
            MOMENTUM * m_i - rate * trust * (g_i + decay * w_i)
            for m_i, g_i, w_i in zip(m, g, w, strict=True)
        ]
        w = [w_i + m_i for w_i, m_i in zip(w, m, strict=True)]
    return w


def optimised(
    weights: list[float], gradients: list[list[float]], rates: list[float], *, adapt: bool
) -> list[float]:
    parameter = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))
    group = (
        {"params": [parameter]}
        if adapt
        else {"params": [parameter], "adapt": False, "weight_decay": 0.0}
    )
    optimizer = Lars([group], lr=0.0, momentum=MOMENTUM, weight_decay=DECAY, epsilon=EPSILON)
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    return parameter.tolist()


WEIGHTS = [0.5, -1.25, 2.0, 0.125]
GRADIENTS = [[0.1, -0.2, 0.3, 0.4], [-0.5, 0.25, 0.0, 1.0], [2.0, -1.0, 0.5, 0.125]]
RATES = [1.0, 10.0, 4.0]


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_follows_the_formula(steps: int, adapt: bool) -> None:
    """A wrong sign, order of momentum and rate, or decay outside the trust ratio would show within
    three steps.
    """
    expected = by_hand(WEIGHTS, GRADIENTS[:steps], RATES[:steps], adapt=adapt)
    assert optimised(WEIGHTS, GRADIENTS[:steps], RATES[:steps], adapt=adapt) == pytest.approx(
        expected, rel=1e-14
    )


def test_layers_of_zeros_move() -> None:
    """With |w| = 0 the ratio would be 0 and the layer would never leave 0: the reference takes
    1.
    """
    expected = by_hand([0.0, 0.0], [[0.5, 0.25]], [0.1], adapt=True)
    assert optimised([0.0, 0.0], [[0.5, 0.25]], [0.1], adapt=True) == pytest.approx(expected)
    assert expected != [0.0, 0.0]


def test_a_gradient_of_zeros_divides_by_nothing() -> None:
    """With |g| = 0 and no epsilon, 0/0 would make all weights NaN."""
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = Lars([parameter], lr=1.0)
    parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert parameter.tolist() == [0.0, 0.0, 0.0]


def test_biases_are_neither_adapted_nor_decayed() -> None:
    """The plain group takes momentum SGD without decay, whatever the norms are."""
    assert optimised([1.0], [[0.5]], [0.1], adapt=False) == pytest.approx([1.0 - 0.1 * 0.5])


def test_parameters_without_gradient_stay() -> None:
    """A frozen layer has no gradient; the optimizer must pass over it."""
    parameter = torch.nn.Parameter(torch.ones(2))
    Lars([parameter], lr=1.0).step()
    assert parameter.tolist() == [1.0, 1.0]


def test_momentum_survives_a_state_dict() -> None:
    """A resumed run would start with momentum 0 if the buffer were not part of the state."""
    first, second = (
        torch.nn.Parameter(torch.tensor(WEIGHTS, dtype=torch.float64)) for _ in range(2)
    )
    before, after = Lars([first], lr=1.0), Lars([second], lr=1.0)
    first.grad = torch.tensor(GRADIENTS[0], dtype=torch.float64)
    before.step()
    second.data.copy_(first.data)
    after.load_state_dict(copy.deepcopy(before.state_dict()))  # else both would share one buffer
    first.grad = second.grad = torch.tensor(GRADIENTS[1], dtype=torch.float64)
    before.step()
    after.step()
    assert torch.equal(first, second)


def test_a_closure_is_evaluated_with_gradients() -> None:
    """torch's own interface: `step(closure)` returns the loss that the closure computed."""
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = Lars([parameter], lr=0.1)

    def closure() -> float:
        loss = (parameter * parameter).sum()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == 2.0
    assert parameter.grad is not None


@pytest.mark.parametrize("together", [True, False])
def test_layers_that_are_updated_together_are_updated_as_alone(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """As on a GPU: each layer has its own trust ratio, one of zeros among them, and one without a
    gradient stays as it is.
    """
    monkeypatch.setattr(
        lars,
        "group_layers_for_update",
        lambda weights: [weights] if together else [[weight] for weight in weights],
    )
    layers = [WEIGHTS, [0.0, 0.0], [3.0, -4.0]]
    gradients = [GRADIENTS[0], [0.5, 0.25], [0.0, 0.0]]
    parameters = [torch.nn.Parameter(torch.tensor(layer, dtype=torch.float64)) for layer in layers]
    still = torch.nn.Parameter(torch.ones(2))
    optimizer = Lars(
        [*parameters, still], lr=0.5, momentum=MOMENTUM, weight_decay=DECAY, epsilon=EPSILON
    )
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = torch.tensor(gradient, dtype=torch.float64)
    optimizer.step()
    for parameter, layer, gradient in zip(parameters, layers, gradients, strict=True):
        assert parameter.tolist() == pytest.approx(
            by_hand(layer, [gradient], [0.5], adapt=True), rel=1e-14
        )
    assert still.tolist() == [1.0, 1.0]

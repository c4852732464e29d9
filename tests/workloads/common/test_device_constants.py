"""Constants that are on their device once."""

import torch

from workloads.common.device_constants import keep_constant_on_device


def test_a_constant_is_created_once() -> None:
    """The same tensor again, of which training may keep a product for its gradient, though an
    evaluation asked first.
    """
    host, values = torch.device("cpu"), (1.5, 2.5, 4.0)
    with torch.inference_mode():
        first = keep_constant_on_device(values, host)
    assert keep_constant_on_device(values, host) is first and not first.is_inference()
    assert keep_constant_on_device((1.5, 2.5), host) is not first
    twice = keep_constant_on_device(((1.0, 2.0), (3.0, 4.0)), host, 2)
    assert twice.tolist() == [[1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]]
    weight = torch.ones(3, requires_grad=True)
    (weight * first).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == list(values)

"""The memory format of training follows the processor, and whatever it is, the network is the same."""

import pytest
import torch

from workloads.common.optimisation import memory_format

LAST, CONTIGUOUS = torch.channels_last, torch.contiguous_format


CASES = [("AVX2", "cpu", CONTIGUOUS), ("AVX512", "cpu", LAST), ("DEFAULT", "cpu", LAST), ("AVX2", "cuda", LAST)]


@pytest.mark.parametrize(("capability", "device", "expected"), CASES)
def test_nchw_is_for_processors_with_avx2_alone(monkeypatch: pytest.MonkeyPatch, capability: str, device: str, expected: torch.memory_format):
    """A GPU beside such a processor keeps channels-last."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert memory_format.of_training(torch.device(device)) is expected


@pytest.mark.parametrize("capability", ["AVX2", "AVX512"])
def test_weights_and_activations_have_one_format_and_the_same_gradients(monkeypatch: pytest.MonkeyPatch, capability: str):
    """A picture in another format than the weights would be computed in channels-last again."""
    torch.manual_seed(1)
    network, picture_NHWC = torch.nn.Conv2d(3, 8, 3), torch.randn(2, 9, 9, 3)
    plain = torch.autograd.grad(network(picture_NHWC.permute(0, 3, 1, 2)).square().sum(), network.weight)[0]
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    placed = memory_format.placed(network, torch.device("cpu"))
    answer = placed(memory_format.arranged(picture_NHWC.permute(0, 3, 1, 2)))
    form = memory_format.of_training(torch.device("cpu"))
    assert placed.weight.is_contiguous(memory_format=form) and answer.is_contiguous(memory_format=form)
    torch.testing.assert_close(torch.autograd.grad(answer.square().sum(), placed.weight)[0], plain)

"""Frozen batch-norm against torchvision's: the same numbers in fp32, the input's type in others."""

from typing import Any

import pytest
import torch

from workloads.common import weights
from workloads.common.detection.ops import torchvision
from workloads.maskrcnn import model
from workloads.maskrcnn.detector import frozen_norm

CHANNELS = 24
LAYERS_OF_RESNET50 = 53


def draw_theirs(seed: int) -> Any:
    """Draw a layer of torchvision's with statistics and weights unlike the initial ones."""
    layer = torchvision.ops.FrozenBatchNorm2d(CHANNELS, eps=0.0)
    random = torch.Generator().manual_seed(seed)
    for buffer in layer.buffers():
        buffer.uniform_(0.5, 2.0, generator=random)
    return layer


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_it_is_torchvision_s_in_fp32(layout: torch.memory_format) -> None:
    """Values and gradients, after a first and after a second set of weights."""
    ours = frozen_norm.FrozenBatchNorm(CHANNELS)
    for seed in (1, 2):
        theirs = draw_theirs(seed)
        ours.load_state_dict(theirs.state_dict())
        found, wanted = (
            torch.randn(2, CHANNELS, 9, 7, generator=torch.Generator().manual_seed(3))
            .contiguous(memory_format=layout)
            .requires_grad_()
            for _ in range(2)
        )
        outputs = ours(found), theirs(wanted)
        torch.testing.assert_close(*outputs, rtol=1e-6, atol=2e-6)
        assert outputs[0].stride() == outputs[1].stride()
        for output in outputs:
            output.square().sum().backward()
        torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-5, atol=1e-5)


def test_its_files_are_torchvision_s() -> None:
    """Four buffers by the same names, no more: exported weights fit both."""
    ours, theirs = frozen_norm.FrozenBatchNorm(CHANNELS), draw_theirs(1)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(ours.state_dict())
    picture = torch.randn(1, CHANNELS, 5, 5)
    torch.testing.assert_close(ours(picture), theirs(picture))


def test_half_precision_is_rounded_once() -> None:
    """As close to fp32 as numbers of eight bits allow, in the input's type."""
    ours = frozen_norm.FrozenBatchNorm(CHANNELS)
    ours.load_state_dict(draw_theirs(1).state_dict())
    picture = torch.randn(2, CHANNELS, 9, 7)
    found = ours(picture.bfloat16())
    assert found.dtype == torch.bfloat16
    assert (found.float() - ours(picture)).abs().max() < 4 * 2**-8 * ours(picture).abs().max()


def test_no_layer_of_the_body_widens_under_autocast() -> None:
    """All 53 leave bf16 as it came, and so do the ReLUs after them."""
    with weights.SkippedInitialisation():
        body: Any = model.build_maskrcnn_backbone(frozen_norm=True).body
    kinds = (frozen_norm.FrozenBatchNorm, torch.nn.ReLU)
    layers = [layer for layer in body.modules() if isinstance(layer, kinds)]
    assert sum(isinstance(layer, kinds[0]) for layer in layers) == LAYERS_OF_RESNET50
    seen: list[torch.dtype] = []
    for layer in layers:
        layer.register_forward_hook(lambda _, __, output: seen.append(output.dtype))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        body(torch.zeros(1, 3, 32, 32))
    assert len(seen) > 2 * 48 and set(seen) == {torch.bfloat16}

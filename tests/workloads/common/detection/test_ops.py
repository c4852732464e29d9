"""nms and roi_align against plain loops, and against torchvision's compiled ones where those
load.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from workloads.common.detection import ops
from workloads.common.detection.ops import torchvision
from workloads.common.detection.torchvision_import import DECLARED_OPERATORS

compiled = pytest.mark.skipif(
    DECLARED_OPERATORS is not None,
    reason="torchvision's compiled operators do not load beside this build of torch",
)
SHAPE = (2, 3, 11, 14)  # pictures, channels, height, width of the feature map in these tests


def boxes(count: int, extent: float, seed: int) -> Tensor:
    """Draw boxes, some of them partly outside."""
    random = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=random) * extent * 1.2 - extent * 0.1
    return torch.cat(
        [corner, corner + torch.rand(count, 2, generator=random) * extent * 0.5], dim=1
    )


def regions(count: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    picture = torch.arange(count) % SHAPE[0]
    return torch.cat([picture[:, None], boxes(count, 40.0, seed)], dim=1).to(dtype)


def overlap(one: list[float], other: list[float]) -> float:
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


def plain_nms(all_boxes: Tensor, scores: Tensor, threshold: float) -> list[int]:
    """Greedy suppression as the paper has it, one box at a time."""
    listed, kept = all_boxes.tolist(), []
    for index in sorted(range(len(listed)), key=lambda index: -float(scores[index])):
        if all(overlap(listed[index], listed[better]) <= threshold for better in kept):
            kept.append(index)
    return kept


def bilinear(feature: Tensor, y: float, x: float) -> Tensor:
    """One sampling point of a C H W map."""
    _, height, width = feature.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros_like(feature[:, 0, 0])
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    above = feature[:, top, left] * (1 - x + left) + feature[:, top, right] * (x - left)
    below = feature[:, bottom, left] * (1 - x + left) + feature[:, bottom, right] * (x - left)
    return above * (1 - y + top) + below * (y - top)


def plain_roi_align(
    features: Tensor,
    rois: Tensor,
    scale: float,
    size: tuple[int, int],
    sampling: int,
    aligned: bool,
) -> Tensor:
    """The kernel's definition, point by point; differentiable."""
    pooled = []
    for picture, *corners in rois.tolist():
        left, top, right, bottom = (corner * scale - 0.5 * aligned for corner in corners)
        lengths = (
            (bottom - top, right - left)
            if aligned
            else (max(bottom - top, 1.0), max(right - left, 1.0))
        )
        bins = [length / count for length, count in zip(lengths, size, strict=True)]
        points = [sampling if sampling > 0 else math.ceil(step) for step in bins]
        for row in range(size[0]):
            for column in range(size[1]):
                total = torch.zeros_like(features[0, :, 0, 0])
                for i in range(points[0]):
                    for j in range(points[1]):
                        y = top + (row + (i + 0.5) / points[0]) * bins[0]
                        x = left + (column + (j + 0.5) / points[1]) * bins[1]
                        total = total + bilinear(features[int(picture)], y, x)
                pooled.append(total / max(points[0] * points[1], 1))
    return torch.stack(pooled).view(len(rois), *size, -1).permute(0, 3, 1, 2)


@pytest.mark.slow
@given(
    count=st.integers(0, 60),
    seed=st.integers(0, 10**6),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
    levels=st.integers(2, 60),
)
@settings(max_examples=60, deadline=None)
def test_nms_keeps_what_the_greedy_loop_keeps(
    count: int, seed: int, threshold: float, levels: int
) -> None:
    """Equal scores included: a suppressed box must suppress nothing, however long the chain above
    it.
    """
    drawn = boxes(count, 30.0, seed).double()
    scores = torch.randint(levels, (count,), generator=torch.Generator().manual_seed(seed)) / levels
    assert ops.nms(drawn, scores, threshold).tolist() == plain_nms(drawn, scores, threshold)


def test_nms_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """More boxes than a block has: those kept early suppress those of later blocks."""
    drawn, scores = (
        boxes(200, 60.0, seed=3).double(),
        torch.rand(200, generator=torch.Generator().manual_seed(3)),
    )
    monkeypatch.setattr(ops, "NMS_BLOCK_BOXES", 16)
    assert ops.nms(drawn, scores, 0.4).tolist() == plain_nms(drawn, scores, 0.4)


def test_nms_of_a_long_chain() -> None:
    """Each box overlaps the next one only: every other stays, which takes as many rounds as there
    are boxes.
    """
    left = torch.arange(99.0)
    chain = torch.stack([left, torch.zeros(99), left + 3, torch.ones(99)], dim=1)
    assert ops.nms(chain, -left, 0.4).tolist() == list(range(0, 99, 2))


def test_boxes_of_no_area_stay() -> None:
    """0 / 0 is no overlap: comparisons with it are false, as in torchvision."""
    assert ops.nms(torch.zeros(3, 4), torch.tensor([0.1, 0.3, 0.2]), 0.5).tolist() == [1, 2, 0]


@pytest.mark.slow
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling", [1, 2, 3, -1])
def test_roi_align_and_its_gradient_follow_the_definition(sampling: int, aligned: bool) -> None:
    """Bins, borders, points outside, adaptive sampling: value and gradient in float64."""
    features = torch.randn(
        SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    rois, size = regions(9, seed=sampling), (3, 2)
    ours = ops.torchvision.ops.roi_align(features, rois, size, 0.3, sampling, aligned)
    plain = plain_roi_align(features, rois, 0.3, size, sampling, aligned)
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-11)
    weight = torch.randn(
        plain.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    gradients = [
        torch.autograd.grad((pooled * weight).sum(), features)[0] for pooled in (ours, plain)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)


def test_turned_regions_have_no_points() -> None:
    """Where pixels are aligned a region may have a negative side, as a decoded box may: nothing is
    sampled, nothing fails.
    """
    rois = torch.tensor([[0, 9.0, 9.0, 3.0, 20.0]], dtype=torch.float64)
    assert not ops.roi_align(torch.ones(SHAPE).double(), rois, 1.0, 2, 2, -1, True).any()


@pytest.mark.parametrize("sampling", [2, -1])
def test_parts_of_the_matrix_add_up(monkeypatch: pytest.MonkeyPatch, sampling: int) -> None:
    """Many regions are computed in parts; the gradient is their sum."""
    features, rois = torch.randn(SHAPE).requires_grad_(), regions(20, seed=5, dtype=torch.float32)
    found = []
    for most in (1 << 20, 64):
        monkeypatch.setattr(ops, "MAX_SPARSE_ENTRIES", most)
        pooled = torchvision.ops.roi_align(features, rois, (2, 2), 0.5, sampling)
        found += [pooled, *torch.autograd.grad(pooled.square().sum(), features)]
    torch.testing.assert_close(found[:2], found[2:])


def test_no_regions_are_no_error() -> None:
    """A picture without proposals, or a level of the pyramid that none lies on."""
    features = torch.randn(SHAPE, requires_grad=True)
    pooled = torchvision.ops.roi_align(features, torch.zeros(0, 5), (7, 7), 0.25, 2)
    assert pooled.shape == (0, 3, 7, 7)
    assert not torch.autograd.grad(pooled.sum(), features)[0].any()


def test_lower_formats_are_pooled_in_fp32() -> None:
    """bf16 has 8 bits: positions in it would be whole pixels off; the result has the format of the
    features again.

    In autocast, as models run: torchvision's compiled operators take no mixture of formats
    elsewhere.
    """
    features, rois = torch.randn(SHAPE).bfloat16(), regions(5, seed=1, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        pooled = torchvision.ops.roi_align(features, rois, (2, 2), 0.25, 2)
    torch.testing.assert_close(
        pooled, torchvision.ops.roi_align(features.float(), rois, (2, 2), 0.25, 2).bfloat16()
    )


def test_torchvision_takes_them() -> None:
    """Its functions ask whether operators are there, and roi_align otherwise compiles a Python
    version at each new shape.
    """
    drawn = boxes(30, 20.0, seed=8)
    kept = torchvision.ops.batched_nms(drawn, torch.rand(30), torch.arange(30) % 3, 0.5)
    assert 0 < len(kept) <= 30
    assert torchvision.extension._has_ops()


@pytest.mark.slow
def test_a_detection_model_trains_and_answers() -> None:
    """torchvision's own model, as it is: losses with gradients, then boxes and masks."""
    torch.manual_seed(1)
    model = torchvision.models.detection.maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=2, min_size=64, max_size=64
    )
    box = torch.tensor([[8.0, 8.0, 40.0, 40.0]])
    target = {
        "boxes": box,
        "labels": torch.tensor([1]),
        "masks": torch.ones(1, 64, 64, dtype=torch.uint8),
    }
    losses = model([torch.rand(3, 64, 64)], [target])
    sum(losses.values()).backward()
    assert all(torch.isfinite(loss) for loss in losses.values())
    assert model.roi_heads.mask_head[0][0].weight.grad.any()
    with torch.inference_mode():
        (found,) = model.eval()([torch.rand(3, 64, 64)])
    assert found["masks"].shape[1:] == (1, 64, 64)


@compiled
@pytest.mark.parametrize("sampling", [2, -1])
def test_compiled_operators_agree(sampling: int) -> None:
    """Where both exist they are one: forward, gradient and suppression."""
    features, rois = torch.randn(SHAPE).requires_grad_(), regions(30, seed=6, dtype=torch.float32)
    theirs = torchvision.ops.roi_align(features, rois, (7, 7), 0.25, sampling)
    ours = ops.roi_align(features.detach(), rois, 0.25, 7, 7, sampling, False)
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(ours)
    gradient = ops.roi_align_backward(weight, rois, 0.25, 7, 7, *SHAPE, sampling, False)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(theirs, features, weight)[0], rtol=1e-4, atol=1e-5
    )
    drawn, scores = boxes(3000, 200.0, seed=7), torch.rand(3000)
    assert ops.nms(drawn, scores, 0.5).tolist() == torchvision.ops.nms(drawn, scores, 0.5).tolist()

"""The loss, and one step with it, against arithmetic written down in double precision."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from workloads.ssd.detector.loss import compute_ssd_losses

CASES = [(6, 2), (6, 5), (40, 3), (40, 0)]


def made(boxes: int, positives: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Offsets, logits, wanted offsets and labels of one picture."""
    generator = torch.Generator().manual_seed(seed)
    offset, wanted = (
        torch.randn(1, boxes, 4, generator=generator, dtype=torch.float64) * 1.5 for _ in range(2)
    )
    logit = torch.randn(1, boxes, 4, generator=generator, dtype=torch.float64)
    label = torch.zeros(1, boxes, dtype=torch.int64)
    label[0, torch.randperm(boxes, generator=generator)[:positives]] = torch.randint(
        1, 4, (positives,), generator=generator
    )
    return offset, logit, wanted, label


def plain(offset: Any, logit: Any, wanted: Any, label: Any) -> float:
    """One picture's loss, number by number."""
    place, kinds, negatives = 0.0, 0.0, []
    for box in range(len(label)):
        entropy = math.log(sum(math.exp(value) for value in logit[box])) - logit[box][label[box]]
        if label[box]:
            kinds += entropy
            for found, right in zip(offset[box], wanted[box], strict=True):
                gap = abs(found - right)
                place += 0.5 * gap * gap if gap < 1 else gap - 0.5
        else:
            negatives.append(entropy)
    positives = sum(1 for each in label if each)
    hardest = sorted(negatives, reverse=True)[: 3 * positives]
    return (place + kinds + sum(hardest)) / positives if positives else 0.0


@pytest.mark.parametrize(("boxes", "positives"), CASES)
def test_the_loss_is_the_plain_one(boxes: int, positives: int) -> None:
    """Smooth L1 over positives, cross-entropy over them and three negatives each, divided by the
    positives.
    """
    offset, logit, wanted, label = made(boxes, positives)
    expected = plain(offset[0].tolist(), logit[0].tolist(), wanted[0].tolist(), label[0].tolist())
    assert float(compute_ssd_losses(offset, logit, wanted, label)[0]) == pytest.approx(
        expected, rel=1e-9
    )


def test_pictures_do_not_mix() -> None:
    """The negatives of one picture are chosen among its own, and a picture without objects has no
    loss.
    """
    parts = [made(20, positives, seed) for seed, positives in enumerate((1, 4, 0))]
    together = compute_ssd_losses(*(torch.cat(each) for each in zip(*parts, strict=True)))
    alone = [float(compute_ssd_losses(*part)[0]) for part in parts]
    assert together.tolist() == pytest.approx(alone)
    assert alone[2] == 0.0


@pytest.mark.parametrize(("boxes", "positives"), CASES)
def test_the_gradient_is_that_of_the_plain_loss(boxes: int, positives: int) -> None:
    """By differences in double precision: a detached term would train something else."""
    offset, logit, wanted, label = made(boxes, positives, seed=3)
    offset.requires_grad_(True)
    logit.requires_grad_(True)
    compute_ssd_losses(offset, logit, wanted, label).sum().backward()  # type: ignore[no-untyped-call]
    rng = np.random.default_rng(0)
    for tensor in (offset, logit):
        assert tensor.grad is not None
        for _ in range(12):
            box, number = int(rng.integers(boxes)), int(rng.integers(4))
            values = []
            for shift in (1e-6, -1e-6):
                moved = {id(each): each.detach().clone() for each in (offset, logit)}
                moved[id(tensor)][0, box, number] += shift
                values.append(
                    plain(
                        moved[id(offset)][0].tolist(),
                        moved[id(logit)][0].tolist(),
                        wanted[0].tolist(),
                        label[0].tolist(),
                    )
                )
            assert float(tensor.grad[0, box, number]) == pytest.approx(
                (values[0] - values[1]) / 2e-6, abs=1e-6
            )


def test_two_steps_are_those_of_momentum_written_down() -> None:
    """v = 0.9 v + (gradient + decay w); w = w - rate v, on a linear layer under the loss."""
    _, _, wanted, label = made(12, 3)
    generator = torch.Generator().manual_seed(5)
    feature = torch.randn(1, 12, 6, generator=generator, dtype=torch.float64)
    layer = torch.nn.Linear(6, 8, bias=False, dtype=torch.float64)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    weight, speed = layer.weight.detach().clone(), torch.zeros(8, 6, dtype=torch.float64)
    for _ in range(2):
        leaf = weight.clone().requires_grad_(True)
        out = feature @ leaf.T
        (gradient,) = torch.autograd.grad(
            compute_ssd_losses(out[..., :4], out[..., 4:], wanted, label).sum(), leaf
        )
        speed = 0.9 * speed + gradient + 5e-4 * weight
        weight = weight - 0.05 * speed
        optimizer.zero_grad()
        out = layer(feature)
        compute_ssd_losses(out[..., :4], out[..., 4:], wanted, label).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert torch.allclose(layer.weight.detach(), weight, rtol=1e-9, atol=1e-12)

"""Two gloo processes against one that accumulates over the same splits."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import Around, Trained, TwoRanks, a_run, check_ranks, shallow, trained

from suite.workload import Run

pytestmark = pytest.mark.slow

Alone = Callable[..., Trained]
USUAL = {"global_batch_size": 12, "model_bn_span": 6, "model__zero_init": True, "opt_name": "sgd"}


@pytest.fixture(scope="module")
def alone(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """One process, which exchanges no gradients: whatever their format and buckets are, it comes to
    the same.
    """

    @cache
    def train(around: Around, **asked: Any) -> Trained:
        folder = tmp_path_factory.mktemp("alone")
        return trained(
            "resnet50",
            a_run("resnet50", tiny, folder / "cache", {"data.workers": 0}, **asked),
            folder,
            around,
        )

    return train


@pytest.mark.parametrize(
    ("optimizer", "batch", "span", "tolerance", "around"),
    [
        ("lars", 12, 6, 0.0, shallow),
        ("sgd", 12, 6, 0.0, nullcontext),
        ("sgd", 16, 4, 1e-4, shallow),
    ],
)
def test_two_ranks_are_one_that_accumulates(
    make_run: Callable[..., Run],
    in_two_ranks: TwoRanks,
    alone: Alone,
    tmp_path: Path,
    optimizer: str,
    batch: int,
    span: int,
    tolerance: float,
    around: Around,
) -> None:
    """Same parameters and global batches, statistics averaged, scores agreed on; once of ResNet-50
    itself.

    With one micro-batch on each rank the sums have one order only, and the parameters are equal to
    the last bit; with two, and an uneven last batch, they differ by rounding, which LARS scales up
    where a gradient is nearly nothing.
    """
    asked = {**USUAL, "global_batch_size": batch, "model_bn_span": span, "opt_name": optimizer}
    first, second = in_two_ranks("resnet50", make_run(**asked), tmp_path, around)
    check_ranks(first, second, alone(around, **asked), tolerance)
    assert sum(first.samples) == 24 + 24 - batch
    for name, buffer in first.buffers.items():
        assert torch.equal(first.averaged[name], second.averaged[name])
        if buffer.is_floating_point():
            assert torch.allclose(
                first.averaged[name], (buffer + second.buffers[name]) / 2, rtol=1e-5, atol=1e-7
            ), name


def test_small_buckets_change_nothing_but_the_order_of_sums(
    make_run: Callable[..., Run], in_two_ranks: TwoRanks, alone: Alone, tmp_path: Path
) -> None:
    """Gradients go out in parts of 1 MiB."""
    run = make_run(**USUAL, train__bucket_mib=1)
    first, second = in_two_ranks("resnet50", run, tmp_path, shallow)
    check_ranks(first, second, alone(shallow, **USUAL), 1e-4)


def test_gradients_in_half_precision_are_the_same_on_both_ranks(
    make_run: Callable[..., Run], in_two_ranks: TwoRanks, alone: Alone, tmp_path: Path
) -> None:
    """Rounded to 11 bits on the way: near to what one rank comes to, and not equal."""
    run = make_run(**USUAL, train__gradient_format="fp16")
    first, second = in_two_ranks("resnet50", run, tmp_path)
    check_ranks(first, second, alone(nullcontext, **USUAL), 0.05)
    assert any(
        not torch.equal(found, alone(nullcontext, **USUAL).parameters[name])
        for name, found in first.parameters.items()
    )

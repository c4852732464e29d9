"""Two gloo processes against one that has the whole batch."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from testbed import TwoRanks, check_ranks, trained

from suite.workload import Run


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{}, {"data__micro_tokens": 60}], ids=["whole", "micro"])
def test_two_ranks_are_one_with_the_doubled_batch(
    make_run: Callable[..., Run], in_two_ranks: TwoRanks, tmp_path: Path, limit: Mapping[str, int]
) -> None:
    """Losses and weights of two epochs, but for rounding, since a rank pads to its own longest
    sentence; the same score on both, also where a rank takes its share in micro-batches.
    """
    run = make_run(opt_adam_epsilon=1e-6, **limit)
    first, second = in_two_ranks("transformer", run, tmp_path)
    check_ranks(first, second, trained("transformer", run, tmp_path), 1e-4)
    assert len(first.samples) > 4

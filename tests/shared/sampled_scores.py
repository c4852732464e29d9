"""What holds for the samplers of all workloads' scores."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.workload import Scores


def check_whole_score(
    score: Callable[[Mapping[int, bytes], Path], Scores],
    sample_scores: Callable[[Mapping[int, bytes], Path], Any],
    answers: Mapping[int, bytes],
    truth: Path,
) -> None:
    """Drawing each sample once, in any order, gives the score."""
    sampler, scores = sample_scores(answers, truth), score(answers, truth)
    order_S = np.arange(sampler.sample_count)
    drawn = sampler.score_draws(np.stack([order_S, order_S[::-1]]))
    assert drawn.keys() <= scores.keys() and drawn
    for metric, value_2 in drawn.items():
        assert value_2.tolist() == pytest.approx([scores[metric]] * 2)
    assert sampler.right.keys() <= drawn.keys()

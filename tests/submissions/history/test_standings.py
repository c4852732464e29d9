"""What several changes of one series mean together."""

import pytest

from submissions.history.verdicts import Standing, choose_standings

BOUND = 0.05


@pytest.mark.parametrize(
    ("losses", "standings"),
    [
        ([0.1], ["regressed"]),
        ([0.02], ["below the bound"]),
        ([-0.1], ["faster"]),
        ([0.03, 0.03], ["regressed", "below the bound"]),
        ([0.1, -0.1], ["recovered", "faster"]),
        ([0.1, -0.02], ["regressed", "faster"]),
        ([0.03, 0.1], ["below the bound", "regressed"]),
        ([0.1, -0.1, 0.1], ["recovered", "faster", "regressed"]),
        ([0.1, 0.1, -0.1], ["regressed", "recovered", "faster"]),
        ([-0.2, 0.1], ["faster", "regressed"]),
        ([0.03, 0.03, -0.06], ["below the bound", "below the bound", "faster"]),
    ],
)
def test_a_large_loss_is_not_told_of_earlier_small_or_mended_ones(
    losses: list[float], standings: list[str]
) -> None:
    assert choose_standings(losses, BOUND) == [Standing(each) for each in standings]

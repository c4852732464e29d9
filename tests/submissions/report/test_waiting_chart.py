"""The share of time that training waited for data, in a report: a chart where it is worth one."""

import pytest

from compliance.results.training_runs import DrawnTrainingRun
from submissions.report.sections.training import build_epoch_stats_charts
from suite.measurement.data_waiting import WAITED_FOR_DATA


def build_run(*shares: float) -> DrawnTrainingRun:
    """A run whose epochs waited for so large a part of their time."""
    points = tuple((float(epoch), share) for epoch, share in enumerate(shares, start=1))
    return DrawnTrainingRun(
        log="result_0.txt",
        minutes=1.0,
        evaluations=(),
        progress=None,
        final={},
        reached=True,
        seed=1,
        epoch_values={WAITED_FOR_DATA: points},
    )


@pytest.mark.parametrize(
    ("shares", "drawn"), [((0.01, 0.84), True), ((0.01, 0.04), False), ((), False)]
)
def test_waiting_gets_a_chart_where_steps_waited(shares: tuple[float, ...], drawn: bool) -> None:
    charts = list(build_epoch_stats_charts([build_run(*shares)], "here"))
    assert len(charts) == drawn
    assert all("0.01 in the first, 0.84 in the last" in each.description for each in charts)

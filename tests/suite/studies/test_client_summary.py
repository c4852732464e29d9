"""The statistics of the Endpoints client, computed from values: those that the judge recomputes."""

import pytest

from suite.studies.client_summary import describe_series


def test_percentiles_are_at_the_lower_rank_and_buckets_hold_all_values() -> None:
    values = [*range(100, 0, -1)]
    found = describe_series(values)
    assert (found["min"], found["max"], found["total"], found["avg"]) == (1, 100, 5050, 50.5)
    assert found["percentiles"]["90.0"] == 90.0 and found["median"] == 50.0
    assert found["std_dev"] == pytest.approx(29.011, abs=1e-3)
    histogram = found["histogram"]
    assert len(histogram["buckets"]) == 30 and sum(histogram["counts"]) == 100
    assert histogram["buckets"][0][0] == 1 and histogram["buckets"][-1][1] == 100


def test_early_stopping_proves_what_enough_values_prove() -> None:
    proven = describe_series([*range(1, 71)])["early_stopping_percentiles"]
    assert proven["90.0"] == 70.0 and proven["99.0"] is None and 35.0 < proven["50.0"] < 70.0
    assert "25.0" not in proven
    assert "early_stopping_percentiles" not in describe_series([1, 2], is_proven=False)


@pytest.mark.parametrize("values", [[7], [0, 0], [0, 3]])
def test_few_and_zero_values_have_statistics(values: list[int]) -> None:
    found = describe_series(values)
    assert sum(found["histogram"]["counts"]) == len(values)
    assert found["std_dev"] == pytest.approx(0 if len(set(values)) == 1 else 2.1213, abs=1e-3)

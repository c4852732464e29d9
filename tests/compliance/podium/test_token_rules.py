"""Rules about latencies where LoadGen measures tokens: what its figures are then about."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from examples import result_of
from kinds.tokens import insert_facts, server, single_stream
from making import LOADS
from spoiling import set_value, value_in

from compliance.documents.podium.inference import LoadGenRun
from compliance.rules.podium.inference.loadgen_latencies import count_fewest_over
from suite.files.layout import DETAIL_LOG
from suite.loadgen import early_stopping
from suite.loadgen.headline import FIRST_TOKEN_KEY, REQUESTED_TOKENS_KEY
from suite.loadgen.scenario import Scenario


def write_measuring(folder: Path, build: Callable[[Path], None], measures: bool) -> Path:
    """A run that measures tokens, or does not say so; its detail log."""
    build(folder)
    path = next(folder.rglob(DETAIL_LOG))
    if measures:
        insert_facts(path, "requested_server_ttft_latency", {REQUESTED_TOKENS_KEY: True})
    return path


def list_found(folder: Path, rule: str) -> list[str]:
    return [finding.found for finding in result_of(folder).findings if finding.rule == rule]


@pytest.mark.parametrize("measures", [True, False])
def test_the_estimate_of_single_stream_is_that_of_first_tokens(
    tmp_path: Path, measures: bool
) -> None:
    """LoadGen takes early stopping's estimate from them, under the key of latencies."""
    path = write_measuring(tmp_path, single_stream, measures)
    load = LOADS[Scenario.SINGLE_STREAM]
    rank = early_stopping.estimate_early_stopping(load.queries, load.row.percentile).rank_from_top
    of_queries = load.latencies[-(rank or 1)]
    for estimate, of_tokens in ((of_queries, False), (of_queries // 2, True)):
        set_value(path, "early_stopping_latency_ss", estimate)
        found = list_found(tmp_path, "loadgen.early_stopping")
        assert bool(found) == (of_tokens != measures)


@pytest.mark.parametrize("measures", [True, False])
def test_an_answer_with_many_tokens_may_end_after_the_last_query(
    tmp_path: Path, measures: bool
) -> None:
    """Server's rate ends with the last query; the run goes on for at most the longest latency."""
    path = write_measuring(tmp_path, server, measures)
    end = value_in(path, "power_end")
    whole, thousandths = end.rsplit(".", 1)
    assert int(thousandths) < 800, "or the seconds have to change, too"
    set_value(path, "power_end", f"{whole}.{int(thousandths) + 150:03}")
    set_value(path, "result_max_latency_ns", 200_000_000)
    late = [each for each in list_found(tmp_path, "loadgen.span") if "imply" in each]
    assert bool(late) != measures
    set_value(path, "result_max_latency_ns", 50_000_000)
    assert list_found(tmp_path, "loadgen.span")


@pytest.mark.parametrize(
    ("values", "over"),
    [({50.0: 10, 99.0: 90}, 0), ({50.0: 10, 99.0: 101}, 10), ({50.0: 101, 99.0: 200}, 500)],
)
def test_percentiles_tell_how_many_are_late_at_least(values: dict[float, int], over: int) -> None:
    logged = {FIRST_TOKEN_KEY.format(share): value for share, value in values.items()}
    run: Any = SimpleNamespace(find_number=logged.get)
    assert count_fewest_over(cast(LoadGenRun, run), 1000, FIRST_TOKEN_KEY, 100) == over

"""Rules about latencies where LoadGen measures tokens: what its figures are then about."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy
import pytest
from examples import result_of
from kinds.network import PROMPTS
from kinds.tokens import (
    Table,
    edit_table,
    insert_facts,
    padded_entry,
    server,
    single_stream,
)
from making import LOADS
from spoiling import first_answer, put, set_value, value_in

from compliance.documents.podium.inference import LoadGenRun
from compliance.rules.podium.inference.loadgen_latencies import count_fewest_over
from compliance.rules.podium.inference.tokens import COMPARED_PERCENTILES
from compliance.verdict import Severity
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, RUN_RECORD, TOKEN_RECORD_FILE
from suite.loadgen import early_stopping
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY, REQUESTED_TOKENS_KEY
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow, TokenBounds


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


def find_performance_log(folder: Path) -> Path:
    """The detail log of the performance run."""
    return next(folder.rglob(TOKEN_RECORD_FILE)).with_name(DETAIL_LOG)


def type_in(form: str, share: float) -> Callable[[Path], None]:
    """Multiply a latency of tokens in the detail log, at all percentiles that are compared."""

    def edit(folder: Path) -> None:
        path = find_performance_log(folder)
        for percentile in COMPARED_PERCENTILES:
            key = form.format(percentile)
            set_value(path, key, int(share * value_in(path, key)))

    return edit


def multiply_tokens(times: int) -> Callable[[Path], None]:
    """Multiply all token counts in tokens.npy, and LoadGen's rate of tokens with them."""

    def edit(folder: Path) -> None:
        path = next(folder.rglob(TOKEN_RECORD_FILE))
        table = numpy.load(path)
        table[:, 3] *= times
        numpy.save(path, table)
        log, key = find_performance_log(folder), "result_completed_tokens_per_second"
        set_value(log, key, times * value_in(log, key))

    return edit


def inflate_rate(folder: Path) -> None:
    """Double LoadGen's rate of tokens alone."""
    log, key = find_performance_log(folder), "result_completed_tokens_per_second"
    set_value(log, key, 2 * value_in(log, key))


@pytest.mark.parametrize(
    ("edit", "rule", "severity"),
    [
        (type_in(FIRST_TOKEN_KEY, 0.5), "tokens.times", Severity.ERROR),
        (type_in(OUTPUT_TOKEN_KEY, 0.5), "tokens.times", Severity.ERROR),
        (type_in(FIRST_TOKEN_KEY, 2.0), "tokens.times", Severity.WARNING),
        (inflate_rate, "tokens.count", Severity.ERROR),
        (multiply_tokens(2), "tokens.total", Severity.ERROR),
    ],
)
def test_edited_tokens_are_found(
    tmp_path: Path, edit: Callable[[Path], None], rule: str, severity: Severity
) -> None:
    """TTFT and TPOT typed in, tokens inflated in one place or in all of them."""
    equal_entry(tmp_path)
    assert list_severities(tmp_path, rule) == set()
    edit(tmp_path)
    assert list_severities(tmp_path, rule) == {severity}


def equal_entry(folder: Path) -> None:
    """An accuracy run and a performance run whose answers have one token each, but for the first
    and last tokens' times, which need two.
    """
    padded_entry(folder)
    path = next(folder.rglob(TOKEN_RECORD_FILE))
    accuracy = next(folder.rglob("accuracy")) / ACCURACY_LOG
    text = accuracy.read_text()
    counts = dict(numpy.load(path)[:, [0, 3]].tolist())
    accuracy.write_text(
        re.sub(
            r'("qsl_idx" : (\d+), "data" : ")([0-9A-F]{8})',
            lambda found: found[1] + counts.get(int(found[2]), 1) * found[3],
            text,
        )
    )


def list_severities(folder: Path, rule: str) -> set[Severity]:
    """The severities of a rule's findings."""
    return {finding.severity for finding in result_of(folder).findings if finding.rule == rule}


def test_servers_first_tokens_are_those_that_loadgen_measured(tmp_path: Path) -> None:
    """All tokens of all answers 50 ms earlier: the times per token stay as they are."""
    server(tmp_path)
    assert list_found(tmp_path, "tokens.times") == []
    edit_table(shift_tokens)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    found = list_found(tmp_path, "tokens.times")
    assert found and all("first_token" in each for each in found)


def shift_tokens(table: Table) -> Table:
    table[:, 1:3] -= 50_000_000
    return table


def write_prompted(folder: Path, **fields: Any) -> None:
    """A Server run whose tokens came over an OpenAI-compatible API."""
    server(folder)
    total = int(numpy.load(next(folder.rglob(TOKEN_RECORD_FILE)))[:, 3].sum())
    told = {"tokens_logged": total, "tokens_recounted": total, "answers_differing": 0}
    network = {**PROMPTS, **told, "streamed": True, **fields}
    put(network=network)(next(folder.rglob(RUN_RECORD)))


def unseen(table: Table) -> Table:
    table[:, 1] = 0
    return table


def count_twice(table: Table) -> Table:
    table[:, 3] *= 2
    return table


def test_tokens_of_prompts_agree_with_their_record(tmp_path: Path) -> None:
    write_prompted(tmp_path)
    assert list_found(tmp_path, "network.tokens") == list_found(tmp_path, "network.prompts") == []
    edit_table(count_twice)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    (found,) = list_found(tmp_path, "network.tokens")
    assert found.endswith(" tokens")


@pytest.mark.parametrize("streamed", [True, False])
def test_first_tokens_were_seen_only_of_streams(tmp_path: Path, streamed: bool) -> None:
    write_prompted(tmp_path, streamed=streamed)
    assert bool(list_found(tmp_path, "network.tokens")) is not streamed
    assert bool(list_found(tmp_path, "network.prompts")) is not streamed
    edit_table(unseen)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    assert bool(list_found(tmp_path, "network.tokens")) is streamed


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"api": "rest"}, "api 'rest'"),
        ({"targets": []}, "targets none"),
        ({"targets": ["https://h2:8001/v1/chat/completions"]}, "targets https://h2:8001"),
        ({"tokenizer": "3D" * 32}, "tokenizer '3D"),
        ({"connections": 0}, "0 connections for 64 requests"),
        ({"connections": 65}, "65 connections for 64 requests"),
    ],
)
def test_the_record_says_how_prompts_were_asked(
    tmp_path: Path, fields: dict[str, Any], found: str
) -> None:
    write_prompted(tmp_path, **fields)
    (only,) = list_found(tmp_path, "network.prompts")
    assert only.startswith(found)


@pytest.mark.parametrize(("differing", "faults"), [(0, 1), (1, 0)])
def test_servers_may_count_an_end_token_that_is_not_there(
    tmp_path: Path, differing: int, faults: int
) -> None:
    """One token of one answer, if run.json says so."""
    write_prompted(tmp_path, answers_differing=differing)
    log = next(tmp_path.rglob(ACCURACY_LOG))
    first_answer(lambda line: line.replace(" }", ', "token_count" : 2 }'))(log)
    wrong = [each for each in list_found(tmp_path, "tokens.logged") if "other tokens" in each]
    assert len(wrong) == faults


@pytest.mark.parametrize(
    ("values", "over"),
    [({50.0: 10, 99.0: 90}, 0), ({50.0: 10, 99.0: 101}, 10), ({50.0: 101, 99.0: 200}, 500)],
)
def test_percentiles_tell_how_many_are_late_at_least(values: dict[float, int], over: int) -> None:
    logged = {FIRST_TOKEN_KEY.format(share): value for share, value in values.items()}
    run: Any = SimpleNamespace(find_number=logged.get)
    assert count_fewest_over(cast(LoadGenRun, run), 1000, FIRST_TOKEN_KEY, 100) == over


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"tokens.bounds": "interactive"}, (5, 3)),
        ({"tokens.bounds": "server"}, (20, 10)),
        ({"tokens.bounds": 7}, (20, 10)),
        ({}, (20, 10)),
    ],
)
def test_a_run_is_held_to_the_bounds_that_its_record_asks_for(
    settings: dict[str, Any], bounds: tuple[int, int]
) -> None:
    """LoadGen's log must then request these: tokens.settings compares them."""
    row = ScenarioRow(
        percentile=99.0,
        token_latencies=True,
        first_token_ns=20,
        per_token_ns=10,
        interactive=TokenBounds(first_token_ns=5, per_token_ns=3),
        min_duration_ms=1,
        min_queries=1,
    )
    run = SimpleNamespace(
        inference=SimpleNamespace(scenarios={Scenario.SERVER: row}),
        scenario=Scenario.SERVER,
        record=SimpleNamespace(settings=settings),
        audited_by=None,
    )
    rule = cast(Any, LoadGenRun.rule).fget(run)
    assert (rule.first_token_ns, rule.per_token_ns) == bounds

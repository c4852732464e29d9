"""The published inference rounds are data: every number is there, and beside its source."""

import math

import pytest

from compliance.kinds.inference_text.round import (
    InferenceTextRound,
    build_inference_text_round,
    load_inference_text_round,
)
from suite import registry
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.rounds.rows import merge_round_rows

V05, V07 = "inference-v0.5", "inference-v0.7"
ROUNDS = (V05, V07)
ROUNDS_PACKAGE = "compliance.kinds.inference_text.rounds"
MS = 1_000_000


@pytest.fixture(params=ROUNDS)
def round(request: pytest.FixtureRequest) -> InferenceTextRound:
    return load_inference_text_round(request.param)


def numbers(table: object, path: str = "") -> list[str]:
    """Name every number in a tree of tables."""
    if isinstance(table, dict):
        return [
            found
            for key, value in table.items()
            for found in numbers(value, f"{path}.{key}".lstrip("."))
        ]
    if isinstance(table, tuple):
        return [found for value in table for found in numbers(value, path)]
    return [path] if isinstance(table, int | float) and not isinstance(table, bool) else []


@pytest.mark.parametrize("name", ROUNDS)
def test_every_number_has_a_source(name: str) -> None:
    """A number without a source is one that nobody can check."""
    tables, _ = merge_round_rows(name, registry.collect_round_texts(name), ROUNDS_PACKAGE)
    round = load_inference_text_round(name)
    unsourced = [
        path
        for path in numbers(tables)
        if path.count(".") and round.find_source(path) == f"round {name}"
    ]
    assert unsourced == []


@pytest.mark.parametrize(
    (
        "benchmark",
        "threshold",
        "samples",
        "loaded",
        "server_ms",
        "multi_ms",
        "percentile",
        "queries",
    ),
    [
        ("resnet", 76.46 * 0.99, (50_000,), 1024, 15, 50, 99, 270_336),
        ("mobilenet", 71.68 * 0.98, (50_000,), 1024, 10, 50, 99, 270_336),
        ("ssd-small", 22.0 * 0.99, (5_000, 4_952), 256, 10, 50, 99, 270_336),
        ("ssd-large", 20.0 * 0.99, (5_000, 4_952), 64, 100, 66, 99, 270_336),
        ("gnmt", 23.9 * 0.99, (3_003,), 3_903_900, 250, 100, 97, 90_112),
    ],
)
def test_the_bounds_of_v05(
    benchmark: str,
    threshold: float,
    samples: tuple[int, ...],
    loaded: int,
    server_ms: int,
    multi_ms: int,
    percentile: int,
    queries: int,
) -> None:
    """The rules' own table, typed a second time."""
    row = load_inference_text_round(V05).benchmarks[benchmark]
    assert math.isclose(row.threshold, threshold)
    assert (row.accuracy_samples, row.performance_samples) == (samples, loaded)
    server, multi = row.scenarios[Scenario.SERVER], row.scenarios[Scenario.MULTI_STREAM]
    assert (server.bound_ns, server.percentile, server.min_queries, server.runs) == (
        server_ms * MS,
        percentile,
        queries,
        5,
    )
    assert (multi.bound_ns, multi.percentile, multi.min_queries, multi.runs) == (
        multi_ms * MS,
        percentile,
        queries,
        1,
    )
    assert row.scenarios[Scenario.SINGLE_STREAM].min_queries == 1024


def test_minimums_are_those_of_both_rounds(round: InferenceTextRound) -> None:
    assert (round.minimums.min_duration_ms, round.minimums.offline_samples) == (60_000, 24_576)


def test_seeds_differ_between_the_rounds() -> None:
    """Seeds that are the same were copied from the wrong round."""
    first, second = (load_inference_text_round(name).loadgen for name in ROUNDS)
    assert first.qsl_rng_seed == 3133965575612453542
    assert {first.qsl_rng_seed, first.sample_index_rng_seed, first.schedule_rng_seed}.isdisjoint(
        {second.qsl_rng_seed, second.sample_index_rng_seed, second.schedule_rng_seed}
    )


def test_revisions_are_commits_and_hashes() -> None:
    """A typing error in a hash would call every accepted result broken."""
    for sha1, revisions in load_inference_text_round(V05).loadgen.revisions.items():
        assert len(sha1) == 40
        assert int(sha1, 16)
        assert revisions
        assert all(len(revision) == 10 and int(revision, 16) for revision in revisions)


@pytest.mark.parametrize(
    ("name", "folder", "division", "benchmark"),
    [
        (V05, "resnet", "closed", "resnet"),
        (V05, "ResNet", "closed", "resnet"),
        (V05, "resnet50", "closed", None),
        (V05, "resnet50", "open", "resnet"),
        (V05, "mobilenet-v1-0.25-128", "open", "mobilenet"),
        (V05, "ssd-resnet34", "open", "ssd-large"),
        (V05, "yolo-v3", "open", "ssd-small"),
        (V05, "bert-99", "open", None),
        (V07, "bert-99.9", "closed", "bert-99.9"),
        (V07, "mobilenet", "open", "resnet"),
        (V07, "gnmt", None, None),
    ],
)
def test_a_folder_is_filed_under_a_benchmark(
    name: str, folder: str, division: str | None, benchmark: str | None
) -> None:
    """The open division has models of any name; a closed one that is misspelt is no benchmark."""
    assert load_inference_text_round(name).find_benchmark(folder, division) == benchmark


def test_a_benchmark_that_has_no_such_scenario_has_no_rule() -> None:
    round = load_inference_text_round(V07)
    assert round.find_scenario_rules("3d-unet-99", Scenario.SERVER) is None
    assert round.find_scenario_rules("resnet", Scenario.SERVER) is not None


def test_what_is_not_known_is_held_to_the_least(round: InferenceTextRound) -> None:
    """A run outside a tree tells no benchmark: no rule may be stricter than that of the least
    demanding one.
    """
    for scenario, rule in round.scenarios.items():
        rows = [
            row.scenarios[scenario]
            for row in round.benchmarks.values()
            if scenario in row.scenarios
        ]
        assert rule.min_queries <= min(row.min_queries for row in rows)
        assert rule.percentile <= min(row.percentile for row in rows)


def test_required_scenarios_are_scenarios_of_the_benchmark() -> None:
    for row in load_inference_text_round(V07).benchmarks.values():
        for scenarios in row.required.values():
            assert set(scenarios) <= row.scenarios.keys()


def test_a_table_that_does_not_fit_names_its_place() -> None:
    texts = registry.collect_round_texts(V05)
    tables, sources = merge_round_rows(V05, texts, ROUNDS_PACKAGE)
    with pytest.raises(RequestError, match="minimums: 'min_duration'"):
        build_inference_text_round(V05, {**tables, "minimums": {"min_duration": 60_000}}, sources)

"""A finished LoadGen run in words and records: verdict, metric, rate, advice, and what was asked of
it.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from podium_fakes import served as fakes
from podium_fakes.drive import options
from podium_fakes.fake import SAMPLES, label
from podium_fakes.kept import keep_checkpoint, run_record

from harness.serving import run_record as served
from harness.serving.loadgen.session import LoadGenOutcome
from harness.serving.loadgen.test_settings import LoadGenSchedule
from harness.serving.run_record import (
    LoadGenVerdict,
    build_repeat_settings,
    collect_advice_facts,
    format_run_verdict,
    format_target_key,
    judge_performance_run,
    score_accuracy_run,
    write_run_record,
)
from harness.serving.setup import ServingSetup, set_up_serving
from submissions.report.sections.serving import describe_record_batches
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_LOG, compute_file_sha256
from suite.loadgen.detail_log import DetailLog
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

SCHEMAS = Path(__file__).parents[3] / "compliance" / "schemas"
MET = {"result_min_duration_met": True, "result_min_queries_met": True, "early_stopping_met": True}
LATENCIES = {
    "result_mean_latency_ns": 40_000,
    "result_50.00_percentile_latency_ns": 38_000,
    "result_mean_query_latency_ns": 90_000,
    "result_50.00_percentile_per_query_latency_ns": 85_000,
    "result_query_count": 700,
}
FIGURES: Mapping[Scenario, Mapping[str, Any]] = {
    Scenario.SINGLE_STREAM: {"early_stopping_latency_ss": 50_000},
    Scenario.MULTI_STREAM: {"early_stopping_latency_ms": 80_000},
    Scenario.SERVER: {
        "result_completed_samples_per_sec": 900.0,
        "result_overlatency_query_count": 0,
        "result_perf_constraints_met": True,
        "effective_target_latency_percentile": 0.99,
        "result_99.00_percentile_latency_ns": 70_000,
    },
    Scenario.OFFLINE: {"result_samples_per_second": 1200.0},
}


def facts(scenario: Scenario, **changes: Any) -> DetailLog:
    """What a good run's detail log says, with changes."""
    return DetailLog(
        values={"result_validity": "VALID"} | MET | LATENCIES | dict(FIGURES[scenario]) | changes
    )


@pytest.fixture
def bench(tmp_path: Path) -> ServingSetup:
    keep_checkpoint(tmp_path)
    return set_up_serving("fake", options(tmp_path), None)


def planned(
    bench: ServingSetup, scenario: Scenario, mode: Mode = Mode.PERFORMANCE, **settings: Any
) -> LoadGenSchedule:
    """Plan a run of the fake's own row."""
    return fakes.schedule(scenario, mode, bench.require_scenario_rules(scenario), **settings)


@pytest.mark.parametrize(
    ("scenario", "metric", "value", "rate"),
    [
        (Scenario.SINGLE_STREAM, "latency_ns", 50_000.0, 20_000.0),
        (Scenario.MULTI_STREAM, "latency_ns", 80_000.0, 100_000.0),
        (Scenario.SERVER, "completed_samples_per_second", 900.0, 900.0),
        (Scenario.OFFLINE, "samples_per_second", 1200.0, 1200.0),
    ],
)
def test_each_scenario_has_its_metric_and_a_rate(
    bench: ServingSetup, scenario: Scenario, metric: str, value: float, rate: float
):
    """The rate, in samples, is what is held against the harness ceiling: eight samples to a
    MultiStream query.
    """
    found = judge_performance_run(bench, planned(bench, scenario), facts(scenario))
    assert found == LoadGenVerdict(valid=True, metric=metric, value=value, rate=rate, hints=())


@pytest.mark.parametrize(
    ("scenario", "metric", "value", "rate"),
    [
        (Scenario.SERVER, "completed_tokens_per_second", 7200.0, 7200.0),
        (Scenario.OFFLINE, "tokens_per_second", 9600.0, 9600.0),
        (Scenario.SINGLE_STREAM, "latency_ns", 500_000.0, 2000.0),
    ],
)
def test_measured_tokens_are_the_metric(
    bench: ServingSetup, scenario: Scenario, metric: str, value: float, rate: float
):
    """Samples stand beside it; SingleStream's early-stopping estimate is that of first tokens, so
    its measured latency counts.
    """
    tokens = {
        "requested_use_token_latencies": True,
        "result_tokens_per_second": 9600.0,
        "result_completed_tokens_per_second": 7200.0,
        "result_90.00_percentile_latency_ns": 500_000.0,
        "result_first_token_90.00_percentile_latency_ns": 2_000_000.0,
        "result_time_per_output_token_90.00_percentile_ns": 300_000.0,
    }
    schedule = planned(bench, scenario)
    found = judge_performance_run(bench, schedule, facts(scenario, **tokens))
    assert (found.metric, found.value, found.rate) == (metric, value, rate)
    assert found.tokens is not None
    shown = format_run_verdict(replace(schedule, percentile=90.0), found, None)
    assert "TTFT p90 2.00 ms, TPOT p90 0.30 ms" in shown
    assert ("7,200.0 tokens/s, 900.0 samples/s" in shown) == (scenario is Scenario.SERVER)


@pytest.mark.parametrize("scenario", list(Scenario))
def test_a_log_without_its_result_is_no_result(bench: ServingSetup, scenario: Scenario):
    """Another LoadGen may name it otherwise: better no record than a wrong one."""
    values = {
        key: value for key, value in facts(scenario).values.items() if key not in FIGURES[scenario]
    }
    with pytest.raises(JudgedError, match="has no numeric"):
        judge_performance_run(bench, planned(bench, scenario), DetailLog(values=values))


@pytest.mark.parametrize(
    ("scenario", "changes", "knob"),
    [
        (
            Scenario.SERVER,
            {
                "result_perf_constraints_met": False,
                "result_overlatency_query_count": 90,
                "result_mean_latency_ns": 40_000_000,
            },
            "server.target_qps",
        ),
        (Scenario.SERVER, {"result_min_duration_met": False}, "server.target_qps"),
        (
            Scenario.SINGLE_STREAM,
            {"result_min_duration_met": False},
            "single_stream.expected_latency_us",
        ),
        (Scenario.SINGLE_STREAM, {"early_stopping_met": False}, "loadgen.min_queries"),
        (
            Scenario.MULTI_STREAM,
            {"result_min_duration_met": False},
            "multi_stream.expected_latency_us",
        ),
        (Scenario.OFFLINE, {"result_min_duration_met": False}, "offline.expected_qps"),
    ],
)
def test_an_invalid_run_names_the_knob(
    bench: ServingSetup, scenario: Scenario, changes: dict[str, Any], knob: str
):
    """Which rule was missed decides what to turn."""
    found = judge_performance_run(
        bench, planned(bench, scenario), facts(scenario, result_validity="INVALID", **changes)
    )
    assert (
        not found.valid
        and found.hints[0].knob == knob
        and found.hints[0].value
        and f"--set {knob}=" in found.hints[0].sentence
    )


def test_an_error_voids_what_loadgen_calls_valid(bench: ServingSetup):
    """LoadGen's verdict looks at the figures alone; the judge takes no run with such an error. The
    machine's clock is better next time.
    """
    clocks = "PerfClock and system_clock differ by more than 1%!  pc_sc_ratio: 1.02381"
    found = judge_performance_run(
        bench, planned(bench, Scenario.OFFLINE), replace(facts(Scenario.OFFLINE), errors=(clocks,))
    )
    assert (found.valid, found.errors, found.hints, found.is_repeatable) == (
        False,
        (clocks,),
        (),
        True,
    )
    assert (
        not replace(found, errors=(clocks, "Attempted to complete a sample twice.")).is_repeatable
        and not replace(found, errors=()).is_repeatable
    )


def test_a_run_that_was_too_short_is_held_against_what_was_asked_for(bench: ServingSetup):
    """A user who asks for 20 s has not met them with the row's own 0.1 s."""
    plan = planned(bench, Scenario.SINGLE_STREAM, **{"loadgen.min_duration_ms": 20_000})
    found = judge_performance_run(
        bench,
        plan,
        facts(Scenario.SINGLE_STREAM, result_validity="INVALID", result_min_duration_met=False),
    )
    assert "of at least 20 s" in found.hints[0].found


def test_loadgens_word_counts_not_ours(bench: ServingSetup):
    """Whatever the figures look like: a run is valid when LoadGen says so, letter by letter."""
    for word in ("INVALID", "Valid", None):
        assert not judge_performance_run(
            bench, planned(bench, Scenario.OFFLINE), facts(Scenario.OFFLINE, result_validity=word)
        ).valid


@pytest.mark.parametrize(
    ("share", "key"),
    [(0.9, "result_90.00_percentile_latency_ns"), (0.99, "result_99.00_percentile_latency_ns")],
)
def test_the_percentile_that_was_held_against_the_bound(share: float, key: str):
    """LoadGen prints its percentiles with two decimals."""
    assert (
        format_target_key(DetailLog(values={"effective_target_latency_percentile": share})) == key
    )
    assert (
        format_target_key(DetailLog(values={"effective_target_latency_percentile": 0.999}))
        == "result_99.90_percentile_latency_ns"
    )


def test_advice_looks_at_the_latency_of_the_scenario():
    """A MultiStream query is eight samples long; Server is judged at its percentile."""
    assert (
        collect_advice_facts(Scenario.MULTI_STREAM, facts(Scenario.MULTI_STREAM)).latency_ns
        == 90_000
    )
    assert (
        collect_advice_facts(Scenario.SINGLE_STREAM, facts(Scenario.SINGLE_STREAM)).latency_ns
        == 40_000
    )
    server = collect_advice_facts(
        Scenario.SERVER, facts(Scenario.SERVER, result_overlatency_query_count=3)
    )
    assert (server.latency_ns, server.over_bound, server.rate) == (70_000, 3, 900.0)
    assert collect_advice_facts(Scenario.OFFLINE, facts(Scenario.OFFLINE)).rate == 1200.0


@pytest.mark.parametrize(
    ("scenario", "knob", "value"),
    [
        (Scenario.SERVER, "server.target_qps", 10_000.0),
        (Scenario.OFFLINE, "offline.expected_qps", 24_000.0),
        (Scenario.SINGLE_STREAM, "single_stream.expected_latency_us", 5),
        (Scenario.MULTI_STREAM, "multi_stream.expected_latency_us", 10),
    ],
)
def test_what_loadgen_was_told_can_be_told_again(
    bench: ServingSetup, scenario: Scenario, knob: str, value: float
):
    """The settings of a record repeat the run: `--set` with each of them plans the same."""
    schedule = planned(bench, scenario)
    told = build_repeat_settings(schedule)
    assert told == {
        "loadgen.min_duration_ms": 100,
        "loadgen.min_queries": schedule.min_queries,
        knob: value,
    }
    again = fakes.schedule(
        scenario,
        row=bench.require_scenario_rules(scenario),
        probe=replace(fakes.PROBE, samples_per_second=1.0, latency_ns=1.0),
        **dict(told),
    )
    assert build_repeat_settings(again) == told


def test_words_give_a_latency_in_milliseconds_and_a_share_of_the_ceiling(bench: ServingSetup):
    """A line that is read in passing."""
    stream = judge_performance_run(
        bench, planned(bench, Scenario.SINGLE_STREAM), facts(Scenario.SINGLE_STREAM)
    )
    assert (
        format_run_verdict(planned(bench, Scenario.SINGLE_STREAM), stream, None)
        == "SingleStream performance: VALID, p90 latency 0.05 ms"
    )
    told = format_run_verdict(
        planned(bench, Scenario.OFFLINE),
        judge_performance_run(bench, planned(bench, Scenario.OFFLINE), facts(Scenario.OFFLINE)),
        60_000.0,
    )
    assert (
        told
        == "Offline performance: VALID, 1,200.0 samples/s (harness ceiling 60,000 samples/s: 2.0 %)"
    )
    assert "INVALID" in format_run_verdict(
        planned(bench, Scenario.OFFLINE), replace(stream, valid=False), None
    )


# ---- accuracy ----


def answers(folder: Path, right: int) -> Path:
    """Leave an accuracy log of which so many answers are right."""
    rows = [(label(sample) + (sample >= right)) % 10 for sample in range(SAMPLES)]
    lines = [
        f'{{ "seq_id" : {place}, "qsl_idx" : {place}, "data" : "{row:02X}000000" }}'
        for place, row in enumerate(rows)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ACCURACY_LOG).write_text("[\n" + ",\n".join(lines) + "\n]\n")
    truth = folder / "truth"
    truth.mkdir(exist_ok=True)
    (truth / "labels.txt").write_text("".join(f"{label(sample)}\n" for sample in range(SAMPLES)))
    return folder


@pytest.fixture
def scored(bench: ServingSetup, tmp_path: Path) -> Path:
    """A folder of answers whose truth lies where the bench looks for it."""
    folder = answers(tmp_path / "run", 87)
    place = bench.entry.locate_ground_truth("fake")
    place.parent.mkdir(parents=True)
    (folder / "truth").rename(place)
    return folder


def test_a_score_is_written_with_the_hash_of_its_answers(bench: ServingSetup, scored: Path):
    """submission_rules.adoc asks for the hash; the judge compares it."""
    assert score_accuracy_run(bench, scored) == {"top1": 0.87}
    assert (
        scored / "accuracy.txt"
    ).read_text() == f"top1=0.870000, hash={compute_file_sha256(scored / ACCURACY_LOG)}\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_ends_the_run(
    bench: ServingSetup, scored: Path, monkeypatch: pytest.MonkeyPatch, value: float
):
    """NaN is not below any bound, so it would pass each of them."""
    monkeypatch.setattr(
        served.registry, "load_scorer", lambda name: lambda answers, truth: {"top1": value}
    )
    with pytest.raises(JudgedError, match="top1 is (nan|inf), not a number"):
        score_accuracy_run(bench, scored)
    assert not (scored / "accuracy.txt").exists()


@pytest.mark.parametrize(("found", "short"), [(0.8, 0), (0.792, 0), (0.7919, 1), (0.0, 1)])
def test_99_percent_of_the_reference_are_enough(bench: ServingSetup, found: float, short: int):
    """The kept checkpoint's reference is 0.8."""
    told = bench.score_limits.list_shortfalls({"top1": found})
    assert len(told) == short and all(
        "below 0.7920 (99% of the reference 0.8000)" in sentence for sentence in told
    )


def test_the_rounds_own_threshold_comes_on_top(bench: ServingSetup):
    """Both are told, and a metric that is missing counts as nothing."""
    strict = replace(bench, row=replace(bench.row, threshold={"top1": 0.85, "top5": 0.9}))
    assert [
        sentence.split(",")[0] for sentence in strict.score_limits.list_shortfalls({"top1": 0.8})
    ] == [
        "top1 is 0.8000",
        "top5 is 0.0000",
    ]


@pytest.mark.parametrize(("found", "told"), [(8984408.4, 0), (8984409.0, 1), (0.0, 0)])
def test_an_upper_threshold_is_not_exceeded(bench: ServingSetup, found: float, told: int):
    """Answers that never end are no better than short ones."""
    strict = replace(bench, row=replace(bench.row, threshold_most={"gen_len": 8984408.4}))
    said = strict.score_limits.list_shortfalls({"top1": 0.8, "gen_len": found})
    assert len(said) == told and all(
        "above 8984408.4000 (the round's upper threshold)" in sentence for sentence in said
    )


# ---- the record ----


@pytest.mark.parametrize("scenario", list(Scenario))
@pytest.mark.parametrize("mode", list(Mode))
def test_a_record_has_the_published_shape(
    bench: ServingSetup, tmp_path: Path, scenario: Scenario, mode: Mode
):
    """Whoever reads bundles without podium reads it by that schema."""
    outcome = LoadGenOutcome(sample_count=100, batches=5, samples=37)
    folder = tmp_path / "run"
    folder.mkdir()
    write_run_record(bench, planned(bench, scenario, mode), outcome, folder, ceiling=7.0)
    document = json.loads((folder / "run.json").read_text())
    jsonschema.validate(document, json.loads((SCHEMAS / "run.json").read_text()))
    system = json.loads((tmp_path / "system.json").read_text())
    jsonschema.validate(system, json.loads((SCHEMAS / "system.json").read_text()))
    assert document["batches"] == {"count": 5.0, "mean_size": 7.4, "by_length": 0.0}
    assert (
        document["changed"].items() >= build_repeat_settings(planned(bench, scenario, mode)).items()
    )


def test_a_record_of_a_generator_tells_how_many_sequences_were_live(
    bench: ServingSetup, tmp_path: Path
):
    """Answers per step say little: an answer takes as many steps as it has tokens."""
    write_run_record(
        bench,
        planned(bench, Scenario.SERVER),
        LoadGenOutcome(sample_count=100, batches=50, samples=5, generated=75, slots=4),
        tmp_path / "run",
    )
    record = run_record(tmp_path / "run")
    assert (record.batches["mean_size"], record.batches["mean_live"]) == (0.1, 1.5)
    assert describe_record_batches(record) == {
        "steps of the generator": "50",
        "mean live sequences per step": "1.50",
        "slots": "4",
    }


def test_a_record_of_no_batch_divides_by_none(bench: ServingSetup, tmp_path: Path):
    """A run that answered nothing is INVALID, not a crash."""
    write_run_record(
        bench,
        planned(bench, Scenario.SERVER),
        LoadGenOutcome(sample_count=100, batches=0, samples=0),
        tmp_path / "run",
    )
    record = run_record(tmp_path / "run")
    assert record.batches == {"count": 0.0, "mean_size": 0.0, "by_length": 0.0}
    assert record.ceiling is None


def test_a_record_tells_everything_that_the_run_was(bench: ServingSetup, tmp_path: Path):
    """Stamps from the request, the checkpoint and the schedule; nothing from the surroundings."""
    write_run_record(
        bench,
        planned(bench, Scenario.OFFLINE, Mode.ACCURACY),
        LoadGenOutcome(sample_count=9, batches=1, samples=1),
        tmp_path / "run",
    )
    record = run_record(tmp_path / "run").system
    assert (
        record.workload,
        record.round,
        record.profile,
        record.division,
        record.org,
        record.name,
    ) == (
        "fake",
        "podium-v1",
        "smoke",
        "open",
        "tests",
        "testbed",
    )
    assert (record.nonce, record.checkpoint_sha256) == (
        bench.checkpoint.record.nonce,
        bench.checkpoint.record.sha256,
    )
    assert (
        record.engine,
        record.framework,
        record.input,
        record.device,
        record.precision,
        record.threads,
    ) == ("fake", "fake", "default", "cpu", "fp32", 1)
    assert record.sample_count == 9 and run_record(tmp_path / "run").command

"""Where the rules of LoadGen's files draw their lines, and that no number, however odd, makes the
judge fail.
"""

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import making
import pytest
from examples import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import LOADS, Load, write_run
from spoiling import put, set_value, swap, value_in
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.podium.documents.inference import POWER_TIME_FORMAT
from compliance.kinds.podium.rules.inference import loadgen_numbers
from compliance.kinds.podium.rules.inference.answers import compute_count_surprise
from compliance.verdict import Severity, Verdict
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario

SINGLE, MULTI, SERVER, OFFLINE = (
    Scenario.SINGLE_STREAM,
    Scenario.MULTI_STREAM,
    Scenario.SERVER,
    Scenario.OFFLINE,
)


def broken(folder: Path) -> set[str]:
    return {
        finding.rule
        for finding in Judge().judge_path(str(folder)).findings
        if finding.severity is not Severity.INFO
    }


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """A performance run with one value of its detail log changed."""

    def build(
        scenario: Scenario, key: str = "", value: Any = None, load: Load | None = None
    ) -> Path:
        folder = tmp_path / scenario.folder / "performance" / "run_1"
        shutil.rmtree(folder, ignore_errors=True)
        write_run(folder, load or LOADS[scenario], "performance")
        if key:
            set_value(folder / DETAIL_LOG, key, value)
        return folder

    return build


@pytest.mark.parametrize("scenario", list(Scenario))
def test_each_scenario_has_a_run_that_is_valid(
    make: Callable[..., Path], scenario: Scenario
) -> None:
    assert broken(make(scenario)) == set()


@pytest.mark.parametrize(
    ("scenario", "key", "value", "rule"),
    [
        (SERVER, "result_overlatency_query_count", 1, "loadgen.bound"),
        (SERVER, "requested_server_target_latency_ns", 400_000_001, "loadgen.target"),
        (SERVER, "requested_server_target_latency_percentile", 0.97, "loadgen.target"),
        (SERVER, "result_99.00_percentile_latency_ns", 400_000_001, "loadgen.bound"),
        (SERVER, "result_completed_samples_per_sec", 83.4, "loadgen.rate"),
        (SERVER, "effective_target_qps", 120.0, "loadgen.effective"),
        (SERVER, "generated_query_count", 501, "loadgen.queries"),
        (SERVER, "requested_server_coalesce_queries", True, None),
        (MULTI, "effective_samples_per_query", 4, "loadgen.target"),
        (MULTI, "requested_multi_stream_target_latency_percentile", 0.9, "loadgen.target"),
        (MULTI, "result_query_count", 661, "loadgen.queries"),
        (MULTI, "early_stopping_latency_ms", 1, "loadgen.early_stopping"),
        (SINGLE, "requested_min_duration_ms", 4999, "loadgen.minimums"),
        (SINGLE, "requested_min_query_count", 63, "loadgen.minimums"),
        (SINGLE, "effective_performance_sample_count", 1007, "loadgen.samples"),
        (SINGLE, "effective_accuracy_sample_count", 1009, "loadgen.samples"),
        (SINGLE, "effective_accuracy_log_probability", 0.5, "loadgen.settings"),
        (SINGLE, "effective_max_duration_ms", 6000, "loadgen.settings"),
        (SINGLE, "loadgen_version", "6.0.17", "loadgen.version"),
        (SINGLE, "result_min_latency_ns", 0, "loadgen.percentiles"),
        (SINGLE, "result_max_latency_ns", 9_000_000, "loadgen.percentiles"),
        (SINGLE, "power_end", "01-15-2023 08:00:04.000", "loadgen.duration"),
        (SINGLE, "power_end", "yesterday", "loadgen.clock"),
        (OFFLINE, "result_max_latency_ns", 4_000_000_000, "loadgen.duration"),
        (OFFLINE, "generated_samples_per_query", 21, "loadgen.queries"),
        (OFFLINE, "effective_min_query_count", 2, "loadgen.effective"),
        (OFFLINE, "effective_samples_per_query", 24, "loadgen.effective"),
        (OFFLINE, "effective_target_latency_percentile", 0.9, "loadgen.effective"),
        (OFFLINE, "effective_target_duration_ms", 5000, "loadgen.effective"),
        (SERVER, "effective_target_latency_percentile", 0.9, "loadgen.effective"),
        (SERVER, "effective_max_async_queries", 1, "loadgen.effective"),
        (SINGLE, "effective_target_duration_ms", 4000, "loadgen.effective"),
        (SINGLE, "effective_max_async_queries", 2, "loadgen.effective"),
        (MULTI, "requested_multi_stream_samples_per_query", 16, "loadgen.effective"),
        (SINGLE, "qsl_reported_performance_count", 1024, "loadgen.effective"),
        (OFFLINE, "result_samples_per_second", 3.72, "loadgen.rate"),
    ],
)
def test_a_changed_value_is_found_by_its_rule(
    make: Callable[..., Path], scenario: Scenario, key: str, value: object, rule: str | None
) -> None:
    if rule is None:
        if key == "requested_server_coalesce_queries":
            folder = make(scenario)
            line = making.line(key, value, 0.1, {})
            path = folder / DETAIL_LOG
            path.write_text(line + path.read_text())
            assert "loadgen.settings" in broken(folder)
        else:
            broken(make(scenario, key, value))
        return
    assert rule in broken(make(scenario, key, value))


@pytest.mark.parametrize(
    ("scenario", "key"),
    [
        *(
            (scenario, key)
            for scenario in Scenario
            for key in (
                "effective_target_latency_percentile",
                "effective_target_duration_ms",
                "power_begin",
            )
        ),
        *(
            (scenario, key)
            for scenario in Scenario
            for key in ("qsl_reported_performance_count", "generated_query_count", "loaded_qsl_set")
        ),
        (SERVER, "requested_server_target_latency_ns"),
        (SERVER, "requested_server_max_async_queries"),
        (SERVER, "requested_server_coalesce_queries"),
        (MULTI, "requested_multi_stream_samples_per_query"),
    ],
)
@pytest.mark.parametrize("mode", ["accuracy", "performance"])
def test_a_key_that_was_taken_out_is_missed_in_both_modes(
    tmp_path: Path, scenario: Scenario, key: str, mode: str
) -> None:
    """A bound or percentile that is not there is not judged: the gap itself has to be an error."""
    folder = (
        tmp_path / scenario.folder / ("accuracy" if mode == "accuracy" else "performance/run_1")
    )
    write_run(folder, LOADS[scenario], mode)
    set_value(folder / DETAIL_LOG, key, ...)
    assert "loadgen.keys" in broken(folder)


ACCURACY_EDITS = [
    (
        SINGLE,
        {
            "effective_accuracy_log_sampling_target": 256,
            "requested_accuracy_log_sampling_target": 256,
        },
        "loadgen.sampling",
    ),
    (
        SINGLE,
        {"effective_performance_sample_count": 1, "qsl_reported_performance_count": 1},
        "loadgen.samples",
    ),
    (
        MULTI,
        {"effective_samples_per_query": 1, "requested_multi_stream_samples_per_query": 1},
        "loadgen.target",
    ),
    (
        SERVER,
        {
            "requested_server_target_latency_percentile": 0.5,
            "effective_target_latency_percentile": 0.5,
        },
        "loadgen.target",
    ),
    (
        SERVER,
        {"requested_server_target_latency_ns": 1, "effective_target_latency_ns": 1},
        "loadgen.target",
    ),
    (SERVER, {"effective_qsl_rng_seed": 5, "requested_qsl_rng_seed": 5}, "loadgen.seeds"),
    (
        SINGLE,
        {"effective_performance_issue_unique": True, "requested_performance_issue_unique": True},
        "loadgen.settings",
    ),
    (SINGLE, {"effective_min_sample_count": 65}, "loadgen.effective"),
    (
        OFFLINE,
        {"effective_samples_per_query": 1008, "effective_min_sample_count": 1008},
        "loadgen.effective",
    ),
    (SINGLE, {"generated_query_count": 1007}, "loadgen.queries"),
    (MULTI, {"generated_samples_per_query": 4}, "loadgen.queries"),
    (SINGLE, {"loaded_qsl_set": list(range(1007))}, "loadgen.samples"),
    (
        SINGLE,
        {"effective_accuracy_log_rng_seed": 1, "requested_accuracy_log_rng_seed": 1},
        "loadgen.binding",
    ),
]


@pytest.mark.parametrize(("scenario", "edits", "rule"), ACCURACY_EDITS)
def test_an_accuracy_run_is_judged_as_strictly(
    tmp_path: Path, scenario: Scenario, edits: dict[str, Any], rule: str
) -> None:
    """Its detail log tells what the system was asked in both modes: what is edited there
    consistently shows too.
    """
    folder = tmp_path / scenario.folder / "accuracy"
    write_run(folder, LOADS[scenario], "accuracy")
    assert broken(folder) == set()
    for key, value in edits.items():
        set_value(folder / DETAIL_LOG, key, value)
    assert rule in broken(folder)


@pytest.mark.parametrize("least", [1, 24576])
def test_offlines_minimum_of_queries_counts_samples(make: Callable[..., Path], least: int) -> None:
    """LoadGen makes one query of them, and calls the effective minimum 1: a profile that asks for
    24,576 is no contradiction.
    """
    folder = make(OFFLINE, "requested_min_query_count", least)
    assert ("loadgen.effective" in broken(folder)) is (least > 1), (
        "one query of 22 samples holds no 24,576"
    )
    set_value(folder / DETAIL_LOG, "effective_samples_per_query", max(22, least))
    set_value(folder / DETAIL_LOG, "effective_min_sample_count", max(22, least))
    assert "loadgen.effective" not in broken(folder)


@pytest.mark.parametrize("latency_ns", [512, 500, 597, 3_651_960, 30_400])
def test_a_rate_is_compared_as_far_as_six_digits_go(
    make: Callable[..., Path], latency_ns: int
) -> None:
    """One over 512 ns is 1,953,125 queries/s, a whole number, and LoadGen prints 1.95312e+06."""
    folder = make(SINGLE, "requested_single_stream_expected_latency_ns", latency_ns)
    set_value(folder / DETAIL_LOG, "effective_target_qps", float(f"{1e9 / latency_ns:.6g}"))
    assert "loadgen.effective" not in broken(folder)


def test_single_streams_rate_ends_where_the_last_query_begins() -> None:
    """Of 64 slow queries, one more or less is 200 ms: numbers of a run of LoadGen 6.0.17, whose
    stamps are 12,491 ms apart.
    """
    told = {
        "result_query_count": 64.0,
        "result_qps_with_loadgen_overhead": 5.10449,
        "result_min_latency_ns": 101e6,
        "result_max_latency_ns": 300e6,
    }
    run: Any = SimpleNamespace(
        scenario=SINGLE,
        find_number=told.get,
        find_numbers=lambda *keys: [told[key] for key in keys],
    )
    claimed, (least, most) = (
        loadgen_numbers.compute_claimed_ms(run),
        loadgen_numbers.compute_last_query_ms(run),
    )
    assert claimed == pytest.approx(12_342, abs=1) and claimed + least < 12_491 < claimed + most


@pytest.mark.parametrize(
    ("shift_ms", "known"), [(-3, True), (0, True), (45, True), (-17, False), (70, False)]
)
def test_the_wall_clock_may_be_a_little_off(
    make: Callable[..., Path], shift_ms: int, known: bool
) -> None:
    """Whole milliseconds, a clock that is slewed, threads that wait for a core: not more, or short
    runs could claim 2 %.
    """
    folder = make(SINGLE)
    span_ms = sum(LOADS[SINGLE].latencies) / 1e6 * 1.01
    set_value(folder / DETAIL_LOG, "power_end", making.wall(span_ms + shift_ms))
    assert ("loadgen.span" not in broken(folder)) is known


@pytest.mark.parametrize(
    ("later_s", "known"),
    [(0, True), (-1, True), (8 * 3600 - 1, True), (-3, False), (1, False), (-(10**8), False)],
)
def test_a_run_begins_as_long_after_its_test_as_the_log_says(
    make: Callable[..., Path], later_s: int, known: bool
) -> None:
    """LoadGen cuts the date of a test to whole seconds; its power stamps may be of another time
    zone.
    """
    log = make(SINGLE) / DETAIL_LOG
    tested = datetime.strptime(value_in(log, "power_begin"), POWER_TIME_FORMAT) + timedelta(
        seconds=later_s
    )
    set_value(log, "test_datetime", f"{tested:%Y-%m-%dT%H:%M:%SZ}")
    assert ("loadgen.clocks" not in broken(log.parent)) is known


@pytest.mark.parametrize(
    ("queries", "late", "proven"),
    [(459, 0, True), (662, 1, True), (661, 1, False), (5000, 30, True), (5000, 60, False)],
)
def test_server_proves_its_percentile_by_loadgens_own_arithmetic(
    make: Callable[..., Path], queries: int, late: int, proven: bool
) -> None:
    """h_min of p99: 459 queries with none late, 662 with one."""
    load = making.replace(LOADS[SERVER], queries=queries, step_ns=0)
    folder = make(SERVER, "result_overlatency_query_count", late, load)
    assert ("loadgen.early_stopping" not in broken(folder)) is proven


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (swap("Scenario : Server", "Scenario : Offline"), "loadgen.summary"),
        (swap("Scenario : Server\n", ""), "loadgen.summary"),
        (swap("Min duration satisfied : Yes", "Min duration satisfied : NO"), "loadgen.summary"),
        (swap("Mean latency .*\n", ""), "loadgen.summary"),
        (swap("Mean latency", "Samples per second: 5\nMean latency"), "loadgen.headline"),
        (swap("Mean latency", "Mean latency (ns) : 1\nMean latency"), "file.duplicate"),
        (swap("target_qps : 83\n", "target_qps : 83.1\n"), "loadgen.parameters"),
        (
            swap("qsl_rng_seed : 2085463073848966840", "qsl_rng_seed : 2085463073848966841"),
            "loadgen.parameters",
        ),
        (swap("accuracy_log_rng_seed : .*", "accuracy_log_rng_seed : 1"), "loadgen.binding"),
        (swap("No errors encountered during test.", ""), "loadgen.errors"),
        (swap("No warnings encountered during test.", ""), "loadgen.errors"),
    ],
)
def test_a_changed_summary_is_found_by_its_rule(
    make: Callable[..., Path], change: Callable[[Path], None], rule: str
) -> None:
    folder = make(SERVER)
    change(folder / SUMMARY_LOG)
    assert rule in broken(folder)


def with_errors(folder: Path, *texts: str) -> Path:
    """Let LoadGen have logged errors while the queries were issued."""
    lines = (folder / DETAIL_LOG).read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if '"key": "power_begin"' in line)
    record = json.loads(lines[place].removeprefix(":::MLLOG ")) | {"key": "error_runtime"}
    marked = [
        record | {"value": text, "metadata": record["metadata"] | {"is_error": True}}
        for text in texts
    ]
    lines[place:place] = [f":::MLLOG {json.dumps(each)}\n" for each in marked]
    (folder / DETAIL_LOG).write_text("".join(lines))
    set_value(folder / DETAIL_LOG, "num_errors", len(texts))
    ending = "1 ERROR" if len(texts) == 1 else f"{len(texts)} ERRORS"
    swap("No errors encountered during test.", f"{ending} encountered. See detailed log.")(
        folder / SUMMARY_LOG
    )
    return folder


@pytest.mark.parametrize("count", [1, 3])
def test_a_harmless_race_of_loadgens_logger_is_accepted(
    make: Callable[..., Path], count: int
) -> None:
    """A result of a busy machine counts: the queries and their latencies are untouched. It must be
    counted as LoadGen counts.
    """
    folder = with_errors(make(SERVER), *["CAS failed."] * count)
    assert broken(folder) == set()
    swap(f"{count} ERRORS?", f"{count + 1} ERRORS")(folder / SUMMARY_LOG)
    assert broken(folder) == {"loadgen.errors"}


@pytest.mark.parametrize(
    "text",
    [
        "Ending early: Ran out of generated queries to issue",
        "Attempted to complete a sample twice.",
    ],
)
def test_any_other_error_is_not(make: Callable[..., Path], text: str) -> None:
    """Not even beside a harmless one."""
    assert broken(with_errors(make(SERVER), "CAS failed.", text)) == {"loadgen.errors"}


def test_an_error_of_every_answer_is_one_finding(make: Callable[..., Path]) -> None:
    """LoadGen calls the run VALID, and podium INVALID: its record is not what is wrong."""
    text = "Number of tokens need to be greater than 1."
    folder = with_errors(make(SERVER), "CAS failed.", *[text] * 300)
    (finding,) = Judge().judge_path(str(folder)).findings
    assert finding.rule == "loadgen.errors"
    assert finding.found == f"error_runtime: {text} (300 times)"


def test_a_warning_of_the_loggers_own_is_no_matter(make: Callable[..., Path]) -> None:
    """LoadGen 6.0.17 tells of the race as a warning."""
    folder = make(SERVER)
    swap('"metadata": {}', '"metadata": {"is_warning": true}')(folder / DETAIL_LOG)
    assert broken(folder) == {"loadgen.warnings"}
    key = json.loads(
        next(
            line for line in (folder / DETAIL_LOG).read_text().splitlines() if "is_warning" in line
        ).removeprefix(":::MLLOG ")
    )["key"]
    set_value(folder / DETAIL_LOG, key, "CAS failed.")
    assert "loadgen.warnings" not in broken(folder)


def test_a_multi_stream_summary_tells_of_queries(make: Callable[..., Path]) -> None:
    """A query lasts as long as its last sample; what the samples took stands in the detail log
    alone.
    """
    folder = make(MULTI)
    assert broken(folder) == set()
    set_value(folder / DETAIL_LOG, "result_90.00_percentile_per_query_latency_ns", 1)
    assert "loadgen.summary" in broken(folder)


def test_the_last_digit_of_a_rate_may_differ_between_the_files(make: Callable[..., Path]) -> None:
    """The detail log prints six digits, the summary two decimals."""
    folder = make(SINGLE)
    swap(r"(QPS w/o loadgen overhead +: \d+\.\d)\d", r"\g<1>8")(folder / SUMMARY_LOG)
    assert broken(folder) == set()


COUNTS = [
    (256, 256, False),
    (200, 256, False),
    (150, 256, True),
    (0, 10, False),
    (0, 18, True),
    (90, 30, True),
]


@pytest.mark.parametrize(("found", "expected", "surprising"), COUNTS)
def test_how_many_sampled_answers_are_to_be_expected(
    found: int, expected: float, surprising: bool
) -> None:
    assert (compute_count_surprise(found, expected) > 16) is surprising


@pytest.mark.parametrize(
    ("reference", "verdict"),
    [(0.8838, Verdict.VALID), (0.875, Verdict.VALID), (0.88384, Verdict.BROKEN)],
)
def test_a_served_model_holds_99_percent(
    tmp_path: Path, reference: float, verdict: Verdict
) -> None:
    """0.875 is 99 % of 0.883838."""
    root = tmp_path / "t"
    shutil.copytree(EXAMPLES / "base" / "tree", root)
    for path in root.rglob("*"):
        if path.name == "result_0.txt":
            path.write_text(
                re.sub(
                    r'(reference_accuracy", "value": {"top1": )0\.875',
                    rf"\g<1>{reference}",
                    path.read_text(),
                )
            )
        if path.suffix == ".json" and "podium_" in path.name or path.name == "record.json":
            put(reference_accuracy={"top1": reference})(path)
    assert Judge().judge_path(str(root)).verdict is verdict


ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1e308,
        -1e308,
        1e-308,
        10**24,
        -(10**24),
        10**400,
        2**64,
        "x",
        "",
        [],
        {},
        [[1]],
        {"a": []},
        0.1,
        "1" * 300,
    ]
)


@pytest.mark.parametrize("key", ["result_query_count", "generated_samples_per_query"])
@pytest.mark.parametrize("scenario", [SINGLE, MULTI, OFFLINE])
def test_less_than_one_sample_has_no_percentiles(
    tmp_path: Path, scenario: Scenario, key: str
) -> None:
    """A count that is cut to 0 would end the judge instead of the run's claim."""
    folder = tmp_path / scenario.folder / "performance" / "run_1"
    write_run(folder, LOADS[scenario], "performance")
    set_value(folder / DETAIL_LOG, key, 1e-308)
    assert broken(folder)


@pytest.mark.slow
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_value_of_any_kind_makes_the_judge_fail(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    scenario = data.draw(st.sampled_from([SINGLE, MULTI, OFFLINE]))
    folder = tmp_path_factory.mktemp("odd") / scenario.folder / "performance" / "run_1"
    write_run(folder, LOADS[scenario], "performance")
    keys = [
        json.loads(line.removeprefix(":::MLLOG "))["key"]
        for line in (folder / DETAIL_LOG).read_text().splitlines()
    ]
    for key in data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4, unique=True)):
        set_value(folder / DETAIL_LOG, key, data.draw(ODD))
    fields = data.draw(
        st.dictionaries(
            st.sampled_from(["system_sha256", "changed", "batches", "ceiling"]),
            ODD,
            max_size=2,
        )
    )
    put(**fields)(folder / "run.json")
    names = st.sampled_from(["sample_count", "threads", "settings", "checkpoint_sha256"])
    system = folder.parent.parent / "system.json"
    put_system(**data.draw(st.dictionaries(names, ODD, max_size=2)))(system)
    broken(folder)


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_record_of_any_kind_makes_the_judge_of_an_entry_fail(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("odd") / "t"
    shutil.copytree(EXAMPLES / "base" / "tree", root)
    for pattern in (
        "**/run.json",
        "**/system.json",
        "**/*_podium_*.json",
        "**/record.json",
        "**/systems/*.json",
    ):
        for path in sorted(root.glob(pattern)):
            names = st.sampled_from(sorted(json.loads(path.read_text())))
            put(**data.draw(st.dictionaries(names, ODD, max_size=1)))(path)
    Judge().judge_path(str(root))

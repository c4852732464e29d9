"""Records of queries and telemetry: what is drawn is what was recorded, and a record that cannot be
right is said to be none.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compliance.kinds.podium.results.loadgen_runs import read_loadgen_percentiles
from compliance.results.run_figures import LoadGenFigures
from submissions.report import build, exports
from submissions.report.document import Axis, Chart
from submissions.report.records import queries, telemetry
from submissions.report.sections import serving
from suite.errors import JudgedError
from suite.files.layout import TELEMETRY_FILE
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario

HEAD = '{"telemetry":1,"channels":[{"id":0,"name":"host","kind":"state"},{"id":1,"name":"plug","kind":"power"}],"clocks_ns":[100,200]}\n'


SPAN = telemetry.DrawnSpan(begin_ns=0, end_ns=None, axis=Axis(name="time", unit="s", low=0.0))


def record(
    path: Path, issued: list[int], done: list[int], batch: list[int], samples: list[int]
) -> Path:
    rows = np.zeros(len(issued), dtype=list(QUERY_RECORD_FIELDS))
    rows["issued_ns"], rows["done_ns"], rows["batch"], rows["samples"] = (
        issued,
        done,
        batch,
        samples,
    )
    np.save(path, rows)
    return path


def test_latencies_are_from_issue_to_completion(tmp_path: Path) -> None:
    found = queries.read_recorded_queries(
        record(
            tmp_path / "queries.npy",
            [10, 20, 40],
            [2_000_010, 6_000_020, 4_000_040],
            [0, 1, 1],
            [1, 1, 1],
        )
    )
    assert found is not None
    assert dict(queries.compute_latency_percentiles(found.latency_Q))[50.0] == 4.0
    assert found.first_ns == 10


def test_a_batch_is_all_queries_with_its_number(tmp_path: Path) -> None:
    """Taking the number of a batch for its size would draw nonsense that looks right."""
    found = queries.read_recorded_queries(
        record(tmp_path / "queries.npy", [0, 1, 2, 3], [9, 9, 9, 9], [0, 7, 7, 7], [1, 1, 1, 1])
    )
    assert found is not None
    assert queries.compute_batch_size_shares(found) == [(1.0, 25.0), (3.0, 75.0)]


def test_the_distribution_counts_every_query_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    latency = rng.lognormal(15, 1, 5_000).astype(int)
    found = queries.read_recorded_queries(
        record(
            tmp_path / "queries.npy",
            list(range(5_000)),
            [*(np.arange(5_000) + latency)],
            [0] * 5_000,
            [1] * 5_000,
        )
    )
    assert found is not None
    assert sum(
        share for _, share in queries.compute_latency_distribution(found.latency_Q)
    ) == pytest.approx(100.0)


def test_the_rate_over_time_adds_up_to_all_samples(tmp_path: Path) -> None:
    found = queries.read_recorded_queries(
        record(
            tmp_path / "queries.npy",
            [0] * 10,
            [n * 1_000_000_000 for n in range(1, 11)],
            list(range(10)),
            [32] * 10,
        )
    )
    assert found is not None
    points = queries.compute_completion_rates(found, found.samples_Q)
    width = points[1][0] - points[0][0]
    assert sum(rate * width for _, rate in points) == pytest.approx(320, rel=1e-6)


@pytest.mark.parametrize(("chunks", "drawn_charts"), [(49, 0), (50, 1)])
def test_too_few_chunks_give_no_rate_over_time(
    tmp_path: Path, chunks: int, drawn_charts: int
) -> None:
    """A few chunks per slice drew a rate that jumped between nothing and twice the result."""
    path = record(
        tmp_path / "queries.npy",
        [0] * chunks,
        [n * 1_000_000_000 for n in range(1, chunks + 1)],
        list(range(chunks)),
        [32] * chunks,
    )
    run = replace(
        drawn(),
        scenario=Scenario.OFFLINE,
        figures=LoadGenFigures(folder=path.parent),
    )
    charts, notes = serving.build_serving_charts(run)
    assert len(charts) == drawn_charts
    assert any("49 chunks" in note.text for note in notes) is not bool(drawn_charts)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"not an array",
        b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
        + b" " * 60
        + b"\n\x80",
    ],
    ids=["empty", "cut", "text", "pickled objects"],
)
def test_what_is_no_record_is_refused_and_never_unpickled(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "queries.npy").write_bytes(content)
    with pytest.raises(JudgedError):
        queries.read_recorded_queries(tmp_path / "queries.npy")


def test_queries_answered_before_they_were_issued_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="before they were issued"):
        queries.read_recorded_queries(
            record(tmp_path / "queries.npy", [10, 20], [20, 10], [0, 1], [1, 1])
        )


def test_another_dtype_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "queries.npy", np.zeros(5))
    with pytest.raises(JudgedError, match="not a record of queries"):
        queries.read_recorded_queries(tmp_path / "queries.npy")


def test_a_run_without_records_is_told_from_a_broken_one(tmp_path: Path) -> None:
    assert queries.read_recorded_queries(tmp_path / "queries.npy") is None
    assert telemetry.read_telemetry_readings(tmp_path / "telemetry.jsonl") is None


def test_telemetry_gives_each_field_its_own_line_and_leaves_out_what_is_null(
    tmp_path: Path,
) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_text(
        HEAD
        + '{"t":1000000000,"host":{"cpu_own":0.5,"mhz":null,"temp_c":[40,61]}}\n{"t":2000000000,"i":1,"p":5000000}\n{"t":3,"host":{"cpu_'
    )
    told = telemetry.read_telemetry_readings(path)
    assert told is not None and told.clocks_ns == (100, 200)
    charts = {chart.title: chart for chart in telemetry.build_telemetry_charts(told, SPAN, "x")}
    assert charts["CPU utilisation"].lines[0].points == ((1.0, 50.0),)
    assert charts["Temperature"].lines[0].points == ((1.0, 61.0),), "the hottest sensor"
    assert charts["Power"].lines[0].points == ((2.0, 5.0),), (
        "microwatts of a meter are drawn in watts"
    )
    assert "Clocks" not in charts


COUNTER = '{"id":0,"name":"rapl:package0","kind":"energy","range_uj":1000000000,"period_ms":100}'
METER = '{"id":1,"name":"meter","kind":"power","period_ms":100}'


def test_counters_are_drawn_as_the_power_between_two_readings(tmp_path: Path) -> None:
    """RAPL and NVML count energy: 40 W, a wrap on the way, and two readings 1 ms apart with a whole
    step between them.
    """
    counts = [
        (0, 990_000_000),
        (100, 994_000_000),
        (200, 998_000_000),
        (201, 999_000_000),
        (300, 2_000_000),
        (400, 6_000_000),
    ]
    lines = [f'{{"t":{ms * 1_000_000},"i":0,"e":{uj}}}' for ms, uj in counts] + [
        '{"t":0,"i":1,"p":75000000}'
    ]
    path = tmp_path / "telemetry.jsonl"
    path.write_text(
        f'{{"telemetry":1,"channels":[{COUNTER},{METER}],"clocks_ns":[0,0]}}\n'
        + "\n".join(lines)
        + "\n"
    )
    told = telemetry.read_telemetry_readings(path)
    assert told is not None
    (chart,) = telemetry.build_telemetry_charts(told, SPAN, "x")
    drawn = {line.name: line.points for line in chart.lines}
    assert drawn == {
        "rapl:package0": tuple(
            (pytest.approx(x), pytest.approx(40.0)) for x in (0.05, 0.15, 0.25, 0.35)
        ),
        "meter": ((0.0, 75.0),),
    }


def test_a_counter_is_not_drawn_across_a_fall_or_an_interruption(tmp_path: Path) -> None:
    """What was drawn in between nobody read."""
    plain = COUNTER.replace(',"range_uj":1000000000', "")
    head = f'{{"telemetry":1,"channels":[{plain}],"clocks_ns":[0,0]}}\n'
    counts = (0, 5_000_000), (100_000_000, 1_000_000), (200_000_000, 3_000_000)
    first, fallen, second = (json.dumps({"t": t, "i": 0, "e": uj}) + "\n" for t, uj in counts)
    path = tmp_path / "telemetry.jsonl"
    for text, watts in (
        (head + first + fallen + second, [20.0]),
        (head + first + head + second, []),
    ):
        path.write_text(text)
        told = telemetry.read_telemetry_readings(path)
        assert (
            told is not None
            and [
                y
                for chart in telemetry.build_telemetry_charts(told, SPAN, "x")
                for line in chart.lines
                for _, y in line.points
            ]
            == watts
        )


@pytest.mark.parametrize(
    "line",
    ['{"t":1%s,"host":{"cpu_own":0.5}}', '{"t":1,"i":1,"p":1%s}', '{"t":1,"host":{"cpu_own":1%s}}'],
)
def test_a_number_of_400_digits_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_text(HEAD + line % ("0" * 400) + "\n")
    with pytest.raises(JudgedError, match="cannot be read"):
        telemetry.read_telemetry_readings(path)


@pytest.mark.parametrize(
    "line",
    [
        '{"t":1,"host":[1,2]}\n',
        '{"t":"soon","host":{"cpu_own":1}}\n',
        '{"t":1,"host":{"cpu_own":"all"}}\n',
    ],
)
def test_telemetry_of_another_shape_draws_nothing(tmp_path: Path, line: str) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_text(HEAD + line)
    told = telemetry.read_telemetry_readings(path)
    assert told is not None and not list(telemetry.build_telemetry_charts(told, SPAN, "x"))


def test_telemetry_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(JudgedError, match="cannot be read"):
        telemetry.read_telemetry_readings(path)


def test_long_telemetry_is_thinned_without_losing_its_mean(tmp_path: Path) -> None:
    points = [(float(x), float(x % 7)) for x in range(10_000)]
    thin = telemetry.average_neighbouring_points(points)
    assert len(thin) <= telemetry.MAX_LINE_POINTS
    assert sum(y for _, y in thin) / len(thin) == pytest.approx(
        sum(y for _, y in points) / len(points), rel=1e-2
    )


def test_attempts_are_those_of_the_ledger() -> None:
    """A result of the third attempt must not look like the first."""
    found, *_ = build.judge_and_build_report(
        [Path(__file__).resolve().parents[2] / "examples" / "base" / "ledger"]
    )
    assert {each["scenario"]: each["attempts"] for each in found.parts[0].headlines} == {
        None: 1,
        "SingleStream": 2,
    }


def slow_and_fast(path: Path, count: int) -> queries.RecordedQueries:
    """A run of 20 s: bursts of fast queries, and slow ones that stand alone in their hundredth of
    the time.
    """
    latency = np.where(np.arange(count) % 10 < 6, 20_000_000, 1_000_000)
    issued = np.concatenate([[0], np.cumsum(latency)[:-1]])
    found = queries.read_recorded_queries(
        record(path, [*issued], [*(issued + latency)], [0] * count, [1] * count)
    )
    assert found is not None
    return found


def test_few_queries_are_drawn_one_by_one(tmp_path: Path) -> None:
    """Medians of the slices that had enough queries were those of the fast ones only: the line lay
    below the run's own median.
    """
    found = slow_and_fast(tmp_path / "queries.npy", 351)
    chart = serving.build_latency_course_chart(found, drawn())
    assert [line.name for line in chart.lines] == ["each query"] and chart.lines[0].loose
    assert [y for _, y in chart.lines[0].points] == [*(found.latency_Q / 1e6)]
    assert "one of 351 queries" in chart.description


@pytest.mark.parametrize("count", [401, 1_999, 30_011])
def test_every_query_is_in_a_group_whatever_its_speed(tmp_path: Path, count: int) -> None:
    found = slow_and_fast(tmp_path / "queries.npy", count)
    medians, slowest = queries.compute_group_latencies(found)
    assert (
        len(medians) == len(slowest) == min(100, count // queries.compute_query_group_size(found))
    )
    assert {y for _, y in medians} == {20.0}, "most queries of each group are slow"
    assert str(queries.compute_query_group_size(found)) in serving.build_latency_course_chart(
        found, drawn()
    ).description.replace(",", "")


def drawn() -> serving.DrawnRun:
    return serving.DrawnRun(
        figures=LoadGenFigures(folder=Path()),
        where="x",
        podium=True,
        row=None,
        scenario=Scenario.SINGLE_STREAM,
        run="",
        result=None,
    )


DETAILS = [
    ("result_90.00_percentile_latency_ns", 1_000_000),
    ("result_90.00_percentile_per_query_latency_ns", 7_000_000),
]


@pytest.mark.parametrize("order", [DETAILS, DETAILS[::-1]])
def test_percentiles_of_multistream_are_those_of_queries(
    tmp_path: Path, order: list[tuple[str, int]]
) -> None:
    """LoadGen logs percentiles of single samples too, which are no figure of the result."""
    rest = {
        "time_ms": 1.0,
        "namespace": "mlperf::logging",
        "event_type": "POINT_IN_TIME",
        "metadata": {},
    }
    lines = [{"key": key, "value": value} | rest for key, value in order]
    (tmp_path / "mlperf_log_detail.txt").write_text(
        "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines)
    )
    assert read_loadgen_percentiles(tmp_path) == {90.0: 7.0}


def test_percentiles_are_taken_where_loadgen_takes_them(tmp_path: Path) -> None:
    """One query higher or lower, and a page shows two figures for one percentile. Source:
    mlcommons/inference, loadgen/results.cc.
    """
    found = queries.read_recorded_queries(
        record(
            tmp_path / "queries.npy",
            [0] * 4,
            [1_000_000, 2_000_000, 3_000_000, 4_000_000],
            [0] * 4,
            [1] * 4,
        )
    )
    assert (
        found is not None
        and dict(queries.compute_latency_percentiles(found.latency_Q))[50.0] == 3.0
    )


def charts_of(path: Path) -> dict[str, list[Chart]]:
    found, *_ = build.judge_and_build_report([path])
    drawn = [
        chart
        for section in found.parts[0].sections
        for chart in exports.iterate_section_charts(section)
    ]
    return {
        start: [chart for chart in drawn if chart.id.startswith(start)]
        for start in ("course-", "rate-", "cores-", "memory-", "quality-")
    }


def test_the_machine_stands_below_the_axis_of_the_run(recorded: Path) -> None:
    """Readings from before the first query and after the last were drawn and averaged as if they
    were of the run.
    """
    drawn = charts_of(recorded)
    (course,), (cores,) = drawn["course-"], drawn["cores-"]
    assert course.x == cores.x and course.x.high == pytest.approx(4.999)
    assert [x for x, _ in cores.lines[0].points] == [
        0.0,
        1.0,
        2.0,
        3.0,
        4.0,
    ], "of 30 readings, five were taken during the run"


@pytest.mark.slow
def test_means_during_the_run_are_of_the_run(recorded: Path) -> None:
    (path,) = recorded.glob(f"open/*/results/*/*/*/performance/run_1/{TELEMETRY_FILE}")
    path.write_text(
        "".join(
            line.replace("0.75", "0.01") if place > 5 else line
            for place, line in enumerate(path.read_text().splitlines(keepends=True))
        )
    )
    assert "this run: mean 75, highest 75" in charts_of(recorded)["cores-"][0].description


def test_readings_of_a_training_run_end_with_it(tree: Path) -> None:
    (log,) = tree.glob("open/acme/results/*/resnet/result_0.txt")
    start = next(
        json.loads(line.removeprefix(":::MLLOG "))["time_ms"]
        for line in log.read_text().splitlines()
        if '"run_start"' in line
    )
    readings = "".join(
        f'{{"t":{second}000000000,"host":{{"cpu_own":0.5}}}}\n' for second in range(1, 100)
    )
    log.with_name("telemetry_0.jsonl").write_text(
        f'{{"telemetry":1,"channels":[],"clocks_ns":[1500000000,{start * 1_000_000}]}}\n{readings}'
    )
    drawn = charts_of(tree)
    quality, cores = drawn["quality-"][0], drawn["cores-"][0]
    assert cores.x == quality.x and quality.x.high
    times = [x for x, _ in cores.lines[0].points]
    assert len(times) == 30 and min(times) >= 0 and max(times) <= quality.x.high


@pytest.mark.slow
def test_what_the_machine_did_not_tell_is_said(recorded: Path) -> None:
    """No chart of the temperature could mean a cool machine; a bundle that does not tell must say
    so.
    """
    found, *_ = build.judge_and_build_report([recorded])
    (section,) = [each for each in found.parts[0].sections if each.id == "machine-resnet50"]
    (part,) = [each for each in section.parts if each.charts]
    told = [note.text for note in (*section.notes, *part.notes)]
    assert told == ["Clocks, temperature and power: unknown, since the machine did not report it."]
    (path,) = recorded.glob(f"open/*/results/*/*/*/performance/run_1/{TELEMETRY_FILE}")
    path.unlink()
    found, *_ = build.judge_and_build_report([recorded])
    (section,) = [each for each in found.parts[0].sections if each.id == "machine-resnet50"]
    assert [note.text.partition(":")[0] for note in section.notes] == ["There is no telemetry"]

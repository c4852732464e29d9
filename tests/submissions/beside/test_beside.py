"""Files of guidellm, AIPerf and vllm bench serve beside a curve. The files here are what the
programs wrote of eight requests, two in flight, to `podium serve llama --api openai`.
"""

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy
import pytest
from click.testing import CliRunner
from making_curve import write_curve

from submissions.beside.figures import PODIUM, StatedRun, compute_answer_figures
from submissions.beside.reading import compute_point_figures, read_stated_runs
from submissions.commands.report import report
from suite.errors import PodiumError, RequestError
from suite.studies.answer_figures import AnswerTimes
from suite.studies.measured import read_measured_study

HERE = Path(__file__).parent
RATES = {"tokens_per_s", "answers_per_s", "in_flight_mean"}
"""Over the time of a program's own phase."""


def unpack(name: str, folder: Path) -> Path:
    """Unpack a file."""
    target = folder / name.removesuffix(".gz")
    target.write_bytes(gzip.decompress((HERE / name).read_bytes()))
    return target


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, Path]:
    """The three files."""
    return {
        "guidellm": unpack("guidellm.json.gz", tmp_path),
        "AIPerf": HERE / "aiperf.json",
        "vllm bench serve": HERE / "vllm.json",
    }


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A curve with points of 2 and 40 in flight."""
    return write_curve(tmp_path / "first")


def build_times(starts: Any, first: Any, last: Any, tokens: Any, unit_ns: float) -> AnswerTimes:
    """Build answers from times in another unit; all counted from the first start."""
    zero = min(starts)
    starts, first, last = (
        numpy.rint((numpy.array(each) - zero) * unit_ns).astype("i8")
        for each in (starts, first, last)
    )
    counts = numpy.array(tokens)
    return AnswerTimes(
        starts_ns=starts,
        first_ns=first,
        last_ns=last,
        tokens=counts,
        first_tokens=numpy.ones_like(counts),
    )


def read_requests(program: str, path: Path) -> tuple[AnswerTimes, AnswerTimes]:
    """Read a file's single requests: with ends for latencies, and with ends for times per token."""
    if program == "AIPerf":
        text = gzip.decompress((HERE / "aiperf-requests.jsonl.gz").read_bytes()).decode()
        rows = [json.loads(line) for line in text.splitlines()]
        starts = numpy.array([each["metadata"]["request_start_ns"] for each in rows])
        value = lambda name: [each["metrics"][name]["value"] for each in rows]  # noqa: E731
        first = starts + numpy.array(value("time_to_first_token")) * 1e6
        last = starts + numpy.array(value("request_latency")) * 1e6
        found = build_times(starts, first, last, value("output_sequence_length"), 1)
        return found, found
    document = json.loads(path.read_text())
    if program == "vllm bench serve":
        starts = numpy.array(document["start_times"])
        first, last = starts + document["ttfts"], starts + document["latencies"]
        found = build_times(starts, first, last, document["output_lens"], 1e9)
        return found, found
    rows = document["benchmarks"][0]["requests"]["successful"]
    times = [each["info"]["timings"] for each in rows]
    columns = [
        [each[name] for each in times]
        for name in ("request_start", "first_token_iteration", "request_end")
    ]
    tokens = [each["output_tokens"] for each in rows]
    ends = [each["last_token_iteration"] for each in times]
    whole = build_times(*columns, tokens, 1e9)
    return whole, build_times(*columns[:2], ends, tokens, 1e9)


@pytest.mark.parametrize("program", ["guidellm", "AIPerf", "vllm bench serve"])
def test_each_figure_is_what_its_definition_gives_of_the_programs_own_requests(
    files: Mapping[str, Path], program: str
):
    """Every figure of the file, from the records of its single requests."""
    (run,) = read_stated_runs(files[program])
    whole, by_token = read_requests(program, files[program])
    computed = compute_answer_figures(by_token, run.definition)
    computed |= {
        key: value
        for key, value in compute_answer_figures(whole, run.definition).items()
        if key.startswith("latency")
    }
    assert run.program == program and run.in_flight == 2
    assert len(run.figures) >= 16
    for key, stated in run.figures.items():
        if key not in RATES:
            assert computed[key] == pytest.approx(stated, rel=1e-3), key


@pytest.mark.parametrize("program", ["guidellm", "AIPerf", "vllm bench serve"])
def test_rates_are_of_the_programs_phase(files: Mapping[str, Path], program: str):
    (run,) = read_stated_runs(files[program])
    whole, _ = read_requests(program, files[program])
    computed = compute_answer_figures(whole, run.definition)
    for key in RATES & run.figures.keys():
        assert 0.3 < run.figures[key] / computed[key] < 1.2, key


def say(*arguments: str) -> tuple[int, str]:
    """Run `podium report`; return its exit code, and what it says."""
    command: click.Command = report
    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, PodiumError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None, result.output
    return result.exit_code, result.output


def test_podiums_own_column_has_the_figures_of_the_study(study: Path):
    """Tokens of the first event included."""
    measured = read_measured_study(study)
    for row in measured.rows:
        figures = compute_point_figures(study, measured, row.point.concurrency, PODIUM)
        assert figures["ttft.p90"] == pytest.approx(row.figures.ttft_p90_ms)
        assert figures["tpot.p90"] == pytest.approx(row.figures.tpot_p90_ms)
        assert figures["tokens_per_s"] == pytest.approx(row.figures.system_tps)
        assert figures["in_flight_mean"] == pytest.approx(row.figures.in_flight_mean)


def test_tokens_of_the_first_event_are_told_apart():
    """Three of five tokens came first: podium has two behind them, the other programs four."""
    answers = AnswerTimes(
        starts_ns=numpy.zeros(4, "i8"),
        first_ns=numpy.full(4, 10**6),
        last_ns=numpy.full(4, 9 * 10**6),
        tokens=numpy.full(4, 5),
        first_tokens=numpy.full(4, 3),
    )
    (run,) = read_stated_runs(HERE / "aiperf.json")
    assert compute_answer_figures(answers, PODIUM)["tpot.p90"] == pytest.approx(4.0)
    assert compute_answer_figures(answers, run.definition)["tpot.p90"] == pytest.approx(2.0)


@pytest.mark.parametrize("program", ["guidellm", "AIPerf", "vllm bench serve"])
def test_the_report_shows_both_definitions_and_the_programs_figures(
    study: Path, files: Mapping[str, Path], program: str
):
    code, told = say(str(study), "--beside", str(files[program]), "--format", "markdown")
    assert code == 0
    assert f"## Beside {program}" in told
    (run,) = read_stated_runs(files[program])
    assert f"podium's answers, as {program} counts" in told
    rows = [line for line in told.splitlines() if line.startswith("| time to the first token, p90")]
    (row,) = [row.split(" | ") for row in rows]
    own, alike, stated, quotient = (float(each.strip(" |")) for each in row[2:])
    assert stated == pytest.approx(run.figures["ttft.p90"], abs=1e-3)
    assert quotient == pytest.approx(stated / alike, abs=0.01) and own > 0
    assert "one after the other" in told


def test_one_page_has_all_programs(study: Path, files: Mapping[str, Path], tmp_path: Path):
    named = [part for path in files.values() for part in ("--beside", str(path))]
    page = tmp_path / "page.html"
    code, _ = say(str(study), *named, "-o", str(page))
    text = page.read_text()
    assert code == 0
    assert all(f"Beside {program}" in text for program in files)


def change(path: Path, old: str, new: str) -> Path:
    """Write a changed copy of a file."""
    changed = path.read_text().replace(old, new)
    assert changed != path.read_text()
    target = path.parent / "changed.json"
    target.write_text(changed)
    return target


def test_a_load_that_the_curve_has_not_stands_alone(
    study: Path, files: Mapping[str, Path], tmp_path: Path
):
    shutil.copy(files["vllm bench serve"], tmp_path / "vllm.json")
    path = change(tmp_path / "vllm.json", '"max_concurrency": 2', '"max_concurrency": 3')
    code, told = say(str(study), "--beside", str(path), "--format", "markdown")
    assert code == 0
    assert "has this load (at most 3 in flight); it has 2, 40 in flight" in told
    assert "| time to the first token, p90 | ms | - | - |" in told
    paced = change(path, '"request_rate": "inf"', '"request_rate": 4.0')
    (run,) = read_stated_runs(paced)
    assert run.in_flight is None and run.load == "4.0 requests/s, at most 3 in flight"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Input data was truncated"),
        (b"no JSON", "malformed"),
        (b"[]", "not the JSON of guidellm, AIPerf or vllm bench serve"),
        (b'{"a": 1}', "not the JSON of guidellm, AIPerf or vllm bench serve"),
        (b'{"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": []}', "or without a run"),
        (b'{"metadata": {"guidellm_version": 8}, "benchmarks": []}', "Expected `str`"),
        (b'{"aiperf_version": "0.13"}', "missing required field"),
        (b'{"output_throughput": NaN}', "malformed"),
        (b'{"guidellm_version": ' + b"[" * 100_000, "nested"),
    ],
)
def test_another_file_is_one_sentence(tmp_path: Path, content: bytes, why: str):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(RequestError) as error:
        read_stated_runs(path)
    assert str(error.value).startswith(f"--beside {path}: ")
    assert why in str(error.value) or "recursion" in str(error.value).lower()
    assert error.value.exit_code == 2


def test_files_need_a_curve_and_must_be_there(study: Path, files: Mapping[str, Path]):
    code, told = say(str(study), "--beside", str(study / "none.json"))
    assert code == 2 and "No such file" in told
    code, told = say(str(study.parents[2]), "--beside", str(files["AIPerf"]))
    assert code == 2 and "give the folder of a curve" in told


def test_a_run_without_answers_states_its_failures(files: Mapping[str, Path], tmp_path: Path):
    """A server that refuses all requests."""
    document = json.loads(files["guidellm"].read_text())
    metrics = document["benchmarks"][0]["metrics"]
    metrics["request_totals"] = {"successful": 0, "errored": 8, "incomplete": 0, "total": 8}
    for each in metrics.values():
        if isinstance(each, dict) and isinstance(each.get("successful"), dict):
            each["successful"] = None
    path = tmp_path / "failed.json"
    path.write_text(json.dumps(document))
    (run,) = read_stated_runs(path)
    assert run.figures == {"answers": 0, "failed": 8}
    assert isinstance(run, StatedRun)

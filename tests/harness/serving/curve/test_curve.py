"""`podium curve`: points under the real LoadGen, which the judge finds valid, and what is refused
before.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from podium_fakes.drive import options, start, until
from podium_fakes.kept import keep_checkpoint
from podium_fakes.llama import keep_llama_checkpoint
from podium_fakes.remote import served

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.commands.curve import curve
from harness.serving.network.site_choice import choose_remote_site
from harness.serving.studies import runs
from harness.serving.studies.driver import measure_study
from harness.serving.studies.system import StudyOptions
from suite.errors import RequestError
from suite.files.layout import RUN_RECORD, START_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.scenario import Scenario
from suite.studies import concurrency_curve
from suite.studies.concurrency_curve import find_row_region
from suite.studies.measured import read_measured_study

pytest.importorskip("torch", reason="PyTorch is not installed")


def trace(results: Path, *concurrencies: int, **more: Any) -> None:
    """Trace a curve in this process."""
    chosen = options(results, framework="torch", engine="torch")
    values = {"concurrencies": concurrencies, "seconds": None}
    measure_study("curve", "llama", chosen, StudyOptions(values=values, **more))


def list_curve_words(results: Path, *more: str) -> list[str]:
    """The command line of a curve."""
    where = ("--results", str(results), "--profile", "smoke", "--device", "cpu", "--threads", "1")
    return ["curve", "llama", *where, *more]


def find_run_files(results: Path, concurrency: int) -> dict[str, tuple[int, bytes]]:
    """When each record of a point was written, and what it holds; empty without the point."""
    paths = [
        path
        for name in (RUN_RECORD, TOKEN_RECORD_FILE, START_RECORD_FILE)
        for path in results.glob(f"studies/*/*/in-flight-{concurrency}/{name}")
    ]
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


@pytest.mark.slow
def test_an_interrupted_curve_is_continued_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same command: the point that was measured stays as it is, and the one in which the
    interrupt came is measured from its beginning.
    """
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    results = tmp_path / "results"
    keep_llama_checkpoint(results)
    words = list_curve_words(results, "--points", "1,2")
    child = start(words)
    until(lambda: any(results.glob("studies/*/*/in-flight-2*")))  # LoadGen's folder of the next one
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130 and "Traceback" not in told
    assert told.splitlines()[-1].endswith("is kept, and the same command continues")
    kept, unfinished = find_run_files(results, 1), find_run_files(results, 2)
    assert len(kept) == 3 and unfinished == {}
    child = start(words)
    shown, told = child.communicate(timeout=240)
    assert child.returncode == 0, told
    assert find_run_files(results, 1) == kept and len(find_run_files(results, 2)) == 3
    assert "1 in flight, at least" not in told + shown
    (study_folder,) = (results / "studies").iterdir()
    study = read_measured_study(study_folder)
    assert study.is_finished
    assert [row.point.concurrency for row in study.rows] == [1, 2]
    check = start(["check", str(study_folder)], ("-m", "podium"))
    shown, _ = check.communicate(timeout=60)
    assert check.returncode == 0 and ": valid (podium-v1; 1 study" in shown


@pytest.mark.slow
@pytest.mark.parametrize("module", ["httptools", "tokenizers"])
def test_a_curve_of_servers_without_the_extra_names_it(tmp_path: Path, module: str) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'podium';"
        "from suite.cli import main; main()"
    )
    keep_llama_checkpoint(tmp_path / "results")
    words = ["curve", "llama", "--results", str(tmp_path / "results"), "--profile", "smoke"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--endpoint", "http://127.0.0.1:9"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert f"{module} is not installed: pip install" in done.stderr and "[openai]" in done.stderr


@pytest.mark.slow
def test_a_curve_is_traced_judged_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there is not measured again; more users get more tokens together, and fewer each."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_llama_checkpoint(tmp_path / "results")
    trace(tmp_path / "results", 2)
    (study_folder,) = (tmp_path / "results/studies").iterdir()
    first = read_measured_study(study_folder)
    trace(tmp_path / "results", 2, 40)
    study = read_measured_study(study_folder)
    assert study.points[0].figures == first.points[0].figures
    assert [row.point.concurrency for row in study.rows] == [2, 40] and study.is_finished
    few, many = (row.figures for row in study.rows)
    assert many.system_tps > few.system_tps
    assert 1.5 < few.in_flight_mean <= 2 and 20 < many.in_flight_mean <= 40
    regions = [find_row_region(row) for row in study.rows]
    assert regions == ["low_latency", "high_concurrency"]
    assert "not an MLPerf Endpoints result" in capsys.readouterr().out
    findings = Judge().judge_path(str(study_folder)).findings
    assert [each for each in findings if each.severity is Severity.ERROR] == []


@pytest.mark.slow
def test_a_curve_of_a_server_is_traced_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same commands' machinery: requests in flight in place of slots."""
    pytest.importorskip("httptools", reason="the extra `openai` is not installed")
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    results = tmp_path / "results"
    keep_llama_checkpoint(results)
    chosen = options(results, framework="torch", engine="torch", precision=None)
    with served(results, "--api", "openai", workload="llama", framework="torch") as server:
        site = choose_remote_site((server.url,), (Scenario.OFFLINE,))
        asked = StudyOptions(
            values={"concurrencies": (3,), "seconds": None},
            site=site,
            output_format="json",
        )
        measure_study("curve", "llama", chosen, asked)
    (study_folder,) = (results / "studies").iterdir()
    study = read_measured_study(study_folder)
    assert study.endpoints == (server.url,)
    assert len(study.tokenizer) == 64
    (row,) = study.rows
    assert row.point.concurrency == 3 and 2 < row.figures.in_flight_mean <= 3
    findings = Judge().judge_path(str(study_folder)).findings
    assert [each for each in findings if each.severity is Severity.ERROR] == []


@pytest.mark.slow
def test_a_run_that_was_too_short_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe's rate may be far too low."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(concurrency_curve, "RATE_MARGIN", 0.25)
    keep_llama_checkpoint(tmp_path / "results")
    lengths = list[float]()
    whole = runs.build_step_schedule

    def plan(*given: Any) -> Any:
        schedule = whole(*given)
        lengths.append(schedule.rate)
        return schedule

    monkeypatch.setattr(runs, "build_step_schedule", plan)
    trace(tmp_path / "results", 4)
    assert len(lengths) > 1 and lengths == sorted(lengths)


@pytest.mark.parametrize(
    "words, why",
    [
        (("--points", "0"), "numbers from 1 to 65,536"),
        (("--points", "1,1"), "different comma-separated"),
        (("--points", "1,x"), "different comma-separated"),
        (("--points", ""), "different comma-separated"),
        (("--points", "65537"), "numbers from 1 to 65,536"),
        (("--seconds", "0"), "is not in the range"),
        (("--ca", "x.pem"), "--ca requires --endpoint"),
        (("--endpoint", "http://h:1", "--device", "cpu"), "--device: the servers decide it"),
    ],
)
def test_words_that_make_no_curve_are_refused(words: tuple[str, ...], why: str) -> None:
    result = CliRunner().invoke(curve, ["resnet50", *words])
    assert why in f"{result.output} {result.exception}"


def refuse(results: Path, *assignments: str, workload: str = "fake", **changes: Any) -> None:
    """Ask for a curve that is refused before anything is measured."""
    framework = "fake" if workload == "fake" else "torch"
    chosen = options(results, *assignments, framework=framework, engine=framework)
    values = {"concurrencies": (1, 2), "seconds": changes.pop("seconds", None)}
    measure_study("curve", workload, chosen, StudyOptions(values=values, **changes))


def test_a_workload_without_tokens_is_refused(tmp_path: Path) -> None:
    keep_checkpoint(tmp_path / "results")
    with pytest.raises(RequestError, match="fake: its answers are not generated token by token"):
        refuse(tmp_path / "results")


def test_the_setting_of_the_points_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"--set batching\.max_batch: --points decides it"):
        refuse(tmp_path / "results", "batching.max_batch=4")


def test_a_server_without_streams_is_refused(tmp_path: Path) -> None:
    site = choose_remote_site(("grpc://far:8001",), (Scenario.OFFLINE,))
    with pytest.raises(RequestError, match="a curve needs a server that streams tokens"):
        refuse(tmp_path / "results", site=site)


def test_points_shorter_than_the_round_s_runs_are_refused(tmp_path: Path) -> None:
    keep_llama_checkpoint(tmp_path / "results")
    with pytest.raises(RequestError, match="--seconds 3: Offline of profile smoke lasts at least"):
        refuse(tmp_path / "results", workload="llama", seconds=3.0)

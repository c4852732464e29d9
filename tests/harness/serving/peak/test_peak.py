"""`podium peak`: every probe and run kept and judged, an interrupted search goes on, and a request
without sense is refused at once.
"""

import json
from dataclasses import asdict, replace
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import click
import pytest
from click.testing import CliRunner, Result
from podium_fakes.drive import until_valid
from podium_fakes.kept import keep_ceiling, keep_checkpoint

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.commands.peak import peak
from harness.serving.studies import driver as driven
from harness.serving.studies.round_peak import ROUND_PEAK_VALUES
from suite.cli import RunOptions
from suite.errors import JudgedError, RequestError
from suite.files.layout import STATE_FOLDER
from suite.rounds import ScenarioRow
from suite.studies import peak_search
from suite.studies.documents import POINT_FILE, STUDIES_FOLDER, STUDY_FILE
from suite.studies.kind import StudiedSystem
from suite.studies.measured import read_measured_study
from suite.studies.multi_stream_search import choose_multi_stream_step
from suite.studies.peak import PEAK, PeakSearchStudy, resolve_peak_request
from suite.studies.rates import RUN_PURPOSE, PeakRequest, RateAttempt

COMMON = (
    "--threads",
    "1",
    "--engine",
    "fake",
    "--framework",
    "fake",
    "--set",
    "batching.max_batch=1",
    "--set",
    "fake.sleep_ms=2",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")
    keep_checkpoint(tmp_path / "r")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs, and probes of a fifth of the time: a queue that is overloaded by a few percent need
    not show where the search ends at half.
    """
    monkeypatch.setattr(peak_search, "MAX_PROBES", 4)
    monkeypatch.setattr(peak_search, "MAX_FULL_RUNS", 4)
    monkeypatch.setattr(peak_search, "PROBE_BOUNDS", peak_search.PROBE_BOUNDS // 5)
    monkeypatch.setattr(peak_search, "SKIPPED_BOUNDS", peak_search.SKIPPED_BOUNDS // 5)


def invoked(results: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        peak, ["fake", *COMMON, "--results", str(results / "r"), *arguments], catch_exceptions=False
    )


def tell_engine(workload: str, options: RunOptions, *_: object) -> RunOptions:
    """Settle an engine as where there are several: it says which."""
    click.echo(f"{workload}: engine {options.engine}: 1.0 ms a sample")
    return options


def stop_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Kill a search after so many runs."""
    whole, runs = driven.measure_counted_run, list[None]()

    def measure(*given: Any) -> None:
        if len(runs) == count:
            raise ZeroDivisionError("killed on purpose")
        runs.append(whole(*given))

    monkeypatch.setattr(driven, "measure_counted_run", measure)


def study(results: Path) -> Path:
    (found,) = (results / "r" / STUDIES_FOLDER).iterdir()
    return found


def errors(path: Path) -> list[str]:
    return [
        finding.rule
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_a_search_is_kept_judged_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command reads what is there; a changed answer and a changed run are found."""
    told = invoked(tmp_path, "--within-ms", "100", "--tolerance", "0.5").stdout
    folder = study(tmp_path)
    found = read_measured_study(folder)
    assert (
        found.answer.valid
        and not found.request.of_round
        and "not the round's bound: no result" in told
    )
    assert errors(folder) == [] and errors(tmp_path / "r" / STUDIES_FOLDER) == []
    monkeypatch.setattr(driven, "measure_counted_run", lambda *_: pytest.fail("measured again"))
    monkeypatch.setattr(driven, "settle_engine", tell_engine)  # JSON alone goes to stdout
    again = json.loads(
        invoked(tmp_path, "--within-ms", "100", "--tolerance", "0.5", "--format", "json").stdout
    )
    assert again["answer"] == asdict(found.answer) and len(again["points"]) == len(found.points)
    document = json.loads((folder / STUDY_FILE).read_text())
    document["requests"][0]["request"]["of_round"] = True
    (folder / STUDY_FILE).write_text(json.dumps(document))
    assert "study.plan" in errors(folder)


@pytest.mark.slow
def test_probes_of_a_real_search_follow_from_one_another_and_pass_as_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe told as a run is too short for one."""
    stop_after(monkeypatch, 2)
    with pytest.raises(ZeroDivisionError):
        invoked(tmp_path, "--within-ms", "20", "--percentile", "99.9")
    folder = study(tmp_path)
    found = read_measured_study(folder)
    probe = next(each for each in found.points if not each.point.full)
    findings = Judge().judge_path(str(folder)).findings
    assert errors(folder) == []
    assert not any(each.found.startswith("the point trial") for each in findings)
    record = folder / probe.folder / POINT_FILE
    document = json.loads(record.read_text())
    document["point"]["full"] = True
    record.write_text(json.dumps(document))
    assert "study.points" in errors(folder)


@pytest.mark.parametrize("option", ["--within-ms", "--percentile", "--budget-s", "--tolerance"])
def test_nan_is_no_number(option: str, tmp_path: Path) -> None:
    """It compares with nothing, so a range alone lets it pass."""
    found = CliRunner().invoke(peak, ["fake", option, "nan", "--results", str(tmp_path / "n")])
    assert (
        found.exit_code == 2
        and "not a finite number" in found.output
        and not (tmp_path / "n").exists()
    )


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured stays; a run without its record, as a kill leaves it, is made again."""
    with monkeypatch.context() as patched:
        stop_after(patched, 2)
        with pytest.raises(ZeroDivisionError):
            invoked(tmp_path, "--within-ms", "100", "--tolerance", "0.5")
    first, second = sorted(study(tmp_path).glob(f"*/trial-*/{POINT_FILE}"))
    kept = [each.read_bytes() for each in (first, second)]
    second.unlink()
    told = invoked(tmp_path, "--within-ms", "100", "--tolerance", "0.5").stdout
    assert "continuing after 1 run" in told
    assert first.read_bytes() == kept[0] and second.read_bytes() != kept[1]
    assert errors(study(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_a_smaller_budget_keeps_what_a_larger_one_measured(tmp_path: Path) -> None:
    """Its plan ends earlier; the runs behind it follow the larger one's."""
    asked = ("--within-ms", "100", "--tolerance", "0.5")
    invoked(tmp_path, *asked)
    before = read_measured_study(study(tmp_path))
    spent = sum(each.seconds for each in before.points[:2])
    invoked(tmp_path, *asked, "--budget-s", f"{spent:.1f}")
    found = read_measured_study(study(tmp_path))
    assert found.points == before.points and found.is_finished
    assert not list((tmp_path / "r" / STATE_FOLDER).glob(f"superseded/*/{STUDIES_FOLDER}/*"))
    assert errors(study(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_a_search_that_is_repeated_keeps_the_runs_that_still_follow(tmp_path: Path) -> None:
    """Those that no longer do are moved aside, and the others are numbered without a gap."""
    asked = ("--within-ms", "100", "--tolerance", "0.5")
    invoked(tmp_path, *asked)
    before = read_measured_study(study(tmp_path))
    invoked(tmp_path, *asked, "--repeats", "2")
    found = read_measured_study(study(tmp_path))
    assert found.points[0].runs[0] == before.points[0].runs[0] and found.is_finished
    assert {len(each.runs) for each in found.points} <= {1, 2} and len(found.points[0].runs) == 2
    both = zip(before.points, found.points, strict=False)
    same = takewhile(lambda pair: PEAK.is_same_point(pair[0].point, pair[1].point), both)
    firsts = [(one.runs[0].figures, other.runs[0].figures) for one, other in same]
    assert firsts and all(one == other for one, other in firsts)
    assert errors(study(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_a_search_with_other_settings_starts_from_what_it_sees_and_keeps_the_earlier_runs_aside(
    tmp_path: Path,
) -> None:
    """The rate of a slower system would bound the search; hours of LoadGen runs are not deleted.

    It is so much slower that what each query costs besides does not hide it, and the bound is
    longer than a stall. The budget holds two of its runs.
    """
    asked = ("--within-ms", "2000", "--tolerance", "0.5", "--budget-s", "30")
    invoked(tmp_path, *asked, "--set", "fake.sleep_ms=20")
    before = read_measured_study(study(tmp_path))
    invoked(tmp_path, *asked, "--set", "fake.sleep_ms=1")
    found = read_measured_study(study(tmp_path))
    assert (
        found.request.seen > 4 * before.request.seen
        and found.answer.valid > 4 * before.answer.valid
    )
    (aside,) = (tmp_path / "r" / STATE_FOLDER).glob(f"superseded/*/{STUDIES_FOLDER}/*")
    assert sorted(path.parent.name for path in aside.rglob(POINT_FILE)) == [
        f"trial-{number + 1:02}" for number in range(len(before.points))
    ]
    assert errors(study(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_the_rounds_bound_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --within-ms a run of the search may be a result. It begins near the peak: half a
    second is long for a queue of 459 queries.
    """
    monkeypatch.setattr(peak_search, "START_RATE_SHARE", 1.1)
    told = invoked(
        tmp_path, "--tolerance", "0.5", "--budget-s", "30", "--set", "fake.sleep_ms=8"
    ).stdout
    found = read_measured_study(study(tmp_path))
    assert "--peak" not in told, "podium infer --peak would search anew, to its own tolerance"
    assert (
        found.request.of_round
        and found.request.bound_ns == 500_000_000
        and errors(study(tmp_path)) == []
    )


@pytest.mark.slow
def test_the_next_command_has_the_options_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it would search another system from the beginning."""
    monkeypatch.setattr(driven, "measure_missing_runs", lambda progress: None)
    monkeypatch.setattr(PeakSearchStudy, "describe_failure", lambda *_: "")
    (line,) = [line for line in invoked(tmp_path).stdout.splitlines() if line.startswith("next: ")]
    words = (
        "--framework fake --set batching.max_batch=1 --set fake.sleep_ms=2 --engine fake"
        f" --results {tmp_path / 'r'} --threads 1"
    )
    assert line == f"next: podium infer fake --scenario server --peak {words}"
    assert "--peak" not in invoked(tmp_path, "--within-ms", "500").stdout, "a study of its own"


@pytest.mark.slow
def test_multi_stream_searches_samples_per_query(tmp_path: Path) -> None:
    """One batch of eight takes what one of one does: with batches of one sample, 4 ms hold about
    nine.
    """
    asked = (
        "--scenario",
        "multi-stream",
        "--within-ms",
        "4",
        "--percentile",
        "50",
        "--tolerance",
        "0.2",
        "--budget-s",
        "60",
    )
    told = until_valid(
        lambda: invoked(tmp_path, *asked, "--set", "fake.sleep_ms=0.4").stdout,
        stalled="one sample alone takes",
    )
    found = read_measured_study(study(tmp_path))
    assert (
        "samples per query (house rule: no MLPerf metric)" in told
        and 1 <= found.answer.valid <= 10
        and errors(study(tmp_path)) == []
    )


@pytest.mark.slow
def test_a_bound_below_one_sample_is_said_at_once(tmp_path: Path) -> None:
    """No run can keep it."""
    with pytest.raises(
        JudgedError, match=r"one sample alone takes \d+\.\d\d ms; no rate keeps 0.5 ms"
    ):
        invoked(tmp_path, "--within-ms", "0.5")
    assert not list((tmp_path / "r").glob(f"{STUDIES_FOLDER}/*/*"))


@pytest.mark.slow
def test_a_budget_below_one_full_run_is_refused_with_the_seconds_needed(tmp_path: Path) -> None:
    """Exit code 2."""
    with pytest.raises(RequestError, match=r"--budget-s 1: one full run takes \d+ s"):
        invoked(tmp_path, "--within-ms", "100", "--budget-s", "1")


@pytest.mark.slow
def test_multi_stream_needs_a_bound(tmp_path: Path) -> None:
    """The round has none."""
    with pytest.raises(
        RequestError,
        match="MultiStream of fake has no bound in the round: name one with --within-ms",
    ):
        invoked(tmp_path, "--scenario", "multi-stream")


def test_integers_are_doubled_then_bisected() -> None:
    """Until the neighbour of the best is INVALID, or within the tolerance."""
    sought = PeakRequest(
        scenario="MultiStream",
        percentile=99.0,
        bound_ns=1,
        of_round=False,
        min_queries=662,
        min_duration_ms=1,
        tolerance=0.02,
        seen=3.0,
        budget_s=600.0,
    )
    trials: list[RateAttempt] = []
    while (step := choose_multi_stream_step(sought, trials)) is not None:
        verdict = "VALID" if step.rate <= 37 else "INVALID"
        trials.append(
            RateAttempt(
                folder=str(len(trials)),
                purpose=RUN_PURPOSE,
                rate=step.rate,
                queries=662,
                over=0,
                dispersion=1.0,
                latency_ns=1.0,
                verdict=verdict,
                seconds=1.0,
            )
        )
    assert (
        max(trial.rate for trial in trials if trial.verdict == "VALID") == 37 and len(trials) < 14
    )


BOUNDED: Final = ScenarioRow(
    percentile=90.0,
    token_latencies=True,
    first_token_ns=200_000_000,
    per_token_ns=10_000_000,
    min_duration_ms=5000,
    min_queries=64,
)
"""A Server that bounds first and further tokens."""


def ask(within_ms: float | None = None) -> dict[str, Any]:
    """A request for a search of Server."""
    return {**ROUND_PEAK_VALUES, "within_ms": within_ms}


def set_up(row: ScenarioRow) -> StudiedSystem:
    """As much of a system as the request is resolved from."""
    speed = SimpleNamespace(samples_per_second=90.0, latency_ns=1)
    made = SimpleNamespace(
        workload="fake",
        is_bare=False,
        latency_budget_ms=None,
        require_scenario_rules=lambda each: row,
        probe_speed=lambda: speed,
    )
    return cast(StudiedSystem, made)


def test_bounds_of_tokens_are_searched_together() -> None:
    """Both are the round's, so the best run is a result."""
    PEAK.check_request(ask(), set_up(BOUNDED))
    made = resolve_peak_request(ask(), set_up(BOUNDED))
    assert (made.bound_ns, made.per_token_ns, made.of_round) == (200_000_000, 10_000_000, True)
    plain = replace(BOUNDED, bound_ns=50, first_token_ns=None, per_token_ns=None)
    made = resolve_peak_request(ask(), set_up(plain))
    assert (made.bound_ns, made.per_token_ns, made.of_round) == (50, None, True)


def test_one_bound_for_two_is_refused() -> None:
    """In one sentence, before anything is measured; so is a search without a bound."""
    with pytest.raises(RequestError, match="--within-ms 50: Server of fake is bounded by its tok"):
        PEAK.check_request(ask(within_ms=50), set_up(BOUNDED))
    plain = replace(BOUNDED, first_token_ns=None, per_token_ns=None)
    with pytest.raises(RequestError, match="Server of fake has no bound in the round: name one"):
        PEAK.check_request(ask(), set_up(plain))
    PEAK.check_request(ask(within_ms=50), set_up(plain))

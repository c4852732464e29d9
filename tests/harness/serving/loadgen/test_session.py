"""Real LoadGen runs over a system under test of a few lines."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from podium_fakes.served import (
    LOG_SEED,
    ROW,
    SLOW_S,
    Served,
    batches,
    content,
    job,
    schedule,
    system,
)

from harness.serving.loadgen import session
from harness.serving.loadgen.probe import ProbeJob, run_probe_job
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen_in_child
from suite import registry
from suite.errors import JudgedError, PodiumError, RequestError
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, QUERY_RECORD_FILE, SUMMARY_LOG
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.early_stopping import estimate_early_stopping, is_server_run_proven
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

UNEVEN = Served(samples=50, held=20, lengths=3)


def do(run: LoadGenJob) -> LoadGenOutcome:
    """Hold a run and keep it."""
    with run_loadgen_in_child(run) as (_, outcome):
        pass
    return outcome


@pytest.mark.parametrize("scenario", Scenario)
def test_an_accuracy_run_answers_every_sample_right(tmp_path: Path, scenario: Scenario):
    """50 samples in sets of 20: parts are loaded and unloaded, the last query of MultiStream is
    filled up, no sample is left out.
    """
    outcome = do(job(tmp_path, scenario, Mode.ACCURACY, UNEVEN, workers=2))
    assert dict(read_logged_answers(tmp_path / "run")) == {
        sample: content(sample) for sample in range(50)
    }
    assert outcome.sample_count == 50 and outcome.samples >= 50 and outcome.batches >= 13
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted(
        (SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG)
    )
    assert not (tmp_path / "run.partial").exists()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", Scenario)
def test_a_performance_run_is_valid_and_says_what_it_was_told(tmp_path: Path, scenario: Scenario):
    """What LoadGen made of the settings stands in its detail log, which the judge reads.

    Offline is sized for more than any machine does, so that it lasts; Server's bound is one that no
    stall breaks.
    """
    row = replace(ROW, bound_ns=60_000_000_000)
    do(
        replace(
            job(tmp_path, scenario),
            schedule=schedule(scenario, row=row, **{"offline.expected_qps": 600_000.0}),
        )
    )
    facts, rules = read_detail_log(tmp_path / "run"), registry.load_round().loadgen
    assert (
        facts.values["result_validity"] == "VALID"
        and facts.values["effective_scenario"] == scenario.label
    )
    assert facts.values["effective_accuracy_log_rng_seed"] == LOG_SEED
    assert facts.values["effective_accuracy_log_sampling_target"] == rules.sampled_answers
    assert (
        facts.values["effective_qsl_rng_seed"] == rules.qsl_rng_seed
        and facts.values["effective_schedule_rng_seed"] == rules.schedule_rng_seed
    )
    assert facts.values["effective_min_duration_ms"] == ROW.min_duration_ms
    sampled = dict(read_logged_answers(tmp_path / "run"))
    assert sampled and all(answer == content(sample) for sample, answer in sampled.items())


@pytest.mark.slow
def test_offline_batches_are_full_and_of_like_length(tmp_path: Path):
    """Except the last of all: a batch half full wastes the machine."""
    do(job(tmp_path, Scenario.OFFLINE, facts=Served(lengths=3), max_batch=8))
    found = batches(tmp_path)
    assert all(len(batch) == 8 for batch in found[:-1])
    assert sum(len({sample % 3 for sample in batch}) > 1 for batch in found) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM])
def test_loadgens_early_stopping_is_ours(tmp_path: Path, scenario: Scenario):
    """The judge recomputes it from the count alone; a LoadGen that counts otherwise has to show up
    here.
    """
    do(job(tmp_path, scenario))
    facts = read_detail_log(tmp_path / "run")
    found = estimate_early_stopping(int(facts.require_number("result_query_count")), ROW.percentile)
    assert found.rank_from_top is not None
    said = str(facts.values["early_stopping_result"])
    assert (
        f"Would discard {found.rank_from_top - 1} highest latency queries" in said
        and f"at least {found.queries_needed} queries" in said
    )


@pytest.mark.slow
@pytest.mark.parametrize(("min_queries", "met"), [(63, False), (64, True)])
def test_the_floor_is_loadgens_too(tmp_path: Path, min_queries: int, met: bool):
    """64 queries at p90: one fewer is INVALID, by LoadGen and by us."""
    row = replace(ROW, min_duration_ms=0, min_queries=min_queries)
    settings = {"single_stream.expected_latency_us": 10_000_000}
    run = LoadGenJob(
        system=system(tmp_path / "sut"),
        schedule=schedule(Scenario.SINGLE_STREAM, row=row, **settings),
        folder=tmp_path / "run",
    )
    do(run)
    facts = read_detail_log(tmp_path / "run")
    assert facts.require_number("result_query_count") == min_queries
    assert (
        facts.values["early_stopping_met"]
        is met
        is (estimate_early_stopping(min_queries, 90.0).rank_from_top is not None)
    )


@pytest.mark.slow
def test_a_server_that_is_too_slow_is_invalid_by_both(tmp_path: Path):
    """Late queries are counted alike."""
    row = replace(ROW, bound_ns=3_000_000, percentile=99.0)
    run = schedule(Scenario.SERVER, row=row, **{"server.target_qps": 600.0})
    do(
        LoadGenJob(
            system=system(tmp_path / "sut", Served(pause_s=0.004)),
            schedule=run,
            folder=tmp_path / "run",
        )
    )
    facts = read_detail_log(tmp_path / "run")
    late, queries = (
        int(facts.require_number("result_overlatency_query_count")),
        int(facts.require_number("result_query_count")),
    )
    assert facts.values["result_validity"] == "INVALID" and late > queries / 2
    assert facts.values["early_stopping_met"] is False and not is_server_run_proven(
        queries, late, 99.0
    )


@pytest.mark.parametrize("slow", [7, 6])
def test_loadgens_percentile_is_ours(tmp_path: Path, slow: int):
    """Of 70 latencies p90 is the one at place 63: slow where seven are slow, fast where six are,
    unless a stall made others slow.
    """
    row = replace(ROW, min_duration_ms=0, min_queries=70)
    settings = {"single_stream.expected_latency_us": 10_000_000}
    facts = Served(slow_calls=slow)
    do(
        LoadGenJob(
            system=system(tmp_path / "sut", facts),
            schedule=schedule(Scenario.SINGLE_STREAM, row=row, **settings),
            folder=tmp_path / "run",
        )
    )
    found = read_detail_log(tmp_path / "run").require_number("result_90.00_percentile_latency_ns")
    rows = numpy.load(tmp_path / "run" / QUERY_RECORD_FILE)
    taken = sorted((rows["done_ns"] - rows["issued_ns"]).tolist())
    were = sum(each >= SLOW_S * 1e9 for each in taken)
    assert len(taken) == 70 and were >= slow
    assert (
        (found >= SLOW_S * 1e9)
        is (taken[compute_percentile_index(len(taken), 90.0)] >= SLOW_S * 1e9)
        is (were >= 7)
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("predict", "ZeroDivisionError: broken on purpose"),
        ("count", "gave 3 answers to 4 samples"),
        ("load", "OSError: disk broken on purpose"),
        ("open", "MemoryError: full on purpose"),
        ("exit", "exit status 7"),
        ("kill", "SIGKILL"),
    ],
)
def test_whatever_breaks_ends_the_run_and_leaves_nothing(tmp_path: Path, fault: str, words: str):
    """LoadGen would wait for ever, or leave files that read as a result."""
    with pytest.raises(PodiumError, match=words) as caught:
        do(job(tmp_path, Scenario.OFFLINE, facts=Served(fault=fault)))
    assert caught.value.exit_code == (3 if fault == "open" else 1)
    assert [path.name for path in tmp_path.iterdir()] == ["sut"]


def test_a_request_that_is_wrong_stays_exit_2(tmp_path: Path):
    """The child finds out, the user is told as if the parent had."""
    with pytest.raises(RequestError, match="asked wrongly on purpose"):
        do(job(tmp_path, Scenario.OFFLINE, facts=Served(fault="request")))


@pytest.mark.slow
def test_what_fails_after_the_run_leaves_nothing_either(tmp_path: Path):
    """Scoring runs before the folder gets its name."""
    with (
        pytest.raises(PodiumError, match="no score"),
        run_loadgen_in_child(job(tmp_path, Scenario.OFFLINE)),
    ):
        raise JudgedError("no score")
    assert not (tmp_path / "run").exists() and not (tmp_path / "run.partial").exists()


@pytest.mark.slow
def test_a_stale_partial_folder_makes_room(tmp_path: Path):
    """kill -9 leaves one; its files must not mix with the new ones."""
    (tmp_path / "run.partial").mkdir(parents=True)
    (tmp_path / "run.partial" / "old").touch()
    do(job(tmp_path, Scenario.OFFLINE))
    assert not (tmp_path / "run" / "old").exists()


@pytest.mark.slow
def test_the_look_times_batches_single_samples_and_queries(tmp_path: Path):
    """Rates come from it; a look that forgets the pause would ask LoadGen for too much."""
    facts = ProbeJob(
        system=system(tmp_path / "sut", Served(pause_s=0.01), workers=2, max_batch=4),
        query_samples=8,
        truth=tmp_path,
    )
    seen = run_probe_job(facts, abort=unexpected)
    assert seen.sample_count == 50 and (tmp_path / "truth.txt").read_text() == "true"
    assert 300 < seen.probe.samples_per_second < 2 * 4 / 0.01
    assert 10e6 < seen.probe.latency_ns < 30e6 and 20e6 < seen.probe.query_latency_ns < 60e6


def unexpected(error: BaseException) -> Any:
    """Nothing is to go wrong here."""
    raise error


def test_a_logger_that_never_ends_is_left_and_the_run_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LoadGen's last flush may wait forever, seen once beside other tests: the campaign would hang
    with all queries answered.
    """
    (tmp_path / DETAIL_LOG).write_text(':::MLLOG {"key": "power_begin", "value": "now"}\n')
    watch = session.LoggerWatch(tmp_path, None)
    monkeypatch.setattr(session, "STUCK_LOGGER_S", 0.0)
    watch()
    watch()  # silent, but its queries are not over
    (tmp_path / DETAIL_LOG).write_text(':::MLLOG {"key": "power_end", "value": "now"}\n')
    watch()
    with pytest.raises(session.StuckLoggerError):
        watch()


def test_a_system_that_is_built_for_long_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine may take minutes to build, and LoadGen has no log before: the run would end with
    "No such file or directory".
    """
    monkeypatch.setattr(session, "STUCK_LOGGER_S", 0.0)
    watch = session.LoggerWatch(tmp_path, None)
    for _ in range(3):
        watch()


def test_a_run_is_given_up_after_several_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each of them leaves an empty folder to the next."""
    seen: list[list[Path]] = []

    def hang(job: Any, _: Any) -> Any:
        seen.append(list(job.folder.iterdir()))
        (job.folder / DETAIL_LOG).touch()
        raise session.StuckLoggerError

    monkeypatch.setattr(session, "run_with_telemetry", hang)
    job = SimpleNamespace(
        folder=tmp_path / "run_1", schedule=SimpleNamespace(scenario=Scenario.SERVER)
    )
    job.folder.mkdir()
    with pytest.raises(
        JudgedError, match=r"LoadGen's logger did not end after the last query; 3 runs in a row"
    ):
        session.retry_spoilt_run(job, None)  # type: ignore[arg-type]
    assert seen == [[], [], []]


@pytest.mark.parametrize(
    ("step_ns", "runs"), [(0, 1), (500_000, 1), (-(10**7), 2), (-36 * 10**11, 2), (36 * 10**11, 2)]
)
def test_a_run_in_which_the_clock_was_set_does_not_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step_ns: int,
    runs: int,
) -> None:
    """LoadGen measures with the wall clock: a step of an hour would be a latency of an hour, and
    the judge would find a log that contradicts itself.
    """
    wall, steps, done = time.time_ns, [step_ns], []

    def run_once(job: Any, tick: Any) -> str:
        done.append(job.folder)
        shift = sum(steps)
        steps.clear()
        moved = session.read_clock_offset_ns() + shift - (wall() - time.monotonic_ns())
        monkeypatch.setattr(time, "time_ns", lambda: wall() + moved)
        return "outcome"

    monkeypatch.setattr(session, "run_with_telemetry", run_once)
    job = SimpleNamespace(
        folder=tmp_path / "run_1", schedule=SimpleNamespace(scenario=Scenario.SERVER)
    )
    job.folder.mkdir()
    assert session.retry_spoilt_run(job, None) == "outcome"  # type: ignore[arg-type]
    assert len(done) == runs
    said = capsys.readouterr()
    assert ("the machine's clock was set by" in said.out + said.err) is (runs > 1)

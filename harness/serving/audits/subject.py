"""The result that is audited: its accuracy run and its performance runs, read and checked before
anything runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.serving.loadgen.result_files import read_answers, read_facts
from harness.serving.loadgen.test_settings import Probe, Schedule, plan
from harness.serving.run_record import record_in
from harness.serving.setup import Bench
from harness.serving.staging import VALID
from suite.errors import JudgedError, RequestError
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds import HyperValue
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.workload import Mode

NO_PROBE = Probe(samples_per_second=1.0, latency_ns=1.0, query_latency_ns=1.0)
"""Nothing is probed: the result's record has every rate and latency that LoadGen was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One scenario's result."""

    scenario: Scenario
    schedule: Schedule
    """Settings of its performance runs."""
    answers: Mapping[int, bytes]
    """Sample -> answer of its accuracy run."""
    threads: int


def subject(bench: Bench, scenario: Scenario) -> Subject:
    """Read the result of a scenario; RequestError if it is missing, INVALID, or of another
    checkpoint or other settings.
    """
    name = bench.request.row.inference_name
    refuse_remote(bench, scenario)
    accuracy, performance = (
        bench.entry.locate_accuracy_run(name, scenario),
        bench.entry.locate_performance_run(name, scenario).parent,
    )
    folders = sorted(
        path for path in performance.glob("run_*") if not path.name.endswith(".partial")
    )
    records = [checked(bench, scenario, folder) for folder in (accuracy, *folders)]
    if not folders:
        raise lacking(bench, scenario, "has no performance run")
    if any(record.verdict != VALID for record in records[1:]):
        raise lacking(bench, scenario, "has a performance run that LoadGen calls INVALID")
    return Subject(
        scenario=scenario,
        schedule=schedule_of(bench, scenario, records[1]),
        answers=answers_of(accuracy),
        threads=records[1].threads,
    )


def refuse_remote(bench: Bench, scenario: Scenario) -> None:
    """RequestError if the result, or the only one, is of a remote system, whose servers an audit
    cannot ask.
    """
    name, own = bench.request.row.inference_name, bench.entry
    folder = own.locate_benchmark(name) / scenario.folder
    elsewhere = own.results.glob(
        f"*/{own.org}/results/*/{name}/{scenario.folder}/performance/run_*"
    )
    for path in sorted(folder.glob("performance/run_*") if folder.exists() else elsewhere):
        record = record_in(path)
        if record and record.network and record.checkpoint_sha256 == bench.checkpoint.record.sha256:
            servers = ", ".join(record.network.endpoints)
            told = f"{bench.request.name}: {scenario.label} was served by {servers}"
            raise RequestError(
                f"{told}: podium audit runs systems of this machine alone (docs/SCALE.md)"
            )


def checked(bench: Bench, scenario: Scenario, folder: Path) -> RunRecord:
    """Read a run's record, and compare it with the request."""
    record = record_in(folder)
    if record is None:
        raise lacking(
            bench,
            scenario,
            f"has no {folder.name}" if not folder.exists() else f"has a damaged {folder.name}",
        )
    own = bench.checkpoint.record
    if (record.checkpoint_sha256, record.nonce) != (own.sha256, own.nonce):
        raise lacking(
            bench,
            scenario,
            f"is of checkpoint {record.checkpoint_sha256[:16]}..., not {own.sha256[:16]}...",
        )
    if record.device != bench.device:
        raise RequestError(
            f"{bench.request.name}, {scenario.label}: the result was served on {record.device}, not"
            f" {bench.device}: audit it on the same"
        )
    if differing := differences(bench.request.settings, record.settings):
        raise RequestError(
            f"{bench.request.name}, {scenario.label}: the result was served with"
            f" {'; '.join(differing)}: audit it with the same settings"
        )
    if folder.parent.name == Mode.PERFORMANCE and read_facts(folder).errors:
        raise lacking(bench, scenario, "has a run that is void")
    return record


def differences(asked: Mapping[str, HyperValue], told: Mapping[str, HyperValue]) -> Sequence[str]:
    """List the settings of a result that are not the request's; LoadGen's own are taken from the
    result.
    """
    names = [
        name
        for name in sorted(asked.keys() | told.keys())
        if not name.startswith(PERFORMANCE_PREFIXES)
    ]
    return [
        f"{name}={told.get(name)}, not {asked.get(name)}"
        for name in names
        if plain(asked.get(name)) != plain(told.get(name))
    ]


def plain(value: HyperValue | None) -> object:
    """Give a tuple as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def lacking(bench: Bench, scenario: Scenario, what: str) -> RequestError:
    """Say that the result cannot be audited, and which command makes one that can."""
    name = bench.request.name
    command = (
        f"podium infer {name} --scenario {scenario.value} --results {bench.request.options.results}"
    )
    return RequestError(f"{name}: the result of {scenario.label} {what}: run {command} first")


def schedule_of(bench: Bench, scenario: Scenario, record: RunRecord) -> Schedule:
    """Build the schedule of the result's performance runs from their record."""
    request = bench.request
    return plan(
        request.round,
        bench.rules(scenario),
        scenario,
        Mode.PERFORMANCE,
        record.settings,
        NO_PROBE,
        bench.log_seed,
    )


def answers_of(folder: Path) -> Mapping[int, bytes]:
    """Read the answers of the accuracy run; RequestError if they cannot be read."""
    try:
        return dict(read_answers(folder))
    except (OSError, JudgedError) as error:
        raise RequestError(f"{folder}: {error}") from error

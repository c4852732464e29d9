"""The result that is audited: its accuracy run and its performance runs, read and checked before
anything runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    ProbedSpeed,
    build_loadgen_schedule,
)
from harness.serving.run_record import find_served_run
from harness.serving.setup import ServingSetup
from suite.errors import JudgedError, RequestError
from suite.loadgen.detail_log import is_logged_valid, read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.records import ServedRun
from suite.rounds import HyperValue
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.workload import Mode

NO_PROBE = ProbedSpeed(samples_per_second=1.0, latency_ns=1.0, query_latency_ns=1.0)
"""Nothing is probed: the result's record has every rate and latency that LoadGen was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedResult:
    """One scenario's result."""

    scenario: Scenario
    schedule: LoadGenSchedule
    """Settings of its performance runs."""
    answers: Mapping[int, bytes]
    """Sample -> answer of its accuracy run."""
    threads: int


def read_audited_result(serving_setup: ServingSetup, scenario: Scenario) -> AuditedResult:
    """Read the result of a scenario; RequestError if it is missing, INVALID, or of another
    checkpoint or other settings.
    """
    name = serving_setup.request.row.inference_name
    refuse_remote_result(serving_setup, scenario)
    accuracy, performance = (
        serving_setup.entry.locate_accuracy_run(name, scenario),
        serving_setup.entry.locate_performance_run(name, scenario).parent,
    )
    folders = sorted(
        path for path in performance.glob("run_*") if not path.name.endswith(".partial")
    )
    records = [
        require_matching_record(serving_setup, scenario, folder) for folder in (accuracy, *folders)
    ]
    if not folders:
        raise build_missing_result_error(serving_setup, scenario, "has no performance run")
    if not all(map(is_logged_valid, folders)):
        raise build_missing_result_error(
            serving_setup, scenario, "has a performance run that LoadGen calls INVALID"
        )
    return AuditedResult(
        scenario=scenario,
        schedule=build_audited_schedule(serving_setup, scenario, records[1]),
        answers=read_accuracy_answers(accuracy),
        threads=records[1].system.threads,
    )


def refuse_remote_result(serving_setup: ServingSetup, scenario: Scenario) -> None:
    """RequestError if the result, or the only one, is of servers, which this command does not
    name.
    """
    if serving_setup.host.network is not None:
        return
    name, own = serving_setup.request.row.inference_name, serving_setup.entry
    folder = own.locate_benchmark(name) / scenario.folder
    elsewhere = own.results.glob(
        f"*/{own.org}/results/*/{name}/{scenario.folder}/performance/run_*"
    )
    for path in sorted(folder.glob("performance/run_*") if folder.exists() else elsewhere):
        record = find_served_run(path)
        if (
            record
            and record.network
            and record.system.checkpoint_sha256 == serving_setup.checkpoint.record.sha256
        ):
            named = " ".join(f"--endpoint {each}" for each in record.network.endpoints)
            raise RequestError(
                f"{serving_setup.request.name}: {scenario.label} was served by"
                f" {', '.join(record.network.endpoints)}: audit it there, with {named}"
            )


def check_same_servers(serving_setup: ServingSetup, scenario: Scenario, record: ServedRun) -> None:
    """RequestError if the servers of an audit are not those of the result, or state another engine,
    version or precision than they did then.
    """
    name, network = serving_setup.request.name, serving_setup.host.network
    if network is None:
        return
    served = record.network.endpoints if record.network else ("this machine",)
    if served != network.endpoints:
        raise RequestError(
            f"{name}, {scenario.label}: the result was served by {', '.join(served)}, not"
            f" {', '.join(network.endpoints)}: audit it on the same"
        )
    stated = serving_setup.identity.list_statements()
    for what, before in record.stated_system.identity.list_statements().items():
        if stated[what].value != before.value:
            raise RequestError(
                f"{name}, {scenario.label}: {what} was {before.text} in the result, and is"
                f" {stated[what].text} now: measure again first"
            )


def require_matching_record(
    serving_setup: ServingSetup, scenario: Scenario, folder: Path
) -> ServedRun:
    """Read a run's record, and compare it with the request."""
    record = find_served_run(folder)
    if record is None:
        raise build_missing_result_error(
            serving_setup,
            scenario,
            f"has no {folder.name}" if not folder.exists() else f"has a damaged {folder.name}",
        )
    own = serving_setup.checkpoint.record
    system = record.system
    if (system.checkpoint_sha256, system.nonce) != (own.sha256, own.nonce):
        raise build_missing_result_error(
            serving_setup,
            scenario,
            f"is of checkpoint {system.checkpoint_sha256[:16]}..., not {own.sha256[:16]}...",
        )
    if system.device != serving_setup.device:
        raise RequestError(
            f"{serving_setup.request.name}, {scenario.label}: the result was served on"
            f" {system.device}, not {serving_setup.device}: audit it on the same"
        )
    check_same_servers(serving_setup, scenario, record)
    if differing := list_setting_differences(serving_setup.request.settings, system.settings):
        raise RequestError(
            f"{serving_setup.request.name}, {scenario.label}: the result was served with"
            f" {'; '.join(differing)}: audit it with the same settings"
        )
    if folder.parent.name == Mode.PERFORMANCE and read_detail_log(folder).errors:
        raise build_missing_result_error(serving_setup, scenario, "has a run that is void")
    return record


def list_setting_differences(
    requested: Mapping[str, HyperValue], recorded: Mapping[str, HyperValue]
) -> Sequence[str]:
    """List the settings of a result that are not the request's; LoadGen's own are taken from the
    result.
    """
    names = [
        name
        for name in sorted(requested.keys() | recorded.keys())
        if not name.startswith(PERFORMANCE_PREFIXES)
    ]
    return [
        f"{name}={recorded.get(name)}, not {requested.get(name)}"
        for name in names
        if convert_setting_to_json(requested.get(name))
        != convert_setting_to_json(recorded.get(name))
    ]


def convert_setting_to_json(value: HyperValue | None) -> object:
    """Convert a tuple to JSON's form."""
    return list(value) if isinstance(value, tuple) else value


def build_missing_result_error(
    serving_setup: ServingSetup, scenario: Scenario, reason: str
) -> RequestError:
    """Build the error that the result cannot be audited, with the command that makes one."""
    name = serving_setup.request.name
    command = (
        f"podium infer {name} --scenario {scenario.value} --results"
        f" {serving_setup.request.options.results}"
    )
    return RequestError(f"{name}: the result of {scenario.label} {reason}: run {command} first")


def build_audited_schedule(
    serving_setup: ServingSetup, scenario: Scenario, record: ServedRun
) -> LoadGenSchedule:
    """Build the schedule of the result's performance runs from their record."""
    request = serving_setup.request
    return build_loadgen_schedule(
        request.round,
        serving_setup.require_scenario_rules(scenario),
        scenario,
        Mode.PERFORMANCE,
        record.settings,
        NO_PROBE,
        serving_setup.log_seed,
    )


def read_accuracy_answers(folder: Path) -> Mapping[int, bytes]:
    """Read the answers of the accuracy run; RequestError if they cannot be read."""
    try:
        return dict(read_logged_answers(folder))
    except (OSError, JudgedError) as error:
        raise RequestError(f"{folder}: {error}") from error

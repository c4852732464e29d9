"""Judge hyperparameters before a run by the rows of podium's own round."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from compliance.hyperparameter_check import (
    ClosedDivision,
    HyperparameterFile,
    SettingsCheck,
    add_location_to_errors,
    build_config_finding,
    find_closed_violations,
)
from compliance.verdict import Finding, Severity
from suite import registry
from suite.errors import RequestError
from suite.rounds import HyperValue, Setting
from suite.rounds.ranges import describe_range, find_range_problem
from suite.rounds.settings import convert_setting_type, require_setting
from suite.terms import Division

LEGALITY_RULE: Final = "training.legality"
"""The rule about a log's hyperparameters; it judges the file before the run."""


def require_closed_workload(name: str, workload: str) -> None:
    """Require that the round has a closed division for the workload; RequestError otherwise."""
    halves = registry.load_round(name).benchmark(workload).training.values()
    if all(half.division is not Division.CLOSED for half in halves):
        raise RequestError(f"{workload} has no closed division in round {name}")


def judge_podium_config(config: HyperparameterFile, name: str, workload: str) -> Iterator[Finding]:
    """Judge by a podium round's rows; keys and types are checked as in podium train."""
    round = registry.load_round(name)
    row = round.benchmark(workload)
    known = {**round.settings, **row.settings}
    settings = {
        key: convert_parameter(config, known, key, value)
        for key, value in config.parameters.items()
    }
    rows = [
        (profile, half)
        for profile, half in row.training.items()
        if half.division is Division.CLOSED
    ]
    for profile, half in rows:
        closed = ClosedDivision(
            constraints=half.constraints,
            required=half.required,
            source=round.find_source(f"{workload}.training.{profile}.constraints"),
            profile=profile,
        )
        violations = list(find_closed_violations(config, settings, closed, LEGALITY_RULE))
        yield from violations
        lines = {finding.line for finding in violations}
        yield from (
            finding
            for finding in find_values_out_of_range(config, known, settings)
            if finding.line is None or finding.line not in lines
        )


def convert_parameter(
    config: HyperparameterFile, known: Mapping[str, Setting], key: str, value: Any
) -> HyperValue:
    """Check the type and choices of a value; RequestError names its file and line."""
    with add_location_to_errors(config, key, given=False):
        return convert_setting_type(require_setting(known, key), key, value)


def find_values_out_of_range(
    config: HyperparameterFile, known: Mapping[str, Setting], settings: Mapping[str, HyperValue]
) -> Iterator[Finding]:
    """Yield a finding for each number outside of its setting's range."""
    for key, value in settings.items():
        if problem := find_range_problem(known[key], value):
            yield build_config_finding(
                config,
                key,
                Severity.ERROR,
                f"{key}: {problem}",
                describe_range(known[key]),
                "the setting's range in the round",
                LEGALITY_RULE,
            )


SETTINGS_CHECK: Final = SettingsCheck(require_closed_workload, judge_podium_config)

"""Judge hyperparameters before a run by the table of a published round."""

from collections.abc import Iterator
from typing import Final

from compliance.hyperparameter_check import (
    ClosedDivision,
    HyperparameterFile,
    SettingsCheck,
    build_config_finding,
    find_closed_violations,
)
from compliance.kinds.training.round import load_training_round
from compliance.verdict import Finding, Severity
from suite.errors import build_unknown_name_error

LEGALITY_RULE: Final = "log.legality"
"""The rule about a log's hyperparameters; it judges the file before the run."""
OPTIMIZER_KEY: Final = "opt_name"


def require_benchmark(name: str, workload: str) -> None:
    """Require that the round has the benchmark; RequestError otherwise."""
    round = load_training_round(name)
    if round.find_benchmark_name(workload) is None:
        raise build_unknown_name_error(f"benchmark of {name}", workload, round.benchmarks)


def judge_published_config(
    config: HyperparameterFile, name: str, workload: str
) -> Iterator[Finding]:
    """Judge by a published round's table; a key that the table lacks is reported, since it may be
    misspelt.
    """
    round = load_training_round(name)
    canonical = round.find_benchmark_name(workload) or workload
    settings = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in config.parameters.items()
    }
    required = round.list_closed_required(canonical, settings.get(OPTIMIZER_KEY))
    closed = ClosedDivision(
        constraints=round.find_closed_constraints(canonical) or (),
        required=required,
        source=round.find_source(f"{canonical}.constraints"),
    )
    yield from find_closed_violations(config, settings, closed, LEGALITY_RULE)
    known = {*required, *(constraint.key for constraint in closed.constraints)}
    for key in settings.keys() - known:
        found = f"{key}: {build_unknown_name_error('hyper-parameter', key, known)}"
        yield build_config_finding(
            config,
            key,
            Severity.WARNING,
            found,
            f"a hyperparameter of {canonical} in {name}",
            closed.source,
            LEGALITY_RULE,
        )


SETTINGS_CHECK: Final = SettingsCheck(require_benchmark, judge_published_config)

"""Scores of podium's own results: the minutes of a run set, the metric of a scenario."""

from pathlib import Path

from compliance.kinds.podium.results import energy, log_values
from compliance.kinds.podium.results.within_run import iterate_within_run_figures
from compliance.results.indexed_result import IndexedResult
from suite import registry
from suite.errors import JudgedError
from suite.events import (
    PRECISION,
    PROFILE,
    ROUND,
    SUBMISSION_DIVISION,
    SUBMISSION_ORG,
    SUBMISSION_PLATFORM,
    SUCCESS,
    WORKLOAD,
)
from suite.files.layout import RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.measurement.mean_energy import average_energies
from suite.measurement.metrics import (
    MINUTES_UNIT,
    TIME_TO_TRAIN,
    compute_olympic_mean,
    is_higher_better,
)
from suite.result import Figure, MadeWith, Quality, Result
from suite.rounds.quality import select_worst_scores
from suite.served_identity import drop_unstated


def read_podium_values(result: IndexedResult, round_name: str) -> Result:
    """Read a run set or a scenario, whose logs state their round."""
    if result.scenario:
        return read_scenario_values(result, result.scenario)
    return read_training_set_values(result)


def read_training_set_values(result: IndexedResult) -> Result:
    """Read a run set: minutes from run_start to run_stop.

    Source: training_rules.adoc v0.7, Benchmark results: the fastest and the slowest are dropped; a
    run that fails is the slowest.
    """
    run_values = [log_values.read_training_values(log) for log in result.training_logs]
    if all(fact.minutes is None for fact in run_values):
        raise JudgedError(
            f"{result.single_log or result.folder}: its logs contain no run_start and run_stop"
        )
    runs = tuple(fact.minutes if fact.status == SUCCESS else None for fact in run_values)
    stamps = run_values[0].stamps
    round_name = str(stamps.get(ROUND))
    in_tree = result.organisation_folder is not None
    lower = run_values[0].lower_is_better
    energies = energy.read_training_energies(result.training_logs, result.telemetry_files)
    return Result(
        place=result.build_place(
            round_name,
            str(stamps.get(PROFILE)),
            division="" if in_tree else stamps.get(SUBMISSION_DIVISION) or "",
            org=str(stamps.get(SUBMISSION_ORG, "")),
            system=str(stamps.get(SUBMISSION_PLATFORM, "")),
            workload="" if in_tree else stamps.get(WORKLOAD) or "",
        ),
        figure=Figure(
            metric=TIME_TO_TRAIN,
            unit=MINUTES_UNIT,
            value=compute_olympic_mean(
                runs, registry.load_round(round_name).training.olympic_from_runs
            ),
            runs=runs,
        ),
        quality=Quality(
            accuracy=select_worst_scores((fact.accuracy for fact in run_values), lower),
            target=run_values[0].target,
            lower_is_better=lower,
        ),
        made_with=MadeWith(precision=log_values.format_logged_value(stamps.get(PRECISION))),
        energy=average_energies(energies),
        run_energy=energies,
    )


def read_scenario_values(result: IndexedResult, scenario: Scenario) -> Result:
    """Read one scenario: the slowest of several runs counts.

    Source: inference_rules.adoc v0.5, Scenarios: the result of Server's runs is their minimum.
    """
    measured = [
        log_values.read_performance_headline(folder, scenario)
        for folder in result.performance_folders
    ]
    if not measured:
        raise JudgedError(f"{result.folder}: contains no performance run")
    record = log_values.read_loadgen_run_record(result.performance_folders[0])
    runs = tuple(run.value for run in measured)
    metric = measured[0].metric
    value = min(runs) if is_higher_better(metric) else max(runs)
    counted = runs.index(value)
    tokens = measured[counted].tokens
    energies = tuple(
        energy.read_served_energy(folder, scenario) for folder in result.performance_folders
    )
    in_tree = result.organisation_folder is not None
    return Result(
        place=result.build_place(
            record.system.round,
            record.system.profile,
            division="" if in_tree else record.system.division,
            org=record.system.org,
            system=record.system.name,
            workload="" if in_tree else record.system.workload,
        ),
        figure=Figure(
            metric=metric,
            unit=measured[0].unit,
            value=value,
            runs=runs,
            whole_answers_per_s=tokens.answers_per_s if tokens else None,
            tokens=tokens,
            run_tokens=tuple(run.tokens for run in measured),
            within_run=tuple(iterate_within_run_figures(result.performance_folders, scenario)),
        ),
        quality=Quality(
            accuracy=log_values.read_served_accuracy(result.accuracy_folder),
            target=log_values.compute_required_accuracy(result.folder, record),
        ),
        made_with=MadeWith(
            precision=drop_unstated(record.stated_system.precision),
            served=record.stated_system.served,
            counted=read_counted_words(result.performance_folders[counted]),
        ),
        energy=energies[counted],
        run_energy=energies,
    )


def read_counted_words(folder: Path) -> tuple[tuple[str, str, str], ...]:
    """Read what servers counted themselves in a performance run; nothing without servers, or
    without podium's record of the run, which is the judge's to miss.
    """
    if not (folder / RUN_RECORD).is_file():
        return ()
    network = log_values.read_loadgen_run_record(folder).network
    return tuple(network.counted_words) if network else ()

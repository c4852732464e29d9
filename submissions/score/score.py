"""Scores: the olympic mean of minutes per training set, the metric of each scenario; one row per
set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from compliance.judge import Judge
from compliance.verdict import UNKNOWN_ROUND
from submissions import compliance_check
from submissions.attempts import count_result_attempts
from submissions.machines import (
    ComparedMachine,
    build_compared_machine,
    read_system_description_fields,
)
from submissions.metrics import MINUTES_UNIT, TIME_TO_TRAIN, compute_olympic_mean, is_higher_better
from submissions.pack.bundle import list_bundle_problems
from submissions.result_index import IndexedResult, open_results
from submissions.score import energy, log_values, published
from submissions.score.log_values import ResultValues
from submissions.score.within_run import WithinRun, iterate_within_run_figures
from suite import registry
from suite.errors import JudgedError, PodiumError
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
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_figures import TokenFigures
from suite.records import EnergyRecord
from suite.rounds import RoundKind
from suite.rounds.quality import select_worst_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One row: a training set, or one scenario of a system."""

    org: str
    system: str
    division: str
    profile: str
    round: str
    workload: str
    scenario: str | None
    """LoadGen's name; None for a training set."""
    metric: str
    value: float | None
    """In `unit`; None if too many runs failed for a mean."""
    unit: str
    runs: tuple[float | None, ...]
    """Each run in the order of its number; None for one that did not reach its target."""
    compliant: bool
    """The judge's verdict on this result."""
    machine: ComparedMachine = ComparedMachine()
    precision: str | None = None
    """Numbers with which it was trained or served; None if no file states it."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score of the last evaluation, or of the accuracy run; the worst of several
    training runs. Empty if the logs do not state it.
    """
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> required score: the training target, or the share of the reference accuracy that a
    served result must reach.
    """
    lower_is_better: tuple[str, ...] = ()
    """Metrics whose target is reached at most, not at least."""
    energy: tuple[EnergyRecord, ...] = ()
    """One record per power channel: of the run that gives the value, or the mean over a set's runs.
    Empty if no power was read.
    """
    within_run: tuple[WithinRun, ...] = ()
    """Statistics over time slices of each performance run; empty for training, and for runs without
    a query record.
    """
    attempts: int | None = None
    """Attempts in the ledger: training sets, or performance runs of the scenario; None if there is
    no ledger.
    """
    noise: tuple[str, ...] = ()
    """The judge's rules that found a disturbance in a run."""
    basis: str = ""
    """Of a result of the Endpoints client: the time that its rate is divided by, `legacy_window` or
    `whole_run`.
    """
    whole_run: float | None = None
    """The same rate over the run's whole duration."""
    whole_answers_per_s: float | None = None
    """Answers per second that did not fail, beside a rate of tokens."""
    late_tokens: float | None = None
    """Share of the rate that was produced after the window; None below a hundredth."""
    tokens: TokenFigures | None = None
    """Of the run that gives the value; None where LoadGen does not measure tokens."""
    inferred: bool = False
    """Whether it was computed from a run of another scenario."""
    convergence: Mapping[str, object] | None = None
    """For a closed training set since v1.0: its reference convergence point, the factor, and the
    minutes times it.
    """


def score_result(result: IndexedResult, judge: Judge | None = None) -> Score:
    """Score one result; JudgedError if its logs cannot be read."""
    reading = read_scored_values(result)
    own = compliance_check.judge_single_result(result, judge)
    return build_score(
        result,
        reading,
        compliant=compliance_check.is_accepted_result(result, own, judge),
        noise=compliance_check.list_noise_rules(own),
    )


def read_scored_values(result: IndexedResult) -> ResultValues:
    """Read the values of a result; JudgedError if its logs cannot be read."""
    try:
        return read_result_values(result)
    except PodiumError as error:
        raise JudgedError(str(error)) from error


def build_score(
    result: IndexedResult, reading: ResultValues, *, compliant: bool, noise: tuple[str, ...] = ()
) -> Score:
    """Return the score of a result whose logs were read and judged."""
    return Score(
        org=result.org or reading.org,
        system=result.system or reading.system,
        division=reading.division or result.division,
        profile=reading.profile,
        round=reading.round,
        workload=reading.workload or result.workload,
        scenario=result.scenario_name,
        metric=reading.metric,
        value=reading.value,
        unit=reading.unit,
        runs=reading.runs,
        compliant=compliant,
        machine=build_compared_machine(read_system_description_fields(result, reading.round)),
        precision=reading.precision,
        accuracy=reading.accuracy,
        target=reading.target,
        lower_is_better=reading.lower_is_better,
        energy=reading.energy,
        within_run=reading.within_run,
        attempts=count_result_attempts(result),
        noise=noise,
        basis=reading.basis,
        whole_run=reading.whole_run,
        whole_answers_per_s=reading.whole_answers_per_s,
        late_tokens=reading.late_tokens,
        tokens=reading.tokens,
        inferred=reading.inferred,
        convergence=reading.convergence,
    )


def read_result_values(result: IndexedResult) -> ResultValues:
    """Read the values of a result's logs by its round's rules."""
    round_name = compliance_check.resolve_result_round(result)
    if round_name == UNKNOWN_ROUND:
        raise JudgedError(
            f"{result.single_log or result.folder}: unknown round; run podium check for details"
        )
    match registry.load_round_kind(round_name):
        case RoundKind.TRAINING:
            return published.read_published_training_values(
                result, registry.load_published_training(round_name)
            )
        case RoundKind.INFERENCE_TEXT:
            return published.read_published_inference_values(
                result, registry.load_inference_text_round(round_name)
            )
        case RoundKind.INFERENCE_MLLOG:
            return published.read_mllog_entry_values(
                result, registry.load_inference_mllog_round(round_name)
            )
        case RoundKind.ENDPOINTS:
            raise JudgedError(f"{result.folder}: a run of no round has no score of a round")
        case RoundKind.ENDPOINTS_CURVE:
            raise JudgedError(f"{result.folder}: points of a curve are scored with their curve")
        case RoundKind.PODIUM:
            return (
                read_scenario_values(result, result.scenario)
                if result.scenario
                else read_training_set_values(result)
            )


def read_training_set_values(result: IndexedResult) -> ResultValues:
    """Read a training set: minutes from run_start to run_stop.

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
    return ResultValues(
        profile=str(stamps.get(PROFILE)),
        round=round_name,
        metric=TIME_TO_TRAIN,
        value=compute_olympic_mean(
            runs, registry.load_round(round_name).training.olympic_from_runs
        ),
        unit=MINUTES_UNIT,
        runs=runs,
        workload=None if result.organisation_folder else stamps.get(WORKLOAD),
        division=None if result.organisation_folder else stamps.get(SUBMISSION_DIVISION),
        org=str(stamps.get(SUBMISSION_ORG, "")),
        system=str(stamps.get(SUBMISSION_PLATFORM, "")),
        precision=log_values.format_logged_value(stamps.get(PRECISION)),
        accuracy=select_worst_scores(
            (fact.accuracy for fact in run_values), run_values[0].lower_is_better
        ),
        target=run_values[0].target,
        lower_is_better=run_values[0].lower_is_better,
        energy=energy.read_training_set_energy(result.training_logs, result.telemetry_files),
    )


def read_scenario_values(result: IndexedResult, scenario: Scenario) -> ResultValues:
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
    tokens = measured[runs.index(value)].tokens
    return ResultValues(
        profile=record.profile,
        round=record.round,
        metric=metric,
        value=value,
        unit=measured[0].unit,
        runs=runs,
        workload=None if result.organisation_folder else record.workload,
        division=None if result.organisation_folder else record.division,
        org=record.org,
        system=record.system,
        precision=record.precision,
        accuracy=log_values.read_served_accuracy(result.accuracy_folder),
        target=log_values.compute_required_accuracy(result.folder, record),
        energy=energy.read_served_energy(result.performance_folders[runs.index(value)]),
        within_run=tuple(iterate_within_run_figures(result.performance_folders, scenario)),
        whole_answers_per_s=tokens.answers_per_s if tokens else None,
        tokens=tokens,
    )


def score_opened_results(
    path: Path, results: Sequence[IndexedResult], problems: list[str]
) -> Iterator[tuple[IndexedResult, Score]]:
    """Yield results with their scores; add what cannot be scored to `problems`. One judge is
    shared, so that it reads common files once.

    No row of a damaged or invalid bundle is compliant; accuracies that were not recomputed are
    named on stderr.
    """
    judge, damage_found = compliance_check.choose_shared_judge(results), list_bundle_problems(path)
    problems += damage_found
    for result in results:
        try:
            row = score_result(result, judge)
            yield result, replace(row, compliant=row.compliant and not damage_found)
            if compliance_check.is_accuracy_unscored(result, judge):
                click.echo(
                    f"podium: {row.workload} {row.scenario} of {row.system}: its accuracy was "
                    "reported but not recomputed, because the ground truth is missing",
                    err=True,
                )
        except JudgedError as error:
            problems.append(str(error))


def score_paths(paths: Iterable[Path], problems: list[str]) -> list[Score]:
    """Score several paths; each set is scored once per path."""
    rows: list[Score] = []
    for path in paths:
        try:
            with open_results(path) as results:
                rows += [row for _, row in score_opened_results(path, results, problems)]
        except JudgedError as error:
            problems.append(str(error))
    return rows

"""Scores: the olympic mean of minutes per training set, the metric of each scenario; one row per set."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import click

from compliance.judge import Judge
from compliance.verdict import UNKNOWN
from submissions import compliance_check
from submissions.metrics import MINUTES, TIME_TO_TRAIN, more_is_better, olympic
from submissions.pack.bundle import damage
from submissions.result_index import Result, opened
from submissions.score import log_values, published
from submissions.score.log_values import Reading
from submissions.score.within_run import WithinRun, within
from suite import registry
from suite.errors import JudgedError, PodiumError
from suite.events import PROFILE, ROUND, SUBMISSION_DIVISION, SUBMISSION_ORG, SUBMISSION_PLATFORM, SUCCESS, WORKLOAD
from suite.loadgen.scenario import Scenario
from suite.rounds import RoundKind


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
    """In `unit`; None where too many runs failed for a mean."""
    unit: str
    runs: tuple[float | None, ...]
    """Each run in the order of its number; None for one that did not reach its target."""
    compliant: bool
    """What the judge says of this set."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score of the last evaluation, or of the accuracy run; of several training runs the lowest. Empty where the logs do not say."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score that the round requires: the training target, or the share of the reference accuracy that a served result must reach."""
    within_run: tuple[WithinRun, ...] = ()
    """What slices of time say of each performance run; empty for training, and where a run left no record of its queries."""


def score(result: Result, judge: Judge | None = None) -> Score:
    """Score one result; JudgedError where its logs cannot be read."""
    try:
        reading = read(result)
    except PodiumError as error:
        raise JudgedError(str(error)) from error
    return Score(
        org=result.org or reading.org,
        system=result.system or reading.system,
        division=reading.division or result.division,
        profile=reading.profile,
        round=reading.round,
        workload=reading.workload or result.workload,
        scenario=result.scenario.label if result.scenario else None,
        metric=reading.metric,
        value=reading.value,
        unit=reading.unit,
        runs=reading.runs,
        compliant=compliance_check.valid(result, judge),
        accuracy=reading.accuracy,
        target=reading.target,
        within_run=reading.within_run,
    )


def read(result: Result) -> Reading:
    """Read what the logs of a result say, as its round has it."""
    round_name = compliance_check.round_of(result)
    if round_name == UNKNOWN:
        raise JudgedError(f"{result.alone or result.folder}: of a round that is not known here; podium check says more")
    match registry.kind_of_round(round_name):
        case RoundKind.TRAINING:
            return published.read_training(result, registry.published_training(round_name))
        case RoundKind.INFERENCE:
            return published.read_serving(result, registry.published_inference(round_name))
        case RoundKind.PODIUM:
            return read_serving(result, result.scenario) if result.scenario else read_training(result)


def read_training(result: Result) -> Reading:
    """Read a training set: minutes from run_start to run_stop.

    Source: training_rules.adoc v0.7, Benchmark results: the fastest and the slowest are dropped; a run that fails is the slowest.
    """
    facts = [log_values.training(log) for log in result.logs]
    if all(fact.minutes is None for fact in facts):
        raise JudgedError(f"{result.alone or result.folder}: no run_start and run_stop in its logs")
    runs = tuple(fact.minutes if fact.status == SUCCESS else None for fact in facts)
    stamps = facts[0].stamps
    round_name = str(stamps.get(ROUND))
    return Reading(
        profile=str(stamps.get(PROFILE)),
        round=round_name,
        metric=TIME_TO_TRAIN,
        value=olympic(runs, registry.round(round_name).training.olympic_from_runs),
        unit=MINUTES,
        runs=runs,
        workload=None if result.home else stamps.get(WORKLOAD),
        division=None if result.home else stamps.get(SUBMISSION_DIVISION),
        org=str(stamps.get(SUBMISSION_ORG, "")),
        system=str(stamps.get(SUBMISSION_PLATFORM, "")),
        accuracy=log_values.lowest(fact.accuracy for fact in facts),
        target=facts[0].target,
    )


def read_serving(result: Result, scenario: Scenario) -> Reading:
    """Read one scenario: of several runs the slowest counts.

    Source: inference_rules.adoc v0.5, Scenarios: the result of Server's runs is their minimum.
    """
    measured = [log_values.performance(folder, scenario) for folder in result.performance]
    if not measured:
        raise JudgedError(f"{result.folder}: no performance run in it")
    record = log_values.served(result.performance[0])
    runs = tuple(run.value for run in measured)
    metric = measured[0].metric
    return Reading(
        profile=record.profile,
        round=record.round,
        metric=metric,
        value=min(runs) if more_is_better(metric) else max(runs),
        unit=measured[0].unit,
        runs=runs,
        workload=None if result.home else record.workload,
        division=None if result.home else record.division,
        org=record.org,
        system=record.system,
        accuracy=log_values.served_accuracy(result.accuracy),
        target=log_values.required_accuracy(result.folder, record),
        within_run=tuple(within(result.performance, scenario)),
    )


def scores(path: Path, results: Iterable[Result], problems: list[str]) -> Iterator[Score]:
    """Score what can be scored; what cannot be is told in `problems`. One judge for all, so that what they share is read once.

    Of a bundle that is not whole and valid no row is compliant; an accuracy that nobody recomputed is named on stderr.
    """
    judge, broken = Judge(), damage(path)
    problems += broken
    for result in results:
        try:
            row = score(result, judge)
            yield replace(row, compliant=row.compliant and not broken)
            if compliance_check.is_told(result, judge):
                click.echo(f"podium: {row.workload} {row.scenario} of {row.system}: accuracy told, not recomputed: its truth is not here", err=True)
        except JudgedError as error:
            problems.append(str(error))


def score_paths(paths: Iterable[Path], problems: list[str]) -> list[Score]:
    """Score several paths; each set once per path."""
    rows: list[Score] = []
    for path in paths:
        try:
            with opened(path) as results:
                rows += scores(path, results, problems)
        except JudgedError as error:
            problems.append(str(error))
    return rows


def report(paths: Iterable[Path], form: str) -> None:
    """Print the scores; JudgedError at the end where something could not be read."""
    problems: list[str] = []
    rows = score_paths(paths, problems)
    if form == "json":
        click.echo(json.dumps({"scores": [asdict(row) for row in rows]}, indent=2))
    elif form == "csv":
        click.echo(table_csv(rows), nl=False)
    elif rows:
        from submissions.tables import print_scores

        print_scores(rows, paths)
    if problems:
        raise JudgedError("\n  ".join(["not everything could be scored:", *problems]))


def table_csv(rows: Iterable[Score]) -> str:
    """Give the rows as CSV; runs and scores are separated by spaces, a failed run is a dash."""
    text = io.StringIO()
    names = [each.name for each in fields(Score) if each.name != "within_run"]  # a table of its own, in JSON
    writer = csv.DictWriter(text, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        runs = " ".join("-" if run is None else f"{run!r}" for run in row.runs)
        scores = {"accuracy": pairs(row.accuracy), "target": pairs(row.target)}
        writer.writerow(asdict(row) | {"runs": runs} | scores)
    return text.getvalue()


def pairs(scores: Mapping[str, float]) -> str:
    """Give scores as one cell: `top1=0.7698`."""
    return " ".join(f"{metric}={value!r}" for metric, value in scores.items())

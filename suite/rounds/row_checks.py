"""Checks of a workload's row: numbers with which no run could end, or that the judge would refuse
after it.
"""

import math
from collections.abc import Iterator
from typing import Final

from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.rounds import Benchmark, InferenceRow, ScenarioRow, TrainingRow
from suite.rounds.quality import describe_possible_values, is_possible_value

MAX_PERCENTILE: Final = 100


def check_row(workload: str, row: Benchmark) -> None:
    """Raise RequestError that names everything wrong with the numbers of a row."""
    wrong = [f"{workload}.{fault}" for fault in find_row_faults(row)]
    if wrong:
        raise RequestError("; ".join(wrong))


def find_row_faults(row: Benchmark) -> Iterator[str]:
    """Yield what is wrong with a row, each with its path below the workload."""
    yield from find_lower_metric_faults(row)
    for name, setting in row.settings.items():
        if setting.method and setting.method not in row.settings:
            yield f"settings.{name}.method: '{setting.method}' is not one of its settings"
    for profile, training in row.training.items():
        for fault in find_training_faults(row, training):
            yield f"training.{profile}.{fault}"
    for profile, inference in row.inference.items():
        for fault in find_inference_faults(inference):
            yield f"inference.{profile}.{fault}"


def find_lower_metric_faults(row: Benchmark) -> Iterator[str]:
    """Yield the lower-is-better metrics that the row does not have, or that a served result has: of
    that a share of the reference accuracy is required.
    """
    for metric in row.lower_is_better:
        if metric not in row.metrics:
            yield f"lower_is_better: '{metric}' is not one of its metrics"
        elif metric in row.scored_metrics:
            yield (f"lower_is_better: '{metric}' is served, too; served_metrics must name others")


def find_training_faults(row: Benchmark, training: TrainingRow) -> Iterator[str]:
    """Yield the numbers of a training row with which no run reaches its target, or any run does."""
    if not training.target:
        yield "target: names no metric"
    for metric, goal in training.target.items():
        scale = metric, row.lower_is_better, row.evaluations_below
        if metric not in row.metrics:
            yield f"target.{metric}: is not one of the metrics, {', '.join(row.metrics)}"
        elif goal == 0 or not is_possible_value(goal, *scale):
            yield f"target.{metric}: {goal:g}: expected {describe_possible_values(*scale)}, not 0"
    for name in ("runs", "max_epochs", "evaluate_every_epochs"):
        if getattr(training, name) < 1:
            yield f"{name}: {getattr(training, name)} is below 1"
    if not math.isfinite(training.expected_epochs or 0) or (training.expected_epochs or 1) <= 0:
        yield f"expected_epochs: {training.expected_epochs:g} is not a number above 0"


def find_inference_faults(inference: InferenceRow) -> Iterator[str]:
    """Yield the numbers of an inference row with which no LoadGen run can be VALID."""
    if inference.performance_samples < 1:
        yield f"performance_samples: {inference.performance_samples} is below 1"
    for scenario, conditions in inference.scenarios.items():
        for fault in find_scenario_faults(scenario, conditions):
            yield f"scenarios.{scenario}.{fault}"


def find_scenario_faults(scenario: Scenario, conditions: ScenarioRow) -> Iterator[str]:
    """Yield the conditions of a scenario that no run can meet."""
    if not 0 < conditions.percentile < MAX_PERCENTILE:
        yield f"percentile: {conditions.percentile:g} is not between 0 and {MAX_PERCENTILE}"
    for name in ("min_duration_ms", "min_queries", "samples_per_query", "runs"):
        if getattr(conditions, name) < 1:
            yield f"{name}: {getattr(conditions, name)} is below 1"
    if scenario is not Scenario.SERVER:
        return
    bounds = {
        name: getattr(conditions, name)
        for name in ("bound_ns", "first_token_ns", "per_token_ns")
        if getattr(conditions, name) is not None
    }
    if not bounds:
        yield "bound_ns: is missing; Server has a latency bound"
    yield from (f"{name}: {bound} is below 1" for name, bound in bounds.items() if bound < 1)

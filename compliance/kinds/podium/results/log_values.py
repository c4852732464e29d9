"""Reads the values that scores and manifests take from a result's logs, with the judge's readers;
judges nothing.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compliance.kinds.podium.documents.inference import (
    Measurements,
    read_accuracy_scores,
    read_measurements_file,
)
from compliance.kinds.podium.documents.training import read_training_log
from compliance.logs.finite_numbers import is_finite_number
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.path_kind import recognise_path
from suite import registry
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_TEXT, DETAIL_LOG
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.headline import (
    HEADLINE_METRICS,
    LATENCY_METRIC,
    REQUESTED_TOKENS_KEY,
    find_logged_headline,
    get_rate_unit,
)
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_figures import TokenFigures, read_token_figures
from suite.records import ServedRun, read_unmatched_run

PERCENTILE_KEYS: Final = {
    Scenario.SINGLE_STREAM: "requested_single_stream_target_latency_percentile",
    Scenario.MULTI_STREAM: "requested_multi_stream_target_latency_percentile",
}
"""Keys of the detail log for the percentile of SingleStream's and MultiStream's latency; their
values are fractions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLogValues:
    """Values of one training log."""

    stamps: Mapping[str, Any]
    """Key -> value of the first event of that name: round, profile, nonce, seed, settings."""
    minutes: float | None
    """Minutes from run_start to the last run_stop; None if one of them is missing."""
    status: str
    """Status of the last run_stop; empty if there is none."""
    epochs: float | None = None
    """Epochs at the last evaluation; None if not logged."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score of the last evaluation, if it is a finite number."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> the round's target; empty if the round has no row for this log."""
    lower_is_better: tuple[str, ...] = ()
    """Metrics whose target is reached at most, not at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeadline:
    """The headline of one performance run."""

    metric: str
    value: float
    unit: str
    tokens: TokenFigures | None = None
    """None if LoadGen did not measure tokens."""


def format_logged_value(value: object) -> str | None:
    """Format a logged value; None if it is missing."""
    return None if value is None else str(value)


def read_training_values(log: Path) -> TrainingLogValues:
    """Read a training log as the judge does; JudgedError if it cannot be read."""
    found = read_training_log(log, registry.load_round(), None)
    check_source_readable(found.source)
    stamps = {key: records[0].value for key, records in found.index.items()}
    last = list(found.iterate_evaluations())[-1:]
    epochs = float(last[0].epoch) if last and is_finite_number(last[0].epoch) else None
    accuracy = {
        metric: value for each in last for metric, value in each.scores.items() if value is not None
    }
    target = found.training.target if found.training else {}
    lower = found.row.lower_is_better if found.row else ()
    return TrainingLogValues(
        stamps=stamps,
        minutes=found.minutes,
        status=str(found.status or ""),
        epochs=epochs,
        accuracy=accuracy,
        target=target,
        lower_is_better=lower,
    )


def read_performance_headline(folder: Path, scenario: Scenario) -> RunHeadline:
    """Read the headline of a performance run as the judge does, from LoadGen's detail log;
    JudgedError if there is none.
    """
    source = SourceFile(folder / DETAIL_LOG)
    index = LogIndex(mllog_lines.read_mllog_records(source))
    check_source_readable(source)
    found = find_logged_headline(
        scenario, bool(index.find_value(REQUESTED_TOKENS_KEY)), index.find_number
    )
    if found is None or not found.value > 0:
        raise JudgedError(f"{source.path}: contains no {HEADLINE_METRICS[scenario][0]}")
    tokens = (
        read_token_figures(index.find_number) if index.find_value(REQUESTED_TOKENS_KEY) else None
    )
    if found.metric != LATENCY_METRIC:
        unit = get_rate_unit(found.metric)
        return RunHeadline(metric=found.metric, value=found.value, unit=unit, tokens=tokens)
    share = index.find_number(PERCENTILE_KEYS[scenario])
    return RunHeadline(
        metric=f"latency_p{math.nan if share is None else 100 * share:g}",
        value=found.value,
        unit="ns",
        tokens=tokens,
    )


def check_source_readable(source: SourceFile) -> None:
    """Raise JudgedError for a file that could not be read."""
    for parse_error in source.parse_errors:
        if parse_error.kind in (ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE):
            raise JudgedError(f"{source.path}: {parse_error.found}")


def read_loadgen_run_record(folder: Path) -> ServedRun:
    """Read podium's records of a LoadGen run; JudgedError if one is missing or incomplete."""
    try:
        return read_unmatched_run(folder)
    except UnreadableError as error:
        raise JudgedError(str(error)) from error


def read_scenario_measurements(folder: Path) -> Measurements | None:
    """Read the measurements of a scenario's folder as the judge does; None if there are none."""
    return read_measurements_file(recognise_path(folder).position, [])[0]


def read_reference_accuracy(folder: Path) -> Mapping[str, float]:
    """Read the quality of the served checkpoint from the measurements of a scenario's folder; empty
    if they do not state it.
    """
    found = read_scenario_measurements(folder)
    return found.reference_accuracy if found else {}


def read_served_accuracy(folder: Path) -> Mapping[str, float]:
    """Read the scores of an accuracy run from accuracy.txt; empty if there is none."""
    source = SourceFile(folder / ACCURACY_TEXT)
    if not source.path.is_file():
        return {}
    return {metric: value for metric, (value, _, _) in read_accuracy_scores(source).items()}


def compute_required_accuracy(folder: Path, record: ServedRun) -> Mapping[str, float]:
    """Return the required scores of a served result: the round's share of the checkpoint's
    reference accuracy, and the row's threshold.
    """
    if (
        record.system.round not in registry.list_round_names()
        or registry.load_round_kind(record.system.round).published
    ):
        return {}
    rules = registry.load_round(record.system.round)
    row = rules.benchmarks.get(record.system.workload)
    serving = None
    if row:
        serving = next(
            (half for profile, half in row.inference.items() if profile == record.system.profile),
            None,
        )
    needed = {
        metric: rules.loadgen.accuracy_share * value
        for metric, value in read_reference_accuracy(folder).items()
    }
    if serving:
        for metric, value in serving.threshold.items():
            needed[metric] = max(value, needed.get(metric, value))
    return needed


def format_calibration_lists(folder: Path) -> str | None:
    """Return the calibration lists of a quantised system; None if it was not calibrated."""
    found = read_scenario_measurements(folder)
    if not found:
        return None
    return ", ".join(sorted({record.list for record in found.calibration.values()})) or None


def filter_duplicate_values(values: Sequence[Any]) -> tuple[Any, ...]:
    """Drop repeated values, keeping their order."""
    return tuple({json.dumps(value, sort_keys=True): value for value in values}.values())

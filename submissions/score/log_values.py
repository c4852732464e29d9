"""Reads the values that scores and manifests take from a result's logs, with the judge's readers;
judges nothing.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compliance.documents.headline import (
    find_first_value,
    find_logged_headline,
    find_logged_number,
    group_records_by_key,
)
from compliance.documents.podium.inference import (
    RUN_RECORD_DECODER,
    Measurements,
    read_accuracy_scores,
    read_measurements_file,
)
from compliance.documents.podium.training import is_finite_number, read_training_log
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import ParseErrorKind, SourceFile, read_json_document
from compliance.recognition.path_kind import recognise_path
from submissions.score.within_run import WithinRun
from suite import registry
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_TEXT, DETAIL_LOG, RUN_RECORD
from suite.loadgen.headline import (
    HEADLINE_METRICS,
    LATENCY_METRIC,
    REQUESTED_TOKENS_KEY,
    get_rate_unit,
)
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_figures import TokenFigures, read_token_figures
from suite.records import EnergyRecord, RunRecord
from suite.rounds import RoundKind

PUBLISHED_PROFILE: Final = "published"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultValues:
    """Values of one result's logs."""

    profile: str
    """Profile of the run; PUBLISHED for results of a published round."""
    round: str
    metric: str
    value: float | None
    unit: str
    runs: tuple[float | None, ...]
    workload: str | None = None
    """Set if the logs or the round identify it better than the folder's name does."""
    division: str | None = None
    """Set if the logs state it and no folder does."""
    org: str = ""
    """Submitter according to the logs; empty if they do not state it."""
    system: str = ""
    """System according to the logs; empty if they do not state it."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score, the worst of several runs; empty if the logs do not state it."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score that the round requires."""
    lower_is_better: tuple[str, ...] = ()
    """Metrics that are to be at most the score that the round requires."""
    precision: str | None = None
    """Numbers with which it was trained or served; None if no file states it."""
    energy: tuple[EnergyRecord, ...] = ()
    """One record per power channel that was read."""
    within_run: tuple[WithinRun, ...] = ()
    basis: str = ""
    whole_run: float | None = None
    whole_answers_per_s: float | None = None
    late_tokens: float | None = None
    tokens: TokenFigures | None = None
    """None where LoadGen does not measure tokens."""
    inferred: bool = False
    """Whether it was computed from a run of another scenario, as edge systems may file it."""
    convergence: Mapping[str, object] | None = None
    """Comparison of a set with its reference convergence point, since v1.0; None if its round has
    no such point.
    """


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
    index = group_records_by_key(mllog_lines.read_mllog_records(source))
    check_source_readable(source)
    found = find_logged_headline(index, scenario)
    if found is None or not found.value > 0:
        raise JudgedError(f"{source.path}: contains no {HEADLINE_METRICS[scenario][0]}")
    tokens = (
        read_token_figures(lambda key: find_logged_number(index, key))
        if find_first_value(index, REQUESTED_TOKENS_KEY)
        else None
    )
    if found.metric != LATENCY_METRIC:
        unit = get_rate_unit(found.metric)
        return RunHeadline(metric=found.metric, value=found.value, unit=unit, tokens=tokens)
    share = next(
        (
            record.value
            for record in index.get(PERCENTILE_KEYS[scenario], ())
            if is_finite_number(record.value)
        ),
        math.nan,
    )
    return RunHeadline(
        metric=f"latency_p{100 * share:g}", value=found.value, unit="ns", tokens=tokens
    )


def check_source_readable(source: SourceFile) -> None:
    """Raise JudgedError for a file that could not be read."""
    for parse_error in source.parse_errors:
        if parse_error.kind in (ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE):
            raise JudgedError(f"{source.path}: {parse_error.found}")


def read_loadgen_run_record(folder: Path) -> RunRecord:
    """Read podium's record of a LoadGen run as the judge does; JudgedError if it is missing or
    incomplete.
    """
    source = SourceFile(folder / RUN_RECORD)
    record = read_json_document(source, RUN_RECORD_DECODER)
    if record is None:
        raise JudgedError(f"{source.path}: {source.parse_errors[0].found}")
    return record


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
    return (
        {metric: value for metric, (value, _, _) in read_accuracy_scores(source).items()}
        if source.path.is_file()
        else {}
    )


def compute_required_accuracy(folder: Path, record: RunRecord) -> Mapping[str, float]:
    """Return the required scores of a served result: the round's share of the checkpoint's
    reference accuracy, and the row's threshold.
    """
    if (
        record.round not in registry.list_round_names()
        or registry.load_round_kind(record.round) is not RoundKind.PODIUM
    ):
        return {}
    rules = registry.load_round(record.round)
    row = rules.benchmarks.get(record.workload)
    serving = (
        next((half for profile, half in row.inference.items() if profile == record.profile), None)
        if row
        else None
    )
    needed = {
        metric: rules.loadgen.accuracy_share * value
        for metric, value in read_reference_accuracy(folder).items()
    }
    for metric, value in serving.threshold.items() if serving else ():
        needed[metric] = max(value, needed.get(metric, value))
    return needed


def format_calibration_lists(folder: Path) -> str | None:
    """Return the calibration lists of a quantised system; None if it was not calibrated."""
    found = read_scenario_measurements(folder)
    return (
        ", ".join(sorted({record.list for record in found.calibration.values()})) or None
        if found
        else None
    )


def filter_duplicate_values(values: Sequence[Any]) -> tuple[Any, ...]:
    """Drop repeated values, keeping their order."""
    return tuple({json.dumps(value, sort_keys=True): value for value in values}.values())

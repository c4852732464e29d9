"""Check studies of engines and precisions: every cell is recomputed from its LoadGen runs."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compliance.kinds.podium.documents.precision import PrecisionFile, RowRuns, has_row_runs
from compliance.kinds.podium.documents.rates import RateRun
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import RUN_RECORD
from suite.loadgen.headline import VALID_RUN
from suite.loadgen.scenario import Scenario
from suite.rounds import InferenceRow, ScenarioRow
from suite.studies.precision import (
    OFFLINE_RATE_KEY,
    OFFLINE_TOKENS_KEY,
    PrecisionRow,
    compare_with_fp32,
    read_latency_cells,
)
from suite.studies.rates import get_study_stamp

STUDY_STAMP_FIELDS: Final = (
    "workload",
    "profile",
    "checkpoint_sha256",
    "device",
    "threads",
    "version",
)
"""Fields of a run's record that repeat the study's."""
ROW_STAMP_FIELDS: Final = ("engine", "precision", "system")
"""Fields of a run's record that repeat its row's."""
RATE_FIGURE_TOLERANCE: Final = 1e-9
"""Tolerance between figures and their recomputed values: the same arithmetic on the same numbers.
"""


def is_equal_figure(stated: Any, made: Any) -> bool:
    """Return whether figures are equal."""
    if isinstance(stated, float | int) and isinstance(made, float | int):
        return math.isclose(
            stated, made, rel_tol=RATE_FIGURE_TOLERANCE, abs_tol=RATE_FIGURE_TOLERANCE
        )
    return bool(stated == made)


@rule("precision.rows", PrecisionFile, About.SCORE)
def precision_rows(study: PrecisionFile) -> Iterator[Fault]:
    """Each row of a table of engines and precisions matches its LoadGen runs: scores, rate,
    latencies and the comparison with fp32. A row is compliant only if its scores reach the required
    share of the reference and both performance runs are VALID and as long as the round requires.

    An unfinished table is a warning.

    Source: docs/ENGINES.md.
    Advice: run podium precision again: it measures what is missing and rewrites the table.
    """
    whole = study.study
    if not whole.finished:
        yield study.build_fault(
            "an unfinished table", "the end of podium precision", severity=Severity.WARNING
        )
    if study.reference is not None and dict(study.reference) != whole.reference:
        yield study.build_fault(
            f"reference {whole.reference}",
            f"{dict(study.reference)}, as in the checkpoint's record",
        )
    for row in whole.rows:
        if (row.samples_per_second is not None or row.compliant) and not has_row_runs(row):
            yield study.build_fault(
                f"{name_row(row)} with figures and without runs", "the folders of its runs"
            )
    for runs in study.rows:
        yield from check_row_records(study, runs)
        yield from check_precision_cells(study, runs)
        yield from check_row_compliance(study, runs)
    for stated, made in zip(
        whole.rows, compare_with_fp32(whole.rows, whole.reference), strict=True
    ):
        yield from compare_stated_cells(
            study,
            stated,
            {"difference": made.difference, "speed_up": made.speed_up},
            "by the other rows",
        )


def name_row(row: PrecisionRow) -> str:
    """Name a row in a finding."""
    return f"{row.engine} {row.precision}"


def compare_stated_cells(
    study: PrecisionFile, row: PrecisionRow, made: Mapping[str, Any], source: str
) -> Iterator[Fault]:
    """Yield cells that differ from their recomputed values."""
    for name, value in made.items():
        stated = getattr(row, name)
        pairs = (
            {(name, key): (stated.get(key), value.get(key)) for key in {**stated, **value}}
            if isinstance(value, dict)
            else {(name,): (stated, value)}
        )
        for place, (found, required) in pairs.items():
            if not is_equal_figure(found, required):
                yield study.build_fault(
                    f"{' '.join(place)} {found!r} of {name_row(row)}", f"{required!r}, {source}"
                )


def check_row_records(study: PrecisionFile, runs: RowRuns) -> Iterator[Fault]:
    """Yield differences between the records of a row's runs and the table."""
    stamps = {name: getattr(study.study, name) for name in STUDY_STAMP_FIELDS}
    stamps |= {name: getattr(runs.row, name) for name in ROW_STAMP_FIELDS}
    for run in runs.every:
        for name, value in stamps.items() if run.record else ():
            found = get_study_stamp(run.record.system, name) if run.record else None
            if found != value:
                yield run.build_fault(
                    f"{name} {found!r}",
                    f"{value!r}, as in the table",
                    file=RUN_RECORD,
                )
    yield from check_run_mode(runs.accuracy, Scenario.OFFLINE, "AccuracyOnly")
    for scenario, run in runs.performance.items():
        yield from check_run_mode(run, scenario, "PerformanceOnly")


def check_run_mode(run: RateRun, scenario: Scenario, mode: str) -> Iterator[Fault]:
    """Yield the scenario and mode of a run's log if they are others."""
    for key, required in (("effective_scenario", scenario.label), ("effective_test_mode", mode)):
        if run.find_value(key) != required:
            yield run.build_fault(f"{key} {run.find_value(key)!r}", f"{required!r}", key)


def check_precision_cells(study: PrecisionFile, runs: RowRuns) -> Iterator[Fault]:
    """Yield cells that are not those of the row's LoadGen logs and answers."""
    offline, single = (
        runs.performance[each] for each in (Scenario.OFFLINE, Scenario.SINGLE_STREAM)
    )
    latencies = read_latency_cells(lambda key: single.find_number(key) or 0.0)
    yield from compare_stated_cells(
        study,
        runs.row,
        {
            "samples_per_second": offline.find_number(OFFLINE_RATE_KEY),
            "tokens_per_second": offline.find_number(OFFLINE_TOKENS_KEY),
            "latency_ns": latencies,
        },
        "as in its LoadGen log",
    )
    if isinstance(runs.scores, str):
        yield study.build_fault(
            f"{name_row(runs.row)}: {runs.scores}", "answers that can be scored"
        )
    else:
        yield from compare_stated_cells(
            study, runs.row, {"scores": dict(runs.scores)}, "as its answers score"
        )


def check_row_compliance(study: PrecisionFile, runs: RowRuns) -> Iterator[Fault]:
    """Yield why a row that claims to be compliant is not."""
    if not runs.row.compliant:
        return
    row = find_inference_row(study)
    for metric, least in list_least_scores(study, row).items():
        if (found := runs.row.scores.get(metric, 0.0)) < least:
            yield study.build_fault(
                f"{name_row(runs.row)} is compliant with {metric} {found:.4f}", f"{least:.4f}"
            )
    for scenario, run in runs.performance.items():
        if not is_run_valid(run):
            yield run.build_fault(
                f"an INVALID run of {name_row(runs.row)}, which is compliant", "a VALID run"
            )
        if row and scenario in row.scenarios:
            yield from check_run_limits(run, row.scenarios[scenario])


def check_run_limits(run: RateRun, rules: ScenarioRow) -> Iterator[Fault]:
    """Yield limits of LoadGen that are lower than the round's."""
    for key, least in (
        ("effective_min_duration_ms", rules.min_duration_ms),
        ("effective_min_query_count", rules.min_queries),
    ):
        if (run.find_number(key) or 0) < least:
            yield run.build_fault(f"{key} {run.find_value(key)!r}", f"at least {least}", key)


def is_run_valid(run: RateRun) -> bool:
    """Return whether LoadGen called a run VALID, without errors."""
    verdict = run.find_value("result_validity"), run.find_value("num_errors")
    return verdict == (VALID_RUN, 0)


def find_inference_row(study: PrecisionFile) -> InferenceRow | None:
    """Return the round's row of the study's workload and profile; None if it has none."""
    benchmark = study.round.benchmarks.get(study.study.workload)
    rows = benchmark.inference.items() if benchmark else ()
    return next((row for profile, row in rows if profile == study.study.profile), None)


def list_least_scores(study: PrecisionFile, row: InferenceRow | None) -> Mapping[str, float]:
    """Return the score that each metric must reach."""
    share = study.round.loadgen.accuracy_share
    least = {metric: share * value for metric, value in study.study.reference.items()}
    for metric, value in row.threshold.items() if row else ():
        least[metric] = max(value, least.get(metric, value))
    return least

"""Check studies: every cell of the table is recomputed from its LoadGen run."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from compliance.kinds.podium.documents.study import StudyFile, StudyPoint
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE as RECORD
from suite.files.layout import convert_to_slug, is_inside_folder
from suite.studies.documents import (
    LATENCY_PERCENTILES,
    MEAN_LATENCY_KEY,
    POINT_FILE,
    QUERY_COUNT_KEY,
    RateDrift,
    StudyRow,
    build_batch_settings,
    compute_rate_interval,
    compute_row_cells,
    format_percentile_key,
    select_best_batches,
)
from suite.units import NS_PER_MS

MAX_BATCH_SETTING: Final = "batching.max_batch"
CELL_TOLERANCE: Final = 1e-9
"""Tolerance between cells and their recomputed values: the same arithmetic on the same numbers."""
MAX_LOOP_GAP_SHARE: Final = 0.02
"""House rule: share of a closed loop's time between its queries."""
MAX_LOOP_EDGE_MS: Final = 250.0
"""House rule: LoadGen's time between its timestamps and the first query, and after the last."""
MAX_QUERY_OVERHEAD_MS: Final = 0.1
"""House rule: LoadGen's own work on a query, on a busy machine."""
MAX_SHARE_BELOW_RECORD: Final = 1e-3
"""House rule: share by which LoadGen's latencies may be below the record's, which LoadGen's clock
encloses.
"""
MAX_SHARE_ABOVE_RECORD: Final = 0.05
"""House rule: share by which they may be above it, on a busy machine, in addition to
MAX_QUERY_OVERHEAD_MS.
"""
CLOSED_LOOP_SETTINGS: Final = {
    "effective_scenario": "MultiStream",
    "effective_test_mode": "PerformanceOnly",
}
SWEEP_DISABLED_SETTINGS: Final = (
    "performance_issue_unique",
    "performance_issue_same",
    "sample_concatenate_permutation",
    "max_duration_ms",
    "max_query_count",
)
"""LoadGen settings that change the measurement: false or 0."""


@rule("sweep.points", StudyFile, About.SCORE)
def points(study: StudyFile) -> Iterator[Fault]:
    """Each row names a separate LoadGen run whose record agrees with the row and the study; a row
    without a run gives the reason.

    Source: docs/STUDIES.md.
    Advice: run podium sweep again: it measures missing points and rewrites the table.
    """
    rows: tuple[StudyRow | RateDrift, ...] = (*study.study.rows, *study.study.drift)
    named = [row.folder for row in rows if row.folder]
    for folder in sorted(
        {folder for folder in named if named.count(folder) > 1 or not is_inside_folder(folder)}
    ):
        yield study.build_fault(
            f"{named.count(folder)} rows for the run {folder!r}",
            "one folder of the study for each row",
        )
    for row in study.study.rows:
        if not row.folder and (not row.why or row.samples_per_second is not None):
            yield study.build_fault(
                f"batch {row.batch} of {row.engine} {row.precision} without a run",
                "a run, or a reason and no figures",
            )
        if row.folder and row.why:
            yield study.build_fault(
                f"{row.why!r} for {row.folder}", "no reason for missing figures: the row has a run"
            )
    for listed in rows:
        if (
            listed.folder
            and (
                place := convert_to_slug(f"{study.study.system}-{listed.engine}-{listed.precision}")
            )
            != listed.folder.partition("/")[0]
        ):
            yield study.build_fault(
                f"the run {listed.folder!r} of {study.study.system}, {listed.engine}"
                f" {listed.precision}",
                f"a run in {place}/",
            )
    for point in study.points:
        yield from check_point_record(study, point)


def check_point_record(study: StudyFile, point: StudyPoint) -> Iterator[Fault]:
    """Yield differences between a run's record and the table."""
    if point.point is None:
        return
    whole, row = study.study, point.table_row
    wanted = {
        name: getattr(whole, name)
        for name in (
            "subject",
            "bare",
            "weights",
            "profile",
            "device",
            "threads",
            "seconds",
            "version",
        )
    }
    wanted |= {name: getattr(row, name) for name in ("engine", "precision", "batch")}
    request = next(
        (
            each
            for each in whole.asked
            if (each.engine, each.precision) == (row.engine, row.precision)
        ),
        None,
    )
    if whole.command is not None:
        wanted |= {"system": whole.system, "times": row.times if isinstance(row, StudyRow) else 1}
        wanted |= (
            {
                "framework": request.framework,
                "settings": {**request.settings, **build_batch_settings(row.batch)},
            }
            if request
            else {}
        )
    elif point.point.settings.get(MAX_BATCH_SETTING) != row.batch:
        yield point.build_fault(
            f"{MAX_BATCH_SETTING} {point.point.settings.get(MAX_BATCH_SETTING)!r}",
            f"{row.batch}, as in the table",
            file=POINT_FILE,
        )
    for name, value in wanted.items():
        if getattr(point.point, name) != value:
            yield point.build_fault(
                f"{name} {getattr(point.point, name)!r}",
                f"{value!r}, as in the table",
                file=POINT_FILE,
            )


@rule("study.loop", StudyFile, About.SCORE)
def loop(study: StudyFile) -> Iterator[Fault]:
    """Each run is a LoadGen MultiStream run with as many samples per query as the batch, of the
    requested length, without errors, and with one query after another.

    Source: mlcommons/inference, loadgen/issue_query_controller.cc: since LoadGen 2.0, MultiStream
    issues a query when the last one is complete. Its latencies lie within its log's times, so that
    more time in queries than the run took is an error; less is a warning, since LoadGen's thread
    may have waited for a core between two queries.
    Advice: run podium sweep again for a point that a busy machine held up; keep LoadGen's files of
    one run together.
    """
    for point in study.points:
        wanted: dict[str, Any] = CLOSED_LOOP_SETTINGS | {
            "effective_samples_per_query": point.table_row.batch,
            "num_errors": 0,
        }
        wanted |= {f"effective_{name}": 0 for name in SWEEP_DISABLED_SETTINGS}
        for key, value in wanted.items():
            if point.find_value(key) != value:
                yield point.build_fault(f"{key} {point.find_value(key)!r}", f"{value!r}", key)
        yield from check_point_duration(study, point)


def check_point_duration(study: StudyFile, point: StudyPoint) -> Iterator[Fault]:
    """Yield runs that are shorter than requested, or whose latencies do not fill their time."""
    least = (
        study.study.seconds
        * 1000
        * (point.table_row.times if isinstance(point.table_row, StudyRow) else 1)
    )
    requested_ms = point.find_positive_number("effective_min_duration_ms")
    if requested_ms is None or requested_ms < math.floor(least):
        yield point.build_fault(
            f"at least {requested_ms or 0:g} ms",
            f"at least {least:g} ms, as in the table",
            "effective_min_duration_ms",
        )
    queries, mean_ns = (
        point.find_positive_number(QUERY_COUNT_KEY),
        point.find_positive_number(MEAN_LATENCY_KEY),
    )
    begin, end = map(point.find_record, ("generated_query_count", "result_validity"))
    if not (queries and mean_ns and begin and end):
        yield point.build_fault(
            "no count of queries, or no mean latency", f"{QUERY_COUNT_KEY} and {MEAN_LATENCY_KEY}"
        )
        return
    busy_ms, span_ms = queries * mean_ns / 1e6, end.event.time_ms - begin.event.time_ms
    if (
        busy_ms > span_ms
        or span_ms
        > busy_ms * (1 + MAX_LOOP_GAP_SHARE)
        + queries * MAX_QUERY_OVERHEAD_MS
        + 2 * MAX_LOOP_EDGE_MS
    ):
        severity = (
            None if busy_ms > span_ms else Severity.WARNING
        )  # a busy machine may delay LoadGen between two queries
        found = f"{queries:.0f} queries of {mean_ns / 1e6:.3f} ms take {busy_ms:.0f} ms"
        yield point.build_fault(
            found, f"about the run's {span_ms:.0f} ms", MEAN_LATENCY_KEY, severity=severity
        )


@rule("study.figures", StudyFile, About.SCORE)
def figures(study: StudyFile) -> Iterator[Fault]:
    """Every cell follows from the run's LoadGen log and its record of queries; a percentile needs
    enough queries.

    Source: docs/STUDIES.md; loadgen/early_stopping.cc for the numbers of queries.
    Advice: run podium sweep again: it rewrites the table from the existing runs.
    """
    for point in study.points:
        if (
            point.find_positive_number(QUERY_COUNT_KEY) is None
            or point.find_positive_number(MEAN_LATENCY_KEY) is None
        ):
            continue  # study.loop reports it
        for key in (
            format_percentile_key(share)
            for least, share in LATENCY_PERCENTILES.values()
            if (point.find_positive_number(QUERY_COUNT_KEY) or 0) >= least
        ):
            if point.find_positive_number(key) is None:
                yield point.build_fault(
                    f"{key} {point.find_value(key)!r}", "a latency, as LoadGen logs it", key
                )
        made = compute_row_cells(
            partial(find_number_or_zero, point), point.table_row.batch, point.tokens
        )
        if isinstance(point.table_row, StudyRow):
            low, high = compute_rate_interval(point.parts_ns, point.table_row.batch)
            yield from check_row_cells(
                study,
                point,
                {**dict.fromkeys(LATENCY_PERCENTILES), **made, "low": low, "high": high},
            )
            if study.study.command is not None and point.no_energy not in (
                None,
                point.table_row.no_energy,
            ):
                yield study.build_fault(
                    f"no_energy {point.table_row.no_energy} for {point.table_row.folder}",
                    f"{point.no_energy}, as computed from its readings",
                )
        else:
            yield from check_row_cells(
                study, point, {"samples_per_second": made["samples_per_second"]}
            )


def find_number_or_zero(point: StudyPoint, key: str) -> float:
    """Return a positive number of the detail log; 0 if there is none."""
    return point.find_positive_number(key) or 0.0


def check_row_cells(
    study: StudyFile, point: StudyPoint, made: Mapping[str, Any]
) -> Iterator[Fault]:
    """Yield the cells of a row that differ from the values computed from its run."""
    for name, value in made.items():
        stated = getattr(point.table_row, name)
        if not (
            stated == value
            or (stated and value and math.isclose(stated, value, rel_tol=CELL_TOLERANCE))
        ):
            where = (
                f"batch {point.table_row.batch}, {point.table_row.engine}"
                f" {point.table_row.precision}"
            )
            yield study.build_fault(
                f"{name} {stated!r} of {where}",
                f"{value!r}, as computed from {point.table_row.folder}",
            )


@rule("study.queries", StudyFile, About.SCORE)
def queries(study: StudyFile) -> Iterator[Fault]:
    """LoadGen's mean and percentiles of a run match its record of queries, in which each query is
    within LoadGen's own time.

    Source: harness/serving/loadgen/batching.py; loadgen/results.cc: of n latencies in order,
    percentile p is the one at place n x p. podium's stamps lie within LoadGen's: its latencies are
    never shorter than the record's, and longer where its thread had to wait.
    Advice: run podium sweep again for a point that a busy machine held up; keep the record of
    queries and LoadGen's log of one run together.
    """
    for point in study.points:
        if point.latencies_ns is None:
            continue
        if point.find_positive_number(QUERY_COUNT_KEY) != (count := len(point.latencies_ns)):
            yield point.build_fault(
                f"{QUERY_COUNT_KEY} {point.find_value(QUERY_COUNT_KEY)!r}",
                f"{count}, as in {RECORD}",
                QUERY_COUNT_KEY,
            )
            continue
        for key, made_ns in recompute_logged_latencies(point.latencies_ns).items():
            told_ns = point.find_positive_number(key)
            least_ns, most_ns = (
                made_ns * (1 - MAX_SHARE_BELOW_RECORD),
                made_ns * (1 + MAX_SHARE_ABOVE_RECORD) + MAX_QUERY_OVERHEAD_MS * NS_PER_MS,
            )
            if told_ns is not None and not least_ns <= told_ns <= most_ns:
                severity = (
                    None if told_ns < least_ns else Severity.WARNING
                )  # a busy machine may delay LoadGen after an answer
                yield point.build_fault(
                    f"{key} {told_ns:.0f}",
                    f"about {made_ns:.0f}, as in {RECORD}",
                    key,
                    severity=severity,
                )


def recompute_logged_latencies(latencies_ns: Any) -> dict[str, float]:
    """Return the mean and percentiles of a record's latencies (an array, ns, at least one) under
    LoadGen's keys.
    """
    ordered = latencies_ns.copy()
    ordered.sort()
    shares = {
        format_percentile_key(share): float(ordered[int(len(ordered) * float(share) / 100)])
        for _, share in LATENCY_PERCENTILES.values()
    }
    return {MEAN_LATENCY_KEY: float(latencies_ns.mean()), **shares}


@rule("study.summary", StudyFile, About.SCORE)
def summary(study: StudyFile) -> Iterator[Fault]:
    """The best batch within the budget and the drift follow from the rows.

    Source: docs/STUDIES.md.
    Advice: run podium sweep again: it rewrites the table from the existing runs.
    """
    whole = study.study
    if whole.best != (best := select_best_batches(whole.rows, whole.within_ms)):
        stated, made = (
            ", ".join(f"{each.engine} {each.precision} {each.batch}" for each in found) or "none"
            for found in (whole.best, best)
        )
        yield study.build_fault(f"best batches {stated}", made)
    for drift in whole.drift:
        first = next(
            (
                row
                for row in whole.rows
                if all(
                    getattr(row, name) == getattr(drift, name)
                    for name in ("engine", "precision", "batch")
                )
            ),
            None,
        )
        change = (
            drift.samples_per_second / first.samples_per_second - 1
            if first and first.samples_per_second
            else None
        )
        if change is None or not math.isclose(
            drift.change, change, rel_tol=CELL_TOLERANCE, abs_tol=CELL_TOLERANCE
        ):
            yield study.build_fault(
                f"drift {drift.change:+.4%}",
                f"{change:+.4%}" if change is not None else "a row with the same batch",
            )


@rule("study.accuracy", StudyFile, About.QUALITY)
def accuracy(study: StudyFile) -> Iterator[Fault]:
    """Scores come from the accuracy run; a bare network has scores only if it was scored on
    labelled samples.

    Source: docs/STUDIES.md; the subject's own scorer.
    Advice: run podium sweep again: it scores each engine and precision once.
    """
    whole = study.study
    if (
        whole.command is not None
        and study.reference is not None
        and not has_equal_scores(whole.reference, study.reference)
    ):
        yield study.build_fault(
            f"reference accuracy {whole.reference}",
            f"{dict(study.reference)}, as in the checkpoint's record",
        )
    for row in whole.rows:
        made = study.scores.get(row.folder.partition("/")[0]) if row.folder else {}
        differs = {
            name: value - whole.reference[name]
            for name, value in row.scores.items()
            if name in whole.reference
        }
        if whole.command is not None and not has_equal_scores(row.difference, differs):
            yield study.build_fault(
                f"difference {row.difference} at batch {row.batch}",
                f"{differs}, the scores minus the reference accuracy",
            )
        if not whole.finished and not row.scores:
            continue  # scored at the end
        if isinstance(made, str):
            yield study.build_fault(f"scores {row.scores}", f"recomputable scores: {made}")
        elif (made is None and (row.scores or not whole.bare)) or (
            made is not None and not has_equal_scores(row.scores, made)
        ):
            yield study.build_fault(
                f"scores {row.scores} at batch {row.batch}",
                f"{dict(made or {})}, as computed from the accuracy run",
            )


def has_equal_scores(stated: Mapping[str, float], made: Mapping[str, float]) -> bool:
    """Return whether scores are equal; the last digits of a mean depend on the machine."""
    return stated.keys() == made.keys() and all(
        math.isclose(stated[name], made[name], rel_tol=1e-6, abs_tol=1e-9) for name in made
    )

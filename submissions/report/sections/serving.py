"""The serving half of a report: latencies, the course of a run over time, batches, accuracy; read
with the judge's own readers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.documents.headline import indexed
from compliance.documents.podium.training import finite
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import SourceFile
from submissions.metrics import LATENCY as METRIC
from submissions.metrics import more_is_better
from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.records import queries as recorded
from submissions.report.records.queries import NS_PER_MS, PERCENTILES, Queries
from submissions.result_index import Result
from submissions.score import log_values
from submissions.score.score import Score
from submissions.tables import digits, shown
from suite import registry
from suite.errors import JudgedError
from suite.files.layout import DETAIL, QUERIES
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds import RoundKind, ScenarioRow

LATENCY: Final = Axis(name="latency", unit="ms", log=True)
SHARE: Final = Axis(name="share of the queries", unit="%", low=0.0)
QUANTILES: Final = {
    percent: tuple(f"result_{percent:.2f}_percentile_{of}latency_ns" for of in ("per_query_", ""))
    for percent in PERCENTILES
}
"""Keys of LoadGen's detail log: MultiStream has one set for queries, as its result, and one for
samples. Source: mlcommons/inference, loadgen/results.cc.
"""
ESTIMATE: Final = "early-stopping estimate"
"""How the result of SingleStream and MultiStream is named wherever it stands beside measured
percentiles.
"""
RUNS: Final = "Performance runs, as LoadGen measured them"
NO_RECORD: Final = (
    f"There is no {QUERIES}: single queries, the course over time and the sizes of batches are not"
    " known. The percentiles are LoadGen's own."
)
CLOCK: Final = (
    "Times are from issue to completion. LoadGen's latency of Server starts when a query was due,"
    " so it is longer where queries were late."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The run that is drawn."""

    folder: Path
    where: str
    row: ScenarioRow | None
    scenario: Scenario | None
    run: str
    """Its name in titles; empty for the only one."""
    result: Mark | None
    """The result, if it is a latency that no query needs to have had."""


def section(result: Result, score: Score) -> Section:
    """Draw the performance runs of one scenario, the slowest in full."""
    podium = registry.kind_of_round(score.round) is RoundKind.PODIUM
    record = log_values.served(result.performance[0]) if podium else None
    row = row_of(record, result.scenario) if record else None
    where = f"{score.workload}-{score.system}-{score.scenario}"
    counted = counts(score)
    folder = result.performance[counted]
    name = folder.name if len(score.runs) > 1 else ""
    charts, notes = drawn(
        Drawn(
            folder=folder,
            where=where,
            row=row,
            scenario=result.scenario,
            run=f" of {name}" if name else "",
            result=estimate(score),
        )
    )
    tables = [
        *([settings(record)] if record else []),
        runs_table(result, score, podium),
        *within(score),
    ]
    return Section(
        id=f"serving-{where}",
        title=str(score.scenario),
        intro=intro(score, row),
        charts=tuple(charts),
        notes=tuple(notes),
        tables=tuple(tables),
    )


def counts(score: Score) -> int:
    """Return the run that determines the result: the slowest."""
    runs = [run if run is not None else float("inf") for run in score.runs]
    return runs.index(min(runs) if more_is_better(score.metric) else max(runs))


def row_of(record: RunRecord, scenario: Scenario | None) -> ScenarioRow | None:
    """Return the round's requirements for the scenario; None if it does not have the workload."""
    row = registry.round(record.round).benchmarks.get(record.workload)
    half = (
        next((half for profile, half in row.inference.items() if profile == record.profile), None)
        if row
        else None
    )
    return half.scenarios.get(scenario) if half and scenario else None


def percentile_of(score: Score) -> str:
    """Return the percentile that LoadGen estimates by early stopping, as in p90; empty if the
    result is something else.
    """
    podium = registry.kind_of_round(score.round) is RoundKind.PODIUM
    return score.metric.removeprefix(METRIC) if podium and score.metric.startswith(METRIC) else ""


def estimate(score: Score) -> Mark | None:
    """Mark the early-stopping estimate, where it is the result."""
    if not percentile_of(score) or score.value is None:
        return None
    return Mark(
        name=f"result {shown(score.value, score.unit)}", value=score.value / NS_PER_MS, upright=True
    )


def intro(score: Score, row: ScenarioRow | None) -> str:
    """Describe what was served, and the requirements."""
    percentile = percentile_of(score)
    result = (
        f" This is LoadGen's {ESTIMATE} of {percentile}; the measured {percentile} is below it,"
        " since few queries prove little."
        if percentile
        else ""
    )
    runs = f" The slowest of {len(score.runs)} runs counts." if len(score.runs) > 1 else ""
    bound = (
        f" {row.percentile:g} % of the queries must be answered within {shown(row.bound_ns, 'ns')}."
        if row and row.bound_ns
        else ""
    )
    least = {metric: f" of at least {digits(value)}" for metric, value in score.target.items()}
    scores = ", ".join(
        f"{metric} {digits(value)}{least.get(metric, '')}"
        for metric, value in score.accuracy.items()
    )
    return f"{shown(score.value, score.unit)}.{result}{bound}{runs}" + (
        f" Accuracy: {scores}." if scores else ""
    )


def drawn(what: Drawn) -> tuple[list[Chart], list[Note]]:
    """Draw a run from its query record, else from LoadGen's percentiles; note what is unknown."""
    notes = []
    try:
        found = recorded.read(what.folder / QUERIES)
    except JudgedError as error:
        found = None
        notes.append(Note(text=f"{error}, so that nothing is drawn from it.", tone=Tone.CAUTION))
    if found is None:
        notes += [] if notes else [Note(text=NO_RECORD)]
        return ([] if what.scenario is Scenario.OFFLINE else list(from_loadgen(what))), notes
    if what.scenario is Scenario.SERVER:
        notes.append(Note(text=CLOCK))
    sizes = recorded.batches(found)
    notes += (
        [Note(text=f"Every batch had {sizes[0][0]:g} sample{'s' if sizes[0][0] != 1 else ''}.")]
        if len(sizes) == 1
        else []
    )
    return list(from_record(found, what)), notes


def from_record(found: Queries, what: Drawn) -> Iterator[Chart]:
    """Draw the charts of a query record."""
    if what.scenario is Scenario.OFFLINE:
        yield Chart(
            id=f"rate-{what.where}",
            title=f"Rate over time{what.run}",
            description=(
                "Samples/s completed in each part of the run;"
                f" {len(found.latency_Q):,} chunks were recorded."
            ),
            x=time(found),
            y=Axis(name="rate", unit="samples/s", low=0.0),
            lines=(Line(name="rate", points=tuple(recorded.rates(found)), filled=True),),
        )
    else:
        yield histogram(found, what)
        yield course(found, what)
    yield from of_batches(found, what)


def time(found: Queries) -> Axis:
    """Return the time axis of a run: to the last completion, the same for its queries and for its
    machine.
    """
    return Axis(
        name="time since the first query", unit="s", low=0.0, high=found.took_ns / recorded.NS_PER_S
    )


def of_batches(found: Queries, what: Drawn) -> Iterator[Chart]:
    """Draw the sizes of the batches, if there are several."""
    sizes = recorded.batches(found)
    if len(sizes) > 1:
        most = max(sizes, key=lambda each: each[1])
        text = (
            f"Share of the samples by the batch they were answered in; most, {most[1]:.1f} %, in"
            f" batches of {most[0]:g}."
        )
        yield Chart(
            id=f"batches-{what.where}",
            title=f"Sizes of batches{what.run}",
            description=text,
            x=Axis(name="samples in a batch", whole=True),
            y=Axis(name="share of the samples", unit="%", low=0.0),
            lines=(Line(name="batches", points=tuple(sizes), bars=True),),
        )


def course(found: Queries, what: Drawn) -> Chart:
    """Draw the latencies over time: every query if they are few, else the median and the slowest of
    each group of consecutive queries.
    """
    count = len(found.latency_Q)
    if count <= recorded.EACH_MOST:
        lines = [Line(name="each query", points=tuple(recorded.each(found)), loose=True)]
        text = f"Each point is one of {count:,} queries, at the time when it was issued."
    else:
        lines = [
            Line(name=name, points=tuple(points))
            for name, points in zip(("median", "slowest"), recorded.grouped(found), strict=True)
        ]
        size = recorded.group_size(found)
        text = (
            f"Median and slowest of groups of {size:,} or more consecutive queries, at their mean"
            f" time of issue; all {count:,} queries are in a group."
        )
    return Chart(
        id=f"course-{what.where}",
        title=f"Latency over time{what.run}",
        description=text,
        x=time(found),
        y=Axis(name="latency", unit="ms", log=True),
        lines=tuple(lines),
        marks=bound_of(what.row, upright=False),
    )


def histogram(found: Queries, what: Drawn) -> Chart:
    """Draw the latency distribution, with the percentile that counts, the result and the bound."""
    told = recorded.percentiles(found)
    wanted = what.row.percentile if what.row else 90.0
    words = ", ".join(f"p{percent:g} {value:.4g} ms" for percent, value in told)
    marks = [
        Mark(name=f"measured p{percent:g} {value:.4g} ms", value=value, upright=True)
        for percent, value in told
        if percent in (50.0, wanted)
    ]
    result = (
        f" The {what.result.name} is LoadGen's {ESTIMATE} of p{wanted:g}." if what.result else ""
    )
    return Chart(
        id=f"latency-{what.where}",
        title=f"Latency{what.run}",
        description=(
            f"Distribution of the latencies of {len(found.latency_Q):,} queries on a logarithmic"
            f" axis, as podium recorded them: {words}.{result}"
        ),
        x=LATENCY,
        y=SHARE,
        lines=(Line(name="queries", points=tuple(recorded.distribution(found)), filled=True),),
        marks=(*marks, *([what.result] if what.result else []), *bound_of(what.row, upright=True)),
    )


def bound_of(row: ScenarioRow | None, *, upright: bool) -> tuple[Mark, ...]:
    """Mark the round's latency bound."""
    if row is None or row.bound_ns is None:
        return ()
    return (
        Mark(
            name=f"bound {shown(row.bound_ns, 'ns')}",
            value=row.bound_ns / NS_PER_MS,
            upright=upright,
        ),
    )


def from_loadgen(what: Drawn) -> Iterator[Chart]:
    """Draw the percentiles in LoadGen's detail log."""
    told = loadgen_percentiles(what.folder)
    if not told:
        return
    words = ", ".join(f"p{percent:g} {value:.4g} ms" for value, percent in told)
    yield Chart(
        id=f"latency-{what.where}",
        title=f"Latency{what.run}",
        description=f"Percentiles of the latency as LoadGen has measured them: {words}.",
        x=LATENCY,
        y=Axis(name="queries answered", unit="%", low=0.0, high=100.0),
        lines=(Line(name="LoadGen's percentiles", points=tuple(told), dots=True),),
        marks=(*([what.result] if what.result else []), *bound_of(what.row, upright=True)),
    )


def loadgen_percentiles(folder: Path) -> list[tuple[float, float]]:
    """Return pairs of latency in ms and percentile from a detail log, as far as it has them: of
    queries, where it has those of samples too.
    """
    index = indexed(mllog_lines.read(SourceFile(folder / DETAIL)))
    every = (
        (percent, (each.value for key in keys for each in index.get(key, ()) if finite(each.value)))
        for percent, keys in QUANTILES.items()
    )
    told = ((next(values, None), percent) for percent, values in every)
    return [
        (value / NS_PER_MS, percent) for value, percent in told if value is not None and value > 0
    ]


def runs_table(result: Result, score: Score, podium: bool) -> Table:
    """Show each run's value and LoadGen's verdict."""
    rows = []
    for folder, value in zip(result.performance, score.runs, strict=False):
        verdict = log_values.served(folder).verdict if podium else "-"
        told = () if result.scenario is Scenario.OFFLINE else latencies(folder)
        rows.append((folder.name, shown(value, score.unit), verdict, *told))
    percentile = percentile_of(score)
    value_of = f"result: {ESTIMATE} of {percentile}" if percentile else "result"
    measured = (
        ()
        if result.scenario is Scenario.OFFLINE
        else (f"measured {each} ms" for each in ("p50", "p90", "p99"))
    )
    columns = ("run", value_of, "LoadGen says", *measured)
    return Table(
        title=RUNS, columns=columns, rows=tuple(rows), numeric=(1, *range(3, len(columns)))
    )


def within(score: Score) -> Iterator[Table]:
    """Show the statistics over ten time slices of each run; they are not an interval over runs."""
    rows = []
    for each in score.within_run:
        low, high = (
            shown(value, each.unit) if value is not None else "-" for value in (each.low, each.high)
        )
        rows.append(
            (
                f"run_{each.run}",
                metric_of(each.metric),
                shown(each.value, each.unit),
                low,
                high,
                each.problem or "-",
            )
        )
    if rows:
        columns = (
            "run",
            "metric",
            "value by its record",
            "low",
            "high",
            "why there is no interval",
        )
        yield Table(
            title="Within each run, at confidence 0.95",
            columns=columns,
            rows=tuple(rows),
            numeric=(2, 3, 4),
        )


def metric_of(name: str) -> str:
    """Name a metric that was computed from the query record."""
    return (
        f"measured {name.removeprefix(METRIC)}"
        if name.startswith(METRIC)
        else name.replace("_", " ")
    )


def latencies(folder: Path) -> Sequence[str]:
    """Return the percentiles of the queries that LoadGen has measured."""
    told = {percent: value for value, percent in loadgen_percentiles(folder)}
    return [f"{told[percent]:.4g}" if percent in told else "-" for percent in (50.0, 90.0, 99.0)]


def settings(record: RunRecord) -> Table:
    """Show the settings of the system under test."""
    plain = {
        "engine": record.engine,
        "number format": record.precision,
        "device": record.device,
        "threads": record.threads,
        "input": record.input,
    }
    batch = {
        "batches": f"{record.batches.get('count', 0):,.0f}",
        "mean size of a batch": f"{record.batches.get('mean_size', 0):.2f}",
    }
    ceiling = (
        {} if record.ceiling is None else {"harness ceiling": f"{record.ceiling:,.0f} samples/s"}
    )
    asked = {
        key: value
        for key, value in record.settings.items()
        if key.startswith(("batching.", "server.", "loadgen."))
    }
    told = plain | batch | ceiling | asked
    return Table(
        title="System under test",
        columns=("what", "value"),
        rows=tuple((key, str(value)) for key, value in told.items()),
        folded=True,
    )

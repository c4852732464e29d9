"""The serving half of a report: latencies, rates over time, batches and accuracy, read with the
judge's readers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from compliance.kinds.podium.results import log_values
from compliance.results.indexed_result import IndexedResult
from compliance.results.run_figures import LoadGenFigures
from submissions.cells import format_metric_value, format_named_score, format_score_value
from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.records import loadgen_runs
from submissions.report.records import queries as recorded
from submissions.report.records.queries import RecordedQueries
from submissions.report.records.tokens import RecordedTokens, read_recorded_tokens
from submissions.report.sections import names
from submissions.report.sections.tokens import (
    build_percentile_columns,
    build_token_charts,
    build_token_latency_tables,
    describe_token_bounds,
    describe_token_rates,
    format_percentile_ms,
)
from submissions.report.sections.within_run import build_within_run_tables
from submissions.report.shown_table import build_shown_table
from suite import columns, registry
from suite.columns import Column
from suite.errors import JudgedError
from suite.files.layout import QUERY_RECORD_FILE
from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT, get_rate_unit
from suite.loadgen.scenario import Scenario
from suite.measurement.metrics import LATENCY_PREFIX as METRIC
from suite.measurement.metrics import is_higher_better
from suite.records import ServedRun
from suite.result import Result
from suite.rounds import ScenarioRow
from suite.served_identity import NOT_STATED
from suite.units import NS_PER_MS, NS_PER_S

LATENCY_AXIS: Final = Axis(name="latency", unit="ms", log=True)
QUERY_SHARE_AXIS: Final = Axis(name="share of queries", unit="%", low=0.0)
ESTIMATE_NAME: Final = "early-stopping estimate"
"""Name of the result of SingleStream and MultiStream where measured percentiles are shown too."""
RUNS_TABLE_TITLE: Final = "Performance runs, as measured by {}"
NO_QUERY_RECORD_NOTE: Final = (
    f"There is no {QUERY_RECORD_FILE}: individual queries, changes over time and batch sizes are "
    "unknown. The percentiles are LoadGen's."
)
SERVER_CLOCK_NOTE: Final = (
    "Latencies are from issue to completion. In Server, LoadGen counts from the scheduled time, "
    "so its latencies are longer for late queries."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRun:
    """The run that is drawn."""

    figures: LoadGenFigures
    where: str
    podium: bool
    """Whether podium measured it, and so could have recorded its queries."""
    row: ScenarioRow | None
    scenario: Scenario | None
    run: str
    """Its name in titles; empty for the only one."""
    result: Mark | None
    """The result, if it is an estimated latency that need not be the latency of any query."""


def build_scenario_section(result: IndexedResult, score: Result) -> Section:
    """Draw the performance runs of one scenario, the slowest in full."""
    podium = not registry.load_round_kind(score.round).published
    runs = [
        loadgen_runs.read_run_figures(folder, score.round)
        for folder in loadgen_runs.list_run_folders(result, score)
    ]
    record = None
    if podium:
        record = log_values.read_loadgen_run_record(runs[0].folder)
    row = None
    if record:
        row = find_scenario_row(record, result.scenario)
    where = f"{names.build_result_id(score)}-{score.scenario}"
    slowest = find_slowest_run(score)
    drawn = runs[slowest]
    name = ""
    if len(score.runs) > 1:
        name = drawn.folder.name
    charts, notes = build_serving_charts(
        DrawnRun(
            figures=drawn,
            podium=podium,
            where=where,
            row=row,
            scenario=result.scenario,
            run=f" of {name}" if name else "",
            result=build_estimate_mark(score),
        )
    )
    tables = [
        build_serving_runs_table(result, score, runs),
        *build_token_latency_tables(runs),
        *build_within_run_tables(score),
        *build_counted_tables(score),
    ]
    if record:
        tables.insert(0, build_system_settings_table(record, score.metric))
    return Section(
        id=f"serving-{where}",
        title=str(score.scenario),
        intro=describe_served_scenario(score, row),
        charts=tuple(charts),
        notes=tuple(notes),
        tables=tuple(tables),
    )


def build_counted_tables(score: Result) -> Iterator[Table]:
    """Yield a table of what servers counted themselves in the run that gives the value, beside what
    podium counted; nothing if they publish no counters.
    """
    if score.made_with.counted:
        yield Table(
            title="Counted by the servers themselves",
            columns=("what", "the servers' word", "podium"),
            rows=score.made_with.counted,
            folded=True,
        )


def find_slowest_run(score: Result) -> int:
    """Return the slowest run, which determines the result."""
    runs = [run if run is not None else float("inf") for run in score.runs]
    return runs.index(min(runs) if is_higher_better(score.metric) else max(runs))


def find_scenario_row(record: ServedRun, scenario: Scenario | None) -> ScenarioRow | None:
    """Return the round's requirements for the scenario; None if the round lacks the workload."""
    row = registry.load_round(record.system.round).benchmarks.get(record.system.workload)
    if row:
        half = next(
            (half for profile, half in row.inference.items() if profile == record.system.profile),
            None,
        )
    else:
        half = None
    found = None
    if half and scenario:
        found = half.scenarios.get(scenario)
    if found:
        return found.select_token_bounds(record.settings)
    return None


def find_estimated_percentile(score: Result) -> str:
    """Return the percentile that LoadGen estimates by early stopping, as in p90; empty if the
    result is something else: where it measures tokens, the estimate is that of first tokens.
    """
    podium = not registry.load_round_kind(score.round).published
    estimated = podium and score.figure.tokens is None and score.metric.startswith(METRIC)
    if estimated:
        return score.metric.removeprefix(METRIC)
    return ""


def build_estimate_mark(score: Result) -> Mark | None:
    """Return a mark at the early-stopping estimate, if that is the result."""
    if not find_estimated_percentile(score) or score.value is None:
        return None
    return Mark(
        name=f"result {format_metric_value(score.value, score.unit)}",
        value=score.value / NS_PER_MS,
        upright=True,
    )


def describe_served_scenario(score: Result, row: ScenarioRow | None) -> str:
    """Describe what was served, and the requirements."""
    percentile = find_estimated_percentile(score)
    result = ""
    if percentile:
        result = (
            f" This is LoadGen's {ESTIMATE_NAME} of {percentile}; it is above LoadGen's"
            f" own {percentile} of the queries, since a few queries give little certainty."
        )
    runs = ""
    if len(score.runs) > 1:
        runs = f" The slowest of {len(score.runs)} runs counts."
    if row and row.bound_ns:
        bound = (
            f" {row.percentile:g} % of the queries must be answered within"
            f" {format_metric_value(row.bound_ns, 'ns')}."
        )
    else:
        bound = describe_token_bounds(row)
    least = {
        metric: f" of at least {format_score_value(value)}"
        for metric, value in score.target.items()
    }
    scores = ", ".join(
        f"{format_named_score(metric, value)}{least.get(metric, '')}"
        for metric, value in score.accuracy.items()
    )
    tokens = describe_token_rates(score)
    return f"{format_metric_value(score.value, score.unit)}.{result}{tokens}{bound}{runs}" + (
        f" Accuracy: {scores}." if scores else ""
    )


def build_serving_charts(drawn_run: DrawnRun) -> tuple[list[Chart], list[Note]]:
    """Draw a run from its query record, else from LoadGen's percentiles; note what is unknown."""
    notes = []
    try:
        queries = recorded.read_recorded_queries(drawn_run.figures.folder / QUERY_RECORD_FILE)
    except JudgedError as error:
        queries = None
        notes.append(Note(text=f"{error}, so nothing is drawn from it.", tone=Tone.CAUTION))
    if queries is None:
        if drawn_run.podium and not notes:
            notes.append(Note(text=NO_QUERY_RECORD_NOTE))
        if drawn_run.scenario is Scenario.OFFLINE:
            return [], notes
        return list(build_loadgen_charts(drawn_run)), notes
    if drawn_run.scenario is Scenario.SERVER:
        notes.append(Note(text=SERVER_CLOCK_NOTE))
    if drawn_run.scenario is Scenario.OFFLINE and not recorded.has_drawable_rate(queries):
        count = len(queries.latency_Q)
        notes.append(
            Note(
                text=f"The samples were completed in {count:,} chunk{'s' if count != 1 else ''}, "
                "too few for a rate over time."
            )
        )
    sizes = recorded.compute_batch_size_shares(queries)
    if len(sizes) == 1:
        notes.append(
            Note(text=f"Every batch had {sizes[0][0]:g} sample{'s' if sizes[0][0] != 1 else ''}.")
        )
    try:
        tokens = read_recorded_tokens(drawn_run.figures.folder, queries)
    except JudgedError as error:
        tokens = None
        notes.append(Note(text=f"{error}, so nothing is drawn from it.", tone=Tone.CAUTION))
    return list(build_query_record_charts(queries, tokens, drawn_run)), notes


def build_query_record_charts(
    queries: RecordedQueries, tokens: RecordedTokens | None, drawn_run: DrawnRun
) -> Iterator[Chart]:
    """Draw the charts of a query record, and of the record of tokens beside it."""
    if tokens is not None:
        yield from build_token_charts(
            tokens, drawn_run.where, drawn_run.run, drawn_run.scenario, drawn_run.row
        )
    if drawn_run.scenario is Scenario.OFFLINE:
        if recorded.has_drawable_rate(queries):
            yield build_completion_rate_chart(queries, tokens, drawn_run)
    else:
        yield build_latency_histogram_chart(queries, drawn_run)
        yield build_latency_course_chart(queries, drawn_run)
    yield from build_batch_size_charts(queries, drawn_run)


def build_completion_rate_chart(
    queries: RecordedQueries, tokens: RecordedTokens | None, drawn_run: DrawnRun
) -> Chart:
    """Draw the rate of Offline over time: of tokens, if answers are generated."""
    if tokens is None:
        unit = SAMPLE_RATE_UNIT
        points = recorded.compute_completion_rates(queries, queries.samples_Q)
    else:
        unit = TOKEN_RATE_UNIT
        points = recorded.compute_completion_rates(queries, tokens.tokens_Q)
    return Chart(
        id=f"rate-{drawn_run.where}",
        title=f"Rate over time{drawn_run.run}",
        description=(
            f"{unit.capitalize()} completed in each part of the run;"
            f" {len(queries.latency_Q):,} chunks were recorded."
        ),
        x=build_serving_time_axis(queries),
        y=Axis(name="rate", unit=unit, low=0.0),
        lines=(
            Line(
                name="rate",
                points=tuple(points),
                filled=True,
            ),
        ),
    )


def build_serving_time_axis(queries: RecordedQueries) -> Axis:
    """Return the time axis of a run: to the last completion, the same for its queries and for its
    machine.
    """
    return Axis(
        name="time since the first query",
        unit="s",
        low=0.0,
        high=queries.duration_ns / NS_PER_S,
    )


def build_batch_size_charts(queries: RecordedQueries, drawn_run: DrawnRun) -> Iterator[Chart]:
    """Draw the sizes of the batches, if there are several."""
    sizes = recorded.compute_batch_size_shares(queries)
    if len(sizes) > 1:
        most = max(sizes, key=lambda each: each[1])
        text = (
            "Share of samples by the size of the batch that they were answered in; most, "
            f"{most[1]:.1f} %, in batches of {most[0]:g}."
        )
        yield Chart(
            id=f"batches-{drawn_run.where}",
            title=f"Batch sizes{drawn_run.run}",
            description=text,
            x=Axis(name="samples in a batch", whole=True),
            y=Axis(name="share of samples", unit="%", low=0.0),
            lines=(Line(name="batches", points=tuple(sizes), bars=True),),
        )


def build_latency_course_chart(queries: RecordedQueries, drawn_run: DrawnRun) -> Chart:
    """Draw the latencies over time: every query if they are few, else the median and the slowest of
    each group of consecutive queries.
    """
    count = len(queries.latency_Q)
    if count <= recorded.MAX_SINGLE_QUERIES:
        lines = [
            Line(
                name="each query", points=tuple(recorded.list_query_latencies(queries)), loose=True
            )
        ]
        text = f"Each point is one of {count:,} queries, at its issue time."
    else:
        lines = [
            Line(name=name, points=tuple(points))
            for name, points in zip(
                ("median", "slowest"), recorded.compute_group_latencies(queries), strict=True
            )
        ]
        size = recorded.compute_query_group_size(queries)
        text = (
            f"Median and slowest of groups of {size:,} or more consecutive queries, at their mean "
            f"issue time; every one of the {count:,} queries is in a group."
        )
    return Chart(
        id=f"course-{drawn_run.where}",
        title=f"Latency over time{drawn_run.run}",
        description=text,
        x=build_serving_time_axis(queries),
        y=Axis(name="latency", unit="ms", log=True),
        lines=tuple(lines),
        marks=build_latency_bound_marks(drawn_run.row, upright=False),
    )


def build_latency_histogram_chart(queries: RecordedQueries, drawn_run: DrawnRun) -> Chart:
    """Draw the latency distribution, with the percentile that counts, the result and the bound."""
    percentiles = recorded.compute_latency_percentiles(queries.latency_Q)
    wanted = 90.0
    if drawn_run.row:
        wanted = drawn_run.row.percentile
    words = ", ".join(format_percentile_ms(percent, value) for percent, value in percentiles)
    marks = [
        Mark(name=format_percentile_ms(percent, value), value=value, upright=True)
        for percent, value in percentiles
        if percent in (50.0, wanted)
    ]
    result = ""
    if drawn_run.result:
        result = f" The {drawn_run.result.name} is LoadGen's {ESTIMATE_NAME} of p{wanted:g}."
        marks.append(drawn_run.result)
    return Chart(
        id=f"latency-{drawn_run.where}",
        title=f"Latency{drawn_run.run}",
        description=(
            f"Latency distribution of {len(queries.latency_Q):,} queries on a logarithmic axis, "
            f"as recorded by podium: {words}. LoadGen takes its percentiles, in the table, from"
            f" its own stamps.{result}"
        ),
        x=LATENCY_AXIS,
        y=QUERY_SHARE_AXIS,
        lines=(
            Line(
                name="queries",
                points=tuple(recorded.compute_latency_distribution(queries.latency_Q)),
                filled=True,
            ),
        ),
        marks=(*marks, *build_latency_bound_marks(drawn_run.row, upright=True)),
    )


def build_latency_bound_marks(row: ScenarioRow | None, *, upright: bool) -> tuple[Mark, ...]:
    """Mark the round's latency bound."""
    if row is None or row.bound_ns is None:
        return ()
    return (
        Mark(
            name=f"bound {format_metric_value(row.bound_ns, 'ns')}",
            value=row.bound_ns / NS_PER_MS,
            upright=upright,
        ),
    )


def build_loadgen_charts(drawn_run: DrawnRun) -> Iterator[Chart]:
    """Draw the percentiles that LoadGen, or another client, measured."""
    percentiles, client = drawn_run.figures.percentiles, drawn_run.figures.measured_by
    if not percentiles:
        return
    words = ", ".join(
        format_percentile_ms(percent, value) for percent, value in percentiles.items()
    )
    if drawn_run.result:
        marks = [drawn_run.result]
    else:
        marks = []
    yield Chart(
        id=f"latency-{drawn_run.where}",
        title=f"Latency{drawn_run.run}",
        description=f"Latency percentiles as measured by {client}: {words}.",
        x=LATENCY_AXIS,
        y=Axis(name="queries answered", unit="%", low=0.0, high=100.0),
        lines=(
            Line(
                name=f"{client}'s percentiles",
                points=tuple((value, percent) for percent, value in percentiles.items()),
                dots=True,
            ),
        ),
        marks=(*marks, *build_latency_bound_marks(drawn_run.row, upright=True)),
    )


class ServedRunValue(NamedTuple):
    """A performance run with its value."""

    figures: LoadGenFigures
    value: float | None


def build_serving_runs_table(
    result: IndexedResult, score: Result, runs: Sequence[LoadGenFigures]
) -> Table:
    """Show each run's value and LoadGen's verdict."""
    percentile = find_estimated_percentile(score)
    by = runs[0].measured_by
    latencies = build_percentile_columns(get_run_percentiles, by=f"{by}'s ")
    shown: columns.Table[ServedRunValue] = columns.Table(
        columns=(
            Column("run", lambda row: row.figures.folder.name),
            Column(
                f"result: {ESTIMATE_NAME} of {percentile}" if percentile else "result",
                lambda row: format_metric_value(row.value, score.unit),
                numeric=True,
            ),
            Column("LoadGen's verdict", lambda row: row.figures.verdict),
            *(() if result.scenario is Scenario.OFFLINE else latencies),
        )
    )
    rows = [ServedRunValue(*each) for each in zip(runs, score.runs, strict=False)]
    return build_shown_table(RUNS_TABLE_TITLE.format(by), shown, rows)


def get_run_percentiles(row: ServedRunValue) -> Mapping[float, float]:
    """Return the latencies of a run by percentile."""
    return row.figures.percentiles


def describe_record_batches(record: ServedRun) -> dict[str, str]:
    """Describe the batches of whole answers, or the steps of a generator."""
    count, live = f"{record.batches.get('count', 0):,.0f}", record.batches.get("mean_live")
    if live is not None:
        slots = record.batches.get("slots")
        return {
            "steps of the generator": count,
            "mean live sequences per step": f"{live:.2f}",
            **({} if slots is None else {"slots": f"{slots:,.0f}"}),
        }
    return {
        "batches": count,
        "mean batch size": f"{record.batches.get('mean_size', 0):.2f}",
    }


def build_system_settings_table(record: ServedRun, metric: str) -> Table:
    """Show the settings of the system under test."""
    system = record.stated_system
    identity = {
        **system.identity.describe_properties(),
        "threads": system.threads or NOT_STATED,
        "input": system.input,
    }
    batch = describe_record_batches(record)
    if record.ceiling is not None:
        ceiling = {"harness ceiling": f"{record.ceiling:,.0f} {get_rate_unit(metric)}"}
    else:
        ceiling = {}
    requested = {
        key: value
        for key, value in record.settings.items()
        if key.startswith(("batching.", "server.", "loadgen."))
    }
    settings = identity | batch | ceiling | requested
    return Table(
        title="System under test",
        columns=("what", "value"),
        rows=tuple((key, str(value)) for key, value in settings.items()),
        folded=True,
    )

"""The studies of a report: throughput, latency and efficiency against the batch, latency against
throughput, accuracy against speed, and a peak's runs.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from suite.errors import JudgedError
from suite.files.untrusted_files import UnreadableError, read
from suite.loadgen.scenario import Scenario
from suite.studies.documents import NS_PER_MS, STUDY, Row, Study, most_direct
from suite.studies.rates import PEAK, RUN, SPEED, VALID, Peak, Speed, Trial

BATCH: Final = Axis(name="batch", unit="samples", log=True, whole=True)
RATE: Final = Axis(name="throughput", unit="samples/s", low=0.0)
LATENCY: Final = Axis(name="mean latency", unit="ms", log=True)
TAIL: Final = Axis(name="latency", unit="ms", log=True)
"""Of a chart with a budget, which is held against p99 where it is known."""
EFFICIENCY: Final = Axis(name="efficiency", unit="samples/s/W", low=0.0)
FIGURES: Final = ("samples/s", "95 % interval", "mean ms", "p50 ms", "p90 ms", "p99 ms")
WATTS: Final = ("W", "grade, scope", "samples/s/W")
NO_RESULT: Final = (
    "A study is no MLPerf result and no part of a score; every figure comes from a LoadGen run that"
    " is kept."
)


class Kinded(msgspec.Struct, frozen=True):
    """What every study says of itself."""

    kind: str = ""


def section(folder: Path) -> Section:
    """Draw one study; JudgedError if its table cannot be read."""
    kind = decoded(folder, Kinded).kind
    if kind == PEAK:
        return of_peak(decoded(folder, Peak), folder.name)
    return (
        of_speed(decoded(folder, Speed), folder.name)
        if kind == SPEED
        else of_sweep(decoded(folder, Study), folder.name)
    )


def decoded(folder: Path, kind: type[Any]) -> Any:
    """Read the table; JudgedError if that fails."""
    try:
        return read(folder / STUDY, msgspec.json.Decoder(kind).decode)
    except UnreadableError as error:
        raise JudgedError(str(error)) from error


def of_sweep(study: Study, name: str) -> Section:
    """Draw a sweep."""
    charts = [
        chart
        for chart in (
            against_batch(study, name),
            efficiency(study, name),
            trade(study, name),
            accuracy(study, name),
        )
        if chart.lines
    ]
    powered, scored = any(row.energy for row in study.rows), any(row.scores for row in study.rows)
    columns = (
        "engine",
        "precision",
        "batch",
        *FIGURES,
        *(WATTS if powered else ()),
        *(("score",) if scored else ()),
    )
    rows = tuple(
        (
            row.engine,
            row.precision,
            str(row.batch),
            *figures(row),
            *(watts(row) if powered else ()),
            *((scores(row),) if scored else ()),
        )
        for row in study.rows
    )
    numeric = (
        2,
        *range(3, 3 + len(FIGURES)),
        *((3 + len(FIGURES), 5 + len(FIGURES)) if powered else ()),
    )
    intro = (
        f"{study.subject} on {study.system}, {study.device}, {study.threads} threads, by batch"
        f" size. {NO_RESULT}"
    )
    table = Table(title="Points", columns=columns, rows=rows, numeric=numeric)
    return Section(
        id=f"study-{name}",
        title=f"Sweep of {study.subject}",
        intro=intro,
        charts=tuple(charts),
        tables=(table,),
        notes=tuple(notes(study)),
    )


def notes(study: Study) -> Iterator[Note]:
    """Yield what the table does not show."""
    if not study.finished:
        yield Note(text="The sweep is unfinished: points may be missing.", tone=Tone.CAUTION)
    if study.within_ms is not None:
        found = [
            f"{best.batch} in {best.engine} {best.precision}, by its {best.by} of"
            f" {ms(best.latency_ns)} ms"
            for best in study.best
        ]
        yield Note(
            text=(
                f"Largest batch within {study.within_ms:g} ms:"
                f" {'; '.join(found) or 'none of those measured'}."
            )
        )
    if idle := most_direct(study.idle):
        yield Note(
            text=f"Idle: {idle.average_w:,.1f} W ({idle.name}, {idle.graded}), not subtracted."
        )
    yield from (
        Note(text=f"{row.engine} {row.precision}, batch {row.batch}: {row.why}")
        for row in study.rows
        if row.why
    )
    for drift in study.drift:
        yield Note(
            text=(
                f"Drift of {drift.engine} {drift.precision}: batch {drift.batch} again at the end,"
                f" {100 * drift.change:+.1f} %."
            )
        )


def series(
    study: Study, x: Callable[[Row], float | None], y: Callable[[Row], float | None], name: str = ""
) -> tuple[Line, ...]:
    """Build a line for each engine and number format, of the points that have both figures; `name`
    tells the figure.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(study.rows, key=lambda row: row.batch):
        across, up = x(row), y(row)
        if across is not None and up is not None:
            lines.setdefault(f"{row.engine} {row.precision}{name and f' {name}'}", []).append(
                (across, up)
            )
    return tuple(Line(name=name, points=tuple(points), dots=True) for name, points in lines.items())


def batch_of(row: Row) -> float:
    """Return the batch."""
    return float(row.batch)


def rate_of(row: Row) -> float | None:
    """Return samples/s."""
    return row.samples_per_second


def latency_of(row: Row) -> float | None:
    """Return the mean latency, ms."""
    return None if row.mean_latency_ns is None else row.mean_latency_ns / NS_PER_MS


def tail_of(row: Row) -> float | None:
    """Return p99, ms; None of a point with too few queries."""
    return None if row.p99_ns is None else row.p99_ns / NS_PER_MS


def efficiency_of(row: Row) -> float | None:
    """Return samples/s/W of the system, or of all parts together; None where no power was read."""
    return drawn.samples_per_s_per_w if (drawn := most_direct(row.energy)) else None


def score_of(row: Row) -> float | None:
    """Return the first score; None of a bare network."""
    return next(iter(row.scores.values()), None)


def against_batch(study: Study, name: str) -> Chart:
    """Draw throughput against the batch."""
    lines = series(study, batch_of, rate_of)
    return Chart(
        id=f"study-{name}-rate",
        title="Throughput against batch",
        description=best(lines, "samples/s", "batch {}"),
        x=BATCH,
        y=RATE,
        lines=lines,
    )


def efficiency(study: Study, name: str) -> Chart:
    """Draw efficiency against the batch, where power was read."""
    lines = series(study, batch_of, efficiency_of)
    told = best(lines, "samples/s/W", "batch {}")
    return Chart(
        id=f"study-{name}-watts",
        title="Efficiency against batch",
        description=told,
        x=BATCH,
        y=EFFICIENCY,
        lines=lines,
    )


def trade(study: Study, name: str) -> Chart:
    """Draw latency against throughput; with a budget p99 too, since it is that which has to be
    within.
    """
    budget = study.within_ms
    tails = series(study, rate_of, tail_of, "p99") if budget is not None else ()
    lines = (*series(study, rate_of, latency_of, "mean" if tails else ""), *tails)
    marks = (
        () if budget is None else (Mark(name=f"budget {budget:g} ms", value=budget, upright=False),)
    )
    told = best(lines, "ms", "{} samples/s")
    if budget is not None:
        told += f" The budget is {budget:g} ms."
    y = TAIL if tails else LATENCY
    return Chart(
        id=f"study-{name}-trade",
        title="Latency against throughput",
        description=told,
        x=RATE,
        y=y,
        lines=lines,
        marks=marks,
    )


def accuracy(study: Study, name: str) -> Chart:
    """Draw accuracy against speed, if several engines or number formats were scored."""
    lines = series(study, rate_of, score_of)
    axis = Axis(name=next((metric for row in study.rows for metric in row.scores), "score"))
    lines = lines if len(lines) > 1 else ()
    return Chart(
        id=f"study-{name}-score",
        title="Accuracy against speed",
        description=best(lines, axis.name, "{} samples/s"),
        x=RATE,
        y=axis,
        lines=lines,
    )


def best(lines: Sequence[Line], unit: str, place: str) -> str:
    """Say the highest value of each line; `place` words where it lies: `batch {}`."""
    tops = [(line.name, *max(line.points, key=lambda point: point[1])) for line in lines]
    return " ".join(
        f"{name}: at most {plainly(y)} {unit}, at {place.format(plainly(x))}."
        for name, x, y in tops
    )


def plainly(value: float) -> str:
    """Write a number with four digits or more, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def of_peak(study: Peak, name: str) -> Section:
    """Draw a search: the share over the bound of every probe and run, and what they prove."""
    sought, answer = study.sought, study.answer
    unit = "queries/s" if sought.scenario == Scenario.SERVER.label else "samples per query"
    kinds = {
        "probes": [each for each in study.trials if each.purpose != RUN],
        "VALID runs": [each for each in study.trials if is_run(each, True)],
        "INVALID runs": [each for each in study.trials if is_run(each, False)],
    }
    lines = tuple(
        Line(
            name=kind,
            points=tuple(
                sorted((each.rate, 100 * each.over / max(each.queries, 1)) for each in trials)
            ),
            dots=True,
        )
        for kind, trials in kinds.items()
        if trials
    )
    allowed = 100 - sought.percentile
    valid = f"{answer.valid:,.4g} {unit} VALID" if answer.valid else "no rate VALID"
    told = (
        f"{valid}{f', {answer.invalid:,.4g} INVALID' if answer.invalid else ''}; {answer.runs} full"
        f" runs, {answer.probes} probes."
    )
    chart = Chart(
        id=f"study-{name}-peak",
        title="Late queries against rate",
        description=told,
        x=Axis(name="rate", unit=unit),
        y=Axis(name="over the bound", unit="%", low=0.0),
        lines=lines,
        marks=(Mark(name=f"{allowed:g} % allowed", value=allowed, upright=False),),
    )
    rows = tuple(
        (
            each.purpose,
            f"{each.rate:,.4g}",
            f"{each.over:,} of {each.queries:,}",
            f"{each.dispersion:.1f}",
            each.verdict,
        )
        for each in study.trials
    )
    table = Table(
        title="Probes and runs",
        columns=("kind", unit, "over the bound", "dispersion", "verdict"),
        rows=rows,
        numeric=(1, 2, 3),
    )
    chance = (
        ()
        if answer.passes is None
        else (
            Note(
                text=(
                    f"A run like the best passes in about {100 * answer.passes:.0f} %, with the"
                    " dispersion seen."
                )
            ),
        )
    )
    intro = (
        f"{study.stamps.workload} within {sought.bound_ns / NS_PER_MS:g} ms at"
        f" p{sought.percentile:g}. {NO_RESULT}"
    )
    return Section(
        id=f"study-{name}",
        title=f"Peak of {study.stamps.workload}",
        intro=intro,
        charts=(chart,),
        tables=(table,),
        notes=chance,
    )


def is_run(trial: Trial, valid: bool) -> bool:
    """Tell full runs of a verdict."""
    return trial.purpose == RUN and (trial.verdict == VALID) is valid


def of_speed(study: Speed, name: str) -> Section:
    """Show speed alone."""
    rows = tuple((row.scenario, row.verdict, row.metric, f"{row.value:,.4g}") for row in study.rows)
    table = Table(
        title="Runs", columns=("scenario", "verdict", "metric", "value"), rows=rows, numeric=(3,)
    )
    intro = (
        f"{study.stamps.workload}, weights"
        f" {study.stamps.origin or study.stamps.checkpoint_sha256[:12]}: {study.note}."
    )
    return Section(
        id=f"study-{name}", title=f"Speed of {study.stamps.workload}", intro=intro, tables=(table,)
    )


def figures(row: Row) -> tuple[str, ...]:
    """Format the rate with its interval, and the latencies."""
    ends = f"{number(row.low)} to {number(row.high)}" if row.low and row.high else "-"
    return (
        number(row.samples_per_second),
        ends,
        *map(ms, (row.mean_latency_ns, row.p50_ns, row.p90_ns, row.p99_ns)),
    )


def watts(row: Row) -> tuple[str, str, str]:
    """Format power with its grade, and efficiency; dashes where nothing was read."""
    drawn = most_direct(row.energy)
    if drawn is None:
        return "-", "-", "-"
    efficiency = "-" if drawn.samples_per_s_per_w is None else f"{drawn.samples_per_s_per_w:,.3g}"
    return f"{drawn.average_w:,.1f}", f"{drawn.grade}, {'+'.join(drawn.scope)}", efficiency


def number(value: float | None) -> str:
    """Format a rate; a dash if there is none."""
    return "-" if value is None else f"{value:,.1f}"


def ms(value_ns: float | None) -> str:
    """Format a latency; a dash if there is none."""
    return "-" if value_ns is None else f"{value_ns / NS_PER_MS:,.2f}"


def scores(row: Row) -> str:
    """Format the scores."""
    return " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items())

"""The studies of a report: throughput, latency and efficiency against batch size, latency against
throughput, accuracy against speed, and the runs of a peak search.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.verdict import Finding
from submissions.compliance_check import NOISE_RULE_PREFIX
from submissions.curves.podium_curve import read_podium_curve
from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.sections.curve import build_curve_section
from submissions.tables import format_metric_value
from submissions.tradeoff.points import (
    MeasuredPoint,
    iterate_curve_points,
    iterate_study_points,
)
from suite.errors import JudgedError
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.headline import LATENCY_METRIC, get_rate_unit
from suite.loadgen.scenario import Scenario
from suite.studies.concurrency_curve import CURVE_KIND
from suite.studies.documents import (
    STUDY_FILE,
    SWEEP_KIND,
    Study,
    StudyMachine,
    StudyRow,
    select_shown_energy,
)
from suite.studies.precision import (
    PRECISION_KIND,
    SHOWN_PERCENTILES,
    PrecisionRow,
    PrecisionStudy,
)
from suite.studies.rates import (
    PEAK_KIND,
    RUN_PURPOSE,
    SPEED_KIND,
    VALID_VERDICT,
    PeakStudy,
    RateAttempt,
    SpeedRow,
    SpeedStudy,
    format_peak_bound,
)
from suite.units import NS_PER_MS

BATCH_AXIS: Final = Axis(name="batch", unit="samples", log=True, whole=True)
RATE_AXIS: Final = Axis(name="throughput", unit="samples/s", low=0.0)
MEAN_LATENCY_AXIS: Final = Axis(name="mean latency", unit="ms", log=True)
TAIL_LATENCY_AXIS: Final = Axis(name="latency", unit="ms", log=True)
"""Line of a chart with a latency budget, which applies to p99 where that is known."""
EFFICIENCY_AXIS: Final = Axis(name="efficiency", unit="samples/s/W", low=0.0)
RATE_AND_LATENCY_COLUMNS: Final = (
    "samples/s",
    "95 % interval",
    "mean ms",
    "p50 ms",
    "p90 ms",
    "p99 ms",
)
POWER_COLUMNS: Final = ("W", "grade, scope", "samples/s/W")
PRECISION_COLUMNS: Final = (
    "engine",
    "precision",
    "accuracy",
    "difference",
    "samples/s, Offline",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "times as fast",
    "valid",
)
NO_RESULT_NOTE: Final = (
    "A study is not an MLPerf result and not part of a score; every figure comes from a LoadGen "
    "run that is kept."
)


class StudyHeader(msgspec.Struct, frozen=True):
    """The fields that every study has."""

    kind: str = ""
    machine: StudyMachine | None = None


def build_study_section(folder: Path, findings: Sequence[Finding] = ()) -> Section:
    """Draw one study; JudgedError if its table cannot be read. `findings` are the judge's, of
    which the section tells what disturbed the runs.
    """
    header = read_study_table(folder, StudyHeader)
    kind = header.kind
    if kind == PEAK_KIND:
        section = build_peak_section(read_study_table(folder, PeakStudy), folder.name)
    elif kind == PRECISION_KIND:
        section = build_precision_section(read_study_table(folder, PrecisionStudy), folder.name)
    elif kind == CURVE_KIND:
        section = build_traced_section(folder, findings)
    elif kind == SPEED_KIND:
        section = build_speed_section(read_study_table(folder, SpeedStudy), folder.name)
    else:
        section = build_sweep_section(read_study_table(folder, Study), folder.name)
    return replace(
        section,
        notes=(*build_noise_notes(folder, findings), *section.notes),
        tables=(
            *section.tables,
            *(build_study_machine_tables(header.machine) if header.machine else ()),
        ),
    )


def read_study_points(folder: Path, findings: Sequence[Finding]) -> list[MeasuredPoint]:
    """Read the points of throughput against latency of a sweep or a curve; none of another study,
    or if its table cannot be read, which its section says.
    """
    try:
        kind = read_study_table(folder, StudyHeader).kind
        if kind == SWEEP_KIND:
            return [*iterate_study_points(folder, read_study_table(folder, Study), findings)]
        if kind == CURVE_KIND:
            return [*iterate_curve_points(read_podium_curve(folder, findings, folder))]
    except JudgedError:
        pass
    return []


def build_traced_section(folder: Path, findings: Sequence[Finding]) -> Section:
    """Draw a curve that podium traced."""
    curve = read_podium_curve(folder, findings, folder)
    section = build_curve_section(curve, several=True)
    return replace(section, notes=(Note(text=NO_RESULT_NOTE), *section.notes))


def build_study_machine_tables(machine: StudyMachine) -> Iterator[Table]:
    """Yield the processor and the commands of a study, and the packages."""
    count = f"{machine.processors} x " if machine.processors else ""
    yield Table(
        title="Machine",
        columns=("what", "value"),
        rows=(("processors", f"{count}{machine.processor or 'unknown'}"),),
    )
    yield Table(
        title="Commands to repeat it",
        columns=("command",),
        rows=tuple((shlex.join(command),) for command in machine.commands),
    )
    yield Table(
        title="Packages",
        columns=("package", "version"),
        rows=tuple(machine.packages.items()),
        folded=True,
    )


def build_noise_notes(folder: Path, findings: Sequence[Finding]) -> Iterator[Note]:
    """Yield a note on the runs of a study that were disturbed, if there were any."""
    found = [
        each
        for each in findings
        if each.rule.startswith(NOISE_RULE_PREFIX) and Path(each.file).is_relative_to(folder)
    ]
    if found:
        runs = len({Path(each.file).parent for each in found})
        rules = ", ".join(dict.fromkeys(each.rule for each in found))
        yield Note(
            text=(
                f"The machine was disturbed in {runs} run{'s' if runs != 1 else ''} ({rules}); "
                "for what was found, see the findings."
            ),
            tone=Tone.CAUTION,
        )


def read_study_table(folder: Path, kind: type[Any]) -> Any:
    """Read the table; JudgedError if that fails."""
    try:
        return read_untrusted_file(folder / STUDY_FILE, msgspec.json.Decoder(kind).decode)
    except UnreadableError as error:
        raise JudgedError(str(error)) from error


def build_sweep_section(study: Study, name: str) -> Section:
    """Draw a sweep."""
    charts = [
        chart
        for chart in (
            build_throughput_chart(study, name),
            build_efficiency_chart(study, name),
            *([build_latency_rate_chart(study, name)] if study.within_ms is not None else []),
            build_accuracy_speed_chart(study, name),
        )
        if chart.lines
    ]
    powered, scored = any(row.energy for row in study.rows), any(row.scores for row in study.rows)
    columns = (
        "engine",
        "precision",
        "batch",
        *RATE_AND_LATENCY_COLUMNS,
        *(POWER_COLUMNS if powered else ()),
        *(("score",) if scored else ()),
    )
    rows = tuple(
        (
            row.engine,
            row.precision,
            str(row.batch),
            *format_rate_and_latencies(row),
            *(format_power_and_efficiency(row) if powered else ()),
            *((format_study_scores(row),) if scored else ()),
        )
        for row in study.rows
    )
    numeric = (
        2,
        *range(3, 3 + len(RATE_AND_LATENCY_COLUMNS)),
        *(
            (3 + len(RATE_AND_LATENCY_COLUMNS), 5 + len(RATE_AND_LATENCY_COLUMNS))
            if powered
            else ()
        ),
    )
    intro = (
        f"{study.subject} on {study.system}, {study.device}, {format_threads(study.threads)}, by"
        f" batch size. {NO_RESULT_NOTE}"
    )
    table = Table(title="Points", columns=columns, rows=rows, numeric=numeric)
    return Section(
        id=f"study-{name}",
        title=f"Sweep of {study.subject}",
        intro=intro,
        charts=tuple(charts),
        tables=(table,),
        notes=tuple(build_sweep_notes(study)),
    )


def build_sweep_notes(study: Study) -> Iterator[Note]:
    """Yield notes on what the table does not show."""
    if not study.finished:
        yield Note(text="The sweep is unfinished: points may be missing.", tone=Tone.CAUTION)
    if study.within_ms is not None:
        best_batches = [
            f"{best.batch} in {best.engine} {best.precision}, by its {best.by} of"
            f" {format_ns_as_ms(best.latency_ns)} ms"
            for best in study.best
        ]
        yield Note(
            text=(
                f"Largest batch within {study.within_ms:g} ms:"
                f" {'; '.join(best_batches) or 'none of those measured'}."
            )
        )
    if idle := select_shown_energy(study.idle):
        yield Note(
            text=(
                f"Idle: {idle.average_w:,.1f} W ({idle.name}, {idle.grade_description}), not"
                " subtracted."
            )
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


def build_study_lines(
    study: Study,
    x: Callable[[StudyRow], float | None],
    y: Callable[[StudyRow], float | None],
    name: str = "",
) -> tuple[Line, ...]:
    """Build a line for each engine and precision from the points that have both figures; `name`
    names the figure. A rate has its interval.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    rates: dict[str, list[tuple[float, float] | None]] = {}
    for row in sorted(study.rows, key=lambda row: row.batch):
        across, up = x(row), y(row)
        if across is not None and up is not None:
            series = f"{row.engine} {row.precision}{name and f' {name}'}"
            lines.setdefault(series, []).append((across, up))
            rates.setdefault(series, []).append(
                (row.low, row.high) if row.low and row.high else None
            )
    return tuple(
        Line(
            name=name,
            points=tuple(points),
            dots=True,
            x_intervals=select_known_intervals(rates[name] if x is get_samples_per_second else ()),
            y_intervals=select_known_intervals(rates[name] if y is get_samples_per_second else ()),
        )
        for name, points in lines.items()
    )


def select_known_intervals(
    found: Sequence[tuple[float, float] | None],
) -> tuple[tuple[float, float] | None, ...]:
    """Return the intervals of a line's points; nothing if no point has one."""
    return tuple(found) if any(found) else ()


def get_batch(row: StudyRow) -> float:
    """Return the batch size."""
    return float(row.batch)


def get_samples_per_second(row: StudyRow) -> float | None:
    """Return samples/s."""
    return row.samples_per_second


def convert_mean_latency_to_ms(row: StudyRow) -> float | None:
    """Return the mean latency, ms."""
    return None if row.mean_latency_ns is None else row.mean_latency_ns / NS_PER_MS


def convert_p99_to_ms(row: StudyRow) -> float | None:
    """Return p99 in ms; None for a point with too few queries."""
    return None if row.p99_ns is None else row.p99_ns / NS_PER_MS


def find_row_efficiency(row: StudyRow) -> float | None:
    """Return samples/s/W of the system, or of all parts together; None if no power was read."""
    return drawn.samples_per_s_per_w if (drawn := select_shown_energy(row.energy)) else None


def find_first_score(row: StudyRow) -> float | None:
    """Return the first score; None for a bare network."""
    return next(iter(row.scores.values()), None)


def build_throughput_chart(study: Study, name: str) -> Chart:
    """Draw throughput against batch size."""
    lines = build_study_lines(study, get_batch, get_samples_per_second)
    return Chart(
        id=f"study-{name}-rate",
        title="Throughput against batch size",
        description=describe_line_maxima(lines, "samples/s", "batch {}"),
        x=BATCH_AXIS,
        y=RATE_AXIS,
        lines=lines,
    )


def build_efficiency_chart(study: Study, name: str) -> Chart:
    """Draw efficiency against batch size, if power was read."""
    lines = build_study_lines(study, get_batch, find_row_efficiency)
    description = describe_line_maxima(lines, "samples/s/W", "batch {}")
    return Chart(
        id=f"study-{name}-watts",
        title="Efficiency against batch size",
        description=description,
        x=BATCH_AXIS,
        y=EFFICIENCY_AXIS,
        lines=lines,
    )


def build_latency_rate_chart(study: Study, name: str) -> Chart:
    """Draw latency against throughput; with a budget, draw p99 too, since the budget
    applies to it.
    """
    budget = study.within_ms
    tails = (
        build_study_lines(study, get_samples_per_second, convert_p99_to_ms, "p99")
        if budget is not None
        else ()
    )
    lines = (
        *build_study_lines(
            study, get_samples_per_second, convert_mean_latency_to_ms, "mean" if tails else ""
        ),
        *tails,
    )
    marks = (
        () if budget is None else (Mark(name=f"budget {budget:g} ms", value=budget, upright=False),)
    )
    description = describe_line_maxima(lines, "ms", "{} samples/s")
    if budget is not None:
        description += f" The budget is {budget:g} ms."
    y = TAIL_LATENCY_AXIS if tails else MEAN_LATENCY_AXIS
    return Chart(
        id=f"study-{name}-trade",
        title="Latency against throughput",
        description=description,
        x=RATE_AXIS,
        y=y,
        lines=lines,
        marks=marks,
    )


def build_accuracy_speed_chart(study: Study, name: str) -> Chart:
    """Draw accuracy against speed, if several engines or precisions were scored."""
    lines = build_study_lines(study, get_samples_per_second, find_first_score)
    axis = Axis(name=next((metric for row in study.rows for metric in row.scores), "score"))
    lines = lines if len(lines) > 1 else ()
    return Chart(
        id=f"study-{name}-score",
        title="Accuracy against speed",
        description=describe_line_maxima(lines, axis.name, "{} samples/s"),
        x=RATE_AXIS,
        y=axis,
        lines=lines,
    )


def describe_line_maxima(lines: Sequence[Line], unit: str, location: str) -> str:
    """Describe the highest value of each line; `location` is a template for its position, such as
    `batch {}`.
    """
    tops = [(line.name, *max(line.points, key=lambda point: point[1])) for line in lines]
    return " ".join(
        f"{name}: at most {format_study_number(y)} {unit}, at"
        f" {location.format(format_study_number(x))}."
        for name, x, y in tops
    )


def format_study_number(value: float) -> str:
    """Format a number with four digits or more, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def build_peak_section(study: PeakStudy, name: str) -> Section:
    """Build the section of a search: its chart, every probe and run, and what they show."""
    sought, answer = study.sought, study.answer
    unit = "queries/s" if sought.scenario == Scenario.SERVER.label else "samples per query"
    chance = (
        ()
        if answer.passes is None
        else (
            Note(
                text=(
                    "With the observed dispersion, a run like the best passes in about "
                    f"{100 * answer.passes:.0f} % of cases."
                )
            ),
        )
    )
    intro = (
        f"{study.stamps.workload} within {format_peak_bound(sought)} at"
        f" p{sought.percentile:g}. {NO_RESULT_NOTE}"
    )
    return Section(
        id=f"study-{name}",
        title=f"Peak of {study.stamps.workload}",
        intro=intro,
        charts=(build_peak_chart(study, name, unit),),
        tables=(build_peak_table(study, unit),),
        notes=chance,
    )


def build_peak_chart(study: PeakStudy, name: str, unit: str) -> Chart:
    """Draw the share of queries over the bound against the rate, for every probe and run of a
    search.
    """
    sought, answer = study.sought, study.answer
    kinds = {
        "probes": [each for each in study.trials if each.purpose != RUN_PURPOSE],
        "VALID runs": [each for each in study.trials if is_full_run_of_verdict(each, True)],
        "INVALID runs": [each for each in study.trials if is_full_run_of_verdict(each, False)],
    }
    lines = tuple(
        Line(
            name=kind,
            points=tuple(
                sorted((each.rate, 100 * each.over / max(each.queries, 1)) for each in attempts)
            ),
            dots=True,
        )
        for kind, attempts in kinds.items()
        if attempts
    )
    allowed = 100 - sought.percentile
    valid = f"{answer.valid:,.4g} {unit} VALID" if answer.valid else "no VALID rate"
    description = (
        f"{valid}{f', {answer.invalid:,.4g} INVALID' if answer.invalid else ''}; {answer.runs} full"
        f" runs, {answer.probes} probes."
    )
    return Chart(
        id=f"study-{name}-peak",
        title="Late queries against rate",
        description=description,
        x=Axis(name="rate", unit=unit),
        y=Axis(name="over the bound", unit="%", low=0.0),
        lines=lines,
        marks=(Mark(name=f"{allowed:g} % allowed", value=allowed, upright=False),),
    )


def build_peak_table(study: PeakStudy, unit: str) -> Table:
    """List every probe and run of a search."""
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
    return Table(
        title="Probes and runs",
        columns=("kind", unit, "over the bound", "dispersion", "verdict"),
        rows=rows,
        numeric=(1, 2, 3),
    )


def is_full_run_of_verdict(attempt: RateAttempt, valid: bool) -> bool:
    """Return whether a run is a full run with this verdict."""
    return attempt.purpose == RUN_PURPOSE and (attempt.verdict == VALID_VERDICT) is valid


def build_speed_section(study: SpeedStudy, name: str) -> Section:
    """Show a study of speed alone."""
    rows = tuple(map(format_speed_cells, study.rows))
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


def format_speed_cells(row: SpeedRow) -> tuple[str, ...]:
    """Format the run of one scenario."""
    late = row.metric == LATENCY_METRIC
    return (
        row.scenario,
        row.verdict,
        "latency" if late else row.metric.replace("_", " "),
        format_metric_value(row.value, "ns" if late else get_rate_unit(row.metric)),
    )


def build_precision_section(study: PrecisionStudy, name: str) -> Section:
    """Show a study of engines and precisions."""
    unfinished = Note(text="The comparison is unfinished: rows may be missing.", tone=Tone.CAUTION)
    table = Table(
        title="Accuracy and speed",
        columns=PRECISION_COLUMNS,
        rows=tuple(map(format_precision_cells, study.rows)),
        numeric=(4, 5, 6, 7, 8),
    )
    intro = f"Measured by podium precision on {study.device}, {format_threads(study.threads)}."
    return Section(
        id=f"study-{name}",
        title=f"Engines and precisions of {study.workload}",
        intro=f"{intro} {NO_RESULT_NOTE}",
        tables=(table,),
        notes=() if study.finished else (unfinished,),
    )


def format_precision_cells(row: PrecisionRow) -> tuple[str, ...]:
    """Format the row of one engine and precision."""
    return (
        row.engine,
        row.precision,
        " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items()) or "-",
        " ".join(f"{metric} {value:+.4f}" for metric, value in row.difference.items()) or "-",
        format_generated_rate(row.samples_per_second, row.tokens_per_second),
        *(format_ns_as_ms(row.latency_ns.get(f"p{percent}")) for percent in SHOWN_PERCENTILES),
        "-" if row.speed_up is None else f"{row.speed_up:.2f}",
        "yes" if row.compliant else f"no: {row.why}",
    )


def format_rate_and_latencies(row: StudyRow) -> tuple[str, ...]:
    """Format the rate with its interval, and the latencies."""
    ends = (
        f"{format_study_rate(row.low)} to {format_study_rate(row.high)}"
        if row.low and row.high
        else "-"
    )
    return (
        format_generated_rate(row.samples_per_second, row.tokens_per_second),
        ends,
        *map(format_ns_as_ms, (row.mean_latency_ns, row.p50_ns, row.p90_ns, row.p99_ns)),
    )


def format_power_and_efficiency(row: StudyRow) -> tuple[str, str, str]:
    """Format power with its grade, and efficiency; dashes if nothing was read."""
    drawn = select_shown_energy(row.energy)
    if drawn is None:
        return "-", "-", "-"
    efficiency = "-" if drawn.samples_per_s_per_w is None else f"{drawn.samples_per_s_per_w:,.3g}"
    return f"{drawn.average_w:,.1f}", f"{drawn.grade}, {'+'.join(drawn.scope)}", efficiency


def format_generated_rate(samples: float | None, tokens: float | None) -> str:
    """Format a rate, of generated answers with that of their tokens."""
    rate = format_study_rate(samples)
    return rate if tokens is None else f"{rate} ({tokens:,.1f} tokens/s)"


def format_study_rate(value: float | None) -> str:
    """Format a rate; a dash if there is none."""
    return "-" if value is None else f"{value:,.1f}"


def format_ns_as_ms(value_ns: float | None) -> str:
    """Format a latency; a dash if there is none."""
    return "-" if value_ns is None else f"{value_ns / NS_PER_MS:,.2f}"


def format_study_scores(row: StudyRow) -> str:
    """Format the scores."""
    return " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items())


def format_threads(threads: int) -> str:
    """Format a number of CPU threads."""
    return f"{threads} thread{'s' * (threads != 1)}"

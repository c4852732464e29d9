"""Charts of the machine during the runs, from their telemetry."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.kinds.podium.documents.training import read_training_log
from compliance.results.indexed_result import IndexedResult
from submissions.report.document import Note, Section, Table, Tone
from submissions.report.records import queries, telemetry, training_runs
from submissions.report.records.telemetry import DrawnSpan, RecordedTelemetry
from submissions.report.sections import names
from submissions.report.sections.serving import build_serving_time_axis, find_slowest_run
from suite import registry
from suite.errors import JudgedError
from suite.events import RUN_START
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.result import Result
from suite.units import NS_PER_MINUTE, NS_PER_MS

NO_TELEMETRY_NOTE: Final = (
    "There is no telemetry: clocks, temperatures, power, memory and other load on the machine are "
    "unknown."
)
NO_READING_NOTE: Final = (
    "No reading was taken during the run, so clocks, temperatures, power and memory are unknown."
)
MACHINE_SILENT_NOTE: Final = "unknown, since the machine did not report it."


def build_machine_section(
    pairs: Sequence[tuple[IndexedResult, Result]], workload: str, *, several: bool
) -> Section:
    """Draw the machine's telemetry during each run, and list what the machine did not report; of
    published results show the description of each system. `several` means that the report has
    several systems.
    """
    parts = []
    for result, side in pairs:
        score = side
        if not names.is_published_score(score):
            part = build_machine_run_section(
                result,
                score,
                f"machine-{workload}-{score.system}-{score.scenario or 'training'}",
            )
            origin = names.format_result_origin(side, several=several)
            parts.append(names.add_section_origin(part, origin, origin))
    published = [side for _, side in pairs if names.is_published_score(side)]
    if published and not parts:
        return build_described_systems_section(published, workload)
    machine_section = Section(
        id=f"machine-{workload}", title="The machine during the runs", parts=tuple(parts)
    )
    if not any(each.charts for each in parts) and all(
        note.tone is Tone.PLAIN for each in parts for note in each.notes
    ):
        return replace(machine_section, notes=(Note(text=NO_TELEMETRY_NOTE),), parts=())
    return machine_section


def build_described_systems_section(sides: Sequence[Result], workload: str) -> Section:
    """Show the filed description of each system."""
    described = {
        names.format_result_origin(each, several=True): names.list_described_fields(each)
        for each in sides
    }
    return Section(
        id=f"machine-{workload}",
        title="Systems, as described by their organisations",
        tables=tuple(
            Table(
                title=origin,
                columns=("what", "value"),
                rows=tuple(fields.items()),
                folded=len(described) > 1,
            )
            for origin, fields in described.items()
        ),
    )


def build_machine_run_section(result: IndexedResult, score: Result, where: str) -> Section:
    """Draw the machine's telemetry during one run."""
    try:
        if result.scenario:
            readings, span = read_serving_telemetry(result, score)
        else:
            readings, span = read_training_telemetry(result)
    except JudgedError as error:
        return Section(
            id=where,
            title=score.scenario or "Training",
            notes=(Note(text=str(error), tone=Tone.CAUTION),),
        )
    if readings and span:
        drawn = tuple(telemetry.build_telemetry_charts(readings, span, where))
    else:
        drawn = ()
    lacking = telemetry.format_missing_panels(drawn)
    if readings is None:
        text = NO_TELEMETRY_NOTE
    elif not drawn:
        text = NO_READING_NOTE
    elif lacking:
        text = f"{lacking}: {MACHINE_SILENT_NOTE}"
    else:
        text = ""
    return Section(
        id=where,
        title=score.scenario or "Training",
        charts=drawn,
        notes=(Note(text=text),) if text else (),
    )


def read_serving_telemetry(
    result: IndexedResult, score: Result
) -> tuple[RecordedTelemetry | None, DrawnSpan | None]:
    """Read the telemetry of the run that determines the result; its span is that of the queries."""
    folder = result.performance_folders[find_slowest_run(score)]
    readings = telemetry.read_telemetry_readings(folder / TELEMETRY_FILE)
    try:
        recorded_queries = queries.read_recorded_queries(folder / QUERY_RECORD_FILE)
    except JudgedError:
        recorded_queries = None
    if recorded_queries is None:
        return readings, telemetry.compute_readings_span(readings, "s") if readings else None
    return readings, DrawnSpan(
        begin_ns=recorded_queries.first_ns,
        end_ns=recorded_queries.first_ns + recorded_queries.duration_ns,
        axis=build_serving_time_axis(recorded_queries),
    )


def read_training_telemetry(
    result: IndexedResult,
) -> tuple[RecordedTelemetry | None, DrawnSpan | None]:
    """Read the telemetry of the first training run that has telemetry; its span is from run_start
    to run_stop.
    """
    for log in result.training_logs:
        readings = telemetry.read_telemetry_readings(
            log.with_name(f"telemetry_{log.stem.rpartition('_')[2]}.jsonl")
        )
        if readings:
            return readings, compute_training_span(log, result.training_logs, readings)
    return None, None


def compute_training_span(
    log: Path, logs: Sequence[Path], readings: RecordedTelemetry
) -> DrawnSpan | None:
    """Return the span of a training run on the axis of its set."""
    run = read_training_log(log, registry.load_round(), None)
    start = run.find_record(RUN_START)
    if start is None or readings.clocks_ns is None:
        return telemetry.compute_readings_span(readings, telemetry.MINUTES_AXIS_UNIT)
    monotonic, utc = readings.clocks_ns
    begin = monotonic + int(start.event.time_ms) * NS_PER_MS - utc
    end = None
    if run.minutes is not None:
        end = begin + int(run.minutes * NS_PER_MINUTE)
    return DrawnSpan(
        begin_ns=begin,
        end_ns=end,
        axis=training_runs.build_training_time_axis(
            read_training_log(each, registry.load_round(), None).minutes for each in logs
        ),
    )

"""Charts of the machine during the runs, from their telemetry."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.documents.podium.training import read_log
from submissions.report.document import Note, Section, Tone
from submissions.report.records import queries, telemetry
from submissions.report.records.telemetry import Span, Telemetry
from submissions.report.sections import training
from submissions.report.sections.serving import counts, time
from submissions.result_index import Result
from submissions.score.score import Score
from suite import registry
from suite.errors import JudgedError
from suite.events import RUN_START
from suite.files.layout import QUERIES, TELEMETRY
from suite.rounds import RoundKind

NOTHING: Final = (
    "There is no telemetry: clocks, temperatures, power, memory, and what else ran on the machine,"
    " are not known."
)
OUTSIDE: Final = (
    "No reading was taken during the run, so that clocks, temperatures, power and memory are not"
    " known."
)
UNTOLD: Final = "not known, since the machine did not tell."
NS_PER_MS: Final = 1_000_000
NS_PER_MINUTE: Final = 60_000_000_000


def section(pairs: Sequence[tuple[Result, Score]], workload: str) -> Section:
    """Draw the machine during each run that has telemetry, and tell what it did not provide."""
    parts = []
    for result, score in pairs:
        if registry.kind_of_round(score.round) is RoundKind.PODIUM:
            parts.append(
                part(
                    result,
                    score,
                    f"machine-{workload}-{score.system}-{score.scenario or 'training'}",
                )
            )
    found = Section(id=f"machine-{workload}", title="The machine meanwhile", parts=tuple(parts))
    if not any(each.charts for each in parts) and all(
        note.tone is Tone.PLAIN for each in parts for note in each.notes
    ):
        return replace(found, notes=(Note(text=NOTHING),), parts=())
    return found


def part(result: Result, score: Score, where: str) -> Section:
    """Draw the machine during one run."""
    try:
        told, span = served(result, score) if result.scenario else trained(result)
    except JudgedError as error:
        return Section(
            id=where,
            title=score.scenario or "Training",
            notes=(Note(text=str(error), tone=Tone.CAUTION),),
        )
    drawn = tuple(telemetry.charts(told, span, where)) if told and span else ()
    lacking = telemetry.unknown(drawn)
    text = (
        NOTHING
        if told is None
        else OUTSIDE
        if not drawn
        else f"{lacking}: {UNTOLD}"
        if lacking
        else ""
    )
    return Section(
        id=where,
        title=score.scenario or "Training",
        charts=drawn,
        notes=(Note(text=text),) if text else (),
    )


def served(result: Result, score: Score) -> tuple[Telemetry | None, Span | None]:
    """Read the telemetry of the run that counts; its span is that of its queries."""
    folder = result.performance[counts(score)]
    told = telemetry.read(folder / TELEMETRY)
    try:
        found = queries.read(folder / QUERIES)
    except JudgedError:
        found = None
    if found is None:
        return told, telemetry.whole(told, "s") if told else None
    return told, Span(
        begin_ns=found.first_ns, end_ns=found.first_ns + found.took_ns, axis=time(found)
    )


def trained(result: Result) -> tuple[Telemetry | None, Span | None]:
    """Read the telemetry of the first training run that has some; its span is from run_start to
    run_stop.
    """
    for log in result.logs:
        told = telemetry.read(log.with_name(f"telemetry_{log.stem.rpartition('_')[2]}.jsonl"))
        if told:
            return told, of_training(log, result.logs, told)
    return None, None


def of_training(log: Path, logs: Sequence[Path], told: Telemetry) -> Span | None:
    """Return the span of a training run on the axis of its set."""
    run = read_log(log, registry.round(), None)
    start = run.first(RUN_START)
    if start is None or told.clocks_ns is None:
        return telemetry.whole(told, telemetry.MINUTES)
    monotonic, utc = told.clocks_ns
    begin = monotonic + int(start.event.time_ms) * NS_PER_MS - utc
    end = None if run.minutes is None else begin + int(run.minutes * NS_PER_MINUTE)
    return Span(
        begin_ns=begin,
        end_ns=end,
        axis=training.time([read_log(each, registry.round(), None) for each in logs]),
    )

"""Charts of the machine during the runs, from their telemetry."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.documents.podium.training import read_log
from submissions.report.document import Chart, Note, Section, Tone
from submissions.report.records import queries, telemetry
from submissions.report.sections.serving import counts
from submissions.result_index import Result
from submissions.score.score import Score
from suite import registry
from suite.errors import JudgedError
from suite.events import RUN_START
from suite.files.layout import QUERIES, TELEMETRY
from suite.rounds import RoundKind

UNKNOWN: Final = "There is no telemetry: clocks, temperatures, power, memory, and what else ran on the machine, are not known."
NS_PER_MS: Final = 1_000_000


def section(pairs: Sequence[tuple[Result, Score]], workload: str) -> Section:
    """Draw the machine during each run that has telemetry."""
    parts, notes = [], []
    for result, score in pairs:
        if registry.kind_of_round(score.round) is not RoundKind.PODIUM:
            continue
        where = f"machine-{workload}-{score.system}-{score.scenario or 'training'}"
        try:
            drawn = tuple(served(result, score, where) if result.scenario else trained(result, where))
        except JudgedError as error:
            notes.append(Note(text=f"{score.scenario or 'Training'}: {error}", tone=Tone.CAUTION))
            continue
        if drawn:
            parts.append(Section(id=where, title=score.scenario or "Training", charts=drawn))
    notes += [] if parts or notes else [Note(text=UNKNOWN)]
    return Section(id=f"machine-{workload}", title="The machine meanwhile", notes=tuple(notes), parts=tuple(parts))


def served(result: Result, score: Score, where: str) -> Iterator[Chart]:
    """Draw the machine during the run that counts, from its first query."""
    folder = result.performance[counts(score)]
    told = telemetry.read(folder / TELEMETRY)
    if told:
        yield from telemetry.charts(told, first_query(folder), where)


def first_query(folder: Path) -> int | None:
    """Return the issue time of the first query; None if unknown."""
    try:
        found = queries.read(folder / QUERIES)
    except JudgedError:
        return None
    return found.first_ns if found else None


def trained(result: Result, where: str) -> Iterator[Chart]:
    """Draw the machine during the first training run that has telemetry, from run_start."""
    for number, log in enumerate(result.logs):
        told = telemetry.read(log.with_name(f"telemetry_{log.stem.rpartition('_')[2]}.jsonl"))
        if told:
            yield from telemetry.charts(told, run_start(log, told.clocks_ns), f"{where}-{number}", minutes=True)
            return


def run_start(log: Path, clocks_ns: tuple[int, int] | None) -> int | None:
    """Return run_start by the monotonic clock; None if unknown."""
    start = read_log(log, registry.round(), None).first(RUN_START)
    if start is None or clocks_ns is None:
        return None
    monotonic, utc = clocks_ns
    return monotonic + int(start.event.time_ms) * NS_PER_MS - utc

"""A study as it is read: its documents, with figures and answer computed from its runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from suite import registry
from suite.columns import Column
from suite.errors import JudgedError
from suite.files.layout import is_inside_folder
from suite.files.untrusted_files import (
    UnreadableError,
    describe_parse_failure,
    read_untrusted_file,
)
from suite.loadgen.usage_record import format_cached_tokens
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork
from suite.measurement.widest import select_widest_energies
from suite.records import EnergyRecord
from suite.studies.documents import IDLE_TELEMETRY_FILE, POINT_FILE, STUDY_FILE
from suite.studies.kind import PlannedRun, StudiedRow, StudyKind
from suite.studies.points import (
    MeasuredRun,
    StudiedPoint,
    build_failed_point,
    collect_points,
    iterate_walks,
)
from suite.studies.records import (
    POINT_RECORD_DECODER,
    STUDY_RECORD_DECODER,
    PointRecord,
    StudyRecord,
)
from suite.studies.run_facts import RunFacts, read_run_facts
from suite.studies.subject import (
    UNMEASURED_SUBJECT,
    StudySubject,
    build_study_subject,
    omit_side,
)

T = TypeVar("T")

FIGURE_EXCEPTIONS: Final = (
    ValueError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    MemoryError,
    RecursionError,
)
"""Exceptions that a kind of study may raise: requests, points and records are untrusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStudy:
    """A study with its points."""

    kind: StudyKind[Any, Any, Any]
    record: StudyRecord
    requests: Sequence[tuple[Any, int]]
    """What the commands asked for, each with its number of repeats."""
    points: Sequence[StudiedPoint[Any, Any]]
    """The rows of the table."""
    answer: Any
    """What the points together say."""
    is_finished: bool
    """Whether all that was asked for is measured."""
    first: RunFacts | None
    """Of the first run; None without one."""
    first_planned: PlannedRun | None = None
    """What its point wants."""
    idle: tuple[EnergyRecord, ...] = ()
    """What the machine drew before the first run, never subtracted; empty if it was not read."""

    @property
    def request(self) -> Any:
        """Return what the last command asked for."""
        return self.requests[-1][0]

    @property
    def subject(self) -> StudySubject:
        """Return what was measured, by the record of the first run's system."""
        if self.first is None:
            return UNMEASURED_SUBJECT
        own_name = None
        if self.kind.has_several_systems and self.first_planned is not None:
            own_name = self.first_planned.own_name
        found = build_study_subject(self.first.record.stated_system, self.record.origin, own_name)
        if self.kind.compares_sides:
            return omit_side(found)
        return found

    @property
    def rows(self) -> Sequence[StudiedRow]:
        """Return the rows of the table."""
        return tuple(
            StudiedRow(
                studied=each,
                request=self.request,
                answer=self.answer,
                subject=self.subject,
            )
            for each in self.points
        )

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the servers; none for a system in LoadGen's process, and for several systems,
        each of which has its own.
        """
        if self.kind.has_several_systems:
            return ()
        network = self.first.record.network if self.first else None
        return network.endpoints if network else ()

    @property
    def tokenizer(self) -> str:
        """Return the hash of the tokenizer with which servers' answers are counted; empty in this
        process, where tokens are what the model generates.
        """
        network = self.first.record.network if self.first else None
        return network.tokenizer if network else ""


def convert_from_json(fields: object, kind: type[T]) -> T:
    """Convert the JSON types of a document to a request or a point; msgspec's error if they do not
    fit.
    """
    return msgspec.convert(fields, kind)


def read_measured_study(folder: Path) -> MeasuredStudy:
    """Read a study; JudgedError if its documents or its runs do not give its figures."""
    try:
        record = read_untrusted_file(folder / STUDY_FILE, STUDY_RECORD_DECODER.decode)
        kind = registry.load_study_kind(record.kind)
        return compute_study(kind, record, folder)
    except (msgspec.ValidationError, *FIGURE_EXCEPTIONS) as error:
        raise JudgedError(f"{folder / STUDY_FILE}: {describe_parse_failure(error)}") from error


def compute_study(
    kind: StudyKind[Any, Any, Any], record: StudyRecord, folder: Path
) -> MeasuredStudy:
    """Compute the figures and the answer of a study from its runs."""
    requests = decode_requests(kind, record)
    places = [each for each in record.runs if is_inside_folder(each)]
    runs = [read_measured_run(kind, requests[0][0], folder, each) for each in places]
    points = collect_points(kind, runs, decode_failed_points(kind, record))
    walks = iterate_walks(kind, requests, points)
    asked = [each for each, _ in requests]
    return MeasuredStudy(
        kind=kind,
        record=record,
        requests=requests,
        points=tuple(kind.arrange_rows(asked, points)),
        answer=kind.compute_answer(asked, points),
        is_finished=all(each.step is None for each in walks),
        first=read_run_facts(folder / places[0]) if places else None,
        first_planned=kind.describe_run(asked[0], runs[0].point) if runs else None,
        idle=read_idle_power(folder),
    )


def read_idle_power(folder: Path) -> tuple[EnergyRecord, ...]:
    """Return what the idle machine of a study drew; nothing if it was not read."""
    try:
        found = power_readings.read_power_readings(folder / IDLE_TELEMETRY_FILE)
    except UnreadableError:
        return ()
    window = power_readings.find_covered_window(found)
    if window is None:
        return ()
    return power_readings.build_energy_records(found, *window, MeasuredWork(samples=0))[0]


def describe_idle_power(study: MeasuredStudy) -> Sequence[str]:
    """Return the line about the idle machine, if its power was read."""
    return [
        f"idle: {idle.average_w:,.1f} W ({idle.name}, {idle.grade_description}), not subtracted"
        for idle in select_widest_energies(study.idle)[:1]
    ]


def describe_cached_prompts(study: MeasuredStudy) -> Sequence[str]:
    """Return the line about the caches of servers, if they had tokens of prompts in them."""
    networks = [run.network for point in study.points for run in point.runs if run.network]
    cached = sum(each.cached_tokens or 0 for each in networks)
    if not cached:
        return []
    asked = sum(each.prompt_tokens or 0 for each in networks)
    return [f"servers: {format_cached_tokens(cached, asked)}"]


def decode_requests(
    kind: StudyKind[Any, Any, Any], record: StudyRecord
) -> tuple[tuple[Any, int], ...]:
    """Decode what the commands of a study asked for; msgspec's error if that fails."""
    if not record.requests:
        raise msgspec.ValidationError("no request")
    return tuple(
        (convert_from_json(each.request, kind.request), each.repeats) for each in record.requests
    )


def decode_failed_points(
    kind: StudyKind[Any, Any, Any], record: StudyRecord
) -> list[StudiedPoint[Any, Any]]:
    """Decode the points that could not be measured; msgspec's error if that fails."""
    return [
        build_failed_point(convert_from_json(each.point, kind.point), each.why)
        for each in record.failed
    ]


def read_measured_run(
    kind: StudyKind[Any, Any, Any], request: Any, folder: Path, place: str
) -> MeasuredRun[Any, Any]:
    """Read one run of a study; UnreadableError without its record, JudgedError without figures."""
    decode = partial(decode_point, kind)
    saved, point = read_untrusted_file(folder / place / POINT_FILE, decode)
    facts = read_run_facts(folder / place)
    figures = kind.compute_figures(request, point, facts)
    if figures is None:
        raise JudgedError(f"{folder / place}: its records are lost, or give no figures")
    run = build_measured_run(place, saved, point, figures)
    return replace(run, network=facts.record.network)


def decode_point(kind: StudyKind[Any, Any, Any], text: bytes) -> tuple[PointRecord, Any]:
    """Decode `point.json` and the point in it."""
    saved = POINT_RECORD_DECODER.decode(text)
    return saved, convert_from_json(saved.point, kind.point)


def build_measured_run(
    place: str, saved: PointRecord, point: Any, figures: Any
) -> MeasuredRun[Any, Any]:
    """Build the record of a run."""
    return MeasuredRun(
        folder=place,
        number=saved.number,
        point=point,
        repeat=saved.repeat,
        seconds=saved.seconds,
        figures=figures,
    )


def describe_study(study: MeasuredStudy) -> dict[str, Any]:
    """Return a study as JSON: what was asked for, what was measured, and what it says."""
    answer = {} if study.answer is None else asdict(study.answer)
    return {
        "kind": study.kind.name,
        "note": study.kind.note,
        "stamps": asdict(study.subject),
        "endpoints": study.endpoints,
        "tokenizer_sha256": study.tokenizer,
        "request": asdict(study.request),
        "answer": answer,
        "points": [dict(study.kind.describe_row(each)) for each in study.rows],
        **({"idle": [asdict(each) for each in study.idle]} if study.idle else {}),
        "finished": study.is_finished,
        "machine": asdict(study.record.machine),
    }


def format_study_csv(study: MeasuredStudy) -> str:
    """Format the rows of a study as CSV: the columns of its kind, then the ends of the intervals
    that several runs of a point give.
    """
    table = study.kind.table
    columns = (*table.columns, *build_interval_columns(study.rows))
    return replace(table, columns=columns).format_csv_text(study.rows)


def build_interval_columns(rows: Sequence[StudiedRow]) -> list[Column[StudiedRow]]:
    """Build two columns, `<figure>_low` and `<figure>_high`, for each figure of which a row has an
    interval.
    """
    measured = [each.studied for each in rows if each.studied.runs]
    names = [each.name for each in fields(measured[0].figures)] if measured else []
    known = [name for name in names if any(each.find_interval(name) for each in measured)]
    return [
        Column(f"{name}_{end}", partial(read_interval_end, name, at))
        for name in known
        for at, end in enumerate(("low", "high"))
    ]


def read_interval_end(name: str, at: int, row: StudiedRow) -> float | None:
    """Return an end of the interval of a figure; None without one."""
    ends = row.studied.find_interval(name) if row.studied.runs else None
    return None if ends is None else ends[at]


def describe_point_repeats(study: MeasuredStudy) -> str:
    """Say how often the points were measured."""
    counts = sorted({len(each.runs) for each in study.points if each.runs})
    if not counts or counts == [1]:
        return study.kind.single_run_remark
    told = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return f"{told} runs per point, \u00b1 of the 95 % interval by Student's t"


def describe_subject(study: MeasuredStudy) -> str:
    """Say in a line what was measured, and how often."""
    told = study.subject.describe_system()
    return f"{told}: {study.kind.note}; {describe_point_repeats(study)}"

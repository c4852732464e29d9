"""Read a study by its kind: `study.json` and the LoadGen run of each point, with the figures that
its kind computes from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import Document, FolderDocument
from compliance.kinds.podium.documents.inference import (
    LoadGenRun,
    read_accuracy_scores,
    read_loadgen_run,
)
from compliance.logs.loadgen.arrivals import read_arrivals
from compliance.logs.loadgen.start_times import read_start_times
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.recognition.tree_path import is_file, iterate_subfolders
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import (
    ACCURACY_TEXT,
    ARRIVAL_RECORD_FILE,
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    GAP_RECORD_FILE,
    PARTIAL_SUFFIX,
    ROOM_RECORD_FILE,
    START_RECORD_FILE,
    is_inside_folder,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.arrival_record import AnswerArrivals
from suite.measurement.score_limits import ScoreLimits
from suite.records import CheckpointRecord, SystemUnderTest
from suite.rounds import InferenceRow, Round
from suite.studies.documents import POINT_FILE, STUDY_FILE
from suite.studies.kind import JudgedConditions, PlannedRun, StudyKind
from suite.studies.measured import (
    FIGURE_EXCEPTIONS,
    build_measured_run,
    convert_from_json,
    decode_failed_points,
    decode_requests,
)
from suite.studies.points import StudiedPoint, collect_points
from suite.studies.records import (
    POINT_RECORD_DECODER,
    STUDY_RECORD_DECODER,
    PointRecord,
    StudyRecord,
)
from suite.studies.run_facts import (
    RunFacts,
    build_study_answers,
    locate_study_truth,
    score_study_answers,
)
from suite.workload import Mode

AnyKind = StudyKind[Any, Any, Any]
STUDY_RECORD_FIELDS: Final = frozenset(each.name for each in fields(StudyRecord))
POINT_RECORD_FIELDS: Final = frozenset(each.name for each in fields(PointRecord))
ARRIVAL_FILES: Final = (ARRIVAL_RECORD_FILE, GAP_RECORD_FILE)
CHECKPOINT_DECODER: Final = msgspec.json.Decoder(CheckpointRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun(Document):
    """One run of a study."""

    document_name: ClassVar[str] = "a run of a study"

    place: str
    """Folder relative to the study's."""
    run: LoadGenRun
    record: PointRecord | None
    point: Any
    """Of the study's kind; None if the record does not fit it."""
    planned: PlannedRun | None
    """The run that its point wants."""
    facts: RunFacts | None
    accuracy_text: Mapping[str, tuple[float, str, int]]
    """accuracy.txt of an accuracy run: metric -> score, hash, line."""
    figures: Any
    """None if the files do not give them."""
    is_complete: bool
    """Whether it counts, by the study's kind."""
    has_arrivals: bool
    """Whether there is a record of what arrived of its answers."""

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.run.folder / POINT_FILE

    @property
    def starts_ns(self) -> Any:
        """Return when each prompt began; None without the record."""
        return self.facts.starts_ns if self.facts else None

    @property
    def rooms_ns(self) -> Any:
        """Return when a place was free for each prompt, towards servers; None without the
        record.
        """
        return self.facts.rooms_ns if self.facts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStudy(FolderDocument):
    """A study with its runs."""

    document_name: ClassVar[str] = "a study by its plan"
    main_file: ClassVar[str] = STUDY_FILE

    record: StudyRecord
    kind: AnyKind | None
    """None if it is not installed."""
    requests: Sequence[tuple[Any, int]]
    """What the commands asked for, and how often; empty if that cannot be read."""
    unread: str
    """Why kind or requests cannot be read; empty if they can."""
    runs: Sequence[StudyRun]
    failed: Sequence[StudiedPoint[Any, Any]]
    """Points that could not be measured, as far as the kind has such points."""
    folders: Sequence[str]
    """Folders with the record of a point, relative to the study's."""
    round: Round

    @property
    def system(self) -> SystemUnderTest | None:
        """Return the system of the first run; None if no run has a readable one."""
        return next((run.run.record.system for run in self.runs if run.run.record), None)

    @property
    def is_remote(self) -> bool:
        """Return whether servers answered."""
        return any(run.run.record and run.run.record.network for run in self.runs)

    @property
    def points(self) -> Sequence[StudiedPoint[Any, Any]]:
        """Return the points whose runs give figures."""
        if self.kind is None:
            return ()
        measured = [
            build_measured_run(each.place, each.record, each.point, each.figures)
            for each in self.runs
            if each.record is not None and each.figures is not None
        ]
        return collect_points(self.kind, measured, self.failed)

    def holds_to_round(self, run: StudyRun) -> bool:
        """Return whether the rules about the runs of a result hold for a run: not for one that is
        kept though it is INVALID.
        """
        keeps_round = run.planned is not None and run.planned.keeps_round
        if self.kind is None or not (self.kind.follows_advice or self.kind.is_ordered):
            return keeps_round
        has_counted = run.facts is not None and (run.facts.is_valid or run.facts.has_answers)
        return keeps_round and run.is_complete and has_counted

    @property
    def has_round_row(self) -> bool:
        """Return whether the round has the workload and its profile: not of own prompts."""
        return self.system is not None and find_inference_row(self.round, self.system) is not None

    @property
    def conditions(self) -> JudgedConditions:
        """Return what the round says of the workload and profile, and the checkpoint's record."""
        system = self.system
        row = find_inference_row(self.round, system) if system else None
        if system is None or row is None:
            return JudgedConditions(scenarios={}, score_limits=None)
        place = f"{system.workload}/{system.checkpoint_sha256}"
        limits = ScoreLimits(
            reference=dict(read_checkpoint_reference(self.folder, place)),
            share=self.round.loadgen.accuracy_share,
            threshold=dict(row.threshold),
            threshold_most=dict(row.threshold_most),
        )
        return JudgedConditions(scenarios=row.scenarios, score_limits=limits)


def read_judged_study(folder: Path, round: Round, sources: list[SourceFile]) -> JudgedStudy | None:
    """Read a study; None if its record cannot be read. Files that were read are appended to
    `sources`.
    """
    table = SourceFile(folder / STUDY_FILE)
    sources.append(table)
    record = read_json_document(table, STUDY_RECORD_DECODER, STUDY_RECORD_FIELDS)
    if record is None:
        return None
    kind, requests, unread = decode_study_kind(record)
    return JudgedStudy(
        folder=folder,
        record=record,
        kind=kind,
        requests=requests,
        unread=unread,
        runs=tuple(
            read_study_run(folder, place, kind, requests, round, sources)
            for place in dict.fromkeys(record.runs)
            if is_inside_folder(place)
        ),
        failed=() if kind is None else decode_judged_failures(kind, record),
        folders=tuple(iterate_run_folders(folder)),
        round=round,
    )


def find_inference_row(round: Round, system: SystemUnderTest) -> InferenceRow | None:
    """Return the round's row of a study's workload and profile; None if it has none."""
    benchmark = round.benchmarks.get(system.workload)
    rows = benchmark.inference.items() if benchmark else ()
    return next((row for profile, row in rows if profile == system.profile), None)


def read_checkpoint_reference(folder: Path, place: str) -> Mapping[str, float]:
    """Read the reference accuracy of a checkpoint, `<workload>/<sha256>`, from the study's results
    folder; empty if it is not there.
    """
    if not is_inside_folder(place):
        return {}
    record = folder.absolute().parent.parent / CHECKPOINTS_FOLDER / place / CHECKPOINT_RECORD
    try:
        return read_untrusted_file(record, CHECKPOINT_DECODER.decode).reference_accuracy
    except UnreadableError:
        return {}


def decode_study_kind(
    record: StudyRecord,
) -> tuple[AnyKind | None, Sequence[tuple[Any, int]], str]:
    """Return the kind of a study and what its commands asked for, or why they cannot be read."""
    try:
        kind = registry.load_study_kind(record.kind)
    except PodiumError as error:
        return None, (), str(error)
    try:
        return kind, decode_requests(kind, record), ""
    except msgspec.ValidationError as error:
        return kind, (), str(error)


def decode_judged_failures(kind: AnyKind, record: StudyRecord) -> Sequence[StudiedPoint[Any, Any]]:
    """Return the points that could not be measured; none of a kind without such points, or if they
    do not fit it, which a rule says.
    """
    try:
        if not kind.keeps_failures:
            return ()
        return decode_failed_points(kind, record)
    except msgspec.ValidationError:
        return ()


def read_study_run(
    folder: Path,
    place: str,
    kind: AnyKind | None,
    requests: Sequence[tuple[Any, int]],
    round: Round,
    sources: list[SourceFile],
) -> StudyRun:
    """Read one run of a study."""
    home = folder / place
    source = SourceFile(home / POINT_FILE)
    sources.append(source)
    record = read_json_document(source, POINT_RECORD_DECODER, POINT_RECORD_FIELDS)
    point = planned = figures = None
    is_complete = False
    if kind is not None and requests and record is not None:
        point, planned = decode_planned_point(kind, requests[0][0], record)
    scenario = planned.scenario if planned else None
    mode = planned.mode if planned else Mode.PERFORMANCE
    run = read_loadgen_run(home, mode, scenario, round)
    strays = tuple(each for each in run.unexpected_paths if each.name != POINT_FILE)
    run = replace(run, unexpected_paths=strays, is_studied=True)
    sources += run.sources
    if all(each.path != run.system_source.path for each in sources):
        sources.append(run.system_source)
    starts, rooms = (
        read_prompt_times(home / name, sources) for name in (START_RECORD_FILE, ROOM_RECORD_FILE)
    )
    facts = build_judged_facts(run, starts, rooms)
    if facts is not None:
        facts = replace(facts, arrivals=read_answer_arrivals(home, sources), usage=run.usage)
    if kind is not None and planned is not None and facts is not None:
        figures, is_complete = compute_run_figures(kind, requests[0][0], point, facts)
    return StudyRun(
        place=place,
        run=run,
        record=record,
        point=point,
        planned=planned,
        facts=facts,
        accuracy_text=read_stated_scores(home, sources) if mode is Mode.ACCURACY else {},
        figures=figures,
        is_complete=is_complete,
        has_arrivals=any(is_file(home / each) for each in ARRIVAL_FILES),
    )


def read_stated_scores(
    folder: Path, sources: list[SourceFile]
) -> Mapping[str, tuple[float, str, int]]:
    """Read accuracy.txt. The file is appended to `sources`."""
    source = SourceFile(folder / ACCURACY_TEXT)
    sources.append(source)
    return read_accuracy_scores(source)


def decode_planned_point(
    kind: AnyKind, request: Any, record: PointRecord
) -> tuple[Any, PlannedRun | None]:
    """Return the point of a record and the run that it wants; None for what does not fit."""
    try:
        point = convert_from_json(record.point, kind.point)
        return point, kind.describe_run(request, point)
    except (msgspec.ValidationError, *FIGURE_EXCEPTIONS):
        return None, None


def compute_run_figures(
    kind: AnyKind, request: Any, point: Any, facts: RunFacts
) -> tuple[Any, bool]:
    """Compute the figures of a run, and whether it counts; None if its files do not give them."""
    try:
        figures = kind.compute_figures(request, point, facts)
        return figures, kind.is_complete(request, point, facts)
    except FIGURE_EXCEPTIONS:
        return None, False


def build_judged_facts(run: LoadGenRun, starts_ns: Any, rooms_ns: Any) -> RunFacts | None:
    """Return what the checked files of a run say; None without its record."""
    if run.record is None:
        return None
    scores = answered = None
    if run.mode is Mode.ACCURACY:
        truth = locate_study_truth(run.folder)
        scores = score_study_answers(run.record.system.workload, run.answers, truth)
        answered = build_study_answers(run.record, run.folder, run.answers)
    return RunFacts(
        folder=run.folder,
        record=run.record,
        values={key: run.find_value(key) for key in run.index},
        errors=tuple(str(each.value) for each in run.voiding_errors),
        queries=run.queries,
        tokens=run.tokens,
        starts_ns=starts_ns,
        rooms_ns=rooms_ns,
        scores=scores,
        answers=answered,
        said=run.said,
        reference=run.reference,
    )


def read_prompt_times(path: Path, sources: list[SourceFile]) -> Any:
    """Read a record of a run's prompts; None without it. The file is appended to `sources`."""
    if not is_file(path):
        return None
    source = SourceFile(path)
    sources.append(source)
    return read_start_times(source)


def read_answer_arrivals(folder: Path, sources: list[SourceFile]) -> AnswerArrivals | None:
    """Read what arrived of a run's answers; None without it. Files are appended to `sources`."""
    if not all(is_file(folder / each) for each in ARRIVAL_FILES):
        return None
    arrivals, gaps = (SourceFile(folder / each) for each in ARRIVAL_FILES)
    sources += (arrivals, gaps)
    return read_arrivals(arrivals, gaps)


def iterate_run_folders(folder: Path) -> Iterator[str]:
    """Yield the folders of a study that contain the record of a point, except unfinished ones."""
    for system in iterate_subfolders(folder):
        for each in iterate_subfolders(system):
            if is_file(each / POINT_FILE) and not each.name.endswith(PARTIAL_SUFFIX):
                yield each.relative_to(folder).as_posix()

"""What an earlier command left in the folder of a study: runs that count stay, others are moved
aside.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.serving.run_record import find_served_run
from harness.serving.studies.runs import StudySession, is_run_of_system, lacks_power
from harness.serving.study_machine import describe_study_machine
from suite.errors import JudgedError
from suite.files.layout import PARTIAL_SUFFIX
from suite.files.superseded import move_to_superseded
from suite.records import ServedRun
from suite.studies.kind import StudyKind
from suite.studies.measured import (
    build_measured_run,
    convert_from_json,
    decode_failed_points,
    decode_requests,
)
from suite.studies.points import (
    MeasuredRun,
    PlanWalk,
    StudiedPoint,
    collect_points,
    iterate_walks,
    walk_plan,
)
from suite.studies.records import (
    FailedPoint,
    SavedRequest,
    StudyRecord,
    find_point_record,
    find_study_record,
    write_point_record,
    write_study_record,
)
from suite.studies.run_facts import read_run_facts


@dataclass(slots=True, kw_only=True)
class StudyProgress:
    """The runs of a study under way; `study.json` is written after each."""

    session: StudySession
    requests: tuple[SavedRequest, ...]
    """Of all commands."""
    before: Sequence[Any]
    """What the earlier commands asked for, of the study's kind."""
    repeats: int
    runs: list[MeasuredRun[Any, Any]]
    failed: list[StudiedPoint[Any, Any]]
    """Points that could not be measured."""
    tried_again: list[StudiedPoint[Any, Any]]
    """Those that an earlier command could not measure, until this one has."""

    @property
    def points(self) -> list[StudiedPoint[Any, Any]]:
        """Return the points that were measured, and those that could not be."""
        return collect_points(self.session.kind, self.runs, self.failed)

    def walk_own_plan(self) -> PlanWalk[Any, Any]:
        """Walk over the plan of this command as far as it is measured."""
        session = self.session
        return walk_plan(session.kind, session.request, self.repeats, self.points, self.before)

    def move_contradicted_runs(self) -> None:
        """Move the runs of a search aside that no longer follow from those before, since these were
        repeated; the others are numbered anew, without gaps.
        """
        kind, request = self.session.kind, self.session.request
        if not kind.is_ordered:
            return
        walk = walk_plan(kind, request, 1, self.points, self.before)  # beyond missing repeats
        followed = {run.folder for each in walk.done for run in each.runs}
        stale = [each.folder for each in self.runs if each.folder not in followed]
        if not stale:
            return
        study_folder = self.session.study_folder
        move_to_superseded([study_folder / each for each in stale], results=study_folder.parents[1])
        self.runs = renumber_runs(
            study_folder, [each for each in self.runs if each.folder in followed]
        )
        self.save_record()

    def save_record(self) -> None:
        """Write `study.json`."""
        record = StudyRecord(
            kind=self.session.kind.name,
            origin=self.session.system.setup.checkpoint.record.origin,
            requests=self.requests,
            runs=tuple(each.folder for each in self.runs),
            machine=describe_study_machine(self.session.study_folder),
            failed=tuple(
                FailedPoint(point=convert_to_json(each.point), why=each.why)
                for each in (*self.failed, *self.tried_again)
            ),
        )
        write_study_record(self.session.study_folder, record)


def read_earlier_record(session: StudySession) -> StudyRecord | None:
    """Read the record of the study that is there; None if it is of another kind."""
    record = find_study_record(session.study_folder)
    return record if record is not None and record.kind == session.kind.name else None


def adopt_earlier_request(
    session: StudySession, earlier: StudyRecord | None
) -> StudySession | None:
    """Return the session with the request that continues the study that is there; None if that is
    another one.
    """
    if earlier is None or not earlier.requests:
        return None
    try:
        requests = decode_requests(session.kind, earlier)
    except msgspec.ValidationError:
        return None
    request = session.kind.adopt_request(requests[0][0], session.request)
    if request is None:
        return None
    adopted = replace(session, request=request)
    return adopted if has_same_settings(adopted, earlier) else None


def find_first_run(study_folder: Path) -> ServedRun | None:
    """Read the first run of the study in a folder; None without one."""
    record = find_study_record(study_folder)
    places = record.runs if record else ()
    return next(filter(None, (find_served_run(study_folder / each) for each in places)), None)


def has_same_settings(session: StudySession, earlier: StudyRecord) -> bool:
    """Return whether the first run of the study that is there is of this system, with its settings,
    or any run of a study of several systems, of which one may have changed; a study without one has
    none yet.
    """
    if earlier.origin != session.system.setup.checkpoint.record.origin:
        return False
    found = (is_own_run(session, place) for place in earlier.runs)
    known = (each for each in found if each is not None)
    first = next(known, True)
    return first or (session.kind.has_several_systems and any(known))


def is_own_run(session: StudySession, place: str) -> bool | None:
    """Return whether a run that is there is of this system, with its settings; None if it cannot be
    read.
    """
    folder = session.study_folder / place
    saved = find_point_record(folder)
    if saved is None:
        return None
    try:
        point = convert_from_json(saved.point, session.kind.point)
        return is_run_of_system(session, point, read_run_facts(folder))
    except (JudgedError, msgspec.ValidationError):
        return None


def begin_study(session: StudySession, repeats: int) -> StudyProgress:
    """Begin a study, or continue the one that is there; what belongs to another system or request
    is moved aside.
    """
    earlier = read_earlier_record(session)
    adopted = adopt_earlier_request(session, earlier)
    results = session.study_folder.parents[1]
    before: tuple[SavedRequest, ...] = ()
    asked_before: Sequence[tuple[Any, int]] = ()
    if adopted is None or earlier is None:
        move_to_superseded([session.study_folder], results=results)
    else:
        session, before = adopted, earlier.requests
        asked_before = decode_requests(session.kind, earlier)
    kept, strange = recover_runs(session, [(session.request, repeats), *asked_before])
    move_to_superseded(strange, results=results)
    failed = read_earlier_failures(session, earlier if before else None)
    points = collect_points(session.kind, kept, failed)
    earlier_requests = [each for each, _ in asked_before]
    asked = walk_plan(session.kind, session.request, repeats, points, earlier_requests).done
    again = [each for each in failed if any(each is one for one in asked)]
    own = SavedRequest(request=convert_to_json(session.request), repeats=repeats)
    progress = StudyProgress(
        session=session,
        requests=(*(each for each in before if each != own), own),
        before=earlier_requests,
        repeats=repeats,
        runs=kept,
        failed=[each for each in failed if each not in again],
        tried_again=again,
    )
    progress.save_record()
    return progress


def renumber_runs(
    study_folder: Path, runs: Sequence[MeasuredRun[Any, Any]]
) -> list[MeasuredRun[Any, Any]]:
    """Number runs from 1, in their records as well."""
    numbered = []
    for number, run in enumerate(runs, 1):
        saved = find_point_record(study_folder / run.folder)
        if saved is not None and saved.number != number:
            write_point_record(study_folder / run.folder, replace(saved, number=number))
        numbered.append(replace(run, number=number))
    return numbered


def convert_to_json(record: Any) -> dict[str, Any]:
    """Convert a request or a point to JSON's types."""
    converted: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return converted


def read_earlier_failures(
    session: StudySession, earlier: StudyRecord | None
) -> list[StudiedPoint[Any, Any]]:
    """Read the points that earlier commands could not measure; none if there is no study, or no run
    in it, which alone shows that it is of this system.
    """
    if earlier is None or not earlier.runs:
        return []
    try:
        return decode_failed_points(session.kind, earlier)
    except msgspec.ValidationError:
        return []


def recover_runs(
    session: StudySession, requests: Sequence[tuple[Any, int]]
) -> tuple[list[MeasuredRun[Any, Any]], list[Path]]:
    """Return the runs that count, in the order in which they were made, and the folders that belong
    to another system or request, or follow a gap in a search. The first request is this command's.
    """
    found: list[MeasuredRun[Any, Any]] = []
    strange: list[Path] = []
    for folder in sorted(session.study_folder.glob("*/*/")):
        if folder.name.endswith(PARTIAL_SUFFIX):
            shutil.rmtree(folder)  # of a killed run
            continue
        run = recover_run(session, folder)
        if run is None:
            strange.append(folder)
        else:
            found.append(run)
    runs = sorted(found, key=lambda run: run.number)
    kept = (
        [*iterate_planned_runs(session.kind, requests, runs)] if session.kind.is_ordered else runs
    )
    left = [session.study_folder / each.folder for each in runs if each not in kept]
    return kept, [*strange, *left]


def recover_run(session: StudySession, folder: Path) -> MeasuredRun[Any, Any] | None:
    """Read a run that is there; None if it is of another system or request, or
    cannot be read.
    """
    saved = find_point_record(folder)
    if saved is None:
        return None
    try:
        point = convert_from_json(saved.point, session.kind.point)
        facts = read_run_facts(folder)
    except (JudgedError, msgspec.ValidationError):
        return None
    figures = session.kind.compute_figures(session.request, point, facts)
    is_own = folder == session.locate_run(point, saved.repeat)
    if figures is None or not is_own or not is_run_of_system(session, point, facts):
        return None
    is_complete = session.kind.is_complete(session.request, point, facts)
    if not is_complete or lacks_power(session, point, facts):
        return None
    place = folder.relative_to(session.study_folder).as_posix()
    return build_measured_run(place, saved, point, figures)


def iterate_planned_runs(
    kind: StudyKind[Any, Any, Any],
    requests: Sequence[tuple[Any, int]],
    runs: Sequence[MeasuredRun[Any, Any]],
) -> Iterator[MeasuredRun[Any, Any]]:
    """Yield runs as long as each is the one that the plan of a request wants next: with another
    budget or number of repeats than before, what was measured still follows from its own plan.
    """
    kept: list[MeasuredRun[Any, Any]] = []
    for run in runs:
        walks = iterate_walks(kind, requests, collect_points(kind, kept))
        steps = [each.step for each in walks]
        if not any(each and kind.is_same_point(each.point, run.point) for each in steps):
            return
        kept.append(run)
        yield run

"""The study of an A/B on disk: what earlier commands left, and each run as it is added."""

import json
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from submissions.ab.processes import ChildRun, KnownSide, SideError
from suite.ab.comparability import iterate_task_differences
from suite.ab.decision import AbVerdict
from suite.ab.runs import AbFigures
from suite.ab.sides import AB_KIND, SIDE_A, SIDES, THREADS_OPTION, AbPoint, AbRequest
from suite.ab.study import AB
from suite.errors import JudgedError, RequestError
from suite.files.layout import (
    CHECKPOINT_RECORD,
    PARTIAL_SUFFIX,
    compute_folder_sha256,
    locate_checkpoint_folder,
    sync_to_disk,
)
from suite.files.superseded import move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.headline import HEADLINE_METRICS
from suite.loadgen.scenario import Scenario
from suite.records import (
    CheckpointRecord,
    SystemUnderTest,
    read_system_record,
    write_system_record,
)
from suite.studies.documents import POINT_FILE, STUDY_TRUTH_FOLDER, StudyMachine
from suite.studies.measured import build_measured_run, decode_requests, read_measured_run
from suite.studies.points import MeasuredRun, StudiedPoint, collect_points, walk_plan
from suite.studies.records import (
    PointRecord,
    SavedRequest,
    StudyRecord,
    find_point_record,
    find_study_record,
    write_point_record,
    write_study_record,
)
from suite.studies.run_facts import read_run_facts

OFFLINE_RATE: Final = HEADLINE_METRICS[Scenario.OFFLINE][0]
CHECKPOINT_DECODER: Final = msgspec.json.Decoder(CheckpointRecord)


@dataclass(slots=True, kw_only=True)
class AbProgress:
    """An A/B under way."""

    study_folder: Path
    request: AbRequest
    earlier: tuple[SavedRequest, ...]
    """What earlier commands asked for."""
    machine: StudyMachine
    runs: list[MeasuredRun[AbPoint, AbFigures]]

    @property
    def points(self) -> list[StudiedPoint[AbPoint, AbFigures]]:
        """Return the points that are measured."""
        return collect_points(AB, self.runs)

    def find_next_point(self) -> AbPoint | None:
        """Return the next run; None if there is none."""
        step = walk_plan(AB, self.request, 1, self.points).step
        return None if step is None else step.point

    def find_system(self, side: str) -> SystemUnderTest | None:
        """Return the system of a side; None before its first run."""
        try:
            return read_system_record(self.study_folder / f"side-{side}")
        except UnreadableError:
            return None

    def find_known_side(self, side: str) -> KnownSide:
        """Return what the first run of a side has shown."""
        system = self.find_system(side)
        if system is None:
            return KnownSide(threads=self.find_common_threads())
        own = (each for each in self.runs if each.point.side == side)
        rated = next((each.figures for each in own if each.figures.rate), None)
        is_rate = rated is not None and rated.metric == OFFLINE_RATE
        rate = rated.rate if rated is not None and is_rate else None
        return KnownSide(threads=system.threads, rate=rate or 0.0)

    def find_common_threads(self) -> int:
        """Return the CPU threads of the side that is measured already, for a second one, where no
        side names a number: how many a run takes by itself depends on the programs beside it. 0 if
        there is none.
        """
        if any(THREADS_OPTION in self.request.get_side(side).options for side in SIDES):
            return 0
        found = [each.threads for each in map(self.find_system, SIDES) if each is not None]
        return max(found, default=0)

    def keep_run(self, child: ChildRun, point: AbPoint, seconds: float) -> None:
        """Keep the run that a process has left; RequestError if it may not be compared with those
        before, SideError if it does not count.
        """
        self.keep_system(child, point)
        self.keep_truth(child)
        system_folder = self.study_folder / f"side-{point.side}"
        target = system_folder / AB.name_point(point)
        partial = target.with_name(target.name + PARTIAL_SUFFIX)
        shutil.rmtree(partial, ignore_errors=True)  # of a killed command
        shutil.copytree(child.folder, partial)
        number = self.runs[-1].number + 1 if self.runs else 1
        record = PointRecord(number=number, repeat=1, point=asdict(point), seconds=seconds)
        write_point_record(partial, record)
        place = target.relative_to(self.study_folder).as_posix()
        run = self.read_new_run(partial, record, point, place)
        for path in (*partial.iterdir(), partial):
            sync_to_disk(path)
        partial.rename(target)
        sync_to_disk(target.parent)
        self.runs.append(run)
        self.save_record()

    def read_new_run(
        self, partial: Path, record: PointRecord, point: AbPoint, place: str
    ) -> MeasuredRun[AbPoint, AbFigures]:
        """Read a run that gets another place; SideError if it does not count, as for the judge."""
        facts = read_run_facts(partial)
        if not AB.is_complete(self.request, point, facts):
            raise SideError(JudgedError.exit_code, f"LoadGen logged an error: {facts.errors[0]}")
        figures = AB.compute_figures(self.request, point, facts)
        if figures is None:
            raise SideError(JudgedError.exit_code, "its files give neither a speed nor answers")
        run = build_measured_run(place, record, point, figures)
        return replace(run, network=facts.record.network)

    def keep_system(self, child: ChildRun, point: AbPoint) -> None:
        """Keep the record of a side's system; RequestError if it is another one than before, or may
        not be compared with that of the other side.
        """
        found = read_system_record(child.system_folder)
        before = self.find_system(point.side)
        if before is not None and before.compute_digest() != found.compute_digest():
            raise RequestError(
                f"side {point.side.upper()} is not what it was in its first run:"
                f" {describe_differences(before, found)}; compare it in another --results"
            )
        other = self.find_system("b" if point.side == "a" else "a")
        if other is not None:
            told = [*iterate_task_differences(found, other)]
            if told:
                raise RequestError(f"the two sides may not be compared: {', '.join(told)}")
        if before is None:
            folder = self.study_folder / f"side-{point.side}"
            folder.mkdir(parents=True, exist_ok=True)
            write_system_record(folder, found)
        if before is None or not self.machine.packages:
            self.add_side_machine(child, point.side)

    def add_side_machine(self, child: ChildRun, side: str) -> None:
        """Describe the machine as a side sees it: side A, then what is other in side B."""
        found = describe_side_machine(child, self.machine.commands)
        known = self.machine.packages
        if side == SIDE_A or not known:
            self.machine = found
            return
        differing = {
            name: version for name, version in found.packages.items() if known.get(name) != version
        }
        self.machine = replace(self.machine, packages_of_b=differing)

    def keep_truth(self, child: ChildRun) -> None:
        """Keep the ground truth; RequestError if both sides do not answer the same samples."""
        truth = self.study_folder / STUDY_TRUTH_FOLDER
        if child.truth is None:
            return
        if truth.is_dir():
            if compute_folder_sha256(truth) != compute_folder_sha256(child.truth):
                raise RequestError(
                    "the two sides may not be compared: they answer other samples, or these have"
                    " other labels"
                )
            return
        partial = truth.with_name(truth.name + PARTIAL_SUFFIX)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(child.truth, partial)
        partial.rename(truth)
        sync_to_disk(truth.parent)

    def save_record(self) -> None:
        """Write `study.json`."""
        own = SavedRequest(request=convert_to_json(self.request))
        record = StudyRecord(
            kind=AB_KIND,
            origin=self.find_origin(),
            requests=(*(each for each in self.earlier if each != own), own),
            runs=tuple(each.folder for each in self.runs),
            machine=self.machine,
        )
        write_study_record(self.study_folder, record)

    def find_origin(self) -> str:
        """Return where the weights come from that were not trained here."""
        system = self.find_system("a")
        if system is None:
            return ""
        results = self.study_folder.parents[1]
        folder = locate_checkpoint_folder(results, system.workload, system.checkpoint_sha256)
        try:
            return read_untrusted_file(folder / CHECKPOINT_RECORD, CHECKPOINT_DECODER.decode).origin
        except UnreadableError:
            return ""


def describe_differences(before: SystemUnderTest, found: SystemUnderTest) -> str:
    """Name the fields and settings in which two records of a system differ."""
    one, other = (flatten_system(each) for each in (before, found))
    return ", ".join(
        f"{name} {other.get(name)}, not {one.get(name)}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    )


def flatten_system(system: SystemUnderTest) -> dict[str, Any]:
    """Return the fields of a system, and each of its settings for itself."""
    found = asdict(system)
    settings: dict[str, Any] = found.pop("settings")
    return found | settings


def convert_to_json(record: Any) -> dict[str, Any]:
    """Convert a request to JSON's types."""
    converted: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return converted


def describe_side_machine(
    child: ChildRun | None, earlier: Sequence[tuple[str, ...]]
) -> StudyMachine:
    """Describe the machine as a side's process does, with this command after earlier ones."""
    command = tuple(sys.argv)
    commands = tuple(earlier) if command in earlier else (*earlier, command)
    described: dict[str, Any] = {}
    if child is not None and child.description is not None:
        try:
            described = read_untrusted_file(child.description, json.loads)
        except UnreadableError:
            described = {}
    processors = described.get("host_processors_per_node")
    packages = described.get("packages")
    return StudyMachine(
        processor=str(described.get("host_processor_model_name") or platform.processor()),
        processors=processors if isinstance(processors, int) else None,
        packages=dict(packages) if isinstance(packages, dict) else {},
        commands=commands,
    )


def begin_comparison(study_folder: Path, request: AbRequest) -> AbProgress:
    """Begin an A/B, or continue the one that is there; what belongs to another one, or is decided,
    is moved aside.
    """
    results = study_folder.parents[1]
    record = find_study_record(study_folder)
    earlier, adopted = adopt_earlier(record, request)
    if adopted is None or record is None:
        move_to_superseded([study_folder], results=results)
        progress = begin_anew(study_folder, request)
    else:
        commands = describe_side_machine(None, record.machine.commands).commands
        progress = AbProgress(
            study_folder=study_folder,
            request=adopted,
            earlier=earlier,
            machine=replace(record.machine, commands=commands),
            runs=[],
        )
        recover_runs(progress, results)
        if is_decided(progress):
            move_to_superseded([study_folder], results=results)
            progress = begin_anew(study_folder, request)
    progress.save_record()
    return progress


def begin_anew(study_folder: Path, request: AbRequest) -> AbProgress:
    """Begin an A/B without a run."""
    machine = describe_side_machine(None, ())
    return AbProgress(
        study_folder=study_folder, request=request, earlier=(), machine=machine, runs=[]
    )


def is_decided(progress: AbProgress) -> bool:
    """Return whether the runs that are there have decided: whoever asks again asks about the sides
    of today.
    """
    answer = AB.compute_answer([progress.request], progress.points)
    return answer.verdict != AbVerdict.OPEN


def adopt_earlier(
    record: StudyRecord | None, request: AbRequest
) -> tuple[tuple[SavedRequest, ...], AbRequest | None]:
    """Return what earlier commands asked for, and the request that continues them; None if what is
    there is another comparison.
    """
    if record is None or record.kind != AB_KIND or not record.requests:
        return (), None
    try:
        (first, _), *_ = decode_requests(AB, record)
    except msgspec.ValidationError:
        return (), None
    return record.requests, AB.adopt_request(first, request)


def recover_runs(progress: AbProgress, results: Path) -> None:
    """Take the runs that are there, in order, as long as they follow from one another; others are
    moved aside.
    """
    folder = progress.study_folder
    numbered = []
    strange = []
    for each in sorted(folder.glob("side-*/*/")):
        if each.name.endswith(PARTIAL_SUFFIX):
            shutil.rmtree(each)  # of a killed command
            continue
        saved = find_point_record(each)
        if saved is None:
            strange.append(each)
        else:
            numbered.append((saved.number, each))
    longest = replace(progress, request=replace(progress.request, minutes=float("inf")), runs=[])
    for _, each in sorted(numbered):
        run = find_readable_run(progress, each)
        if run is None or longest.find_next_point() != run.point:
            strange.append(each)
            continue
        longest.runs.append(run)
    progress.runs = longest.runs
    move_to_superseded(strange, results=results)


def find_readable_run(progress: AbProgress, folder: Path) -> MeasuredRun[AbPoint, AbFigures] | None:
    """Read a run; None if its files are damaged."""
    place = folder.relative_to(progress.study_folder).as_posix()
    if not (folder / POINT_FILE).is_file():
        return None
    try:
        return read_measured_run(AB, progress.request, progress.study_folder, place)
    except (JudgedError, UnreadableError, msgspec.ValidationError):
        return None

"""Runs of the results that a study would measure again: they are copied into it."""

import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.serving.run_record import find_served_run, store_system_record
from harness.serving.setup import ServingSetup
from harness.serving.staging import copy_ground_truth
from harness.serving.studies.runs import StudySession, is_run_of_system
from suite.console.screen import print_progress_note
from suite.errors import JudgedError
from suite.files.layout import (
    PARTIAL_SUFFIX,
    ResultsEntry,
    compute_folder_sha256,
    sync_to_disk,
)
from suite.loadgen.scenario import Scenario
from suite.studies.documents import STUDY_TRUTH_FOLDER
from suite.studies.kind import PlannedRun
from suite.studies.points import NextStep
from suite.studies.records import PointRecord, write_point_record
from suite.studies.run_facts import RunFacts, read_run_facts
from suite.workload import Mode


def take_result_run(session: StudySession, step: NextStep[Any, Any], number: int) -> bool:
    """Copy the run of the results that a step would measure again; return whether there is one."""
    planned = session.kind.describe_run(session.request, step.point)
    if planned.server:
        return False
    setup = session.system.require_setup(planned)
    source = locate_result_run(setup, planned, step.repeat)
    facts = find_counted_facts(session, step.point, source)
    if facts is None:
        return False
    if planned.mode is Mode.ACCURACY and not take_ground_truth(session, setup):
        return False
    target = session.locate_run(step.point, step.repeat)
    store_system_record(target.parent, facts.record.system)
    record = PointRecord(number=number, repeat=step.repeat, point=asdict(step.point), seconds=0.0)
    copy_run_folder(source, target, record)
    print_progress_note(f"{session.system.workload}: takes the run in {source}")
    return True


def locate_result_run(setup: ServingSetup, planned: PlannedRun, repeat: int) -> Path:
    """Return where the results have a run."""
    name = setup.request.row.inference_name
    if planned.mode is Mode.ACCURACY:
        return setup.entry.locate_accuracy_run(name, planned.scenario)
    return setup.entry.locate_performance_run(name, planned.scenario, repeat)


def find_counted_facts(session: StudySession, point: Any, source: Path) -> RunFacts | None:
    """Read a run of the results; None if it is of another system, or does not count."""
    try:
        facts = read_run_facts(source)
    except JudgedError:
        return None
    is_own = is_run_of_system(session, point, facts)
    return facts if is_own and session.kind.is_complete(session.request, point, facts) else None


def take_ground_truth(session: StudySession, setup: ServingSetup) -> bool:
    """Copy the ground truth of the results unless the study has it; return whether the study has
    the same one now.
    """
    truth = session.study_folder / STUDY_TRUTH_FOLDER
    source = setup.entry.locate_ground_truth(setup.request.name)
    if not source.is_dir():
        return False
    if truth.is_dir():
        return compute_folder_sha256(truth) == compute_folder_sha256(source)
    truth.parent.mkdir(parents=True, exist_ok=True)
    copy_ground_truth(source, truth)
    return True


def copy_run_folder(source: Path, target: Path, record: PointRecord) -> None:
    """Copy a run, with the record of its point; it gets its name when it is complete."""
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial)
    write_point_record(partial, record)
    for path in (*partial.iterdir(), partial):
        sync_to_disk(path)
    partial.rename(target)
    sync_to_disk(target.parent)


def find_result_threads(entries: Iterable[ResultsEntry], name: str, sha256: str) -> int:
    """Return the CPU threads of the first Offline run of a checkpoint in the results; 0 if there is
    none.
    """
    for entry in entries:
        run = find_served_run(entry.locate_performance_run(name, Scenario.OFFLINE))
        if run is not None and run.system.checkpoint_sha256 == sha256:
            return run.system.threads
    return 0

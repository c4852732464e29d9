"""Measures a study of any kind: lock, signals, threads, resume, the runs, and output."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

from harness.serving.automatic_engine import settle_engine
from harness.serving.studies.idle import measure_idle_power
from harness.serving.studies.remaining_work import describe_kept_points, describe_remaining_work
from harness.serving.studies.result_runs import take_result_run
from harness.serving.studies.resume import StudyProgress, begin_study, find_first_run
from harness.serving.studies.runs import StudySession, measure_counted_run
from harness.serving.studies.system import (
    ServedSystem,
    StudyOptions,
    describe_study_subject,
    set_up_study_system,
)
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, PodiumError
from suite.files.layout import convert_to_slug, find_owning_results
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.studies.documents import STUDIES_FOLDER
from suite.studies.kind import StudiedRow, StudyKind
from suite.studies.measured import (
    MeasuredStudy,
    describe_cached_prompts,
    describe_idle_power,
    describe_study,
    describe_subject,
    format_study_csv,
    read_measured_run,
    read_measured_study,
)
from suite.studies.points import (
    NextStep,
    StudiedPoint,
    build_failed_point,
    collect_points,
)


def measure_study(
    name: str, workload: str, options: RunOptions, study_options: StudyOptions
) -> tuple[MeasuredStudy, Path]:
    """Set a system up, and measure it, as below."""
    kind = registry.load_study_kind(name)
    is_text = study_options.output_format == "text"
    with redirect_stdout(sys.stdout if is_text else sys.stderr):
        options = settle_engine(workload, options, study_options.checkpoint, study_options.site)
    system = set_up_study_system(kind, workload, options, study_options)
    return measure_system(kind, system, study_options)


def measure_system(
    kind: StudyKind[Any, Any, Any], system: ServedSystem, study_options: StudyOptions
) -> tuple[MeasuredStudy, Path]:
    """Measure, print and save a study of a system that is set up; JudgedError for a point that does
    not come about, or for a study in vain.
    """
    is_text = study_options.output_format == "text"
    with hold_study_results(system), redirect_stdout(sys.stdout if is_text else sys.stderr):
        sessions = open_study_sessions(kind, (system,), study_options)
        ((study, folder),) = measure_studies(sessions, study_options.repeats)
    print_study(study, folder, study_options.output_format)
    if why := kind.describe_failure(study.answer):
        raise JudgedError(why)
    return study, folder


@contextmanager
def hold_study_results(system: ServedSystem) -> Iterator[None]:
    """Lock the results folder of a system while its study is measured; a signal says how the study
    continues.
    """
    try:
        with raise_signals_in_block(), lock_results_folder(system.setup.entry.results):
            yield
    except Interrupted as error:
        raise type(error)(
            f"{system.workload}: {error}; what was measured is kept, and the same command continues"
        ) from error


def locate_study_folder(
    kind: StudyKind[Any, Any, Any], system: ServedSystem, study_options: StudyOptions
) -> Path:
    """Return the folder of the study."""
    results = find_owning_results(system.options.results.absolute())
    name = convert_to_slug(kind.name_study(study_options.values, system))
    return results / STUDIES_FOLDER / name


def open_study_sessions(
    kind: StudyKind[Any, Any, Any], systems: Sequence[ServedSystem], study_options: StudyOptions
) -> list[StudySession]:
    """Resolve a study of each system, with the same CPU threads; RequestError and MissingError if a
    point that is known now cannot be set up.
    """
    folders = [locate_study_folder(kind, each, study_options) for each in systems]
    earlier = next(filter(None, map(find_first_run, folders)), None)
    begun = earlier.system.threads if earlier else systems[0].result_threads
    for system in systems:
        system.settle_threads(begun)
        begun = system.setup.threads
    return [
        open_study_session(kind, system, study_options, folder)
        for system, folder in zip(systems, folders, strict=True)
    ]


def measure_studies(
    sessions: Sequence[StudySession], repeats: int
) -> list[tuple[MeasuredStudy, Path]]:
    """Measure studies, their points in turn, and save after each; what is there stays."""
    first, folders = sessions[0], [each.study_folder for each in sessions]
    under_way = [begin_settled_study(each, repeats) for each in sessions]
    if first.kind.reads_idle_power:
        measure_idle_power(folders, first.system.setup.power, first.system.setup.device)
    measure_missing_runs(under_way)
    return [(read_measured_study(folder), folder) for folder in folders]


def measure_settled_points(
    kind: StudyKind[Any, Any, Any],
    system: ServedSystem,
    study_options: StudyOptions,
    study_folder: Path,
) -> MeasuredStudy:
    """Measure all points of a system whose threads are settled."""
    session = open_study_session(kind, system, study_options, study_folder)
    measure_missing_runs([begin_settled_study(session, study_options.repeats)])
    return read_measured_study(study_folder)


def open_study_session(
    kind: StudyKind[Any, Any, Any],
    system: ServedSystem,
    study_options: StudyOptions,
    study_folder: Path,
) -> StudySession:
    """Resolve what is asked of a system; RequestError and MissingError if a point that is known now
    cannot be set up.
    """
    request = kind.build_request(study_options.values, system)
    for point in kind.list_known_points(request):
        system.require_setup(kind.describe_run(request, point))
    return StudySession(kind=kind, system=system, request=request, study_folder=study_folder)


def begin_settled_study(session: StudySession, repeats: int) -> StudyProgress:
    """Begin a study, or continue the one that is there, and say which."""
    progress = begin_study(session, repeats)
    origin = session.system.setup.checkpoint.record.origin
    origin = f" ({origin})" if origin else ""
    print_progress_note(f"{session.system.workload}: {session.kind.note}{origin}")
    if count := len(progress.runs):
        click.echo(f"continuing after {count} run{'s' * (count != 1)}")
    if sentence := describe_kept_points(progress):
        click.echo(sentence)
    if sentence := describe_remaining_work(progress):
        print_progress_note(f"{session.system.workload}: {sentence}")
    return progress


def measure_missing_runs(under_way: Sequence[StudyProgress]) -> None:
    """Measure the next run of each study in turn until no plan has one."""
    left = list(under_way)
    while left:
        left = [each for each in left if measure_next_run(each)]


def measure_next_run(progress: StudyProgress) -> bool:
    """Measure the next run of a plan; false if there is none."""
    session, kind = progress.session, progress.session.kind
    progress.move_contradicted_runs()
    step = progress.walk_own_plan().step
    if step is None:
        return False
    studied = measure_step(progress, step)
    progress.tried_again = [
        each for each in progress.tried_again if not kind.is_same_point(each.point, studied.point)
    ]
    progress.save_record()
    row = StudiedRow(
        studied=studied,
        request=session.request,
        answer=kind.compute_answer([session.request], progress.points),
        subject=describe_study_subject(kind, session.system),
    )
    click.echo(f"  {kind.describe_point(row)}")
    return True


def measure_step(progress: StudyProgress, step: NextStep[Any, Any]) -> StudiedPoint[Any, Any]:
    """Measure the next run, and return its point with this run alone. If the kind keeps failures,
    a point that cannot be measured is kept with the reason.
    """
    session, kind, points = progress.session, progress.session.kind, progress.points
    can_fail = kind.keeps_failures and step.repeat == 1
    why = kind.explain_omission(session.request, step.point, points) if can_fail else ""
    if not why:
        try:
            return measure_planned_run(progress, step)
        except PodiumError as found:
            error = session.system.explain_error(found)
            why = kind.explain_failure(step.point, error, points) if can_fail else ""
            if not why:
                raise error from found.__cause__
    failed = build_failed_point(step.point, why)
    progress.failed.append(failed)
    return failed


def measure_planned_run(
    progress: StudyProgress, step: NextStep[Any, Any]
) -> StudiedPoint[Any, Any]:
    """Measure a run, and return its point with this run alone."""
    session, kind = progress.session, progress.session.kind
    number = progress.runs[-1].number + 1 if progress.runs else 1
    if not (kind.takes_results and take_result_run(session, step, number)):
        measure_counted_run(session, step, number, progress.points)
    place = session.locate_run(step.point, step.repeat).relative_to(session.study_folder)
    run = read_measured_run(kind, session.request, session.study_folder, place.as_posix())
    progress.runs.append(run)
    (studied,) = collect_points(kind, [run])
    return studied


def print_study(study: MeasuredStudy, folder: Path, output_format: str) -> None:
    """Print a study in the requested form."""
    if output_format == "json":
        click.echo(json.dumps(describe_study(study), indent=2))
        return
    if output_format == "csv":
        click.echo(format_study_csv(study), nl=False)
        return
    click.echo("\n".join((*format_study_lines(study), f"saved in {folder}")))


def format_study_lines(study: MeasuredStudy) -> Sequence[str]:
    """Format a study as text: what it is, its table, and what the points say."""
    table = study.kind.table.format_aligned_text(study.rows)
    told = study.kind.describe_answer(study.request, study.answer, study.points)
    more = (*describe_cached_prompts(study), *describe_idle_power(study))
    return (describe_subject(study), table, *told, *more)

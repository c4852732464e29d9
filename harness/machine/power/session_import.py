"""`podium power import`: copies a session of the MLPerf Power workflow beside the run that it
measured, in the workflow's own layout.
"""

import shutil
from pathlib import Path

import click

from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL_LOG, PARTIAL_SUFFIX, RUN_RECORD, sync_to_disk
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_whole_digits
from suite.measurement.mlperf_power.checks import collect_session_problems
from suite.measurement.mlperf_power.session import (
    ANALYZER_LOG,
    CLIENT_RECORD,
    POWER_FOLDER,
    RANGING_FOLDER,
    SESSION_FILES,
    TESTING_FOLDER,
    PowerSession,
    build_offered_session,
    find_imported_session,
)


def import_power_session(folder: Path, run: Path) -> None:
    """Check a session against a run, copy it, and print its energy.

    RequestError for folders that are no session, no performance run of podium, or have a session
    already; JudgedError if the session does not hold.
    """
    check_importable_session(folder, run)
    found = collect_session_problems(build_offered_session(folder, run))
    grave = [
        f"{each.file}: found {each.found}; expected {each.required}"
        for each in found
        if not each.odd
    ]
    if grave:
        more = f" (and {len(grave) - 1} more)" if len(grave) > 1 else ""
        raise JudgedError(
            replace_unprintable(
                f"{folder}: this session does not count for {run}: {grave[0]}{more}; nothing was"
                " copied"
            )
        )
    for each in found:
        click.echo(
            replace_unprintable(f"odd: {each.file}: found {each.found}; expected {each.required}")
        )
    copy_session_files(folder, run)
    if session := find_imported_session(run):
        print_session_energy(session)


def check_importable_session(folder: Path, run: Path) -> None:
    """Refuse what is no session, or no run that may have one."""
    if not (folder / CLIENT_RECORD).is_file():
        raise RequestError(f"{folder}: no session of MLPerf Power: {CLIENT_RECORD} is missing")
    if run.resolve().parent.name != "performance" or not all(
        (run / name).is_file() for name in (DETAIL_LOG, RUN_RECORD)
    ):
        raise RequestError(
            f"{run}: no performance run of podium: a folder .../<Scenario>/performance/run_1 is"
            " needed"
        )
    existing = next(
        (
            path
            for path in (
                run.parent / POWER_FOLDER,
                run.parent / RANGING_FOLDER,
                *run.parent.glob(f"*/{ANALYZER_LOG}"),
            )
            if path.exists()
        ),
        None,
    )
    if existing:
        raise RequestError(
            f"{existing}: this scenario has a session already; remove power/, ranging/ and"
            f" {ANALYZER_LOG} to import another"
        )


def copy_session_files(folder: Path, run: Path) -> None:
    """Copy a session's files: the folders under names of unfinished ones first, the readings, which
    make it count, last.
    """
    performance_folder = run.parent
    try:
        for name in (POWER_FOLDER, RANGING_FOLDER):
            partial = performance_folder / f"{name}{PARTIAL_SUFFIX}"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for each in (each for each in SESSION_FILES if each.startswith(f"{name}/")):
                shutil.copyfile(folder / each, partial / Path(each).name)
                sync_to_disk(partial / Path(each).name)
            partial.rename(performance_folder / name)
        readings = run / f"{ANALYZER_LOG}{PARTIAL_SUFFIX}"
        shutil.copyfile(folder / TESTING_FOLDER / ANALYZER_LOG, readings)
        sync_to_disk(readings)
        readings.rename(run / ANALYZER_LOG)
        sync_to_disk(run)
    except OSError as error:
        for name in (
            POWER_FOLDER,
            RANGING_FOLDER,
            f"{POWER_FOLDER}{PARTIAL_SUFFIX}",
            f"{RANGING_FOLDER}{PARTIAL_SUFFIX}",
        ):
            shutil.rmtree(performance_folder / name, ignore_errors=True)
        (run / f"{ANALYZER_LOG}{PARTIAL_SUFFIX}").unlink(missing_ok=True)
        raise JudgedError(f"{error.filename}: cannot be copied: {error.strerror}") from error


def print_session_energy(session: PowerSession) -> None:
    (energy,), _ = session.energy
    mean = energy.mlperf_mean_w or 0.0
    model = replace_unprintable(str(session.readings.tracks[energy.name].facts["model"]))
    per_query = ""
    if energy.mj_per_query is not None:
        per_query = f", {energy.mj_per_query:,.3f} mJ/query"
    rate = ""
    if energy.samples_per_s_per_w:
        rate = f", {format_whole_digits(energy.samples_per_s_per_w, 3)} samples/s/W"
    click.echo(
        f"session {replace_unprintable(session.server.session_name)}: {energy.joules:,.1f} J,"
        f" {energy.average_w:,.2f} W{rate}{per_query}"
    )
    click.echo(
        f"  {energy.readings} readings of a {model}, grade {energy.grade}, scope system; MLPerf's"
        f" mean {mean:,.2f} W"
    )

"""`podium power import`: copies a session of the MLPerf Power workflow beside the run that it
measured, in the workflow's own layout.
"""

import shutil
from pathlib import Path

import click

from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL, PARTIAL, RUN_RECORD, sync
from suite.files.untrusted_files import printable
from suite.measurement.mlperf_power.checks import problems
from suite.measurement.mlperf_power.session import (
    CLIENT,
    FILES,
    POWER,
    RANGING,
    SPL,
    TESTING,
    Session,
    beside,
    offered,
)


def bring_in(folder: Path, run: Path) -> None:
    """Check a session against a run, copy it, and print its energy.

    RequestError for folders that are no session, no performance run of podium, or have a session
    already; JudgedError if the session does not hold.
    """
    refuse(folder, run)
    found = problems(offered(folder, run))
    grave = [
        f"{each.file}: found {each.found}; expected {each.required}"
        for each in found
        if not each.odd
    ]
    if grave:
        more = f" (and {len(grave) - 1} more)" if len(grave) > 1 else ""
        raise JudgedError(
            printable(
                f"{folder}: this session does not count for {run}: {grave[0]}{more}; nothing was"
                " copied"
            )
        )
    for each in found:
        click.echo(printable(f"odd: {each.file}: found {each.found}; expected {each.required}"))
    copy(folder, run)
    if session := beside(run):
        tell(session)


def refuse(folder: Path, run: Path) -> None:
    """Refuse what is no session, or no run that may have one."""
    if not (folder / CLIENT).is_file():
        raise RequestError(f"{folder}: no session of MLPerf Power: {CLIENT} is missing")
    if run.resolve().parent.name != "performance" or not all(
        (run / name).is_file() for name in (DETAIL, RUN_RECORD)
    ):
        raise RequestError(
            f"{run}: no performance run of podium: a folder .../<Scenario>/performance/run_1 is"
            " needed"
        )
    there = next(
        (
            path
            for path in (run.parent / POWER, run.parent / RANGING, *run.parent.glob(f"*/{SPL}"))
            if path.exists()
        ),
        None,
    )
    if there:
        raise RequestError(
            f"{there}: this scenario has a session already; remove power/, ranging/ and {SPL} to"
            " import another"
        )


def copy(folder: Path, run: Path) -> None:
    """Copy a session's files: the folders under names of unfinished ones first, the readings, which
    make it count, last.
    """
    home = run.parent
    try:
        for name in (POWER, RANGING):
            partial = home / f"{name}{PARTIAL}"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for each in (each for each in FILES if each.startswith(f"{name}/")):
                shutil.copyfile(folder / each, partial / Path(each).name)
                sync(partial / Path(each).name)
            partial.rename(home / name)
        readings = run / f"{SPL}{PARTIAL}"
        shutil.copyfile(folder / TESTING / SPL, readings)
        sync(readings)
        readings.rename(run / SPL)
        sync(run)
    except OSError as error:
        for name in (POWER, RANGING, f"{POWER}{PARTIAL}", f"{RANGING}{PARTIAL}"):
            shutil.rmtree(home / name, ignore_errors=True)
        (run / f"{SPL}{PARTIAL}").unlink(missing_ok=True)
        raise JudgedError(f"{error.filename}: cannot be copied: {error.strerror}") from error


def tell(session: Session) -> None:
    """Print a session's energy."""
    (energy,), _ = session.energy
    mean = energy.mlperf_mean_w or 0.0
    model = printable(str(session.readings.tracks[energy.name].facts["model"]))
    per_query = f", {energy.mj_per_query:,.3f} mJ/query" if energy.mj_per_query is not None else ""
    rate = f", {energy.samples_per_s_per_w:,.3g} samples/s/W" if energy.samples_per_s_per_w else ""
    click.echo(
        f"session {printable(session.server.session_name)}: {energy.joules:,.1f} J,"
        f" {energy.average_w:,.2f} W{rate}{per_query}"
    )
    click.echo(
        f"  {energy.readings} readings of a {model}, grade {energy.grade}, scope system; MLPerf's"
        f" mean {mean:,.2f} W"
    )

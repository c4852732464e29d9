"""Check that a sweep's table lacks no requested point, and its folder no recorded run."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from compliance.kinds.podium.documents.study import StudyFile
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import PARTIAL_SUFFIX, QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.studies.documents import (
    IDLE_TELEMETRY_FILE,
    POINT_FILE,
    STUDY_ACCURACY_FOLDER,
    STUDY_FILE,
    STUDY_TRUTH_FOLDER,
    SWEEP_KIND,
    RateDrift,
    StudyRow,
    SweepRequest,
    choose_longer_run,
    order_sweep_points,
)

MAX_NAMED_POINTS: Final = 4
"""Maximum number of missing points in a finding."""
STUDY_FOLDER_FILES: Final = (STUDY_FILE, IDLE_TELEMETRY_FILE)


@rule("study.request", StudyFile, About.RULES)
def request(study: StudyFile) -> Iterator[Fault]:
    """Every requested point of a sweep has one row, in the order that its seed draws, and each
    measured series has its drift.

    A table from an earlier version does not record the request, and an unfinished sweep has not
    measured all of it: both are warnings.

    Source: docs/STUDIES.md.
    Advice: repeat the same podium sweep command: it measures missing points and rewrites the table.
    """
    whole, command = study.study, study.study.command
    if command is None:
        yield study.build_fault(
            "no record of the request",
            "the command: without it, removed rows go unnoticed",
            severity=Severity.WARNING,
        )
        return
    yield from check_sweep_command(study, command)
    requested = {
        (each.engine, each.precision, batch) for each in whole.asked for batch in each.batches
    }
    rows = [(row.engine, row.precision, row.batch) for row in whole.rows]
    yield from check_missing_points(study, "row", sorted(requested - set(rows)))
    for place in sorted(set(rows) - requested | {place for place in rows if rows.count(place) > 1}):
        yield study.build_fault(
            f"{rows.count(place)} rows of {format_sweep_point(place)}",
            "exactly one row for each requested point, and no other row",
        )
    measured = {(row.engine, row.precision, row.batch) for row in whole.rows if row.folder}
    firsts = {
        (each.engine, each.precision, min(command.batches, default=0))
        for each in whole.asked
        if each.engine in command.engines
    }
    there = {(drift.engine, drift.precision, drift.batch) for drift in whole.drift}
    yield from check_missing_points(
        study,
        "drift",
        sorted(
            place
            for place in firsts & measured
            if place[1] in command.precisions and place not in there
        ),
    )


def check_sweep_command(study: StudyFile, command: SweepRequest) -> Iterator[Fault]:
    """Yield a command that is not the study's, and an order that the seed does not draw."""
    whole = study.study
    if whole.kind != SWEEP_KIND:
        yield study.build_fault(f"a study of kind {whole.kind!r}", f"{SWEEP_KIND!r}")
    if whole.subject not in command.subjects:
        yield study.build_fault(f"a sweep of {', '.join(command.subjects)}", whole.subject)
    batches = {(each.engine, each.precision): each.batches for each in whole.asked}
    pairs = {(engine, precision) for engine in command.engines for precision in command.precisions}
    if not command.batches or any(
        set(command.batches) - set(batches.get(pair, ())) for pair in pairs
    ):
        yield study.build_fault(
            "points of the command that were not requested",
            "all of its engines, precisions and batches",
        )
    count = len(command.subjects) * len(pairs) * len(command.batches)
    made = (
        order_sweep_points(
            command.subjects, command.engines, command.precisions, command.batches, whole.seed
        )
        if 0 < count == len(command.order)
        else ()
    )
    if made != command.order or count != len(made):
        yield study.build_fault(
            f"an order of {len(command.order)} points",
            f"the order of {count} points that the seed {whole.seed} draws",
        )


def check_missing_points(
    study: StudyFile, what: str, places: list[tuple[str, str, int]]
) -> Iterator[Fault]:
    """Yield points without a row or drift: a warning for an unfinished sweep."""
    if places:
        named = ", ".join(map(format_sweep_point, places[:MAX_NAMED_POINTS])) + (
            f" and {len(places) - MAX_NAMED_POINTS} more" if len(places) > MAX_NAMED_POINTS else ""
        )
        found = f"no {what} for {named}" + (
            "" if study.study.finished else ": the sweep is unfinished"
        )
        yield study.build_fault(found, f"a {what} for each requested point", severity=study.odd)


def format_sweep_point(place: tuple[str, str, int]) -> str:
    """Format a point."""
    return f"{place[0]} {place[1]} batch {place[2]}"


@rule("study.folders", StudyFile, About.FORM)
def folders(study: StudyFile) -> Iterator[Fault]:
    """The table lists each run in a study's folder, and the run has all its records, unless its own
    record states that they were lost.

    Source: docs/STUDIES.md; harness/serving/sweep.
    Advice: repeat the same podium sweep command: it moves other files aside.
    """
    whole = study.study
    rows: tuple[StudyRow | RateDrift, ...] = (*whole.rows, *whole.drift)
    named = {f"{row.folder}/" for row in rows if row.folder}
    systems = {f"{PurePosixPath(folder).parts[0]}/" for folder in named}
    for entry in study.entries:
        parts = PurePosixPath(entry).parts
        known = (
            entry in named
            or entry in systems
            or entry in STUDY_FOLDER_FILES
            or parts[0] == STUDY_TRUTH_FOLDER
            or (parts[-1] == STUDY_ACCURACY_FOLDER and f"{parts[0]}/" in systems)
        )
        if not known and (len(parts) == 1 or f"{parts[0]}/" in systems):
            severity = (
                study.odd
                if entry.endswith("/") and not entry.endswith(f"{PARTIAL_SUFFIX}/")
                else Severity.WARNING
            )
            yield study.build_fault(
                f"{entry} in the study's folder", "only what the table names", severity=severity
            )
    for point in study.points if whole.command is not None else ():
        lost = point.point.lost if point.point else ()
        for name, there in (
            (QUERY_RECORD_FILE, point.latencies_ns is not None),
            (TELEMETRY_FILE, point.conditions is not None),
        ):
            if not there:
                severity = Severity.WARNING if any(name in reason for reason in lost) else None
                yield point.build_fault(
                    f"no {name}",
                    f"{name}, which each run writes",
                    file=POINT_FILE,
                    severity=severity,
                )


@rule("study.length", StudyFile, About.RULES, severity=Severity.WARNING)
def length(study: StudyFile) -> Iterator[Fault]:
    """A point with an interval wider than 5 % either way is measured again for twice as long, and
    for four times as long.

    Source: docs/STUDIES.md.
    Advice: repeat the same podium sweep command: it measures the point for longer.
    """
    for row in study.study.rows:
        if study.study.command is not None and choose_longer_run(row, study.study.seconds):
            yield study.build_fault(
                f"an interval of {row.low or 0:.4g} to {row.high or 0:.4g} for"
                f" {row.samples_per_second or 0:.4g} samples/s",
                "a longer run",
            )

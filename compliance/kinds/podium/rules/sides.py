"""Check studies of two sides: that each side stays one system, that both may be compared, and that
their runs were made in turn.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from compliance.kinds.podium.documents.measured_study import JudgedStudy, StudyRun
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.ab.sides import AB_KIND, SIDES, AbRequest
from suite.files.layout import RUN_RECORD, SYSTEM_RECORD
from suite.records import ServedRun, SystemUnderTest
from suite.units import NS_PER_S

COMPARED_FIELDS: Final = ("workload", "round", "profile", "division", "sample_count")
"""Of a system: what both sides have in common."""
STATED_OPTIONS: Final = ("engine", "precision", "threads", "framework")
"""Options of a side that the record of its system states."""
CLOCK_STEP_S: Final = 1.0
"""House rule: by how much a time server may set the wall clock between two runs, which LoadGen's
stamps are of; a process takes longer to start.
"""


def iterate_sides(study: JudgedStudy) -> Iterator[tuple[str, list[tuple[StudyRun, ServedRun]]]]:
    """Yield each side of a study of two, with its runs that have a record."""
    if study.record.kind != AB_KIND or study.unread:
        return
    for side in SIDES:
        runs = [
            (each, each.run.record)
            for each in study.runs
            if each.run.record is not None and each.planned and each.planned.side == side
        ]
        if runs:
            yield side, runs


@rule("ab.sides", JudgedStudy, About.IDENTITY)
def sides(study: JudgedStudy) -> Iterator[Fault]:
    """All runs of a side are of one system, and it is what the command asked for. Both sides serve
    one workload, in one profile, and answer as many samples.

    Source: docs/guides/ab.md; suite/ab/sides.py.
    Advice: repeat the same command in another results folder.
    """
    found: dict[str, SystemUnderTest] = {}
    for side, runs in iterate_sides(study):
        (_, first), *others = runs
        found[side] = first.system
        for run, record in others:
            if record.system_sha256 != first.system_sha256:
                yield run.build_fault(
                    f"the system {record.system_sha256[:12]}",
                    f"{first.system_sha256[:12]}, as the other runs of side {side.upper()}",
                    file=RUN_RECORD,
                )
        request: AbRequest = study.requests[-1][0]
        yield from check_stated_options(study, side, request.get_side(side).options, first.system)
        for run, record in runs:
            yield from check_endpoint(run, record, request.get_side(side).endpoint)
    if len(found) == len(SIDES):
        one, other = (found[each] for each in SIDES)
        for name in COMPARED_FIELDS:
            if getattr(one, name) != getattr(other, name):
                yield study.build_fault(
                    f"{name} {getattr(one, name)} and {getattr(other, name)}",
                    "sides that may be compared",
                )


def check_stated_options(
    study: JudgedStudy, side: str, options: Mapping[str, str], system: SystemUnderTest
) -> Iterator[Fault]:
    """Yield options of a side that its system does not have."""
    for name in STATED_OPTIONS:
        if name in options and options[name] != str(getattr(system, name)):
            yield study.build_fault(
                f"side {side.upper()} with {name} {getattr(system, name)} in its {SYSTEM_RECORD}",
                f"{name} {options[name]}, as the command asked for",
            )


def check_endpoint(run: StudyRun, record: ServedRun, endpoint: str) -> Iterator[Fault]:
    """Yield a run of another server than its side's, or of one where none was asked for."""
    served = record.network.endpoints if record.network else ()
    is_own = all(is_same_address(endpoint, each) for each in served)
    if bool(served) != bool(endpoint) or not is_own:
        yield run.build_fault(
            f"servers {', '.join(served) or 'none'}", endpoint or "no server", file=RUN_RECORD
        )


def is_same_address(asked: str, served: str) -> bool:
    """Return whether a server has the host, and the port if one is named, of what was asked for."""
    wanted, found = (
        each.partition("://")[2].partition("/")[0].casefold() for each in (asked, served)
    )
    return wanted in (found, found.rpartition(":")[0])


@rule("ab.order", JudgedStudy, About.SCORE)
def order(study: JudgedStudy) -> Iterator[Fault]:
    """The runs of two sides were made one after another, in the order in which the study names
    them: by LoadGen's own times, each begins when the one before has ended.

    Source: docs/guides/ab.md: a block says something only if its runs alternate as its order says.
    Advice: repeat the same command in another results folder; runs that were moved or copied say
    nothing about a difference.
    """
    if study.record.kind != AB_KIND or study.unread:
        return
    timed = [each for each in study.runs if each.figures is not None and each.figures.starts_ns]
    for before, after in zip(timed, timed[1:], strict=False):
        late_s = (before.figures.ends_ns - after.figures.starts_ns) / NS_PER_S
        if late_s > CLOCK_STEP_S:
            yield after.build_fault(
                f"a run that began {late_s:.1f} s before {before.place} ended",
                "runs one after another, in the order in which the study names them",
            )

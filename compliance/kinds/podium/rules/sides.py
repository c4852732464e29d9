"""Check studies of two sides: that each side stays one system, that both may be compared, and that
their runs were made in turn.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from compliance.kinds.podium.documents.measured_study import JudgedStudy, StudyRun
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.ab.comparability import iterate_task_differences
from suite.ab.sides import AB_KIND, SIDES, THREADS_OPTION, AbRequest
from suite.files.layout import QUERY_RECORD_FILE, RUN_RECORD, SYSTEM_RECORD
from suite.records import ServedRun, SystemUnderTest
from suite.rounds.settings import GLOBAL_BATCH_SIZE
from suite.studies.batch_loop import MEAN_LATENCY_KEY
from suite.units import NS_PER_S

STATED_OPTIONS: Final = ("engine", "precision", "threads", "framework")
"""Options of a side that the record of its system states."""
SAMPLES_PER_QUERY_KEY: Final = "effective_samples_per_query"
MAX_STEP_GAP_SHARE: Final = 0.05
"""House rule, as of a closed loop on a busy machine (batch_loops.MAX_SHARE_ABOVE_RECORD): of the
time between steps, in which LoadGen's thread may wait for a core.
"""
MAX_STEP_SAVED_SHARE: Final = 0.02
"""House rule, as of a closed loop of batches (batch_loops.MAX_LOOP_GAP_SHARE)."""
MAX_STEP_EDGE_S: Final = 0.25
"""House rule: how long LoadGen's thread may wait for a core before the first step and behind the
last one.
"""
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
    one workload, in one profile, with the same data, and answer as many samples. They have as many
    CPU threads unless the command names a number.

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
        for difference in iterate_task_differences(one, other):
            yield study.build_fault(difference, "sides that may be compared")
        yield from check_equal_threads(study, one, other)


def check_equal_threads(
    study: JudgedStudy, one: SystemUnderTest, other: SystemUnderTest
) -> Iterator[Fault]:
    """Yield a difference in CPU threads that the command did not ask for."""
    request: AbRequest = study.requests[-1][0]
    sides = [request.get_side(each) for each in SIDES]
    if any(THREADS_OPTION in each.options or each.endpoint for each in sides):
        return
    if one.threads != other.threads:
        yield study.build_fault(
            f"{one.threads} and {other.threads} CPU threads",
            "equal ones, or a number in the command",
        )


@rule("ab.steps", JudgedStudy, About.SCORE)
def steps(study: JudgedStudy) -> Iterator[Fault]:
    """Runs are of steps, which no checkpoint answers, where the command asked for them, and only
    there. In an A/B of trainings, each query of a run is a step of the global batch that its system
    has, in LoadGen's log and in queries.npy, and the time from the first step to the last is that
    of LoadGen's own latencies.

    Source: docs/guides/ab.md; the speed is samples x steps over that time. LoadGen's stamps enclose
    podium's, and a step begins when the one before has ended.
    Advice: keep the files of a run together; repeat the same command if one is lost.
    """
    for _, runs in iterate_sides(study):
        for run, record in runs:
            is_training = run.planned is not None and run.planned.is_training
            is_untrained = not (record.system.checkpoint_sha256 or record.network)
            if is_training != is_untrained:
                found = "steps of a training" if is_untrained else "answers of a checkpoint"
                yield run.build_fault(
                    found, "what the command asked both sides for", file=RUN_RECORD
                )
            if is_training:
                yield from check_step_samples(run, record)
                yield from check_step_time(run)


def check_step_samples(run: StudyRun, record: ServedRun) -> Iterator[Fault]:
    """Yield samples of steps that are not those of the batch."""
    batch = record.system.settings.get(GLOBAL_BATCH_SIZE)
    found = run.run.find_value(SAMPLES_PER_QUERY_KEY)
    if found != batch or isinstance(found, bool):
        yield run.run.build_fault(
            f"{SAMPLES_PER_QUERY_KEY} {found!r}",
            f"{batch!r}, the {GLOBAL_BATCH_SIZE} of {SYSTEM_RECORD}",
            SAMPLES_PER_QUERY_KEY,
        )
    queries = run.run.queries
    if queries is not None and bool((queries.samples != batch).any()):
        yield run.build_fault(
            "a step of other samples", f"{batch!r} samples a step", file=QUERY_RECORD_FILE
        )


def check_step_time(run: StudyRun) -> Iterator[Fault]:
    """Yield a record whose steps take less time, or more, than LoadGen says."""
    queries, mean_ns = run.run.queries, run.run.find_number(MEAN_LATENCY_KEY)
    if queries is None or not len(queries) or mean_ns is None:
        yield run.build_fault("no steps", "a record of steps, and their mean latency")
        return
    took_s = (int(queries.done_ns.max()) - int(queries.issued_ns.min())) / NS_PER_S
    logged_s = len(queries) * mean_ns / NS_PER_S
    least_s = (1 - MAX_STEP_SAVED_SHARE) * logged_s - MAX_STEP_EDGE_S
    most_s = (1 + MAX_STEP_GAP_SHARE) * logged_s + MAX_STEP_EDGE_S
    if not least_s <= took_s <= most_s:
        yield run.build_fault(
            f"{took_s:.3f} s of steps",
            f"about {logged_s:.3f} s, as LoadGen logged",
            file=QUERY_RECORD_FILE,
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

"""The LoadGen run of a point: kept with its records, and made again until it counts."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from harness.machine.power.chosen import ChosenPower
from harness.progress import WaitProgress
from harness.serving.energy import (
    NO_ENERGY,
    MeasuredEnergy,
    compute_loadgen_energy,
    describe_measured_energy,
)
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen_in_child
from harness.serving.loadgen.test_settings import LoadGenSchedule, estimate_minimum_s
from harness.serving.performance_runs import (
    build_mode_schedule,
    lower_missed_rate,
    print_repeated_settings,
    select_advised_settings,
)
from harness.serving.run_record import (
    describe_unstreamed_answers,
    judge_performance_run,
    write_run_record,
)
from harness.serving.setup import ServingSetup
from harness.serving.studies.system import ServedSystem
from suite.errors import JudgedError
from suite.loadgen.advice import Hint
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.loadgen_errors import count_equal_errors, is_transient_error
from suite.rounds import HyperValue
from suite.rounds.settings import PERFORMANCE_PREFIXES, can_affect_run
from suite.studies.kind import PlannedRun, StudyKind
from suite.studies.points import NextStep
from suite.studies.records import PointRecord, write_point_record
from suite.studies.run_facts import RunFacts, read_run_facts
from suite.workload import Mode

MAX_POINT_RUNS: Final = 4
"""Runs of a point until one counts: one that was too short is made again with what was seen, and
one that LoadGen voids because of the machine unchanged.
"""
INVALID_VERDICT: Final = "INVALID"
ADAPTED_SETTINGS: Final = frozenset(
    {
        "loadgen.min_duration_ms",
        "loadgen.min_queries",
        "server.target_qps",
        "offline.expected_qps",
        "single_stream.expected_latency_us",
        "multi_stream.expected_latency_us",
    }
)
"""Settings that differ between the runs of one system: harness.serving.run_record,
build_repeat_settings.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySession:
    """A study under way."""

    kind: StudyKind[Any, Any, Any]
    system: ServedSystem
    request: Any
    study_folder: Path

    def locate_run(self, point: Any, repeat: int) -> Path:
        """Return the folder of a run of a point."""
        name = self.kind.name_point(point) + (f"-run-{repeat}" if repeat > 1 else "")
        return self.study_folder / self.system.name / name


@dataclass(slots=True, kw_only=True)
class PointAttempt:
    """What the runs of a point that did not count say of the next one."""

    left: int = MAX_POINT_RUNS
    """Runs that may be made yet."""
    last: RunFacts | None = None
    advised: dict[str, float] = field(default_factory=dict)
    """Settings that LoadGen's rules advise."""


class UncountedRunError(Exception):
    """A run that does not count, so that it is not kept."""

    def __init__(self, facts: RunFacts) -> None:
        super().__init__()
        self.facts = facts


def measure_counted_run(session: StudySession, step: NextStep[Any, Any], number: int) -> None:
    """Run a point until its run counts; JudgedError if none does, unless the kind keeps the
    last one.
    """
    attempt = PointAttempt()
    while attempt.left:
        attempt.left -= 1
        try:
            run_point_once(session, step, number, attempt)
        except UncountedRunError as error:
            attempt.last = error.facts
        else:
            return
    last = attempt.last
    why = f"LoadGen calls the run {INVALID_VERDICT}, {MAX_POINT_RUNS} times"
    if last is not None and last.errors:
        why = f"LoadGen: {last.errors[0]}"
    raise JudgedError(f"{session.kind.name_point(step.point)}: {why}")


def has_better_settings(
    session: StudySession,
    point: Any,
    hints: Sequence[Hint],
    errors: Sequence[str],
    attempt: PointAttempt,
) -> bool:
    """Return whether another run than this INVALID one may be VALID: by the settings that it
    advises, which are added, or because only the machine was at fault.
    """
    advice = select_advised_settings(session.system.setup, hints)
    is_transient = bool(errors) and not hints and all(map(is_transient_error, errors))
    if not attempt.left or not (advice or is_transient):
        return False
    attempt.advised |= lower_missed_rate(advice, attempt.advised, hints)
    scenario = session.kind.describe_run(session.request, point).scenario
    print_repeated_settings(scenario, attempt.advised)
    return True


def run_point_once(
    session: StudySession, step: NextStep[Any, Any], number: int, attempt: PointAttempt
) -> None:
    """Run LoadGen, and keep the run with its records; UncountedRunError if it does not count, and
    another one is made.
    """
    began_s = time.monotonic()
    kind, point, folder = session.kind, step.point, session.locate_run(step.point, step.repeat)
    planned = kind.describe_run(session.request, point)
    setup = session.system.require_setup(planned.settings)
    guessed = kind.guess_settings(point, session.system.probe_speed(), attempt.last)
    schedule = build_step_schedule(session, setup, planned, {**guessed, **attempt.advised})
    job = LoadGenJob(
        system=setup.system,
        schedule=schedule,
        folder=folder,
        has_starts=planned.has_starts,
        power=setup.power if kind.reads_power else ChosenPower(),
    )
    title = kind.name_point(point).replace("-", " ")
    lasts_s = estimate_minimum_s(schedule, session.system.probe_speed())
    with (
        WaitProgress(title, lasts_s) as shown,
        run_loadgen_in_child(job, shown.show_elapsed) as (partial, outcome),
    ):
        if sentence := describe_unstreamed_answers(outcome):
            raise JudgedError(f"{title}: {sentence}")
        own = any(not name.startswith(PERFORMANCE_PREFIXES) for name in planned.settings)
        hints = write_point_run(
            kind, setup, schedule, outcome, partial, system_folder=partial if own else None
        )
        record = PointRecord(
            number=number,
            repeat=step.repeat,
            point=asdict(point),
            seconds=time.monotonic() - began_s,
        )
        write_point_record(partial, record)
        facts = read_run_facts(partial)
        if kind.is_complete(session.request, point, facts):
            return
        errors = facts.errors
        if not kind.follows_advice or has_better_settings(session, point, hints, errors, attempt):
            raise UncountedRunError(facts)


def build_step_schedule(
    session: StudySession,
    setup: ServingSetup,
    planned: PlannedRun,
    guessed: Mapping[str, HyperValue],
) -> LoadGenSchedule:
    """Plan a run: as the round asks of the scenario, but for what the user chose and what the point
    changes; the rest is guessed.
    """
    probe_result = session.system.require_probe()
    chosen = setup.request.chosen
    changed: dict[str, HyperValue] = {
        **{name: value for name, value in guessed.items() if name not in chosen},
        **select_loadgen_settings(planned.settings),
    }
    schedule = build_mode_schedule(setup, planned.scenario, Mode.PERFORMANCE, probe_result, changed)
    fields: dict[str, Any] = dict(planned.fields)
    return replace(schedule, **fields)


def select_loadgen_settings(settings: Mapping[str, HyperValue]) -> dict[str, HyperValue]:
    """Return the settings of LoadGen among those of a point."""
    return {
        name: value for name, value in settings.items() if name.startswith(PERFORMANCE_PREFIXES)
    }


def write_point_run(
    kind: StudyKind[Any, Any, Any],
    setup: ServingSetup,
    schedule: LoadGenSchedule,
    outcome: LoadGenOutcome,
    folder: Path,
    *,
    system_folder: Path | None,
) -> Sequence[Hint]:
    """Write run.json of a point, and the record of its system; return what LoadGen's rules
    advise.
    """
    detail_log, measured = read_detail_log(folder), NO_ENERGY
    if kind.reads_power:
        measured = compute_loadgen_energy(folder, schedule.scenario, detail_log)
    write_run_record(
        setup, schedule, outcome, folder, measured=measured, system_folder=system_folder
    )
    if not kind.follows_advice:
        return ()
    hints = judge_performance_run(setup, schedule, detail_log).hints
    print_run_remarks(measured, detail_log, hints)
    return hints


def print_run_remarks(
    measured: MeasuredEnergy, detail_log: DetailLog, hints: Sequence[Hint]
) -> None:
    """Print what a run measured besides its figures, and why it may not count."""
    errors = count_equal_errors(detail_log.errors).values()
    for sentence in (
        *describe_measured_energy(measured),
        *(f"LoadGen: {error}" for error in errors),
        *(hint.sentence for hint in hints),
    ):
        click.echo(f"  {sentence}")


def is_run_of_system(session: StudySession, point: Any, facts: RunFacts) -> bool:
    """Return whether a run had the settings that its point would have now, without those that a
    run adapts, and those that affect other scenarios alone, which no run records.
    """
    planned = session.kind.describe_run(session.request, point)
    wanted = {**session.system.settings, **planned.settings}
    found, now = (
        {
            name: list(value) if isinstance(value, tuple | list) else value
            for name, value in settings.items()
            if name in planned.settings
            or name not in ADAPTED_SETTINGS
            and can_affect_run(name, planned.scenario.label, Mode.PERFORMANCE)
        }
        for settings in (facts.record.settings, wanted)
    )
    return found == now

"""The LoadGen run of a point: kept with its records, and made again until it counts."""

import shutil
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
from harness.serving.forced_answers import force_logged_answers
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen_in_child
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    ProbedSpeed,
    estimate_answering_s,
    estimate_minimum_s,
)
from harness.serving.network.setup import SERVER_SETTING_PREFIXES
from harness.serving.performance_runs import (
    build_mode_schedule,
    lower_missed_rate,
    print_repeated_settings,
    select_advised_settings,
)
from harness.serving.run_record import (
    build_system_record,
    describe_unstreamed_answers,
    judge_performance_run,
    write_accuracy_text,
    write_run_record,
)
from harness.serving.setup import ServingSetup
from harness.serving.studies.system import ServedSystem, describe_study_subject
from suite.errors import JudgedError
from suite.files.layout import PARTIAL_SUFFIX, sync_to_disk
from suite.loadgen.advice import Hint
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.loadgen_errors import format_repeated_errors, is_transient_error
from suite.records import ServedRun
from suite.rounds import HyperValue
from suite.rounds.settings import PERFORMANCE_PREFIXES, can_affect_run
from suite.studies.documents import STUDY_TRUTH_FOLDER
from suite.studies.kind import PlannedRun, StudyKind
from suite.studies.points import NextStep, StudiedPoint
from suite.studies.records import PointRecord, write_point_record
from suite.studies.run_facts import RunFacts, read_run_facts
from suite.studies.subject import build_study_subject
from suite.units import NS_PER_S
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
        planned = self.kind.describe_run(self.request, point)
        return self.study_folder / self.system.name_planned_system(planned) / name


@dataclass(slots=True, kw_only=True)
class PointAttempt:
    """What the runs of a point that did not count say of the next one."""

    left: int = MAX_POINT_RUNS
    """Runs that may be made yet."""
    guessed: float | None
    """Samples/s by the points before; None: the system is probed."""
    last: RunFacts | None = None
    advised: dict[str, float] = field(default_factory=dict)
    """Settings that LoadGen's rules advise."""


class UncountedRunError(Exception):
    """A run that does not count, so that it is not kept."""

    def __init__(self, facts: RunFacts) -> None:
        super().__init__()
        self.facts = facts


def measure_counted_run(
    session: StudySession,
    step: NextStep[Any, Any],
    number: int,
    done: Sequence[StudiedPoint[Any, Any]],
) -> None:
    """Run a point until its run counts; JudgedError if none does, unless the kind keeps the
    last one.
    """
    attempt = PointAttempt(guessed=session.kind.guess_speed(step.point, done))
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
    setup = session.system.require_setup(planned)
    if planned.mode is Mode.ACCURACY:
        keep_ground_truth(session, setup)
    if attempt.guessed is None:
        probe_result = session.system.require_probe(setup, planned.mode)
    else:
        probe_result = build_guessed_probe(attempt.guessed)
    guessed = kind.guess_settings(point, probe_result.probe, attempt.last)
    changed = {**guessed, **attempt.advised}
    schedule = build_step_schedule(setup, planned, probe_result, changed)
    job = LoadGenJob(
        system=setup.system,
        schedule=schedule,
        folder=folder,
        has_starts=planned.has_starts,
        power=setup.power if reads_run_power(kind, planned.mode) else ChosenPower(),
    )
    system = " ".join(filter(None, (planned.server or planned.engine, planned.precision)))
    title = ", ".join(filter(None, (system, kind.name_point(point).replace("-", " "))))
    lasts_s = estimate_point_s(schedule, probe_result)
    with (
        WaitProgress(title, lasts_s, about=planned.mode is Mode.ACCURACY) as shown,
        run_loadgen_in_child(job, shown.show_elapsed) as (partial, outcome),
    ):
        sentence = describe_unstreamed_answers(outcome)
        if sentence:
            click.echo(f"  {sentence}")
        if planned.mode is Mode.ACCURACY:
            force_logged_answers(setup, partial)
        hints = write_point_run(
            kind,
            setup,
            schedule,
            outcome,
            partial,
            system_folder=partial if planned.system_settings else None,
        )
        record = PointRecord(
            number=number,
            repeat=step.repeat,
            point=asdict(point),
            seconds=time.monotonic() - began_s,
        )
        write_point_record(partial, record)
        facts = read_run_facts(partial)
        if planned.mode is Mode.ACCURACY:
            keep_scores(partial, facts)
        if kind.is_complete(session.request, point, facts):
            return
        errors = facts.errors
        if not kind.follows_advice or has_better_settings(session, point, hints, errors, attempt):
            raise UncountedRunError(facts)


def keep_scores(folder: Path, facts: RunFacts) -> None:
    """Write the scores of an accuracy run beside its answers; JudgedError if it has none."""
    if facts.scores is None:
        raise JudgedError("the answers cannot be scored")
    write_accuracy_text(folder, facts.scores)


def keep_ground_truth(session: StudySession, setup: ServingSetup) -> None:
    """Write the ground truth that a study's accuracy runs are scored with, unless it is there."""
    truth = session.study_folder / STUDY_TRUTH_FOLDER
    if truth.is_dir():
        return
    partial = truth.with_name(truth.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)  # of a killed run
    partial.mkdir(parents=True)
    session.system.require_probe(setup, Mode.ACCURACY, partial)
    session.system.complete_ground_truth(partial)
    partial.rename(truth)
    sync_to_disk(truth.parent)


def reads_run_power(kind: StudyKind[Any, Any, Any], mode: Mode) -> bool:
    """Return whether power is read beside a run."""
    return kind.reads_power and mode is Mode.PERFORMANCE


def build_guessed_probe(samples_per_second: float) -> ProbeResult:
    """Return what a probe would say of a system of that speed."""
    sample_ns = NS_PER_S / samples_per_second
    speed = ProbedSpeed(
        samples_per_second=samples_per_second, latency_ns=sample_ns, query_latency_ns=sample_ns
    )
    return ProbeResult(sample_count=0, built={}, calibrated={}, probe=speed)


def estimate_point_s(schedule: LoadGenSchedule, probe_result: ProbeResult) -> float:
    """Return roughly how long a run lasts."""
    if schedule.mode is Mode.ACCURACY:
        return estimate_answering_s(schedule, probe_result.sample_count, probe_result.probe)
    return estimate_minimum_s(schedule, probe_result.probe)


def build_step_schedule(
    setup: ServingSetup,
    planned: PlannedRun,
    probe_result: ProbeResult,
    guessed: Mapping[str, HyperValue],
) -> LoadGenSchedule:
    """Plan a run: as the round asks of the scenario, but for what the user chose and what the point
    changes; the rest is guessed.
    """
    chosen = setup.request.chosen
    changed: dict[str, HyperValue] = {
        **{name: value for name, value in guessed.items() if name not in chosen},
        **select_loadgen_settings(planned.settings),
    }
    schedule = build_mode_schedule(setup, planned.scenario, planned.mode, probe_result, changed)
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
    if reads_run_power(kind, schedule.mode):
        measured = compute_loadgen_energy(folder, schedule.scenario, detail_log)
    write_run_record(
        setup, schedule, outcome, folder, measured=measured, system_folder=system_folder
    )
    if not kind.follows_advice or schedule.mode is Mode.ACCURACY:
        return ()
    hints = judge_performance_run(setup, schedule, detail_log).hints
    print_run_remarks(measured, detail_log, hints)
    return hints


def print_run_remarks(
    measured: MeasuredEnergy, detail_log: DetailLog, hints: Sequence[Hint]
) -> None:
    """Print what a run measured besides its figures, and why it may not count."""
    errors = format_repeated_errors(detail_log.errors).values()
    for sentence in (
        *describe_measured_energy(measured),
        *(f"LoadGen: {error}" for error in errors),
        *(hint.sentence for hint in hints),
    ):
        click.echo(f"  {sentence}")


def lacks_power(session: StudySession, point: Any, facts: RunFacts) -> bool:
    """Return whether the user names what power is read from, and the run says nothing of it."""
    planned = session.kind.describe_run(session.request, point)
    mode = planned.mode
    is_read = reads_run_power(session.kind, mode) and not planned.server
    is_wanted = is_read and session.system.setup.power.requested
    return bool(is_wanted) and facts.compute_energy() == ((), ())


def is_run_of_system(session: StudySession, point: Any, facts: RunFacts) -> bool:
    """Return whether a run had the settings that its point would have now, without those that a
    run adapts, those that affect other scenarios alone, which no run records, and a server's own.
    """
    planned = session.kind.describe_run(session.request, point)
    wanted = session.system.collect_planned_settings(planned)
    found, now = (
        {
            name: list(value) if isinstance(value, tuple | list) else value
            for name, value in settings.items()
            if name in planned.settings
            or name not in ADAPTED_SETTINGS
            and can_affect_run(name, planned.scenario.label, planned.mode)
            and not (planned.server and name.startswith(SERVER_SETTING_PREFIXES))
        }
        for settings in (facts.record.settings, wanted)
    )
    return found == now and is_system_of_study(session, point, planned, facts.record)


def is_system_of_study(
    session: StudySession, point: Any, planned: PlannedRun, run: ServedRun
) -> bool:
    """Return whether a run is of the machine, the weights and the podium of the study; and if its
    point is asked for, whether its system is exactly the one that would be measured now.
    """
    kind, system = session.kind, session.system
    wanted = describe_study_subject(kind, system)
    own_name = planned.own_name if kind.has_several_systems else None
    found = build_study_subject(run.stated_system, wanted.origin, own_name)
    if planned.server:
        wanted = wanted.copy_without_process()
    if found != wanted or run.system.name != system.name_planned_system(planned):
        return False
    if point not in kind.list_all_points(session.request):
        return True
    setup = system.find_setup(planned)
    if setup is None:
        return True  # it was measured before that was refused, or its server runs no more
    now = build_system_record(setup, run.system.sample_count)
    return now.compute_digest() == run.system_sha256

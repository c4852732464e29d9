"""The runs of one compliance test: a reference run, a run of the test, and so on in turns."""

import math
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.progress import WaitProgress
from harness.serving.audits.subject import AuditedResult
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen_in_child
from harness.serving.loadgen.test_settings import LoadGenSchedule, ProbedSpeed, estimate_minimum_s
from harness.serving.run_record import LoadGenVerdict, judge_performance_run, write_run_record
from harness.serving.setup import ServingSetup
from suite import registry
from suite.audits.names import AuditTest
from suite.audits.outcome import AuditOutcome
from suite.audits.rules import AuditRow, AuditRules, require_audit_rules
from suite.audits.tokens import check_token_answers
from suite.audits.verdict import (
    compare_audit_runs,
    compare_spread_runs,
    count_differing_answers,
    count_equal_answers,
    select_compared_metric,
)
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.files.layout import REFERENCE_RUNS_FOLDER
from suite.human_numbers import format_whole_digits
from suite.loadgen.advice import OFFLINE_RATE_SETTING, Hint
from suite.loadgen.detail_log import is_logged_valid, read_detail_log
from suite.loadgen.logged_answers import read_logged_answers, read_logged_tokens
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord, read_system_record
from suite.rounds import ScenarioRow
from suite.workload import Mode

MAX_INVALID_REPEATS: Final = 2
"""How often a run that LoadGen calls INVALID is run again: house rule; on a shared machine one run
predicts little about the next. Nothing changes, but that Offline's query grows where it was too
short.
"""
CLEAR_SPEED_FACTOR: Final = 10.0
"""House rule: a speed that is so many times beyond its limit in all runs is not noise. It
does not hold for Server, where two runs of an honest system were 800-fold apart."""
SPARE_QUERY_FACTOR: Final = 4
"""House rule: so many times the queries that the result's expected latency would prepare for the
shortest duration.
"""
SAMPLING_TARGET_SETTING: Final = "accuracy_log_sampling_target"
TEST04_INDEX_SETTING: Final = "performance_issue_same_index"
UNIQUE_SAMPLES_SETTING: Final = "performance_issue_unique"
"""With it LoadGen issues each sample once, and calls a run INVALID that would have needed more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A finished reference run, from which the next test of a scenario can go on."""

    folder: Path
    outcome: LoadGenOutcome
    value: float
    """Of the figure that is compared."""
    loadgen_settings: Mapping[str, bool | int | float]
    """LoadGen's settings that an ordinary run has not."""


@dataclass(slots=True, kw_only=True)
class AuditProgress:
    """One test with the runs that it has had so far."""

    serving_setup: ServingSetup
    subject: AuditedResult
    test: AuditTest
    rules_name: str
    """Of the rules."""
    folder: Path
    test_settings: dict[str, bool | int | float]
    """LoadGen's settings of the test's runs ..."""
    reference_settings: Mapping[str, bool | int | float]
    """... and of the reference runs."""
    previous_reference: ReferenceRun | None
    """The last reference run of the test before, if this one's settings are its own."""
    outcome: LoadGenOutcome | None = None
    """Of the last reference run."""
    reference_figures: list[float] = field(default_factory=list)
    test_figures: list[float] = field(default_factory=list)
    """Figures of the runs, in the metric's unit."""
    repeated: int = 0

    @property
    def rules(self) -> AuditRules:
        """The rules that it is run by."""
        return require_audit_rules(self.rules_name)

    @property
    def test_rules(self) -> AuditRow:
        """The test's own rules."""
        return self.rules.tests[self.test]


def plan_compliance_test(
    serving_setup: ServingSetup,
    subject: AuditedResult,
    test: AuditTest,
    rules: str,
    folder: Path,
    previous_reference: ReferenceRun | None = None,
) -> AuditProgress:
    """Settle what LoadGen is given; nothing has run. `previous_reference`: the last reference run
    of this
    scenario in this audit.
    """
    row, record = require_audit_rules(rules).tests[test], serving_setup.checkpoint.record
    test_settings = row.build_loadgen_settings(
        test,
        subject.scenario,
        serving_setup.request.row.inference_name,
        record.nonce,
        record.sha256,
    )
    reference_settings = (
        row.beside if subject.scenario is not Scenario.MULTI_STREAM else {}
    )  # its queries repeat samples: LoadGen has no unique ones for it
    reusable_reference = None
    if previous_reference and not row.salted:
        is_alike = previous_reference.loadgen_settings == reference_settings
        reusable_reference = previous_reference if is_alike else None
    subject = replace(
        subject,
        schedule=reduce_audit_schedule(
            subject.schedule,
            serving_setup.require_scenario_rules(subject.scenario),
            require_audit_rules(rules),
        ),
    )
    return AuditProgress(
        serving_setup=serving_setup,
        subject=subject,
        test=test,
        rules_name=rules,
        folder=folder,
        test_settings=test_settings,
        reference_settings=reference_settings,
        previous_reference=reusable_reference,
    )


def reduce_audit_schedule(
    schedule: LoadGenSchedule, row: ScenarioRow, rules: AuditRules
) -> LoadGenSchedule:
    """Request fewer queries where these suffice to compare, and prepare many more: a run that
    runs out of them is INVALID. Server's rate leaves room, if the rules say so.
    """
    if schedule.scenario is Scenario.SERVER:
        schedule = replace(schedule, rate=schedule.rate * rules.server_rate_share)
    wanted = rules.resolve_run_conditions(schedule.scenario, row)
    if wanted == row:
        return schedule
    expected_ns = max(1000, int(schedule.expected_latency_ns / SPARE_QUERY_FACTOR))
    return replace(
        schedule,
        percentile=wanted.percentile,
        min_queries=wanted.min_queries,
        expected_latency_ns=expected_ns,
    )


def extend_logged_schedule(
    schedule: LoadGenSchedule, row: ScenarioRow, samples: int
) -> LoadGenSchedule:
    """Request one query for each sample whose answer LoadGen is to log, for each sample in
    memory, at most for those of a result.
    """
    target = min(samples, int(schedule.special.get(SAMPLING_TARGET_SETTING, 0)))
    return replace(
        schedule,
        min_queries=max(
            schedule.min_queries,
            min(row.min_queries, math.ceil(target / schedule.samples_per_query)),
        ),
    )


def run_audit_turns(progress: AuditProgress) -> AuditOutcome:
    """Run as many turns as the rules require, and more while speed alone speaks against the
    system; return what all of them came to.
    """
    for turn in range(1, progress.rules.most_turns + 1):
        if turn == 1 and progress.previous_reference:
            progress.outcome = take_over_reference(progress, progress.previous_reference)
        else:
            progress.outcome = run_audit_turn(progress, REFERENCE_RUNS_FOLDER, turn)
        if turn == 1 and TEST04_INDEX_SETTING in progress.test_settings:
            progress.test_settings[TEST04_INDEX_SETTING] = choose_repeated_sample(
                progress, progress.outcome
            )
        run_audit_turn(progress, Mode.PERFORMANCE, turn)
        outcome = build_audit_outcome(progress)
        if turn >= progress.test_rules.resolve_min_turns(progress.rules) and (
            outcome.passed
            or outcome.differing
            or is_speed_clearly_off(progress)
            or outcome.has_invalid_run
        ):
            break
    return outcome


def take_over_reference(
    progress: AuditProgress, previous_reference: ReferenceRun
) -> LoadGenOutcome:
    """Begin with the run that the test before ended with: one reference run lies between the runs
    of two tests, and is filed with both.
    """
    shutil.copytree(previous_reference.folder, progress.folder / REFERENCE_RUNS_FOLDER / "run_1")
    progress.reference_figures.append(previous_reference.value)
    return previous_reference.outcome


def find_last_reference(progress: AuditProgress, folder: Path) -> ReferenceRun | None:
    """Return a finished test's last reference run, unless it is INVALID: the next test would fail
    with it; `folder` is the test's present folder.
    """
    last = folder / REFERENCE_RUNS_FOLDER / f"run_{len(progress.reference_figures)}"
    if progress.outcome is None or not is_logged_valid(last):
        return None
    return ReferenceRun(
        folder=last,
        outcome=progress.outcome,
        value=progress.reference_figures[-1],
        loadgen_settings=progress.reference_settings,
    )


def is_speed_clearly_off(progress: AuditProgress) -> bool:
    """Return whether the speed is so far off its limits, whichever runs count, that further turns
    would not help. In Server a queue that a busy moment left can be behind any difference.
    """
    if progress.subject.scenario is Scenario.SERVER:
        return False
    found = compare_spread_runs(
        progress.rules,
        progress.test_rules,
        progress.subject.scenario,
        progress.reference_figures,
        progress.test_figures,
    )
    return found.ratio > CLEAR_SPEED_FACTOR * (
        found.highest or math.inf
    ) or CLEAR_SPEED_FACTOR * found.ratio < (found.lowest or 0.0)


def choose_repeated_sample(progress: AuditProgress, outcome: LoadGenOutcome) -> int:
    """Choose the sample that TEST04 issues: where lengths differ the longest, which an honest
    system does not answer faster than the others.
    """
    loaded = read_detail_log(progress.folder / REFERENCE_RUNS_FOLDER / "run_1").values.get(
        "loaded_qsl_set"
    )
    loaded_samples = loaded if isinstance(loaded, list) else []
    if outcome.longest in loaded_samples:
        position = loaded_samples.index(outcome.longest)
    else:
        position = int(progress.test_settings[TEST04_INDEX_SETTING])
    if position >= len(loaded_samples):
        raise RequestError(
            f"{progress.test} issues sample {position} of those in memory, and there are only"
            f" {len(loaded_samples)}"
        )
    return position


def run_audit_turn(progress: AuditProgress, kind: str, turn: int) -> LoadGenOutcome:
    """Run LoadGen once; a run that it calls INVALID is repeated a few times."""
    if kind == REFERENCE_RUNS_FOLDER:
        special, figures = (progress.reference_settings, progress.reference_figures)
    else:
        special, figures = (progress.test_settings, progress.test_figures)
    schedule, folder = (
        replace(progress.subject.schedule, special=dict(special)),
        progress.folder / kind / f"run_{turn}",
    )
    serving_setup = salt_prompts(progress, is_reference=kind == REFERENCE_RUNS_FOLDER)
    if schedule.scenario is Scenario.MULTI_STREAM:
        schedule = extend_logged_schedule(
            schedule,
            progress.serving_setup.require_scenario_rules(schedule.scenario),
            progress.serving_setup.row.performance_samples,
        )
    title = (
        f"{schedule.scenario.label} {progress.test},"
        f" {'reference' if kind == REFERENCE_RUNS_FOLDER else 'test'}"
    )
    _, key = select_compared_metric(progress.rules, schedule.scenario)
    for left in reversed(range(MAX_INVALID_REPEATS + 1)):
        outcome, verdict, value = run_audit_loadgen(serving_setup, schedule, folder, title, key)
        if verdict.valid or not left or special.get(UNIQUE_SAMPLES_SETTING):
            break
        schedule = raise_expected_rate(schedule, verdict.hints)
        if schedule.rate > progress.subject.schedule.rate:
            expected = f", expecting {format_whole_digits(schedule.rate, 6)} samples/s"
        else:
            expected = ""
        print_progress_note(f"{title}: INVALID; running it again{expected}")
        shutil.rmtree(folder)
        progress.repeated += 1
    progress.subject = replace(
        progress.subject, schedule=replace(progress.subject.schedule, rate=schedule.rate)
    )
    figures.append(value)
    return outcome


def salt_prompts(progress: AuditProgress, is_reference: bool) -> ServingSetup:
    """Return the set-up of a run, whose prompts are salted if the test's rules say so."""
    salting = progress.test_rules.choose_salting(is_reference)
    setup = progress.serving_setup
    if salting is Salting.NONE:
        return setup
    return replace(setup, system=setup.system.copy_with_salt(salting))


def raise_expected_rate(schedule: LoadGenSchedule, hints: Iterable[Hint]) -> LoadGenSchedule:
    """Expect a higher rate in Offline where its query was too short: unchanged, it would be too
    short again. Server's rate is the result's.
    """
    rates = [
        hint.value for hint in hints if hint.knob == OFFLINE_RATE_SETTING and hint.value is not None
    ]
    return replace(schedule, rate=max([schedule.rate, *rates]))


def run_audit_loadgen(
    serving_setup: ServingSetup, schedule: LoadGenSchedule, target: Path, title: str, key: str
) -> tuple[LoadGenOutcome, LoadGenVerdict, float]:
    """Run LoadGen into a folder, with podium's record; return what the child saw, LoadGen's
    verdict, and a figure of its detail log.
    """
    job = LoadGenJob(system=serving_setup.system, schedule=schedule, folder=target)
    latency_ns = float(schedule.expected_latency_ns or 1)
    probe = ProbedSpeed(
        samples_per_second=schedule.rate or 1.0, latency_ns=latency_ns, query_latency_ns=latency_ns
    )
    with (
        WaitProgress(title, estimate_minimum_s(schedule, probe)) as shown,
        run_loadgen_in_child(job, shown.show_elapsed) as (folder, outcome),
    ):
        detail_log = read_detail_log(folder)
        verdict = judge_performance_run(serving_setup, schedule, detail_log)
        write_run_record(serving_setup, schedule, outcome, folder)
    return outcome, verdict, detail_log.require_number(key)


def build_audit_record(progress: AuditProgress) -> AuditRecord:
    """Say how a test was run."""
    return AuditRecord(
        system_sha256=read_system_record(progress.folder).compute_digest(),
        rules=progress.rules_name,
        repeated=progress.repeated,
        command=tuple(sys.argv),
    )


def build_audit_outcome(progress: AuditProgress) -> AuditOutcome:
    """Compute what the runs come to."""
    compared = compare_audit_runs(
        progress.rules,
        progress.test_rules,
        progress.subject.scenario,
        progress.reference_figures,
        progress.test_figures,
    )
    checks: Mapping[str, bool | None] = {}
    answers = wrong = 0
    equal: int | None = None
    if progress.test is AuditTest.TEST01:
        found = collect_logged_answers(progress)
        agree = registry.load_agreement(progress.serving_setup.request.name)
        answers, wrong = count_differing_answers(found, progress.subject.answers, agree)
        equal = count_equal_answers(found, progress.subject.answers)
    elif progress.test is AuditTest.TEST06:
        answers, wrong, checks = check_logged_counts(progress)
    return AuditOutcome(
        test=progress.test,
        compared=compared,
        reference=tuple(progress.reference_figures),
        found=tuple(progress.test_figures),
        answers=answers,
        differing=wrong,
        equal=equal,
        token_checks=checks,
        has_invalid_run=has_invalid_run(progress),
    )


def has_invalid_run(progress: AuditProgress) -> bool:
    """Return whether LoadGen calls a run INVALID that must be VALID."""
    return not all(map(is_logged_valid, list_required_runs(progress)))


def list_required_runs(progress: AuditProgress) -> list[Path]:
    """Name the folders of the runs that have to be VALID."""
    kinds = [Mode.PERFORMANCE.value]
    if not progress.reference_settings.get(UNIQUE_SAMPLES_SETTING):
        kinds.append(REFERENCE_RUNS_FOLDER)
    return [
        progress.folder / kind / f"run_{turn + 1}"
        for kind in kinds
        for turn in range(len(progress.test_figures))
    ]


def check_logged_counts(progress: AuditProgress) -> tuple[int, int, Mapping[str, bool | None]]:
    """Check the tokens of the logged answers of the test's runs; return how many there are, how
    many fail a check, and whether all pass each check.
    """
    request = progress.serving_setup.request
    folders = (
        progress.folder / Mode.PERFORMANCE / f"run_{turn + 1}"
        for turn in range(len(progress.test_figures))
    )
    return check_token_answers(
        (each for folder in folders for each in read_logged_tokens(folder)),
        registry.list_end_tokens(request.name, request.profile),
    )


def collect_logged_answers(progress: AuditProgress) -> Mapping[int, list[bytes]]:
    """Collect the logged answers of the test's runs, by sample."""
    found: dict[int, list[bytes]] = {}
    for turn in range(len(progress.test_figures)):
        for sample, answer in read_logged_answers(
            progress.folder / Mode.PERFORMANCE / f"run_{turn + 1}"
        ):
            found.setdefault(sample, []).append(answer)
    return found

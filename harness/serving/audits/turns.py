"""The runs of one compliance test: a reference run, a run of the test, and so on in turns."""

import math
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.progress import WaitProgress
from harness.serving.audits.subject import Subject
from harness.serving.loadgen.result_files import read_answers, read_facts
from harness.serving.loadgen.session import Job, Outcome, held
from harness.serving.loadgen.test_settings import Probe, Schedule, least_s
from harness.serving.run_record import Result, judge, record_in, write_run_record
from harness.serving.setup import Bench
from harness.serving.staging import VALID
from suite import __version__, registry
from suite.audits.names import AuditTest
from suite.audits.rules import AuditRow, AuditRules, require_audit_rules
from suite.audits.verdict import compare_best_runs, count_differing_answers, select_compared_metric
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.files.layout import REFERENCE_RUNS_FOLDER
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord
from suite.rounds import ScenarioRow
from suite.workload import Mode

AGAIN: Final = 2
"""How often a run that LoadGen calls INVALID is run again, unchanged: house rule; on a shared
machine one run predicts little about the next.
"""
CLEAR: Final = 10.0
"""House rule: a speed that is so many times beyond its limit is not noise; in Server, neighbouring
runs of an honest device beside busy loops were
up to 7 times apart."""
SPARE: Final = 4
"""House rule: so many times the queries that the result's expected latency would prepare for the
shortest duration.
"""
INVALID: Final = "INVALID"
TARGET: Final = "accuracy_log_sampling_target"
INDEX: Final = "performance_issue_same_index"
UNIQUE: Final = "performance_issue_unique"
"""With it LoadGen issues each sample once, and calls a run INVALID that would have needed more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A finished reference run, from which the next test of a scenario can go on."""

    folder: Path
    outcome: Outcome
    value: float
    """Of the figure that is compared."""
    beside: Mapping[str, bool | int | float]
    """LoadGen's settings that an ordinary run has not."""


@dataclass(slots=True, kw_only=True)
class Ran:
    """One test with the runs that it has had so far."""

    bench: Bench
    subject: Subject
    test: AuditTest
    name: str
    """Of the rules."""
    folder: Path
    knobs: dict[str, bool | int | float]
    """LoadGen's settings of the test's runs ..."""
    beside: Mapping[str, bool | int | float]
    """... and of the reference runs."""
    before: ReferenceRun | None
    """The last reference run of the test before, if this one's settings are its own."""
    outcome: Outcome | None = None
    """Of the last reference run."""
    reference: list[float] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    """Figures of the runs, in the metric's unit."""
    repeated: int = 0

    @property
    def rules(self) -> AuditRules:
        """The rules that it is run by."""
        return require_audit_rules(self.name)

    @property
    def row(self) -> AuditRow:
        """The test's own rules."""
        return self.rules.tests[self.test]


def begin(
    bench: Bench,
    subject: Subject,
    test: AuditTest,
    rules: str,
    folder: Path,
    before: ReferenceRun | None = None,
) -> Ran:
    """Settle what LoadGen is given; nothing has run. `before`: the last reference run of this
    scenario in this audit.
    """
    row, record = require_audit_rules(rules).tests[test], bench.checkpoint.record
    knobs = row.build_loadgen_settings(
        test, subject.scenario, bench.request.row.inference_name, record.nonce, record.sha256
    )
    beside = (
        row.beside if subject.scenario is not Scenario.MULTI_STREAM else {}
    )  # its queries repeat samples: LoadGen has no unique ones for it
    known = before if before and before.beside == beside else None
    subject = replace(
        subject,
        schedule=shortened(
            subject.schedule, bench.rules(subject.scenario), require_audit_rules(rules)
        ),
    )
    return Ran(
        bench=bench,
        subject=subject,
        test=test,
        name=rules,
        folder=folder,
        knobs=knobs,
        beside=beside,
        before=known,
    )


def shortened(schedule: Schedule, row: ScenarioRow, rules: AuditRules) -> Schedule:
    """Ask for fewer queries where they tell what is compared, and prepare many more: a run that
    runs out of them is INVALID.
    """
    wanted = rules.resolve_run_conditions(schedule.scenario, row)
    if wanted == row:
        return schedule
    expected_ns = max(1000, int(schedule.expected_latency_ns / SPARE))
    return replace(
        schedule,
        percentile=wanted.percentile,
        min_queries=wanted.min_queries,
        expected_latency_ns=expected_ns,
    )


def logged(schedule: Schedule, row: ScenarioRow, samples: int) -> Schedule:
    """Ask for as many queries as the answers need that LoadGen is to log, one for each sample in
    memory, at most for those of a result.
    """
    target = min(samples, int(schedule.special.get(TARGET, 0)))
    return replace(
        schedule,
        min_queries=max(
            schedule.min_queries,
            min(row.min_queries, math.ceil(target / schedule.samples_per_query)),
        ),
    )


def run(ran: Ran) -> AuditRecord:
    """Take as many turns as the rules ask for, and more while speed alone speaks against the
    system; return what all of them came to.
    """
    for turn in range(1, ran.rules.most_turns + 1):
        ran.outcome = (
            take_over(ran, ran.before)
            if turn == 1 and ran.before
            else once(ran, REFERENCE_RUNS_FOLDER, turn)
        )
        if turn == 1 and INDEX in ran.knobs:
            ran.knobs[INDEX] = index(ran, ran.outcome)
        once(ran, Mode.PERFORMANCE, turn)
        record = tally(ran)
        if turn >= ran.row.resolve_min_turns(ran.rules) and (
            record.passed or record.differing or clear(record) or invalid(ran)
        ):
            break
    return record


def take_over(ran: Ran, before: ReferenceRun) -> Outcome:
    """Begin with the run that the test before ended with: one reference run lies between the runs
    of two tests, and is filed with both.
    """
    shutil.copytree(before.folder, ran.folder / REFERENCE_RUNS_FOLDER / "run_1")
    ran.reference.append(before.value)
    return before.outcome


def last_reference(ran: Ran, folder: Path) -> ReferenceRun | None:
    """Return a finished test's last reference run, unless it is INVALID: the next test would fail
    with it; `folder` is where the test lies now.
    """
    last = folder / REFERENCE_RUNS_FOLDER / f"run_{len(ran.reference)}"
    if ran.outcome is None or is_invalid(last):
        return None
    return ReferenceRun(
        folder=last, outcome=ran.outcome, value=ran.reference[-1], beside=ran.beside
    )


def clear(record: AuditRecord) -> bool:
    """Tell whether the speed is so far off its limits that further turns would not help."""
    return record.ratio > CLEAR * (record.highest or math.inf) or CLEAR * record.ratio < (
        record.lowest or 0.0
    )


def index(ran: Ran, outcome: Outcome) -> int:
    """Choose the sample that TEST04 issues: where lengths differ the longest, which an honest
    system does not answer faster than the others.
    """
    loaded = read_facts(ran.folder / REFERENCE_RUNS_FOLDER / "run_1").values.get("loaded_qsl_set")
    held = loaded if isinstance(loaded, list) else []
    place = held.index(outcome.longest) if outcome.longest in held else int(ran.knobs[INDEX])
    if place >= len(held):
        raise RequestError(
            f"{ran.test} issues sample {place} of those in memory, and there are only {len(held)}"
        )
    return place


def once(ran: Ran, kind: str, turn: int) -> Outcome:
    """Run LoadGen once; a run that it calls INVALID is repeated a few times."""
    special, figures = (
        (ran.beside, ran.reference) if kind == REFERENCE_RUNS_FOLDER else (ran.knobs, ran.found)
    )
    schedule, place = (
        replace(ran.subject.schedule, special=dict(special)),
        ran.folder / kind / f"run_{turn}",
    )
    if schedule.scenario is Scenario.MULTI_STREAM:
        schedule = logged(
            schedule, ran.bench.rules(schedule.scenario), ran.bench.row.performance_samples
        )
    title = (
        f"{schedule.scenario.label} {ran.test},"
        f" {'reference' if kind == REFERENCE_RUNS_FOLDER else 'test'}"
    )
    _, key = select_compared_metric(ran.rules, schedule.scenario)
    for left in reversed(range(AGAIN + 1)):
        outcome, valid, value = one_run(ran.bench, schedule, place, title, key)
        if valid or not left or special.get(UNIQUE):
            break
        print_progress_note(f"{title}: INVALID; running it again")
        shutil.rmtree(place)
        ran.repeated += 1
    figures.append(value)
    return outcome


def one_run(
    bench: Bench, schedule: Schedule, place: Path, title: str, key: str
) -> tuple[Outcome, bool, float]:
    """Run LoadGen into a folder, with podium's record; return what the child saw, whether the run
    is VALID, and a figure of its detail log.
    """
    job = Job(system=bench.system, schedule=schedule, folder=place)
    latency_ns = float(schedule.expected_latency_ns or 1)
    probe = Probe(
        samples_per_second=schedule.rate or 1.0, latency_ns=latency_ns, query_latency_ns=latency_ns
    )
    with (
        WaitProgress(title, least_s(schedule, probe)) as shown,
        held(job, shown.show_elapsed) as (folder, outcome),
    ):
        facts = read_facts(folder)
        verdict = judge(bench, schedule, facts)
        result = Result(
            verdict=VALID if verdict.valid else INVALID,
            metric=verdict.metric,
            value=verdict.value,
            hints=verdict.hints,
        )
        write_run_record(bench, schedule, outcome, result, folder)
    return outcome, verdict.valid, facts.number(key)


def tally(ran: Ran) -> AuditRecord:
    """Compute what the runs come to."""
    record, compared = (
        ran.bench.checkpoint.record,
        compare_best_runs(ran.rules, ran.row, ran.subject.scenario, ran.reference, ran.found),
    )
    answers, wrong = answers_of(ran) if ran.test is AuditTest.TEST01 else (0, 0)
    proven = answers > 0 or ran.test is not AuditTest.TEST01
    return AuditRecord(
        workload=ran.bench.request.name,
        round=ran.bench.request.round.name,
        profile=ran.bench.request.profile,
        system=ran.bench.entry.system,
        scenario=ran.subject.scenario.label,
        nonce=record.nonce,
        checkpoint_sha256=record.sha256,
        test=ran.test,
        rules=ran.name,
        settings=ran.knobs,
        beside=ran.beside,
        metric=compared.metric,
        reference=tuple(ran.reference),
        found=tuple(ran.found),
        ratio=compared.ratio,
        lowest=compared.lowest,
        highest=compared.highest,
        answers=answers,
        differing=wrong,
        repeated=ran.repeated,
        passed=compared.passed and proven and not wrong and not invalid(ran),
        command=tuple(sys.argv),
        version=__version__,
    )


def invalid(ran: Ran) -> bool:
    """Tell whether LoadGen calls one of the runs INVALID that have to be VALID."""
    return any(map(is_invalid, runs(ran)))


def runs(ran: Ran) -> list[Path]:
    """Name the folders of the runs that have to be VALID."""
    kinds = [Mode.PERFORMANCE.value, *([] if ran.beside.get(UNIQUE) else [REFERENCE_RUNS_FOLDER])]
    return [
        ran.folder / kind / f"run_{turn + 1}" for kind in kinds for turn in range(len(ran.found))
    ]


def is_invalid(folder: Path) -> bool:
    """Tell whether LoadGen calls a run INVALID."""
    found = record_in(folder)
    return found is None or found.verdict != VALID


def answers_of(ran: Ran) -> tuple[int, int]:
    """Compare the logged answers of the test's runs with the accuracy run's; return how many there
    are, and how many differ.
    """
    found: dict[int, list[bytes]] = {}
    for turn in range(len(ran.found)):
        for sample, answer in read_answers(ran.folder / Mode.PERFORMANCE / f"run_{turn + 1}"):
            found.setdefault(sample, []).append(answer)
    return count_differing_answers(
        found, ran.subject.answers, registry.load_agreement(ran.bench.request.name)
    )

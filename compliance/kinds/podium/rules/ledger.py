"""Check that the ledger is complete and accounts for every result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from compliance.documents.line_ends import advise_on_line_ends
from compliance.kinds.podium.documents.bundle import Bundle
from compliance.kinds.podium.documents.ledger import LedgerFile, LedgerLine, parse_step_time
from compliance.kinds.podium.documents.training import TrainingLog, TrainingSet
from compliance.kinds.podium.recorded_times import compute_time_slack_s
from compliance.logs.finite_numbers import is_finite_number
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import AUDITS_FOLDER, LEDGER_FOLDER, MANIFEST_FILE
from suite.ledger.steps import (
    NONCE_RANDOM_BYTES,
    AttemptKind,
    LedgerStep,
    StepKind,
    compute_campaign_nonce,
    find_challenge_fault,
)
from suite.units import MS_PER_S, NS_PER_S

CLOCK_DIFFERENCE_S: Final = 60.0
"""House rule: the steps of one ledger may be written by several machines with one results folder,
whose clocks differ by less if a time server sets them.
"""
STEP_RESOLUTION_S: Final = 1.0
"""A step states whole seconds; what is left out of a second is not a difference."""
START_SLACK_S: Final = 5.0
START_SLACK_SHARE: Final = 0.05
"""House rule: between the step that begins a run and its clock, a ledger is synced to disk, which
busy disks take seconds for; in four honest runs beside other work it took 0.3 to 0.9 s.
"""
ENDING_STEP_KINDS: Final = frozenset(
    {StepKind.TRAINED, StepKind.MISSED, StepKind.ABORTED, StepKind.SERVED}
)
"""Steps that end the work of a `begin` step."""


@rule("ledger.links", LedgerFile, About.IDENTITY)
def links(ledger: LedgerFile) -> Iterator[Fault]:
    """The lines of a ledger are numbered from 0, and each has the SHA-256 of the line before it.
    This proves that no line was removed, repeated, moved or edited.

    Source: house rule: attempts that did not become results also count; suite/ledger/steps.py.
    Advice: copy the whole ledger again from the results folder; one ledger belongs to one results
    folder and only grows.
    """
    before = ""
    for ledger_line in ledger.ledger_lines:
        if ledger_line.step:
            yield from check_ledger_line(ledger, ledger_line, ledger_line.step, before)
        before = ledger_line.sha256
    if not ledger.ledger_lines and not ledger.source.parse_errors:
        yield ledger.build_fault("no line", "one line for each step, starting with begin")


def check_ledger_line(
    ledger: LedgerFile, ledger_line: LedgerLine, step: LedgerStep, before: str
) -> Iterator[Fault]:
    """Check one line against its position and the previous line."""
    if step.n != ledger_line.line - 1:
        yield ledger.build_fault(f"step {step.n}", f"step {ledger_line.line - 1}", ledger_line.line)
    if step.previous != before:
        yield ledger.build_fault(
            f"previous {step.previous[:16]!r}",
            f"{before[:16]!r}, the SHA-256 of the line before",
            ledger_line.line,
            advice=advise_on_line_ends([ledger.source.path]),
        )
    if ledger_line.line == 1 and step.step is not StepKind.BEGIN:
        yield ledger.build_fault(f"a first step {step.step}", "begin", ledger_line.line)


@rule("ledger.nonce", LedgerFile, About.IDENTITY)
def nonce(ledger: LedgerFile) -> Iterator[Fault]:
    """The nonce of a campaign with a challenge is the SHA-256 of the challenge (8 to 64 bytes)
    followed by 32 random bytes.

    Source: house rule: since the nonce seeds each LoadGen run, no answer can be older than the
    challenge.
    Advice: begin a new campaign with podium run --challenge; a campaign gets its challenge only
    when it begins.
    """
    for ledger_line in ledger.ledger_lines:
        step = ledger_line.step
        if step is None or not (step.challenge or step.random):
            continue
        if problem := find_challenge_fault(step.challenge):
            yield ledger.build_fault(
                f"challenge {step.challenge[:80]!r}: {problem}",
                "8 to 64 bytes in hexadecimal digits",
                ledger_line.line,
            )
        elif len(step.random) != 2 * NONCE_RANDOM_BYTES or find_challenge_fault(step.random):
            yield ledger.build_fault(
                f"random {step.random[:80]!r}",
                f"{NONCE_RANDOM_BYTES} bytes in hexadecimal digits",
                ledger_line.line,
            )
        elif compute_campaign_nonce(step.challenge, step.random) != step.nonce:
            yield ledger.build_fault(
                f"nonce {step.nonce!r}",
                f"{compute_campaign_nonce(step.challenge, step.random)!r}, derived from"
                " the challenge",
                ledger_line.line,
            )


@rule("ledger.kept", LedgerFile, About.IDENTITY)
def one_step_each(ledger: LedgerFile) -> Iterator[Fault]:
    """Exactly one step of the ledger made each training log, LoadGen run, compliance test and
    checkpoint record, and no later step superseded it. All files that the step made with it are
    there: of a training log its telemetry, of a run its records. A result that podium restore
    brought back is a warning, because it replaces a later one, which the ledger counts too.

    Source: house rule: neither a superseded result nor one from another program can replace a kept
    result, and no file of a kept one is left out.
    Advice: copy the whole folder again from the results folder, bring superseded results back with
    podium restore, or repeat the run.
    """
    for paths in ledger.iterate_result_files():
        there = [path for path in paths if is_file(path)]
        made, retained = ledger.find_making_steps(there), ledger.find_effective_steps(there)
        if len(retained) == 1 or not there:
            yield from check_restored_result(ledger, retained, there)
            yield from check_whole_result(ledger, retained, there)
            continue
        if retained:
            found = f"made by steps {', '.join(str(step.n) for step in retained)}"
        elif made:
            found = f"made by step {made[-1].n}, and superseded later"
        else:
            found = "no step made this"
        required = f"made by one step of {ledger.source.path.name}, unchanged, and kept"
        yield ledger.build_fault(
            found,
            required,
            file=there[0] if len(paths) == 1 else there[0].parent,
            advice=advise_on_line_ends(there),
        )


def check_restored_result(
    ledger: LedgerFile, retained: Sequence[LedgerStep], there: Sequence[Path]
) -> Iterator[Fault]:
    """Yield that a result was restored: whoever reads it has to know that a later one was chosen
    against.
    """
    restored = {step.made for step in ledger.steps if step.step is StepKind.RESTORED}
    for step in retained:
        if step.n in restored:
            yield ledger.build_fault(
                f"made by step {step.n}, superseded and restored",
                "the result of the last attempt",
                file=there[0] if len(there) == 1 else there[0].parent,
                severity=Severity.WARNING,
            )


def check_whole_result(
    ledger: LedgerFile, retained: Sequence[LedgerStep], there: Sequence[Path]
) -> Iterator[Fault]:
    """Yield the files that a step made together with those that are there, and that are gone."""
    for step in retained:
        for name in ledger.list_missing_files(step, there):
            yield ledger.build_fault(
                f"no {PurePosixPath(name).name}",
                f"what step {step.n} of {ledger.source.path.name} made",
                file=ledger.root / name,
                about=About.SCORE,
            )


@rule("ledger.order", LedgerFile, About.IDENTITY)
def order(ledger: LedgerFile) -> Iterator[Fault]:
    """Every step that ends something follows the step that began it. A checkpoint is stored after
    its training run ended, and served after that.

    Only the first line may name results that existed before the ledger.

    Source: house rule: podium appends each step as it happens.
    Advice: copy the whole ledger again from the results folder; steps that ran elsewhere need a
    campaign of their own.
    """
    begun: set[tuple[str, str, str]] = set()
    for ledger_line in ledger.ledger_lines:
        step = ledger_line.step
        if step and step.step is StepKind.BEGIN:
            begun.add((step.what, step.of, step.nonce))
            if step.files and step.n:
                yield ledger.build_fault(
                    "files in a begin step", "no files, except in the first line", ledger_line.line
                )
        elif (
            step
            and step.step in ENDING_STEP_KINDS
            and (step.what, step.of, step.nonce) not in begun
        ):
            yield ledger.build_fault(
                f"{step.step} {step.of}", "an earlier step that begins it", ledger_line.line
            )
    yield from check_checkpoint_steps(ledger)


@rule("ledger.times", LedgerFile, About.SCORE)
def times(ledger: LedgerFile) -> Iterator[Fault]:
    """A training run takes as long by its log as by its ledger, within 2 s and 1 % of the run. The
    step that began its set lies between init_stop and run_start. The step that ended it was written
    behind the log's last line.

    Steps are in the order of time, or a clock was set, which is a warning.

    Source: house rule; harness/training/state/attempts.py. The ledger is synced to disk between its
    first step and run_start, and other ranks may take long. So run_start may follow by 5 s and 5 %
    in a run of one rank, with a warning before. A run that was interrupted before its first
    checkpoint begins again under the same step. A clock that was set during the run, as its
    telemetry tells, adds to the slack.
    Advice: put log and ledger of one campaign together; otherwise repeat the run.
    """
    yield from check_step_order(ledger)
    logs = ((group, log) for group in ledger.sets for log in group.logs)
    for group, log in logs:
        step = next(iter(ledger.find_effective_steps([log.path])), None)
        timed = time_log(group, log)
        if step is not None and step.step is not StepKind.BEGIN and timed is not None:
            yield from check_log_begin(ledger, timed, step)
            yield from check_log_end(ledger, timed, step)


def check_step_order(ledger: LedgerFile) -> Iterator[Fault]:
    """Yield steps that were written before the one that precedes them, by the machine's clock."""
    timed_steps = [
        (moment, step) for step in ledger.steps if (moment := parse_step_time(step)) is not None
    ]
    for (earlier, before), (later, step) in pairwise(timed_steps):
        if later < earlier - CLOCK_DIFFERENCE_S:
            yield ledger.build_fault(
                f"step {step.n} is {earlier - later:.0f} s before step {before.n}",
                "steps in the order of time",
                step.n + 1,
                severity=Severity.WARNING,
                about=About.FORM,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedLog:
    """When a training run took place by its log, in seconds since 1970."""

    log: TrainingLog
    opened_s: float
    prepared_s: float
    """init_stop."""
    started_s: float
    """run_start."""
    length_s: float
    """From run_start to run_stop."""
    ended_s: float
    """The last line."""
    clock_step_s: float
    """By how much the clock was set meanwhile, which a ledger's steps follow and a log does not."""

    @property
    def slack_s(self) -> float:
        """Return by how much log and ledger may differ."""
        return compute_time_slack_s(self.length_s) + self.clock_step_s


def time_log(group: TrainingSet, log: TrainingLog) -> TimedLog | None:
    """Return the times of a log; None if it lacks one, which is an error already."""
    opened_ms, ended_ms = log.opened_ms, log.ended_ms
    marks = [
        record.event.time_ms
        for key in (events.INIT_STOP, events.RUN_START, events.RUN_STOP)
        if (record := log.find_record(key)) and is_finite_number(record.event.time_ms)
    ]
    if len(marks) != 3 or opened_ms is None or ended_ms is None:
        return None
    prepared_ms, started_ms, stopped_ms = marks
    telemetry = group.find_telemetry(log)
    steps_ns = [abs(each.clock_step_ns or 0) for each in telemetry.segments] if telemetry else []
    return TimedLog(
        log=log,
        opened_s=opened_ms / MS_PER_S,
        prepared_s=prepared_ms / MS_PER_S,
        started_s=started_ms / MS_PER_S,
        length_s=max(0.0, stopped_ms - started_ms) / MS_PER_S,
        ended_s=ended_ms / MS_PER_S,
        clock_step_s=sum(steps_ns) / NS_PER_S,
    )


def check_log_begin(ledger: LedgerFile, timed: TimedLog, step: LedgerStep) -> Iterator[Fault]:
    """Check a log against the step that began its set."""
    begun = [
        moment
        for each in ledger.steps
        if each.step is StepKind.BEGIN
        and (each.of, each.nonce) == (step.of, step.nonce)
        and each.n < step.n
        and (moment := parse_step_time(each)) is not None
    ]
    if not begun:
        return
    name, first_s, slack_s = timed.log.path.name, begun[0], timed.slack_s
    if first_s > timed.started_s + slack_s:
        yield ledger.build_fault(
            f"run_start of {name} is {first_s - timed.started_s:.1f} s before its step",
            "a run that starts after its step",
            step.n + 1,
        )
    if first_s + STEP_RESOLUTION_S < timed.opened_s or not is_logged_by_one_rank(timed.log):
        return
    if timed.prepared_s > first_s + STEP_RESOLUTION_S + slack_s:
        late_s = timed.prepared_s - first_s - STEP_RESOLUTION_S
        yield ledger.build_fault(
            f"init_stop of {name} is {late_s:.1f} s after its step",
            f"at most {slack_s:.1f} s",
            step.n + 1,
        )
    late_s = timed.started_s - first_s - STEP_RESOLUTION_S
    most_s = START_SLACK_S + START_SLACK_SHARE * timed.length_s + timed.clock_step_s
    if late_s > slack_s:
        yield ledger.build_fault(
            f"run_start of {name} is {late_s:.1f} s after its step",
            f"at most {slack_s:.1f} s",
            step.n + 1,
            severity=None if late_s > most_s else Severity.WARNING,
        )


def is_logged_by_one_rank(log: TrainingLog) -> bool:
    """Return whether a run had no other ranks to wait for."""
    return bool(log.find_value(events.WORLD_SIZE) == 1)


def check_log_end(ledger: LedgerFile, timed: TimedLog, step: LedgerStep) -> Iterator[Fault]:
    """Check a log against the step that ended the run; it states whole seconds."""
    ended = parse_step_time(step)
    if ended is None:
        return
    early_s, late_s = timed.ended_s - ended - STEP_RESOLUTION_S, ended - timed.ended_s
    if max(early_s, late_s) > timed.slack_s:
        found = (
            f"step {step.n} was written {max(early_s, late_s):.1f} s"
            f" {'after' if late_s > 0 else 'before'} the last line of {timed.log.path.name}"
        )
        yield ledger.build_fault(found, f"at most {timed.slack_s:.1f} s", step.n + 1)


def check_checkpoint_steps(ledger: LedgerFile) -> Iterator[Fault]:
    """Compare the steps of each served checkpoint; those in the first line may have any order."""
    for entry in ledger.entries:
        for sha256, served in ledger.find_served_checkpoints(entry):
            logs = [
                log.path for group in ledger.sets for log in group.logs if log.checkpoint == sha256
            ]
            records = [ledger.resolve_checkpoint_record(sha256)] if "/" not in sha256 else []
            trained, exported = find_first_step(ledger, logs), find_first_step(ledger, records)
            yield from check_rising_steps(
                ledger, [step for step in (trained, exported, served) if step]
            )


def check_rising_steps(ledger: LedgerFile, steps: list[LedgerStep]) -> Iterator[Fault]:
    """Yield neighbours whose numbers do not increase."""
    for before, after in pairwise(steps):
        if before.n > after.n or (before.n == after.n and before.step is not StepKind.BEGIN):
            yield ledger.build_fault(
                f"{after.step} in step {after.n}, {before.step} in step {before.n}",
                "trained, then exported, then served",
                after.n + 1,
            )


def find_first_step(ledger: LedgerFile, paths: list[Path]) -> LedgerStep | None:
    """Return the first of the steps that files come from."""
    found = [step for path in paths for step in ledger.find_effective_steps([path])]
    return min(found, key=lambda step: step.n, default=None)


@rule("ledger.complete", LedgerFile, About.SCORE)
def complete(ledger: LedgerFile) -> Iterator[Fault]:
    """A bundle contains every run and compliance test that the ledger lists as kept for its
    run sets and scenarios.

    Source: house rule: no run of a campaign is left out.
    Advice: restore the named runs, or repeat the whole set or scenario.
    """
    folders = {
        format_ledger_path(ledger, group.folder): {
            log.find_value(events.NONCE) for log in group.logs
        }
        for group in ledger.sets
    }
    folders |= {
        format_ledger_path(ledger, entry.folder): {
            run.record.system.nonce for run in entry.runs if run.record
        }
        for entry in ledger.entries
    }
    if not ledger.sealed:
        return
    for step in ledger.steps:
        within = resolve_step_folder(step)
        if step.step not in ENDING_STEP_KINDS or step.nonce not in folders.get(within, ()):
            continue
        names = ledger.standing_files.get(step.n, {})
        if missing := [name for name in sorted(names) if not is_file(ledger.root / name)]:
            yield ledger.build_fault(f"no {missing[0]}", f"what step {step.n} made", step.n + 1)


def resolve_step_folder(step: LedgerStep) -> str:
    """Return the folder of the set or scenario of a step; a compliance test belongs to its
    scenario.
    """
    if step.what == AttemptKind.AUDIT:
        return str(PurePosixPath(step.of).parent).replace(f"/{AUDITS_FOLDER}/", "/results/", 1)
    if step.what == AttemptKind.TRAINING:
        return step.of
    return step.of.rpartition(f"/{step.what}")[0]


def format_ledger_path(ledger: LedgerFile, folder: Path) -> str:
    """Format a folder as the ledger does."""
    return folder.relative_to(ledger.root).as_posix()


@rule("bundle.ledger", Bundle, About.IDENTITY)
def heads(bundle: Bundle) -> Iterator[Fault]:
    """A bundle with a ledger contains the ledger of each of its workloads, and its manifest has the
    SHA-256 of each ledger's last line.

    Source: house rule: the seal covers the number of attempts as well as the results.
    Advice: pack the results again with podium pack; if only some results have a ledger, pack each
    workload separately with --workload.
    """
    stated = bundle.manifest
    if stated is None:
        return
    file = bundle.folder / MANIFEST_FILE
    found = {
        ledger.source.path.relative_to(bundle.folder).as_posix(): (
            ledger.ledger_lines[-1].sha256 if ledger.ledger_lines else ""
        )
        for ledger in bundle.ledgers
    }
    required = {*found, *stated.ledger}
    if required:
        required |= set(iterate_required_ledgers(bundle))
    for name in sorted(required):
        if name not in found:
            yield bundle.build_fault(
                f"no {name}", "the ledger of each workload with results", file=file
            )
        elif stated.ledger.get(name) != found[name]:
            yield bundle.build_fault(
                f"ledger {name}: {stated.ledger.get(name)!r}",
                f"{found[name]!r}, the SHA-256 of its last line",
                file=file,
            )


def iterate_required_ledgers(bundle: Bundle) -> Iterator[str]:
    """List the ledgers that the results of a bundle belong to."""
    for tree in bundle.submissions:
        home = tree.organisation_folder.relative_to(bundle.folder).as_posix()
        workloads = {log.workload for group in tree.sets for log in group.logs} | {
            entry.workload for entry in tree.entries
        }
        yield from (
            f"{home}/{LEDGER_FOLDER}/{workload}.jsonl"
            for workload in sorted(filter(None, workloads))
        )

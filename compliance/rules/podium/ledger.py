"""Rules about the ledger: that it is whole, and that it accounts for every result."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from compliance.documents.podium.ledger import LedgerFile, Link
from compliance.documents.podium.submission import Bundle
from compliance.documents.podium.training import TrainingLog, finite
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite import events
from suite.files.layout import AUDITS, LEDGER, MANIFEST
from suite.ledger.steps import RANDOM_BYTES, Step, StepKind, What, challenge_problem, nonce_of

WITH_LEDGER: Final = 2
"""The first format of a manifest whose bundles hold ledgers."""
APART_S: Final = 60.0
"""House rule: a step is written when a log has its last line; clocks that a time server sets may
differ by less.
"""
MS_PER_S: Final = 1000
ENDINGS: Final = frozenset({StepKind.TRAINED, StepKind.MISSED, StepKind.ABORTED, StepKind.SERVED})
"""Steps that end what a `begin` began."""


@rule("ledger.links", LedgerFile)
def links(ledger: LedgerFile) -> Iterator[Fault]:
    """The lines of a ledger are numbered from 0, and each names the SHA-256 of the line before it,
    so that none was removed, repeated, moved or edited.

    Source: house rule: attempts that did not become results are counted, too;
    suite/ledger/steps.py.
    Advice: submit the ledger as podium wrote it, with all its lines.
    """
    before = ""
    for link in ledger.links:
        if link.step:
            yield from at_its_place(ledger, link, link.step, before)
        before = link.sha256
    if not ledger.links and not ledger.source.flaws:
        yield ledger.fault("no line", "one line for each step, the first of kind begin")


def at_its_place(ledger: LedgerFile, link: Link, step: Step, before: str) -> Iterator[Fault]:
    """Hold one line against its place, and against the line before."""
    if step.n != link.line - 1:
        yield ledger.fault(f"step {step.n}", f"step {link.line - 1}", link.line)
    if step.previous != before:
        yield ledger.fault(
            f"previous {step.previous[:16]!r}",
            f"{before[:16]!r}, the SHA-256 of the line before",
            link.line,
        )
    if link.line == 1 and step.step is not StepKind.BEGIN:
        yield ledger.fault(f"a first step {step.step}", "begin", link.line)


@rule("ledger.nonce", LedgerFile)
def nonce(ledger: LedgerFile) -> Iterator[Fault]:
    """The nonce of a campaign with a challenge is the SHA-256 of the challenge, 8 to 64 bytes, and
    32 random bytes behind it.

    Source: house rule: since the nonce seeds each LoadGen run, no answer can be older than the
    challenge.
    Advice: submit the ledger as podium wrote it; a campaign gets its challenge when it begins.
    """
    for link in ledger.links:
        step = link.step
        if step is None or not (step.challenge or step.random):
            continue
        if problem := challenge_problem(step.challenge):
            yield ledger.fault(
                f"challenge {step.challenge[:80]!r}: {problem}",
                "8 to 64 bytes in hexadecimal digits",
                link.line,
            )
        elif len(step.random) != 2 * RANDOM_BYTES or challenge_problem(step.random):
            yield ledger.fault(
                f"random {step.random[:80]!r}",
                f"{RANDOM_BYTES} bytes in hexadecimal digits",
                link.line,
            )
        elif nonce_of(step.challenge, step.random) != step.nonce:
            yield ledger.fault(
                f"nonce {step.nonce!r}",
                f"{nonce_of(step.challenge, step.random)!r}, made from the challenge",
                link.line,
            )


@rule("ledger.kept", LedgerFile)
def kept(ledger: LedgerFile) -> Iterator[Fault]:
    """Each training log, LoadGen run, compliance test and record of a checkpoint was made by
    exactly one step of the ledger, with all its files,
    and not superseded since.

    Source: house rule: a result that was superseded cannot be filed in the place of the one that
    was kept, nor one that podium did not make.
    Advice: restore the files that the ledger names, or repeat the run.
    """
    for paths in ledger.counted():
        there = [path for path in paths if is_file(path)]
        made, kept = ledger.made(there), ledger.kept(there)
        if len(kept) == 1 or not there:
            continue
        if kept:
            found = f"made by steps {', '.join(str(step.n) for step in kept)}"
        elif made:
            found = f"made by step {made[-1].n}, and superseded since"
        else:
            found = "no step made this"
        required = f"made by one step of {ledger.source.path.name}, as it lies here, and kept"
        yield ledger.fault(found, required, file=there[0] if len(paths) == 1 else there[0].parent)


@rule("ledger.order", LedgerFile)
def order(ledger: LedgerFile) -> Iterator[Fault]:
    """What a step ends was begun before it; a checkpoint was stored after its training run ended,
    and served after that.

    Only the first line may name results that were there before the ledger.
    Source: house rule: podium appends each step when it happens.
    Advice: submit the ledger as podium wrote it.
    """
    begun: set[tuple[str, str, str]] = set()
    for link in ledger.links:
        step = link.step
        if step and step.step is StepKind.BEGIN:
            begun.add((step.what, step.of, step.nonce))
            if step.files and step.n:
                yield ledger.fault("files of a begin", "none, but in the first line", link.line)
        elif step and step.step in ENDINGS and (step.what, step.of, step.nonce) not in begun:
            yield ledger.fault(
                f"{step.step} {step.of}", "a step that begins it, before this one", link.line
            )
    yield from out_of_turn(ledger)


@rule("ledger.times", LedgerFile, severity=Severity.WARNING)
def times(ledger: LedgerFile) -> Iterator[Fault]:
    """Steps follow one another in time, and a training log begins after the step that began it and
    ends when the step that names it was written.

    Source: house rule: podium appends each step when it happens; a clock may have been set in
    between, so this is a warning.
    Advice: submit log and ledger as podium wrote them; if the machine's clock was set meanwhile,
    say so in the submission.
    """
    told = [(moment, step) for step in ledger.steps if (moment := moment_of(step)) is not None]
    for (earlier, before), (later, step) in pairwise(told):
        if later < earlier - APART_S:
            yield ledger.fault(
                f"step {step.n} {earlier - later:.0f} s before step {before.n}",
                "steps in the order of time",
                step.n + 1,
            )
    for log in (log for group in ledger.sets for log in group.logs):
        for step in ledger.kept([log.path])[:1]:
            yield from away(ledger, log, step) if step.step is not StepKind.BEGIN else ()


def away(ledger: LedgerFile, log: TrainingLog, step: Step) -> Iterator[Fault]:
    """Hold a log's first and last line against the steps that began it and ended it."""
    marks = [
        record.event.time_ms / MS_PER_S for record in log.records if finite(record.event.time_ms)
    ]
    begun = [
        moment_of(each)
        for each in ledger.steps
        if each.step is StepKind.BEGIN
        and (each.of, each.nonce) == (step.of, step.nonce)
        and each.n < step.n
    ]
    ended, first = moment_of(step), begun[0] if begun else None
    if marks and first is not None and min(marks) < first - APART_S:
        yield ledger.fault(
            f"{log.path.name} begins {first - min(marks):.0f} s before its step",
            "a log that begins after it",
            step.n + 1,
        )
    if marks and ended is not None and abs(ended - max(marks)) > APART_S:
        found = (
            f"step {step.n} was written {abs(ended - max(marks)):.0f} s"
            f" {'after' if ended > max(marks) else 'before'} the last line of {log.path.name}"
        )
        yield ledger.fault(found, f"at most {APART_S:g} s", step.n + 1)


def moment_of(step: Step) -> float | None:
    """Return when a step was written, in seconds since 1970; None if it does not say."""
    try:
        moment = datetime.fromisoformat(step.utc)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def out_of_turn(ledger: LedgerFile) -> Iterator[Fault]:
    """Hold the steps of each served checkpoint against one another; those in the first line came in
    any order.
    """
    for entry in ledger.entries:
        for sha256, served in ledger.served(entry):
            logs = [
                log.path for group in ledger.sets for log in group.logs if log.checkpoint == sha256
            ]
            records = [ledger.record(sha256)] if "/" not in sha256 else []
            trained, exported = first_step(ledger, logs), first_step(ledger, records)
            yield from descending(ledger, [step for step in (trained, exported, served) if step])


def descending(ledger: LedgerFile, told: list[Step]) -> Iterator[Fault]:
    """Yield neighbours whose numbers do not rise."""
    for before, after in pairwise(told):
        if before.n > after.n or (before.n == after.n and before.step is not StepKind.BEGIN):
            yield ledger.fault(
                f"{after.step} in step {after.n}, {before.step} in step {before.n}",
                "trained, then exported, then served",
                after.n + 1,
            )


def first_step(ledger: LedgerFile, paths: list[Path]) -> Step | None:
    """Give the first of the steps that files stand by."""
    found = [step for path in paths for step in ledger.kept([path])]
    return min(found, key=lambda step: step.n, default=None)


@rule("ledger.complete", LedgerFile)
def complete(ledger: LedgerFile) -> Iterator[Fault]:
    """A bundle holds every run and compliance test of its training sets and scenarios that the
    ledger says was kept.

    Source: house rule: of a campaign's runs none is left out.
    Advice: restore the runs that are named, or repeat the set or the scenario as a whole.
    """
    folders = {
        place(ledger, group.folder): {log.value(events.NONCE) for log in group.logs}
        for group in ledger.sets
    }
    folders |= {
        place(ledger, entry.folder): {run.record.nonce for run in entry.runs if run.record}
        for entry in ledger.entries
    }
    for step in ledger.steps if ledger.sealed else ():
        within = scene(step)
        names = (
            ledger.standing.get(step.n, {})
            if step.step in ENDINGS and step.nonce in folders.get(within, ())
            else {}
        )
        if missing := [name for name in sorted(names) if not is_file(ledger.root / name)]:
            yield ledger.fault(f"no {missing[0]}", f"what step {step.n} made", step.n + 1)


def scene(step: Step) -> str:
    """Name the folder of the set or scenario that a step belongs to; a compliance test belongs to
    its scenario.
    """
    if step.what == What.AUDIT:
        return str(PurePosixPath(step.of).parent).replace(f"/{AUDITS}/", "/results/", 1)
    return step.of if step.what == What.TRAINING else step.of.rpartition(f"/{step.what}")[0]


def place(ledger: LedgerFile, folder: Path) -> str:
    """Name a folder as the ledger does."""
    return folder.relative_to(ledger.root).as_posix()


@rule("bundle.ledger", Bundle)
def heads(bundle: Bundle) -> Iterator[Fault]:
    """A bundle of format 2 holds the ledger of each of its workloads, and its manifest names the
    SHA-256 of each ledger's last line.

    Source: house rule: the seal holds the number of attempts as it holds the results; a bundle of
    format 1 was made before ledgers were kept.
    Advice: pack the results again with podium pack; results without a ledger beside others with one
    are packed alone, with --workload.
    """
    told = bundle.manifest
    if told is None:
        return
    file = bundle.folder / MANIFEST
    found = {
        ledger.source.path.relative_to(bundle.folder).as_posix(): (
            ledger.links[-1].sha256 if ledger.links else ""
        )
        for ledger in bundle.ledgers
    }
    if told.format < WITH_LEDGER and (found or told.ledger):
        yield bundle.fault(f"format {told.format} with a ledger", f"format {WITH_LEDGER}", file)
    for name in sorted(
        {*found, *told.ledger, *(wanted(bundle) if told.format >= WITH_LEDGER else ())}
    ):
        if told.format >= WITH_LEDGER and name not in found:
            yield bundle.fault(f"no {name}", "the ledger of each workload with results", file)
        elif told.format >= WITH_LEDGER and told.ledger.get(name) != found[name]:
            yield bundle.fault(
                f"ledger {name}: {told.ledger.get(name)!r}",
                f"{found[name]!r}, the SHA-256 of its last line",
                file,
            )


def wanted(bundle: Bundle) -> Iterator[str]:
    """Name the ledgers that the results of a bundle belong into."""
    for tree in bundle.submissions:
        home = tree.home.relative_to(bundle.folder).as_posix()
        workloads = {log.workload for group in tree.sets for log in group.logs} | {
            entry.workload for entry in tree.entries
        }
        yield from (
            f"{home}/{LEDGER}/{workload}.jsonl" for workload in sorted(filter(None, workloads))
        )

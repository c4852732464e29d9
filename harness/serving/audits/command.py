"""`podium audit`: the compliance tests of served results, recorded in the ledger, each kept when it
is whole.
"""

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from harness.machine.system_description import describe_system
from harness.serving.attempts import Attempt, attempted
from harness.serving.audits import files, turns
from harness.serving.audits.subject import Subject, subject
from harness.serving.setup import Bench, set_up
from harness.serving.staging import beside, recover
from suite.audits.names import AuditTest
from suite.audits.rules import require_audit_rules
from suite.cli import RunOptions
from suite.errors import JudgedError, RequestError
from suite.files.layout import PARTIAL_SUFFIX, compute_file_sha256, sync_to_disk
from suite.files.superseded import supersede
from suite.ledger.steps import AttemptKind, StepKind
from suite.loadgen.scenario import Scenario
from suite.process.lock import exclusive
from suite.process.signals import Interrupted, raised_signals
from suite.records import AuditRecord

UNMETERED: Final = ("auto", "off")
"""Values of --power that ask for no source by name."""
PASSED: Final = {True: "passed", False: "failed"}


def audit(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    test: str,
    rules: str,
    checkpoint: Path | None,
) -> None:
    """Run the compliance tests of a workload's results; after all of them, JudgedError names those
    that failed.

    RequestError if a result is missing, INVALID or of another checkpoint. The finished tests of an
    interrupted audit stay.
    """
    tests = [each for each in require_audit_rules(rules).tests if test in ("all", each)]
    refuse_meters(options)
    bench = set_up(workload, options, checkpoint)
    try:
        with raised_signals(), exclusive(bench.entry.results):
            failed = list(
                audited(bench, [subject(bench, scenario) for scenario in scenarios], tests, rules)
            )
    except Interrupted as error:
        raise type(error)(
            f"{workload}: {error}; finished tests are kept: {shlex.join(('podium', *sys.argv[1:]))}"
        ) from error
    except OSError as error:
        raise JudgedError(
            f"{error.filename or options.results}: {error.strerror}; finished tests are kept"
        ) from error
    if failed:
        raise JudgedError(
            f"{workload}: the audit failed: {', '.join(failed)}; the result does not count"
        )


def refuse_meters(options: RunOptions) -> None:
    """RequestError for a request to read power: compliance tests compare speeds and answers, and
    file no watts.
    """
    asked = f"--meter {options.meter}" if options.meter is not None else f"--power {options.power}"
    if options.meter is not None or options.power not in UNMETERED:
        raise RequestError(f"{asked}: the runs of compliance tests are not metered; leave it out")


def audited(
    bench: Bench, subjects: Sequence[Subject], tests: Sequence[AuditTest], rules: str
) -> list[str]:
    """Run all tests of all results; return those that failed."""
    recover(bench, beside(bench))
    bench.ledger.settle()
    bench = replace(bench, description=describe_system(bench.entry, bench.request.described))
    failed = []
    for each in subjects:
        before: turns.ReferenceRun | None = None
        for test in tests:
            record, before = run_test(bench.on(each.threads), each, test, rules, before)
            click.echo(f"{each.scenario.label} {test}: {words(record)}")
            failed += [] if record.passed else [f"{each.scenario.label} {test}"]
    return failed


def words(record: AuditRecord) -> str:
    """Say what a test came to in one line."""
    answers = f", {record.differing} of {record.answers} answers differ" if record.answers else ""
    cause = (
        ", LoadGen calls a run INVALID"
        if record.within_limits and record.answers_agree and not record.passed
        else ""
    )
    return (
        f"{PASSED[record.passed]}, {record.ratio:.2f} times the reference's speed,"
        f" {len(record.found)} turns{answers}{cause}"
    )


def run_test(
    bench: Bench, subject: Subject, test: AuditTest, rules: str, before: turns.ReferenceRun | None
) -> tuple[AuditRecord, turns.ReferenceRun | None]:
    """Run one test, and keep its files when they are whole; return its last reference run too, with
    which the next test may begin.
    """
    final = bench.entry.locate_audits(bench.request.row.inference_name, subject.scenario) / test
    partial = final.with_name(final.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with attempted(bench, AttemptKind.AUDIT, final) as tried:
            ran = turns.begin(bench, subject, test, rules, partial, before)
            record = turns.run(ran)
            files.write(partial, record)
            keep(bench, tried, partial, PASSED[record.passed])
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return record, turns.last_reference(ran, tried.folder)


def keep(bench: Bench, tried: Attempt, partial: Path, verdict: str) -> None:
    """Record the test in the ledger, then give its folder its final name; an earlier one is moved
    aside.
    """
    results = bench.entry.results
    paths = sorted(path for path in partial.rglob("*") if path.is_file())
    hashed = {
        (tried.folder / path.relative_to(partial))
        .relative_to(results)
        .as_posix(): compute_file_sha256(path)
        for path in paths
    }
    with raised_signals() as signals, signals.postponed():
        tried.note(StepKind.SERVED, hashed, verdict)
        supersede(results, [tried.folder])
        partial.rename(tried.folder)
        sync_to_disk(tried.folder.parent)
        bench.ledger.settle()

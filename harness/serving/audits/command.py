"""`podium audit`: the compliance tests of served results, recorded in the ledger, each kept when it
is whole.
"""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from harness.serving.attempts import LedgerAttempt, record_attempt
from harness.serving.audits import files, turns
from harness.serving.audits.subject import AuditedResult, read_audited_result
from harness.serving.automatic_engine import set_up_with_engine
from harness.serving.setup import LOCAL_SITE, ServingSetup
from harness.serving.sites import ServingSite
from harness.serving.staging import build_staging_entry, finish_interrupted_move
from suite.audits.names import AuditTest, list_required_tests
from suite.audits.outcome import AuditOutcome
from suite.audits.rules import require_audit_rules
from suite.audits.verdict import describe_compared_speeds
from suite.cli import RunOptions
from suite.errors import JudgedError, RequestError
from suite.files.layout import PARTIAL_SUFFIX, compute_file_sha256, sync_to_disk
from suite.files.superseded import move_to_superseded
from suite.ledger.steps import AttemptKind, StepKind
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.records import PROMPTS_FORM

AUDIT_VERDICTS: Final = {True: "passed", False: "failed"}


def audit_workload(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    test: str,
    rules: str,
    checkpoint: Path | None,
    site: ServingSite = LOCAL_SITE,
) -> None:
    """Run the compliance tests of a workload's results; after all of them, JudgedError names those
    that failed.

    RequestError if a result is missing, INVALID or of another checkpoint. The finished tests of an
    interrupted audit stay.
    """
    tests = [each for each in require_audit_rules(rules).tests if test in ("all", each)]
    serving_setup = set_up_with_engine(workload, options, checkpoint, site)
    scenarios = serving_setup.select_row_scenarios(scenarios)
    if tests == [AuditTest.TEST06] and not any(
        serving_setup.require_scenario_rules(each).token_latencies for each in scenarios
    ):
        raise RequestError(f"{workload}: {test} is for answers that are generated token by token")
    if tests == [AuditTest.SALTED] and not is_asking_prompts(serving_setup):
        raise RequestError(f"{workload}: {test} is for prompts that go to servers: --endpoint")
    try:
        with raise_signals_in_block(), lock_results_folder(serving_setup.entry.results):
            failed = list(
                run_compliance_tests(
                    serving_setup,
                    [read_audited_result(serving_setup, scenario) for scenario in scenarios],
                    tests,
                    rules,
                )
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
            f"{workload}: the audit failed: {', '.join(failed)}; the result keeps its verdict, and"
            " podium check names the failed test beside it: find the cause, or audit again"
        )


def run_compliance_tests(
    serving_setup: ServingSetup,
    subjects: Sequence[AuditedResult],
    tests: Sequence[AuditTest],
    rules: str,
) -> list[str]:
    """Run all tests of all results; return those that failed."""
    finish_interrupted_move(serving_setup, build_staging_entry(serving_setup))
    serving_setup.ledger.settle()
    serving_setup = serving_setup.add_description()
    failed = []
    for each in subjects:
        previous_reference: turns.ReferenceRun | None = None
        row = serving_setup.require_scenario_rules(each.scenario)
        required = list_required_tests(row.token_latencies)
        if is_asking_prompts(serving_setup):
            required = (*required, AuditTest.SALTED)
        for test in (test for test in tests if test in required):
            outcome, previous_reference = run_compliance_test(
                serving_setup.copy_with_threads(each.threads), each, test, rules, previous_reference
            )
            click.echo(f"{each.scenario.label} {test}: {format_audit_outcome(outcome)}")
            failed += [] if outcome.passed else [f"{each.scenario.label} {test}"]
    return failed


def is_asking_prompts(serving_setup: ServingSetup) -> bool:
    """Return whether servers of OpenAI's API are audited."""
    network = serving_setup.host.network
    return network is not None and network.form == PROMPTS_FORM


def format_audit_outcome(outcome: AuditOutcome) -> str:
    """Format the outcome of a test in one line: every figure that decides, with its reference."""
    parts = [AUDIT_VERDICTS[outcome.passed]]
    compared = outcome.compared
    if compared.is_speed_limited:
        parts.append(describe_compared_speeds(compared, outcome.reference, outcome.found))
        parts += [] if compared.passed else [f"required: {compared.required}"]
    if outcome.answers:
        what = "fail a check" if outcome.test is AuditTest.TEST06 else "differ"
        parts.append(f"{outcome.differing} of {outcome.answers} answers {what}")
    if outcome.equal is not None and outcome.equal < outcome.answers:
        parts.append(f"{outcome.equal} equal the accuracy run's byte for byte")
    if compared.passed and outcome.answers_agree and not outcome.passed:
        parts.append("LoadGen calls a run INVALID")
    turns_run = len(outcome.found)
    parts.append(f"{turns_run} turn{'' if turns_run == 1 else 's'}")
    return ", ".join(parts)


def run_compliance_test(
    serving_setup: ServingSetup,
    subject: AuditedResult,
    test: AuditTest,
    rules: str,
    previous_reference: turns.ReferenceRun | None,
) -> tuple[AuditOutcome, turns.ReferenceRun | None]:
    """Run one test, and keep its files when they are whole; return its last reference run too, with
    which the next test may begin, unless its prompts were salted.
    """
    final = (
        serving_setup.entry.locate_audits(
            serving_setup.request.row.inference_name, subject.scenario
        )
        / test
    )
    partial = final.with_name(final.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with record_attempt(serving_setup, AttemptKind.AUDIT, final) as ledger_attempt:
            progress = turns.plan_compliance_test(
                serving_setup, subject, test, rules, partial, previous_reference
            )
            outcome = turns.run_audit_turns(progress)
            record = turns.build_audit_record(progress)
            files.write_audit_files(partial, record, progress.test_settings, outcome)
            store_compliance_test(
                serving_setup, ledger_attempt, partial, AUDIT_VERDICTS[outcome.passed]
            )
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if progress.test_rules.salted:
        return outcome, None
    return outcome, turns.find_last_reference(progress, ledger_attempt.folder)


def store_compliance_test(
    serving_setup: ServingSetup, ledger_attempt: LedgerAttempt, partial: Path, verdict: str
) -> None:
    """Record the test in the ledger, then give its folder its final name; an earlier one is moved
    aside.
    """
    results = serving_setup.entry.results
    paths = sorted(path for path in partial.rglob("*") if path.is_file())
    hashed = {
        (ledger_attempt.folder / path.relative_to(partial))
        .relative_to(results)
        .as_posix(): compute_file_sha256(path)
        for path in paths
    }
    with raise_signals_in_block() as signals, signals.postpone():
        ledger_attempt.record_end(StepKind.SERVED, hashed, verdict)
        move_to_superseded([ledger_attempt.folder], results=results)
        partial.rename(ledger_attempt.folder)
        sync_to_disk(ledger_attempt.folder.parent)
        serving_setup.ledger.settle()

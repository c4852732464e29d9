"""The files of a compliance test: audit.json, and those that MLCommons' submission checker looks
for.
"""

import shutil
from pathlib import Path
from typing import Final

from suite.audits.names import ANSWER_TESTS, AuditTest
from suite.audits.rules import format_audit_config, require_audit_rules
from suite.audits.tokens import format_token_checks
from suite.audits.verdict import AuditComparison, compare_audit_runs
from suite.files.layout import (
    ACCURACY_LOG,
    AUDIT_CONFIG,
    AUDIT_RECORD,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
    sync_to_disk,
)
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord, write_record
from suite.workload import Mode

CHECKER_VERDICTS: Final = {True: "TEST PASS", False: "TEST FAIL"}
"""What MLCommons' submission checker looks for."""


def write_audit_files(folder: Path, record: AuditRecord) -> None:
    """Write a test's files beside its runs, and sync all of them."""
    write_record(folder / AUDIT_RECORD, record)
    (folder / AUDIT_CONFIG).write_text(format_audit_config(record.settings))
    (folder / VERIFY_PERFORMANCE).write_text(format_verify_performance(record))
    if record.test in ANSWER_TESTS:
        (folder / VERIFY_ACCURACY).write_text(format_verify_accuracy(record))
        (folder / Mode.ACCURACY).mkdir()
        shutil.copyfile(
            folder / Mode.PERFORMANCE / "run_1" / ACCURACY_LOG,
            folder / Mode.ACCURACY / ACCURACY_LOG,
        )
    for path in (*folder.rglob("*"), folder):
        sync_to_disk(path)


def format_verify_performance(record: AuditRecord) -> str:
    """Format how the speeds compare, in the words of MLCommons' scripts."""
    passed = record.passed or (record.within_limits and record.differing > 0)
    compared = recompare_recorded_runs(record)
    scores = f"reference score = {compared.reference}\ntest score = {compared.test}\n"
    return (
        f"Verifying performance ({record.metric}, {len(record.found)} runs of each kind).\n"
        f"{scores}ratio = {record.ratio}\n{CHECKER_VERDICTS[passed]}\n"
    )


def recompare_recorded_runs(record: AuditRecord) -> AuditComparison:
    """Compare the runs of a record again."""
    rules = require_audit_rules(record.rules)
    scenario = next(each for each in Scenario if each.label == record.scenario)
    return compare_audit_runs(
        rules, rules.tests[AuditTest(record.test)], scenario, record.reference, record.found
    )


def format_verify_accuracy(record: AuditRecord) -> str:
    """Format how the answers compare; of TEST06, which checks their tokens pass."""
    if record.test == AuditTest.TEST06:
        return format_token_checks(record.token_checks, record.answers_agree)
    counts = (
        f"num_perf_log_entries = {record.answers}\nnum_perf_log_data_mismatch ="
        f" {record.differing}\n"
    )
    return (
        f"Verifying accuracy (whole answers).\n{counts}{CHECKER_VERDICTS[record.answers_agree]}\n"
    )

"""The audits of a campaign (`podium run --audit`): which results still lack a passed compliance
test.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from compliance.results.indexed_result import IndexedResult
from suite.audits.names import (
    ANSWER_TESTS,
    AUDIT_RULE_NAMES,
    AuditTest,
    list_required_tests,
)
from suite.audits.outcome import is_stated_pass
from suite.files.layout import (
    AUDIT_RECORD,
    TOKEN_RECORD_FILE,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord, read_system_record

AUDIT_RECORD_DECODER: Final = msgspec.json.Decoder(AuditRecord)


def collect_missing_audits(
    results: list[IndexedResult], nonce: str | None
) -> Mapping[Scenario, Sequence[str]]:
    """Return the tests that each scenario of a campaign lacks: "all", or the names of those not
    passed yet.
    """
    found: dict[Scenario, set[str]] = {}
    required: dict[Scenario, set[str]] = {}
    for result in results:
        if result.scenario:
            tests = list_required_tests(has_token_record(result))
            required.setdefault(result.scenario, set()).update(tests)
            found.setdefault(result.scenario, set()).update(
                test.value for test in tests if not has_passed_audit(result, test, nonce)
            )
    return {
        scenario: sorted(tests) if len(tests) < len(required[scenario]) else ["all"]
        for scenario, tests in found.items()
        if tests
    }


def has_token_record(result: IndexedResult) -> bool:
    """Return whether a result's answers are generated token by token."""
    return any((folder / TOKEN_RECORD_FILE).is_file() for folder in result.performance_folders)


def has_passed_audit(result: IndexedResult, test: AuditTest, nonce: str | None) -> bool:
    """Return whether the files of a result's test say that it passed; the judge verifies that
    later.
    """
    return any(is_passed_test(folder / test, test, nonce) for folder in result.audit_folders)


def is_passed_test(folder: Path, test: AuditTest, nonce: str | None) -> bool:
    """Return whether the verify files of a test say that it passed, as MLCommons' submission
    checker reads them. A damaged test, or one by another round's rules, does not count.
    """
    names = (VERIFY_PERFORMANCE, *([VERIFY_ACCURACY] if test in ANSWER_TESTS else []))
    try:
        record = read_untrusted_file(folder / AUDIT_RECORD, AUDIT_RECORD_DECODER.decode)
        system = read_system_record(folder)
        texts = {name: read_untrusted_file(folder / name, bytes.decode) for name in names}
    except UnreadableError:
        return False
    is_own = system.nonce == nonce and record.rules == AUDIT_RULE_NAMES[0]
    return is_own and is_stated_pass(test, texts)

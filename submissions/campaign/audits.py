"""The audits of a campaign (`podium run --audit`): which results still lack a compliance test that
passed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from submissions.result_index import Result
from suite.audits.names import RULES, AuditTest
from suite.files.layout import AUDIT_RECORD
from suite.files.untrusted_files import UnreadableError, read
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord

RECORD: Final = msgspec.json.Decoder(AuditRecord)


def lacking(results: list[Result], nonce: str | None) -> Mapping[Scenario, Sequence[str]]:
    """Return which tests the scenarios of a campaign lack: "all", or the names of those that did
    not pass yet.
    """
    found: dict[Scenario, set[str]] = {}
    for result in results:
        if result.scenario:
            found.setdefault(result.scenario, set()).update(
                test.value for test in AuditTest if not passed(result, test, nonce)
            )
    return {
        scenario: sorted(tests) if len(tests) < len(AuditTest) else ["all"]
        for scenario, tests in found.items()
        if tests
    }


def passed(result: Result, test: AuditTest, nonce: str | None) -> bool:
    """Return whether a result's test says that it passed; whether that is so, the judge decides."""
    return any(said(folder / test, nonce) for folder in result.audits)


def said(folder: Path, nonce: str | None) -> bool:
    """Read what a test's record says; a damaged one says nothing, and neither does one by another
    round's rules.
    """
    try:
        record = read(folder / AUDIT_RECORD, RECORD.decode)
    except UnreadableError:
        return False
    return record.passed and record.nonce == nonce and record.rules == RULES[0]

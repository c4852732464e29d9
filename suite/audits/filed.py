"""The limits of compliance tests that were filed with published results: the same rules as for
podium's own audits, by round.
"""

from typing import Final

from suite.audits.names import AuditTest
from suite.audits.rules import AuditRules, require_audit_rules
from suite.audits.verdict import AuditComparison, compare_audit_figures
from suite.loadgen.scenario import Scenario

RULES_BY_FIRST_ROUND: Final = (("v2.1", "v4.1"), ("v0.7", "v0.7"), ("v0.5", "v0.5"))
"""First round, and the rules that hold from it on. Source: mlcommons/inference, compliance/nvidia:
TEST04 has one run since v2.1, two halves before.
"""
AUDIT_TEST_BY_FOLDER: Final = {
    "TEST01": AuditTest.TEST01,
    "TEST03": AuditTest.TEST01,
    "TEST04": AuditTest.TEST04,
    "TEST04-B": AuditTest.TEST04,
    "TEST05": AuditTest.TEST05,
}
"""A folder's name and the test whose limits it has. Source: v0.5/audit/nvidia,
TEST03/verify_performance.py: as TEST01's.
"""
COMPARED_TEST_FOLDERS: Final = {"TEST04-B": "TEST04-A"}
"""Tests that are compared with another test's run, and not with the result."""


def recompute_audit_comparison(
    round_name: str, test: str, scenario: Scenario, metric: str, reference: float, found: float
) -> AuditComparison | None:
    """Compare the figure of a filed test's run with the result's, or with that of the run of
    COMPARED_TEST_FOLDERS; None if the round asks nothing of it.
    """
    rules = find_round_audit_rules(round_name)
    row = None
    if rules and test in AUDIT_TEST_BY_FOLDER:
        row = rules.tests.get(AUDIT_TEST_BY_FOLDER[test])
    if rules and row:
        return compare_audit_figures(rules, row, scenario, metric, reference, found)
    return None


def find_round_audit_rules(round_name: str) -> AuditRules | None:
    """Return the rules of a published inference round; None before the first."""
    number = parse_round_version(round_name)
    return next(
        (
            require_audit_rules(name)
            for first, name in RULES_BY_FIRST_ROUND
            if number >= parse_round_version(first)
        ),
        None,
    )


def parse_round_version(round_name: str) -> tuple[int, ...]:
    """Read the version at the end of a round's name, `inference-v4.1`."""
    return tuple(int(part) for part in round_name.rpartition("v")[2].split("."))

"""The names of compliance tests and of their rules, for the command line."""

from enum import StrEnum
from typing import Final

AUDIT_RULE_NAMES: Final = ("podium-v1", "v0.5", "v0.7", "v4.1")
"""The tables of rules.toml; the first is podium's own."""


class AuditTest(StrEnum):
    """The compliance tests."""

    TEST01 = "TEST01"
    """Accuracy in performance mode."""
    TEST04 = "TEST04"
    """No caching: one sample again and again."""
    TEST05 = "TEST05"
    """Other seeds."""
    TEST06 = "TEST06"
    """The tokens of generated answers."""
    SALTED = "SALTED"
    """No caching of prompts: each begins otherwise. podium's own, for prompts to servers."""


GENERAL_TESTS: Final = (AuditTest.TEST01, AuditTest.TEST04, AuditTest.TEST05)
"""Tests of every workload."""
ANSWER_TESTS: Final = (AuditTest.TEST01, AuditTest.TEST06)
"""Tests of logged answers, which need some."""


def list_required_tests(tokens: bool) -> tuple[AuditTest, ...]:
    """Return the tests of a result: also that of tokens, if LoadGen measures them."""
    if tokens:
        return (*GENERAL_TESTS, AuditTest.TEST06)
    return GENERAL_TESTS

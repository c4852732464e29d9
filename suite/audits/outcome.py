"""What the runs of a compliance test come to, and the texts in which MLCommons' submission checker
looks for it: harness and judge compute both with the same code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from suite.audits.names import ANSWER_TESTS, AuditTest
from suite.audits.tokens import TOKENS_PASSED, format_token_checks
from suite.audits.verdict import AuditComparison
from suite.files.layout import VERIFY_ACCURACY, VERIFY_PERFORMANCE

CHECKER_VERDICTS: Final = {True: "TEST PASS", False: "TEST FAIL"}
"""What MLCommons' submission checker looks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """What the runs of a test come to."""

    test: AuditTest
    compared: AuditComparison
    reference: tuple[float, ...]
    """The compared figure of each reference run, in the order in which they ran."""
    found: tuple[float, ...]
    """The same of the test's runs."""
    answers: int = 0
    """Logged answers that were compared with the accuracy run's (TEST01), or whose tokens were
    checked (TEST06); 0 for other tests.
    """
    differing: int = 0
    """Those that differ, or fail a check."""
    equal: int | None = None
    """TEST01: those that equal the accuracy run's byte for byte; None where nobody counted them."""
    token_checks: Mapping[str, bool | None] = field(default_factory=dict)
    """TEST06: check -> whether all answers pass it; None if it was skipped."""
    has_invalid_run: bool
    """Whether LoadGen calls a run INVALID that must be VALID."""

    @property
    def answers_agree(self) -> bool:
        """Whether no answer differs; a test of answers needs some."""
        return not self.differing and (self.answers > 0 or self.test not in ANSWER_TESTS)

    @property
    def passed(self) -> bool:
        """Whether the system passes the test."""
        return self.compared.passed and self.answers_agree and not self.has_invalid_run

    def format_verify_files(self) -> Mapping[str, str]:
        """Format the files that MLCommons' scripts write: name -> text."""
        performance = {VERIFY_PERFORMANCE: self.format_verify_performance()}
        if self.test not in ANSWER_TESTS:
            return performance
        return {**performance, VERIFY_ACCURACY: self.format_verify_accuracy()}

    def format_verify_performance(self) -> str:
        """Format how the speeds compare, in the words of MLCommons' scripts."""
        passed = self.passed or (self.compared.passed and self.differing > 0)
        scores = f"reference score = {self.compared.reference}\ntest score = {self.compared.test}\n"
        return (
            f"Verifying performance ({self.compared.metric}, {len(self.found)} runs of each kind)."
            f"\n{scores}ratio = {self.compared.ratio}\n{CHECKER_VERDICTS[passed]}\n"
        )

    def format_verify_accuracy(self) -> str:
        """Format how the answers compare; of TEST06, which checks their tokens pass."""
        if self.test is AuditTest.TEST06:
            return format_token_checks(self.token_checks, self.answers_agree)
        counts = (
            f"num_perf_log_entries = {self.answers}\nnum_perf_log_data_mismatch ="
            f" {self.differing}\n"
        )
        verdict = CHECKER_VERDICTS[self.answers_agree]
        return f"Verifying accuracy (whole answers).\n{counts}{verdict}\n"


def is_stated_pass(test: AuditTest, texts: Mapping[str, str]) -> bool:
    """Return whether the verify files of a test, name -> text, state that it passed."""
    if CHECKER_VERDICTS[True] not in texts.get(VERIFY_PERFORMANCE, ""):
        return False
    if test not in ANSWER_TESTS:
        return True
    words = TOKENS_PASSED if test is AuditTest.TEST06 else CHECKER_VERDICTS[True]
    return words in texts.get(VERIFY_ACCURACY, "")

"""The checks of TEST06: the tokens of logged answers contradict neither one another nor what
LoadGen was told of them; harness and judge compute them with the same code.

Source: mlcommons/inference, compliance/TEST06, README.md and run_verification.py.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from suite.loadgen.token_record import TOKEN_BYTES

TOKENS_PASSED: Final = "TEST06 verification complete"
"""What MLCommons' submission checker looks for."""


class TokenCheck(StrEnum):
    """A check, under the name that MLCommons' script gives it."""

    FIRST = "First token check pass"
    """The token of FirstTokenComplete is the answer's first; not reported in Offline."""
    END = "EOS check pass"
    """House rule: no end token has anything behind it. The script allows what follows unless the
    answer ends with several of them.
    """
    LENGTH = "Sample length check pass"
    """The number of tokens that LoadGen was told is the answer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTokens:
    """One logged answer."""

    sample: int
    answer: bytes
    first: bytes
    """What FirstTokenComplete was given; empty if LoadGen did not log it."""
    count: int | None
    """What LoadGen was told; None if it was not logged."""


def find_token_contradictions(logged: LoggedTokens, ends: Collection[int]) -> frozenset[TokenCheck]:
    """Return the checks that an answer does not pass, given the tokens that end an answer."""
    found = set[TokenCheck]()
    if not logged.answer.startswith(logged.first) or len(logged.first) not in (0, TOKEN_BYTES):
        found.add(TokenCheck.FIRST)
    if logged.count is None or len(logged.answer) != TOKEN_BYTES * logged.count:
        found.add(TokenCheck.LENGTH)
    whole = len(logged.answer) // TOKEN_BYTES * TOKEN_BYTES
    before_last = memoryview(array("i", logged.answer[:whole]))[:-1]
    if any(token in ends for token in before_last):
        found.add(TokenCheck.END)
    return frozenset(found)


def check_token_answers(
    logged: Iterable[LoggedTokens], ends: Collection[int]
) -> tuple[int, int, Mapping[str, bool | None]]:
    """Check answers; return how many there are, how many of them fail a check, and whether all pass
    each check, None if no first token was logged.
    """
    answers = wrong = 0
    passed: dict[str, bool | None] = {each.value: True for each in TokenCheck}
    first_logged = False
    for each in logged:
        failed = find_token_contradictions(each, ends)
        answers, wrong = answers + 1, wrong + bool(failed)
        passed |= {check.value: False for check in failed}
        first_logged |= bool(each.first)
    if not first_logged:
        passed[TokenCheck.FIRST.value] = None
    return answers, wrong, passed


def format_token_checks(passed: Mapping[str, bool | None], complete: bool) -> str:
    """Format the outcome as MLCommons' script does."""
    words = {True: "True", False: "False", None: "Skipped"}
    lines = [f"{name}: {words[value]}\n" for name, value in passed.items()]
    verdict = TOKENS_PASSED if complete else "TEST06 verification failed"
    return "".join([*lines, f"{verdict}\n"])

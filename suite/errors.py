"""User-facing errors: each is one sentence and has the exit code that the command line documents.

    PodiumError
    +-- JudgedError     1  not compliant, not readable, or the target was not reached
    +-- RequestError    2  the request was wrong (unknown option, key, workload; bad data)
    +-- MissingError    3  something needed is missing on this machine
"""

import difflib
from collections.abc import Iterable
from typing import ClassVar


class PodiumError(Exception):
    """A failure that is told in one sentence, without a traceback."""

    exit_code: ClassVar[int] = 1


class JudgedError(PodiumError):
    """What was judged does not count."""

    exit_code = 1


class RequestError(PodiumError):
    """The request was wrong."""

    exit_code = 2


class MissingError(PodiumError):
    """Something needed is missing on this machine."""

    exit_code = 3


class TemporaryError(PodiumError):
    """Nothing is wrong with the request or the result so far; the same command with `--resume` goes on (EX_TEMPFAIL of sysexits.h)."""

    exit_code = 75


def unknown(kind: str, name: str, known: Iterable[str]) -> RequestError:
    """Say that `name` is no `kind`, and offer the nearest name that is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{close[0]}'?" if close else f"; known: {', '.join(names) or 'none'}"
    return RequestError(f"unknown {kind} '{name}'{hint}")

"""User-facing errors: one sentence each, with the exit code that the command line documents.

PodiumError
+-- JudgedError     1  not compliant, not readable, or the target was not reached
|   +-- AbortedError
+-- RequestError    2  the request was wrong (unknown option, key, workload; bad data)
+-- MissingError    3  something needed is missing on this machine
|   +-- MachineError
|   +-- UninstalledKindError
+-- RefusedError    4  a bundle is no evidence for a contract
"""

import difflib
from collections.abc import Iterable
from typing import ClassVar, Final

FITTING_SETTING_NOTE: Final = "what fits: --set "
"""Beginning of the note that an out-of-memory error carries, before KEY=VALUE."""


class PodiumError(Exception):
    """A failure reported in one sentence, without a traceback."""

    exit_code: ClassVar[int] = 1


class JudgedError(PodiumError):
    """The result is not compliant, not readable, or missed its target."""

    exit_code = 1


class AbortedError(JudgedError):
    """A run ended for a reason of its own, whatever signals came meanwhile."""


class RequestError(PodiumError):
    """The request was invalid."""

    exit_code = 2


class MissingError(PodiumError):
    """Something needed is missing on this machine."""

    exit_code = 3


class MachineError(MissingError):
    """The machine lacked something in the midst of a run, whatever signals came meanwhile."""


class UninstalledKindError(MissingError):
    """A kind of round is not installed, or one that it needs."""


class RefusedError(PodiumError):
    """What was delivered is no evidence for this contract, so no clause of it is judged."""

    exit_code = 4


class TemporaryError(PodiumError):
    """Request and results so far are fine; the same command with `--resume` continues (EX_TEMPFAIL
    of sysexits.h).
    """

    exit_code = 75


def build_unknown_name_error(kind: str, name: str, known: Iterable[str]) -> RequestError:
    """Return an error for an unknown `name` of this `kind`, with the nearest known name, or all of
    them; names that contain a comma are quoted.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listed = ", ".join(f"'{each}'" if "," in each else each for each in names)
    if close:
        hint = f"; did you mean '{close[0]}'?"
    else:
        hint = f"; known: {listed or 'none'}"
    return RequestError(f"unknown {kind} '{name}'{hint}")

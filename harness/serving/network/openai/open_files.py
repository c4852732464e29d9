"""The operating system's limit of open files, which connections count towards."""

import resource
from typing import Final

from suite.errors import RequestError

OTHER_FILES: Final = 128
"""Beside connections: libraries, logs, pipes."""


def allow_open_files(connections: int) -> None:
    """Raise this process's limit as far as so many connections need; RequestError if the limit is
    not this user's to raise.
    """
    wanted = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise RequestError(
            f"setting endpoint.in_flight: {connections:,} connections need more than the"
            f" {hard:,} open files that this user may have (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

"""Processes of others, which may end at any moment while a test looks at them."""

from contextlib import suppress

import psutil

from harness.machine.telemetry.host import CHILDREN_FILE, read_child_pids


def is_alive(process: psutil.Process) -> bool:
    """Tell whether it runs; one that was reaped between two looks does not, nor one that waits to
    be.
    """
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def children_of(pid: int) -> list[psutil.Process]:
    """Find the children of a process; where the kernel lists them, without a look at all processes,
    which tests that wait take a hundred times a second.
    """
    if not CHILDREN_FILE.exists():
        return list(psutil.Process(pid).children())
    found = []
    for child in read_child_pids(pid):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(child))
    return found


def rank_of(process: psutil.Process) -> str:
    """Read a rank's number: a fork's from its name, of others, which have words and an environment
    of their own, from that; empty of what is no rank.
    """
    name, _, rank = process.name().partition(" ")
    if name == "rank":
        return rank
    return str(process.environ().get("RANK", "")) if "harness" in process.cmdline() else ""

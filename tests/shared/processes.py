"""Processes of others, which may end at any moment while a test looks at them."""

import psutil


def is_alive(process: psutil.Process) -> bool:
    """Tell whether it runs; one that was reaped between two looks does not, nor one that waits to be."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False

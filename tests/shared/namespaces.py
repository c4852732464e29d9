"""Commands in namespaces of their own: folders that cannot be written even by root, and users
without a name.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
"""Shell script: its first word is a folder, the others are a command."""


def read_only_words(folder: Path) -> list[str]:
    """Return the words before a command for which the folder is read-only."""
    return require_namespaces(["unshare", "-rm", "sh", "-c", READ_ONLY, str(folder)])


def nameless_words() -> list[str]:
    """Return the words before a command whose user has neither a name nor a home folder."""
    return require_namespaces(
        ["unshare", "-U", "--map-user=12345", "env", "-u", "HOME", "-u", "USER", "-u", "LOGNAME"]
    )


def require_namespaces(words: list[str]) -> list[str]:
    """Return the words if they work here; else skip the test."""
    if not shutil.which("unshare") or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("this machine gives no namespaces")
    return words

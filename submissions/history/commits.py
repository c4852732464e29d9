"""Commits of the project under test, as git knows them."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from suite.errors import RequestError
from suite.files.untrusted_files import replace_unprintable

GIT_TIMEOUT_S: Final = 30
"""House rule: git answers what is asked here in less than a second."""
COMMIT_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/+-]{0,99}", re.ASCII)
"""A commit where git is not at hand: a hash, a tag, a build's number."""
SHORT_COMMIT_DIGITS: Final = 10
MAX_LISTED_COMMITS: Final = 20
"""Commits between two results that are listed."""
FULL_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
"""A commit's hash, SHA-1 or SHA-256."""
HEAD: Final = "HEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit."""

    name: str
    """Its hash; without git, what the user called it."""
    committed: str
    """UTC; empty if nobody knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """The commits behind one up to another one."""

    count: int
    listed: tuple[str, ...]
    """The latest of them, each as its short hash and its subject."""


def run_git(arguments: Sequence[str]) -> str | None:
    """Return what git prints in the working folder; None if it is missing or refuses."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return done.stdout.decode("utf-8", "replace").strip()


def find_commit_hash(name: str) -> str:
    """Return the hash of the commit that git knows by a name, such as a tag; empty if it knows
    none.
    """
    return run_git(["log", "-1", "--format=%H", "--end-of-options", name, "--"]) or ""


def resolve_commit(given: str | None) -> Commit:
    """Return the commit that the working folder has checked out, or the one that is given;
    RequestError if git knows none, or not this one.
    """
    wanted = HEAD if given is None else given
    found = run_git(["log", "-1", "--format=%H %ct", "--end-of-options", wanted, "--"])
    if found:
        name, seconds = found.split()
        moment = datetime.fromtimestamp(int(seconds), UTC)
        return Commit(name=name, committed=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if given is None:
        raise RequestError(
            "no commit: the current folder is in no git repository with commits; name the commit"
            " with --commit"
        )
    if run_git(["rev-parse", "--verify", "--quiet", HEAD]) and not FULL_HASH.fullmatch(given):
        raise RequestError(f"--commit {replace_unprintable(given)}: git knows no such commit here")
    if not COMMIT_NAME.fullmatch(given):
        raise RequestError(
            f"--commit {replace_unprintable(given)!r}: not the name of a commit: use a hash, or"
            " letters, digits and . _ / + -"
        )
    return Commit(name=given, committed="")


def list_commits_between(before: str, after: str) -> CommitRange | None:
    """Return the commits behind one up to another; None if git knows them not, as in a shallow
    clone or another folder.
    """
    if not (FULL_HASH.fullmatch(before) and FULL_HASH.fullmatch(after)):
        return None
    wanted = f"{before}..{after}"
    if run_git(["merge-base", before, after]) is None:
        return None
    count = run_git(["rev-list", "--count", wanted])
    listed = run_git(
        [
            "log",
            f"--max-count={MAX_LISTED_COMMITS}",
            "--format=%h %s",
            f"--abbrev={SHORT_COMMIT_DIGITS}",
            wanted,
        ]
    )
    if count is None or listed is None or not count.isdecimal():
        return None
    return CommitRange(
        count=int(count), listed=tuple(map(replace_unprintable, listed.splitlines()))
    )


def shorten_commit(name: str) -> str:
    """Shorten a hash as git does; other names stay as they are, on one line."""
    if FULL_HASH.fullmatch(name):
        return name[:SHORT_COMMIT_DIGITS]
    return replace_unprintable(name)


def is_merged_by_union(path: str) -> bool | None:
    """Return whether git merges a file by keeping the lines of both sides; None outside of a
    repository.
    """
    found = run_git(["check-attr", "merge", "--", path])
    if found is None:
        return None
    return found.endswith(": merge: union")

"""`pack` and `verify`: from a results folder to one sealed archive, and whether an archive still is what was sealed."""

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from compliance.tree import Kind, recognise
from submissions import judging
from submissions.layout import find, select
from submissions.manifest import collect
from submissions.sealing import inspect, write
from suite.errors import JudgedError, MissingError, RequestError
from suite.layout import written

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a full disk, quota or limit says."""


def pack(results: Path, bundle: Path, workloads: Iterable[str] = (), systems: Iterable[str] = ()) -> Path:
    """Seal what a results folder holds of these workloads and systems (everything, where none are named); give the bundle's path.

    RequestError for a folder or name that is not there, JudgedError with all findings where the judge refuses it; then, and
    where the disk is full (MissingError), no bundle is left behind.
    """
    if not results.is_dir():
        raise RequestError(f"{results}: no such results folder")
    found = select(find(results), workloads, systems)
    if not found:
        raise JudgedError(f"{results}: no results in it")
    try:
        manifest, sources = collect(found)
        with written(bundle.absolute()) as partial:
            write(partial, manifest, sources)
            refuse(partial, results)
    except OSError as error:
        sentence = f"{bundle}: not packed: {error.strerror or error}"
        raise (MissingError if error.errno in FULL else RequestError)(sentence) from error
    return bundle.absolute()


def refuse(partial: Path, results: Path) -> None:
    """Verify what was written as anybody will; JudgedError with one line per problem."""
    problems = verify(partial)
    if problems:
        raise JudgedError("\n  ".join([f"{results}: not packed, since the judge refuses it:", *problems]))


def damage(path: Path) -> list[str]:
    """Give one sentence for each thing that is wrong with a path as a whole bundle; nothing for one that is no bundle."""
    if recognise(path).kind is not Kind.BUNDLE:
        return []
    return verify(path) if path.is_file() else judging.errors(path)


def verify(bundle: Path) -> list[str]:
    """Give one sentence for each thing that is wrong with a bundle: first its bytes, then, where they are whole, what it says."""
    return list(inspect(bundle)) or judging.errors(bundle)

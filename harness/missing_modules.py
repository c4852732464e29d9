"""Reports a package that is not installed, or that cannot be imported, in one sentence."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from suite.errors import MissingError
from suite.process import installation

OWN_PACKAGES: Final = frozenset(
    {"suite", "workloads", "harness", "compliance", "submissions", "extras"}
)
MAX_REASON_CHARACTERS: Final = 200
"""Characters of an import's error that a sentence quotes."""


class BrokenPackageError(MissingError):
    """A package is not installed, or is and cannot be imported. It may be mended at any time."""


@contextmanager
def report_missing_modules() -> Iterator[None]:
    """Turn a package that is not installed, or cannot be imported, into one sentence."""
    try:
        yield
    except ImportError as error:
        raise BrokenPackageError(describe_failed_import(error)) from error


def describe_failed_import(error: BaseException) -> str:
    """Return which package could not be imported, and why; empty for another error: what a package
    raises while it is imported may be of any type.
    """
    if isinstance(error, ModuleNotFoundError):
        return installation.describe_missing_module(error.name or str(error))
    package = find_imported_package(error)
    if not package and isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0] or "a package"
    if not package:
        return ""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_REASON_CHARACTERS]
    return f"{package} is installed, but cannot be imported ({reason}); install it again"


def find_imported_package(error: BaseException) -> str:
    """Return the package of others whose import raised an error; empty if none did."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code.co_name == "<module>" and package not in OWN_PACKAGES:
            return package
    return ""

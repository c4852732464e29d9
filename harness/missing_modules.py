"""Reports a package that is not installed in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from suite.errors import MissingError
from suite.process import installation


@contextmanager
def report_missing_modules() -> Iterator[None]:
    """Turn a package that is not installed into one sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingError(
            installation.describe_missing_module(error.name or str(error))
        ) from error

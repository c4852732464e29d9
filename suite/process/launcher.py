"""Environment variables that torchrun sets for the processes it starts."""

import os

from suite.errors import RequestError
from suite.files import untrusted_files


def read_launcher_variable(variable: str, default: int | None = None) -> int:
    """Read an integer from one of torchrun's variables; RequestError if it is not one."""
    text = os.environ.get(variable, "" if default is None else str(default))
    number = untrusted_files.parse_digits(text)
    if number is None:
        raise RequestError(
            f"environment: {variable}={text!r} is not a whole number; start several ranks with"
            " torchrun"
        )
    return number

"""Memory-map a `.npy` file that another process, or somebody else, wrote."""

import warnings
from pathlib import Path
from typing import Any

from suite.files.untrusted_files import UnreadableError, describe_parse_failure, open_regular_file


def map_npy_array(path: Path) -> Any:
    """Return the array of a file, memory-mapped and of any shape; UnreadableError if it is missing,
    damaged, no plain array, or holds objects.
    """
    import numpy

    try:
        open_regular_file(path).close()  # a pipe would block
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files that Python 2 wrote
            found = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise UnreadableError(
            path, error.strerror or str(error), missing=isinstance(error, FileNotFoundError)
        ) from error
    except Exception as error:  # NumPy, and Python's tokenizer beneath it, let all kinds through
        raise UnreadableError(path, describe_parse_failure(error)) from error
    if not isinstance(found, numpy.ndarray):
        found.close()
        raise UnreadableError(path, "an archive of arrays, not an array")
    return found

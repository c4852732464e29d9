"""Files that are written again and again: mutants, fuzzed inputs, and what is put back."""

import os
from pathlib import Path


def rewrite(path: Path, content: bytes | str) -> None:
    """Write a file over what it held. One that is emptied first, ext4 writes to the disk as it is
    closed: 0.19 ms of processor time, against 0.01 ms.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb") as file:  # noqa: PTH123 - of a descriptor
        file.write(content if isinstance(content, bytes) else content.encode())
        file.truncate()

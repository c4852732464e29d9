"""Checks that all ranks see the same results folder, because each of them writes checkpoints
there.
"""

import platform
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.distributed import Ranks
from suite.errors import RequestError
from suite.files.layout import STATE_FOLDER

MAX_CACHED_ENTRY_S: Final = 20.0
"""Network file systems cache directory entries for some seconds."""


def check_shared_results_folder(results: Path, ranks: Ranks) -> None:
    """Before the clock starts, refuse ranks that do not see rank 0's results folder: all ranks
    write checkpoints there.
    """
    if ranks.world_size == 1:
        return
    path = results / STATE_FOLDER / "shared"
    token = secrets.token_hex(8)
    if ranks.leads:
        path.write_text(token, "utf-8")
    if not is_token_visible(path, ranks.share_value(token)):
        host = platform.node()
        raise RequestError(
            f"--results {results}: rank {ranks.rank} on {host} does not see the files that rank 0"
            " writes there; all ranks need a shared folder"
        )
    ranks.wait_for_ranks()
    if ranks.leads:
        path.unlink(missing_ok=True)


def is_token_visible(path: Path, token: str) -> bool:
    """Check whether a file holds the text, within the time that network file systems take to show
    it.
    """
    end = time.monotonic() + MAX_CACHED_ENTRY_S
    while time.monotonic() < end:
        with suppress(OSError, UnicodeDecodeError):
            if path.read_text("utf-8") == token:
                return True
        time.sleep(0.1)
    return False

"""The cache folder, for everything that podium can regenerate."""

import os
from pathlib import Path


def locate_cache_folder() -> Path:
    """Folder of embedded data and compiled engines: `$PODIUM_CACHE`, else `$XDG_CACHE_HOME/podium`,
    else `~/.cache/podium`.
    """
    own = os.environ.get("PODIUM_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(own) if own else Path(base) / "podium"

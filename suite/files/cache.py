"""Where podium keeps what it can make again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where embedded data and compiled engines lie: `$PODIUM_CACHE`, else `$XDG_CACHE_HOME/podium`, else `~/.cache/podium`."""
    own = os.environ.get("PODIUM_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(own) if own else Path(base) / "podium"

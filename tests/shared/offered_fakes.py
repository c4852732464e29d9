"""The fake workloads, as a package that is installed beside podium."""

import os
import sys
from pathlib import Path
from typing import Final

from suite import registry

FAKES: Final = Path(__file__).parents[1] / "fakes"


def offer_fakes() -> None:
    """Let the fake workloads be found by their entry points, here and in child processes."""
    os.environ["PODIUM_FAKE_BRIEF"] = "yes"  # before the fakes are imported
    if str(FAKES) not in sys.path:
        sys.path.insert(0, str(FAKES))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(FAKES) in paths:
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FAKES), *paths]))
    for find_names in (
        registry.map_entry_points,
        registry.list_round_files,
        registry.collect_round_texts,
        registry.list_round_names,
        registry.load_round_kind,
        registry.load_round,
    ):
        find_names.cache_clear()

"""Hides other packages' workloads, engines, rules and commands from the tests, and from the programs
that they start: what `make hello` or a user has installed beside podium must not change a result.
"""

import os
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HIDING_FOLDER: Final = ROOT / "build" / "hidden-packages"
"""Holds an empty description of each such package; of two with one name Python takes the first on
its path.
"""
OWN: Final = ("podium-suite", "podium-fakes")


def find_other_packages() -> Iterator[str]:
    """Find the packages that add something to podium."""
    seen: set[str] = set()
    for distribution in distributions():
        name = distribution.name
        if name in seen:
            continue
        seen.add(name)
        groups = {point.group.partition(".")[0] for point in distribution.entry_points}
        if "podium" in groups and name not in OWN:
            yield name


def hide_other_packages() -> None:
    """Put an empty package of the same name before each of them, here and for child processes."""
    for name in find_other_packages():
        folder = HIDING_FOLDER / f"{name.replace('-', '_')}-0.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n", encoding="utf-8"
        )
    if not HIDING_FOLDER.is_dir():
        return
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(HIDING_FOLDER) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HIDING_FOLDER), *paths]))
    if str(HIDING_FOLDER) not in sys.path:  # a worker of a distributed run has its parent's path
        sys.path.insert(0, str(HIDING_FOLDER))

"""What tests of the harness have in common, and installations of podium that lack one of its
extras.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest
from harness_fixtures import light, no_loop_of_a_browser, quiet_host, samplers_of_any_cache

from suite.process.installation import DISTRIBUTION_NAME

__all__ = [
    "light",
    "no_loop_of_a_browser",
    "podium_without",
    "quiet_host",
    "samplers_of_any_cache",
]

ROOT: Final = Path(__file__).parents[2]
FAKES: Final = ROOT / "tests" / "fakes"
PACKAGES: Final = ("suite", "workloads", "harness", "compliance", "submissions", "podium")

Podium = Callable[..., "subprocess.CompletedProcess[str]"]


def install_without(folder: Path, extra: str) -> None:
    """Install podium without a package of `extras` and its entry points: links to the sources, and
    the distribution's metadata.
    """
    for package in PACKAGES:
        (folder / package).symlink_to(ROOT / package)
    (folder / "extras").mkdir()
    for path in (ROOT / "extras").iterdir():
        if path.name != extra:
            (folder / "extras" / path.name).symlink_to(path)
    installed = distribution(DISTRIBUTION_NAME)
    metadata = folder / f"podium_suite-{installed.version}.dist-info"
    metadata.mkdir()
    for name in ("METADATA", "direct_url.json"):
        (metadata / name).write_text(installed.read_text(name) or "", encoding="utf-8")
    points = (installed.read_text("entry_points.txt") or "").splitlines()
    kept = [line for line in points if not re.search(rf"= extras\.{extra}\b", line)]
    assert kept != points, f"extras.{extra} has no entry point: install podium again"
    (metadata / "entry_points.txt").write_text("\n".join(kept), encoding="utf-8")


@pytest.fixture(scope="session")
def podium_without(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Podium]:
    """Give a function that runs commands of an installation without an extra."""

    def choose(extra: str) -> Podium:
        folder = tmp_path_factory.getbasetemp() / f"without_{extra}"
        if not folder.is_dir():
            folder.mkdir()
            install_without(folder, extra)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(FAKES)])}
        environment["PODIUM_CACHE"] = str(folder / "cache")

        def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [sys.executable, "-m", "podium", *map(str, words)],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=300,
            )

        return run

    return choose

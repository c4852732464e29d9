"""What is installed beside podium changes no test: another package is hidden from all of them."""

import os
import subprocess
import sys
from pathlib import Path

SHARED = Path(__file__).parents[1] / "shared"
LISTED = "from suite import registry; print(*registry.map_entry_points('podium.workloads'))"


def list_workloads(folder: Path, program: str) -> list[str]:
    """List the workloads that a program sees which starts beside a package in `folder`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SHARED), str(folder)))}
    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return shown.stdout.split()


def test_another_package_is_hidden_from_tests_and_their_children(tmp_path: Path) -> None:
    """After `make hello`, three tests failed: its package stays installed."""
    described = tmp_path / "installed" / "podium_beside-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: podium-beside\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[podium.workloads]\nbeside = beside:WORKLOAD\n")
    seen = list_workloads(described.parent, LISTED)
    assert {"beside", "resnet50"} <= set(seen)
    hidden = (
        "import pathlib, subprocess, sys, other_packages as other;"
        f"other.HIDING_FOLDER = pathlib.Path({str(tmp_path / 'hidden')!r});"
        f"other.hide_other_packages(); {LISTED};"
        f'sys.stdout.flush(); subprocess.run([sys.executable, "-c", {LISTED!r}], check=True)'
    )
    listed = list_workloads(described.parent, hidden)
    assert "beside" not in listed
    assert listed.count("resnet50") == 2, "once for this process, once for its child"

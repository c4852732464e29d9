"""Every script of benchmarks/ works: what nobody runs breaks with the next change of podium.

A new script is found by its name, and fails here without `--tiny`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
MISSING = 3
"""Exit code of a script that lacks what it compares podium with."""
LIMIT_S = 500
RUN_ELSEWHERE = {
    "fuzz": "tests/test_fuzz.py runs it",
    "gpu": "tests/test_gpu_benchmark.py runs all of its items in tiny shapes",
}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_nobody_runs_is_broken_unseen(script: str, tmp_path: Path) -> None:
    if script in RUN_ELSEWHERE:
        pytest.skip(RUN_ELSEWHERE[script])
    done = run_script(script, tmp_path, "--tiny")
    if done.returncode == MISSING:
        told = done.stderr.strip()
        assert "\n" not in told and "is not installed: " in told, told
        pytest.skip(told)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_new_script_has_no_tiny_run(script: str) -> None:
    """Told from its text: loading PyTorch for each `--help` would take a minute."""
    text = (BENCHMARKS / f"{script}.py").read_text()
    assert any(each in text for each in ("add_tiny_option(", " arguments(__doc__", '"--tiny"'))


def run_script(script: str, folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a script with caches of its own."""
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{script}.py"), *words],
        cwd=folder,
        env={**os.environ, "PODIUM_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )

"""Every script of benchmarks/ works: what nobody runs breaks with the next change of podium.

A new script is found by its name, and fails here without `--tiny`.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm import COMMANDS, TORCH_RUN, Warm

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
MISSING = 3
"""Exit code of a script that lacks what it compares podium with."""
RUN_ELSEWHERE = {
    "fuzz": "tests/test_fuzz.py runs it",
    "gpu": "tests/test_gpu_benchmark.py runs all of its items in tiny shapes",
}


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """Where scripts come from."""
    started = Warm(*COMMANDS, *TORCH_RUN, "torch._dynamo", "forked_script")
    yield started
    started.end()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of all scripts: embedded data are drawn and networks are exported once."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_nobody_runs_is_broken_unseen(
    script: str, warm: Warm, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script in RUN_ELSEWHERE:
        pytest.skip(RUN_ELSEWHERE[script])
    monkeypatch.chdir(tmp_path)
    done = run_script(warm, script, cache, "--tiny")
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


def run_script(
    warm: Warm, script: str, cache: Path, *words: str
) -> "subprocess.CompletedProcess[str]":
    """Run a script with that cache, on one thread."""
    environment = {**os.environ, "PODIUM_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return warm.run(
        [str(BENCHMARKS / f"{script}.py"), *words], environment, launcher="forked_script"
    )

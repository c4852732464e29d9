"""The extra `client` alone: an environment of its own, into which pip installs podium with what the
extra asks for, measures a server. Skipped where pip reaches no index.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import pytest
from podium_fakes.scripted import answering, scripted, stream

ROOT: Final = Path(__file__).parents[4]
HEAVY: Final = ("torch", "torchvision", "onnx", "onnxruntime", "tensorflow", "transformers")
MAX_INSTALLED_MB: Final = 300
"""262 MB were measured, pip included; PyTorch's CPU build has 700 MB more."""
PAUSE_S: Final = 0.01


def measure_folder_mb(folder: Path) -> float:
    """The size of all files of a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with `podium-suite[client]` and nothing else."""
    home = tmp_path_factory.mktemp("light")
    venv.create(home, with_pip=True)
    words = ("-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"))
    installed = subprocess.run(
        [str(home / "bin/python"), *words, f"{ROOT}[client]"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    if installed.returncode:
        pytest.skip(f"pip installs nothing here: {installed.stderr.strip()[-200:]}")
    return home


def run_light(light: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(light / "bin/podium"), *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**clean, "PODIUM_CACHE": str(folder / "cache")},
        timeout=240,
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="LoadGen's wheels are for Linux")
def test_the_three_commands_run_in_an_environment_of_the_extra(light: Path, tmp_path: Path) -> None:
    packages = light / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    assert [name for name in HEAVY if (packages / name).exists()] == []
    assert measure_folder_mb(light) < MAX_INSTALLED_MB
    (tmp_path / "prompts.txt").write_text("Who sells?\nAnd who buys?\n", "utf-8")
    with scripted(answering(stream(counted=5), pause_s=PAUSE_S), has_no_delay=True) as server:
        shared = (server.url, "--prompts", "prompts.txt", "--set", "loadgen.min_duration_ms=300")
        bounds = ("--first-token-ms", "2000", "--per-token-ms", "1000", "--budget-s", "15")
        for words in (
            ("curve", *shared[:3], "--points", "1,2", "--seconds", "0.3"),
            ("peak", *shared, *bounds),
            ("infer", *shared, "--scenario", "server"),
        ):
            done = run_light(light, tmp_path, *words)
            assert done.returncode == 0, done.stdout + done.stderr
    done = run_light(light, tmp_path, "check", "results")
    assert done.returncode == 0, done.stdout + done.stderr

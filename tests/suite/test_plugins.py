"""A half-written package of somebody else: one warning with package and file, and everything else
goes on.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROW = """
[moons]
title = "Two moons"
training_name = "moons"
inference_name = "moons"
metrics = { top1 = "" }
[moons.settings]
[moons.training]
[moons.inference]
"""
INIT = """from suite.workload import Workload
WORKLOAD = Workload(name="moons", training="a:b", inference="a:b", score="a:b")
"""
POINTS = """
[podium.workloads]
moons = podium_moons:WORKLOAD
[podium.rules]
"moons.rules" = podium_moons.rules
"""
RULES = '"""No rules."""\n'


def plugin(folder: Path, *, points: str = POINTS, **files: str) -> dict[str, str]:
    """Install a package `podium-moons` into a folder; give the environment that finds it."""
    package, record = folder / "podium_moons", folder / "podium_moons-0.1.dist-info"
    package.mkdir(parents=True)
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: podium-moons\nVersion: 0.1\n")
    (record / "entry_points.txt").write_text(points.replace('"moons.rules"', "moons.rules"))
    for name, text in {"__init__": INIT, "podium-v1": ROW, "rules": RULES, **files}.items():
        ending = (
            ".toml"
            if name.startswith("podium")
            else ".json"
            if name.startswith("training")
            else ".py"
        )
        (package / f"{name}{ending}").write_text(text)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))),
    }


def podium(environment: dict[str, str], *words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "suite.cli", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False
    )


BROKEN = {
    "a module that raises": (
        {"__init__": "import nothing_like_it\n"},
        "package podium-moons 0.1: ModuleNotFoundError",
        "podium_moons/__init__.py:1",
    ),
    "a syntax error": (
        {"__init__": "WORKLOAD = (:\n"},
        "package podium-moons 0.1: SyntaxError",
        "podium_moons/__init__.py:1",
    ),
    "a row without keys": (
        {"podium-v1": '[moons]\ntitle = "t"\n[moons.training.smoke]\nruns = 1\n'},
        (
            "moons: 'inference' is missing; moons: 'inference_name' is missing; moons: 'metrics' is"
            " missing; moons: 'settings' is missing; moons: 'training_name' is missing;"
            " moons.training.smoke: 'division' is missing; moons.training.smoke: 'max_epochs' is"
            " missing"
        ),
        "podium_moons/podium-v1.toml of package podium-moons 0.1",
    ),
    "no TOML": (
        {"podium-v1": "[moons"},
        "is ignored in round podium-v1",
        "podium_moons/podium-v1.toml of package podium-moons 0.1",
    ),
    "another's row": (
        {"podium-v1": ROW.replace("moons", "gnmt")},
        "'gnmt' is defined by two packages",
        "podium_moons/podium-v1.toml",
    ),
    "broken rules": (
        {"rules": "1 / 0\n"},
        "rules 'moons.rules' cannot be loaded: package podium-moons 0.1: ZeroDivisionError",
        "podium_moons/rules.py:1",
    ),
    "a broken schema": (
        {"training.podium-v1.moons": "{"},
        "training.podium-v1.moons.json of package podium-moons 0.1 is left out",
        "podium_moons/training.podium-v1.moons.json",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_package_is_one_warning_and_the_judge_goes_on(kind: str, tmp_path: Path) -> None:
    """`check`, `score` and `verify` of anything at all ended with "moons: 'inference' is missing"
    and exit 2.
    """
    files, why, where = BROKEN[kind]
    environment = plugin(tmp_path / "site", **files)
    log = Path(__file__).parents[1] / "examples/valid/training.target"
    outcome = podium(environment, "check", *sorted(log.iterdir())[:1], "--format", "json")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.startswith("{") and "Traceback" not in outcome.stderr
    told = [line for line in outcome.stderr.splitlines() if why in line and where in line]
    assert told == outcome.stderr.splitlines() and len(told) == (kind != "a broken schema"), (
        outcome.stderr
    )  # schemas are read where trees are judged


@pytest.mark.slow
def test_a_broken_package_costs_its_own_workload_alone(tmp_path: Path) -> None:
    """`doctor` and `train` of other workloads are none of its business; its own is missing,
    exit 3.
    """
    environment = plugin(tmp_path / "site", __init__="raise RuntimeError('half written')\n")
    assert podium(environment, "list").returncode == 0
    other = podium(
        environment, "train", "gnmt", "--profile", "full", "--results", tmp_path / "results"
    )
    assert (other.returncode, "needs --data DIR" in other.stderr) == (2, True), other.stderr
    own = podium(environment, "train", "moons", "--results", tmp_path / "results")
    assert (
        own.returncode == 3
        and "workload 'moons' cannot be loaded: package podium-moons 0.1: RuntimeError: half written"
        in own.stderr
    )


@pytest.mark.slow
def test_a_whole_package_brings_no_warning(tmp_path: Path) -> None:
    outcome = podium(plugin(tmp_path / "site"), "train", "moons", "--results", tmp_path / "results")
    assert (
        "warning" not in outcome.stderr
        and "moons has no training rules in profile smoke" in outcome.stderr
    ), outcome.stderr

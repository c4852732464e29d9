"""benchmarks/instances.py: what it asks podium for, and which run it takes."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"
RUN = Path("resnet50/Offline/performance/run_1/run.json")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location(
        "instances_benchmark", BENCHMARKS / "instances.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_instances_are_pinned_whatever_else_runs_and_a_run_set_aside_does_not_count(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Left to itself, podium does not pin where other programs use the cores; one process has
    nothing to pin, and refuses the setting.
    """
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        asked.append(command)
        study = Path(command[command.index("--results") + 1]) / "studies" / "resnet50-speed"
        for folder, value in (
            (study / "open", 40.0),
            (study / ".podium" / "superseded" / "1" / "open", 30.0),
        ):
            (folder / RUN).parent.mkdir(parents=True)
            (folder / RUN).write_text(json.dumps({"value": value}))

    monkeypatch.setattr(subprocess, "run", run)
    assert [benchmark.on_cores(count, tmp_path) for count in (2, 0)] == [40.0, 40.0]
    assert ["sut.pin=on" in command for command in asked] == [True, False]
    assert all(
        f"sut.instances={count}" in command for count, command in zip((2, 0), asked, strict=True)
    )

"""benchmarks/instances.py: what it asks podium for, and which run it takes."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"
RUN = Path("studies/resnet50-speed/box-torch-fp32/offline/run.json")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
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
    nothing to pin; both settings are refused there.
    """
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        asked.append(command)
        results = Path(command[command.index("--results") + 1])
        for folder, value in ((results, 40.0), (results / ".podium" / "superseded" / "1", 30.0)):
            (folder / RUN).parent.mkdir(parents=True)
            line = {"key": "result_samples_per_second", "value": value}
            (folder / RUN).write_text("{}")
            (folder / RUN).with_name("mlperf_log_detail.txt").write_text(
                f":::MLLOG {json.dumps(line)}\n"
            )

    monkeypatch.setattr(subprocess, "run", run)
    assert [benchmark.on_cores(count, tmp_path) for count in (2, 0)] == [40.0, 40.0]
    assert ["sut.pin=on" in command for command in asked] == [True, False]
    assert "sut.instances=2" in asked[0]
    assert not any(word.startswith("sut.instances=") for word in asked[1])

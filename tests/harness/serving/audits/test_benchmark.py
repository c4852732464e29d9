"""benchmarks/audits.py: what it counts as a cheat that was caught."""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from podium_fakes.drive import entry

from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario

RECORD: dict[str, Any] = {
    "system_sha256": "ab",
    "scenario": "Offline",
    "rules": "podium-v1",
    "settings": {},
    "beside": {},
    "metric": "samples_per_second",
    "reference": [1000.0],
    "found": [1000.0],
    "ratio": 1.0,
    "lowest": None,
    "highest": 1.1,
    "answers": 0,
    "differing": 0,
    "repeated": 2,
    "passed": False,
    "command": [],
}
"""Of a test that failed since LoadGen called a run INVALID."""

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("audits_benchmark", BENCHMARKS / "audits.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "loops", idle)
    return module


@contextmanager
def idle(_: object) -> Iterator[None]:
    """Keep no core busy."""
    yield


def refuse(*_: Any, **__: Any) -> None:
    raise JudgedError("audited: the audit failed")


@pytest.mark.parametrize(
    ("test", "change", "caught"),
    [
        ("TEST04", {}, False),
        ("TEST04", {"ratio": 7.0}, True),
        ("TEST05", {"ratio": 0.1, "lowest": 0.9, "highest": None}, True),
        ("TEST01", {"ratio": 7.0}, False),
        ("TEST01", {"highest": None, "answers": 30, "differing": 9}, True),
        ("TEST04", None, False),
    ],
)
def test_a_cheat_is_caught_by_its_speed_or_its_answers_alone(
    benchmark: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    test: str,
    change: dict[str, Any] | None,
    caught: bool,
) -> None:
    """A machine so busy that LoadGen calls runs INVALID, or a disk that is full, would seem to find
    every cheat.
    """
    monkeypatch.setattr(benchmark, "audit_workload", refuse)
    folder = entry(tmp_path).locate_audits("audited", Scenario.OFFLINE) / test
    folder.mkdir(parents=True)
    if change is not None:
        (folder / "audit.json").write_text(json.dumps({**RECORD, "test": test, **change}))
    assert benchmark.caught(tmp_path, "index", Scenario.OFFLINE, test) is caught


def test_serving_that_stays_invalid_is_repeated_and_then_told(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One INVALID run of hundreds must not end the benchmark; several say that this machine cannot
    run it.
    """
    tried: list[Path] = []

    def serve(_: str, options: Any, **__: Any) -> None:
        tried.append(options.results)
        if len(tried) < 2:
            raise JudgedError("INVALID")

    monkeypatch.setattr(benchmark.infer, "serve_workload", serve)
    assert benchmark.served(tmp_path, "none", Scenario.SERVER).exists() and len(tried) == 2
    assert benchmark.served(tmp_path, "none", Scenario.SERVER).exists() and len(tried) == 2
    monkeypatch.setattr(benchmark.infer, "serve_workload", refuse)
    with pytest.raises(JudgedError):
        benchmark.served(tmp_path, "index", Scenario.SERVER)

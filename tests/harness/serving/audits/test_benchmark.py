"""benchmarks/audits.py: what it counts as a cheat that was caught."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from podium_fakes.drive import entry

from suite.errors import JudgedError
from suite.files.layout import VERIFY_ACCURACY
from suite.loadgen.scenario import Scenario

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
    ("test", "compared", "verified", "caught"),
    [
        ("TEST04", True, None, False),  # LoadGen called a run INVALID
        ("TEST04", False, None, True),
        ("TEST05", False, None, True),
        ("TEST01", False, "total=30\ndata_mismatch = 0\n", False),
        ("TEST01", True, "total=30\ndata_mismatch = 9\n", True),
        ("TEST04", None, None, False),
    ],
)
def test_a_cheat_is_caught_by_its_speed_or_its_answers_alone(
    benchmark: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    test: str,
    compared: bool | None,
    verified: str | None,
    caught: bool,
) -> None:
    """A machine so busy that LoadGen calls runs INVALID, or a disk that is full, would seem to find
    every cheat.
    """
    monkeypatch.setattr(benchmark, "audit_workload", refuse)
    folder = entry(tmp_path).locate_audits("audited", Scenario.OFFLINE) / test
    folder.mkdir(parents=True)
    outcome = None
    if compared is not None:
        outcome = SimpleNamespace(compared=SimpleNamespace(passed=compared))
    if verified is not None:
        (folder / VERIFY_ACCURACY).write_text(verified)
    monkeypatch.setattr(benchmark, "read_audit", lambda *_: SimpleNamespace(outcome=outcome))
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

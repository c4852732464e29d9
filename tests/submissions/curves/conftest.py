"""Submissions of curves with the files that figures are read from, and no more: the judge is a
fake here.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from compliance.verdict import Finding
from submissions.curves.curve import ScoredCurve, ScoredPoint
from submissions.machines import ComparedMachine

MODEL = "llama3_1-8b"
POINTS: dict[int, tuple[float, float, float]] = {
    4: (400.0, 100.0, 20.0),
    16: (1200.0, 80.0, 40.0),
    64: (3200.0, 50.0, 90.0),
    256: (6400.0, 25.0, 300.0),
    1024: (9000.0, 9.0, 2000.0),
}
"""Requests in flight -> system_tps, tps_per_user, ttft_p90_ms."""
OFFLINE_TPS = 9500.0


def write_point(folder: Path, figures: tuple[float, float, float], **disclosed: Any) -> None:
    folder.mkdir(parents=True)
    rate, speed, ttft = figures
    named = {
        "concurrency": int(folder.name[1:]),
        "division": "Standardized",
        "max_supported_concurrency": 1024,
        "model_name": MODEL,
        "model_precision": "fp8",
        "dataset_name": "cnn_dailymail",
        "target_cohort": "2026-10-C1",
    }
    (folder / "point.yaml").write_text(yaml.safe_dump(named | disclosed))
    summary = {
        "n_samples_completed": 1000,
        "n_samples_issued": 1000,
        "n_samples_failed": 0,
        "duration_ns": 1_000_000_000_000,
        "output_sequence_lengths": {"total": rate * 1000},
        "ttft": {"percentiles": {"90.0": ttft * 1e6}},
        "tpot": {"percentiles": {"90.0": 1e9 / speed}},
    }
    (folder / "result_summary.json").write_text(json.dumps(summary))


def write_curve(
    root: Path,
    points: Mapping[int, tuple[float, float, float]] = POINTS,
    *,
    system: str = "box",
    model: str = MODEL,
    accelerators: int | None = 8,
    watts: float | None = 10_000.0,
    offline: bool = True,
    **disclosed: Any,
) -> Path:
    """Write a curve of a submission; return the curve's folder."""
    curve = root / "results" / system / model
    nodes = {"number_of_nodes": 1, "accelerator_model_name": "Chip"}
    described = {"node_types": [nodes | {"accelerators_per_node": accelerators}]}
    for concurrency, figures in points.items():
        write_point(curve / f"r{concurrency}", figures, **disclosed)
    if offline:
        figures = (OFFLINE_TPS, 1.0, 1.0)
        write_point(curve / "r13368", figures, offline="dedicated", **disclosed)
    for folder in curve.iterdir() if accelerators is not None else ():
        (folder / "system_desc.json").write_text(json.dumps(described))
    if watts is not None:
        power = {"provisioned_power_w": watts}
        (curve.parent / "system_power.json").write_text(json.dumps(power))
    return curve


@pytest.fixture(autouse=True)
def accepted(objections: list[Finding]) -> list[Finding]:
    """A judge that accepts everything until a test appends a finding."""
    return objections


@pytest.fixture
def make_curve() -> Callable[..., Path]:
    """The builder."""
    return write_curve


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    """A submission of one curve of five points and an Offline run."""
    write_curve(tmp_path / "acme" / "first")
    return tmp_path / "acme" / "first"


def build_point(concurrency: int, rate: float, speed: float, **changes: Any) -> ScoredPoint:
    facts: dict[str, Any] = {
        "path": f"curve/r{concurrency}",
        "concurrency": concurrency,
        "region": "high_concurrency",
        "offline": None,
        "system_tps": rate,
        "tps_per_user": speed,
        "ttft_p90_ms": 10.0,
        "tps_per_kw": rate / 10,
        "basis": "whole_run",
        "declared_basis": "whole_run",
        "compliant": True,
    }
    return ScoredPoint(**facts | changes)


def build_curve(*points: ScoredPoint, **changes: Any) -> ScoredCurve:
    facts: dict[str, Any] = {
        "path": "curve",
        "org": "acme",
        "submission": "first",
        "system": "box",
        "model": MODEL,
        "dataset": "cnn_dailymail",
        "division": "Standardized",
        "round": "endpoints-v1.0",
        "cohort": "2026-10-C1",
        "precision": "fp8",
        "tokenizer": "",
        "c_min": 4,
        "c_max": 1024,
        "regions": None,
        "machine": ComparedMachine(accelerator="Chip", accelerators=8, nodes=1),
        "kw": 10.0,
        "points": points,
        "point_count": len(points),
        "peak": max(each.system_tps or 0.0 for each in points),
        "offline_tps": None,
        "compliant": True,
    }
    return ScoredCurve(**facts | changes)


@pytest.fixture
def curve_of() -> Callable[..., ScoredCurve]:
    """A record of a curve from (concurrency, system_tps, tps_per_user)."""

    def build(*points: tuple[int, float, float], **changes: Any) -> ScoredCurve:
        return build_curve(*(build_point(*each) for each in points), **changes)

    return build


@pytest.fixture
def point_of() -> Callable[..., ScoredPoint]:
    """The builder of a point's record."""
    return build_point

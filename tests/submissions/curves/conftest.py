"""Honest submissions of curves, and records of curves that no run made."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compliance.results.curves import ScoredCurve
from suite.result import Machine, ScoredPoint

builders = str(Path(__file__).parents[2] / "compliance" / "builders")  # kinds lie there
if builders not in sys.path:
    sys.path.insert(0, builders)

CURVE = Path("results/box/deepseek-r1")


@pytest.fixture(scope="session")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Submissions that the judge accepts: `beta` is faster throughout and has an Offline run of its
    own, `delta` faster but at one point, `gamma` in another division.
    """
    from kinds.endpoints_curves import Curve, submit

    root = tmp_path_factory.mktemp("submitted")
    for organisation, facts in {
        "acme": {},
        "beta": {"speed": 1.3, "offline": "dedicated"},
        "gamma": {"division": "RDI"},
        "delta": {"speed": 1.1, "slow_point": 64},
    }.items():
        submit(root / organisation / "s1", Curve(organisation=organisation, **facts))  # type: ignore[arg-type]
    return root


@pytest.fixture
def altered(submitted: Path, tmp_path: Path) -> Path:
    """A copy of the first submission in which one point states another rate than its run has."""
    from kinds.endpoints_curves import edit_point

    root = Path(shutil.copytree(submitted / "acme", tmp_path / "acme")) / "s1"
    edit_point(30, "system_tps", value=9999.0)(root)
    return root


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
        "submission": "s1",
        "system": "box",
        "model": "deepseek-r1",
        "data_set": "deepseek_r1",
        "dataset": "deepseek-r1",
        "division": "Standardized",
        "round": "endpoints-v1.0",
        "cohort": "2026-10-C1",
        "precision": "fp8",
        "tokenizer": "",
        "c_min": 1,
        "c_max": 256,
        "regions": None,
        "machine": Machine(accelerator="Chip", accelerators=8, nodes=1),
        "kw": 10.0,
        "points": points,
        "point_count": len(points),
        "peak": max((each.system_tps or 0.0 for each in points), default=None),
        "offline_tps": None,
        "compliant": True,
    }
    return ScoredCurve(**facts | changes)


@pytest.fixture
def curve_of() -> Callable[..., ScoredCurve]:
    """A record of a curve from (concurrency, system_tps, tps_per_user) or points."""

    def build(*points: Any, **changes: Any) -> ScoredCurve:
        made = [each if isinstance(each, ScoredPoint) else build_point(*each) for each in points]
        return build_curve(*made, **changes)

    return build


@pytest.fixture
def point_of() -> Callable[..., ScoredPoint]:
    """The builder of a point's record."""
    return build_point

"""The page of a study: curves whose points are the table's, and the judge's verdict beside them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from submissions.cli import report
from submissions.report.sections import studies
from suite.studies.documents import Row, Study

BASE = Path(__file__).parents[2] / "examples" / "base"
WATTS = {
    "name": "meter", "source": "meter", "grade": "meter", "scope": ["system"], "within": [], "joules": 1.0, "average_w": 50.0, "edge_j": 0.0, "readings": 9,
    "longest_gap_ms": 1, "mlperf_mean_w": None, "per_sample_j": None, "samples_per_s_per_w": 2.0, "mj_per_query": None,
}  # fmt: skip


def page(path: Path, form: str, target: Path) -> str:
    found = CliRunner().invoke(report, [str(path), "--format", form, "-o", str(target)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return target.read_text()


@pytest.mark.parametrize("kind", ["study", "peak", "speed"])
def test_a_study_has_a_page(kind: str, tmp_path: Path) -> None:
    """Of itself, and of a results folder that holds nothing else; every chart is drawn."""
    (study,) = (BASE / kind / "studies").iterdir()
    document = json.loads(page(study, "json", tmp_path / "r.json"))
    (part,) = document["parts"]
    first = part["sections"][0]
    assert part["tone"] == "good" and first["id"] == f"study-{study.name}" and first["tables"]
    charts = first["charts"]
    assert [chart["title"] for chart in charts] == {
        "study": ["Throughput against batch", "Latency against throughput"], "peak": ["Late queries against rate"], "speed": [],
    }[kind]  # fmt: skip
    text = page(BASE / kind, "html", tmp_path / "r.html")
    assert text.count('<svg class="chart"') == len(charts)


def sweep() -> Study:
    """The example's table, with a second number format, watts and scores."""
    (path,) = (BASE / "study" / "studies").glob("*/study.json")
    made = msgspec.json.decode(path.read_bytes(), type=Study)
    (first, *_) = made.rows
    watts: Any = msgspec.convert([WATTS], type=Row.__annotations__["energy"]) if not isinstance(Row.__annotations__["energy"], str) else None
    rows = [replace(first, batch=batch, precision=precision, scores={"top1": 0.7}, **({"energy": watts} if watts else {}))
            for batch in (1, 2, 4) for precision in ("fp32", "int8")]  # fmt: skip
    return replace(made, rows=tuple(rows), within_ms=7.0)


def test_curves_have_a_line_for_each_engine_and_number_format() -> None:
    """With the budget as a mark, accuracy against speed where several were scored, efficiency where power was read."""
    section = studies.of_sweep(sweep(), "toy")
    charts = {chart.title: chart for chart in section.charts}
    assert {"Throughput against batch", "Efficiency against batch", "Latency against throughput", "Accuracy against speed"} == set(charts)
    assert [len(line.points) for line in charts["Throughput against batch"].lines] == [3, 3]
    assert [mark.value for mark in charts["Latency against throughput"].marks] == [7.0]
    assert {point[1] for line in charts["Efficiency against batch"].lines for point in line.points} == {2.0}

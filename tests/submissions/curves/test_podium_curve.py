"""Curves that podium traced, beside each other and in a report; never beside those of MLPerf
Endpoints.
"""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from making_curve import write_curve
from spoiling import setting

from submissions.commands.compare import compare
from submissions.commands.report import report
from submissions.curves.podium_curve import is_podium_curve, read_comparable_curves
from submissions.report.sections.studies.section import build_study_section, read_study_points
from suite.errors import JudgedError
from suite.files.layout import DETAIL_LOG
from suite.studies.measured import read_measured_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A curve."""
    return write_curve(tmp_path / "first")


def test_the_record_has_the_figures_of_the_table(study: Path) -> None:
    (curve,) = read_comparable_curves(study)
    table = read_measured_study(study)
    assert is_podium_curve(study) and curve.compliant
    assert [each.system_tps for each in curve.points] == [
        row.figures.system_tps for row in table.rows
    ]
    assert (curve.c_min, curve.c_max, curve.round) == (2, 40, "podium curve")
    assert curve.origin == "a podium curve, not an MLPerf Endpoints result"


def test_two_curves_are_compared(study: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/studies" / study.name
    shutil.copytree(study, other)
    result = CliRunner().invoke(compare, [str(study), str(other)])
    assert result.exception is None, result.output
    assert "resnet50, podium curve" in result.output and "conclusion: equal" in result.output


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((1.0, 1.0), (2.0, 2.0), "A dominates"),
        ((2.0, 1.5), (1.0, 1.5), "B dominates"),
        ((2.0, 1.0), (1.5, 1.5), "cross at x = "),
    ],
)
def test_the_curve_that_is_ahead_is_named(
    tmp_path: Path, first: tuple[float, float], second: tuple[float, float], verdict: str
) -> None:
    """By tokens per second at each speed per user; both are judged valid."""
    folders = [
        str(write_curve(tmp_path / name, times)) for name, times in (("a", first), ("b", second))
    ]
    result = CliRunner().invoke(compare, [*folders, "--require", "comparable"])
    assert (result.exit_code, result.exception) == (0, None), result.output
    assert f"conclusion: {verdict}" in result.output and "left out" not in result.output


@pytest.mark.parametrize(
    ("longer", "verdict", "code"), [(1.5, "A dominates", 0), (1.01, "not separable", 1)]
)
def test_repeats_decide_whether_a_difference_is_told(
    tmp_path: Path, longer: float, verdict: str, code: int
) -> None:
    """By the intervals that several runs of each point give, which the judge accepts."""
    runs = (1.0, 1.02, 1.04)
    folders = [
        str(write_curve(tmp_path / name, (times, times), runs))
        for name, times in (("a", 1.0), ("b", longer))
    ]
    result = CliRunner().invoke(compare, [*folders, "--require", "separable"])
    assert f"conclusion: {verdict}\n" in result.output and "not tested" not in result.output
    assert result.exit_code == code, result.output


def test_the_report_draws_the_intervals_of_repeats(tmp_path: Path) -> None:
    """In both panels, in the table, and among the points of several systems."""
    one, other = (write_curve(tmp_path / name, repeats=(1.0, 1.02, 1.04)) for name in ("a", "b"))
    section = build_study_section(one)
    assert [bool(line.y_intervals) for chart in section.charts for line in chart.lines] == [
        True,
        False,  # the point beside the curve
        True,
    ]
    assert section.tables[0].rows[0][2] == "23.4 \u00b11.1"
    points = [*read_study_points(one, ()), *read_study_points(other, ())]
    assert all(each.low is not None and each.low < each.rate for each in points)


def test_a_point_that_breaks_a_rule_is_left_out(study: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/studies" / study.name
    shutil.copytree(study, other)
    setting("result_validity", "INVALID")(other / "box-torch-fp32/in-flight-2" / DETAIL_LOG)
    result = CliRunner().invoke(compare, [str(study), str(other)])
    assert result.exit_code != 0
    assert "B: left out: in-flight-2, which breaks loadgen" in result.output


def test_a_podium_curve_is_not_compared_with_one_of_mlperf(study: Path, tmp_path: Path) -> None:
    """The rules differ: duration, percentile, and who counts the tokens."""
    from kinds.endpoints_curves import BASES

    BASES["endpoints-curve"](tmp_path / "theirs")
    (theirs,) = (tmp_path / "theirs").iterdir()
    result = CliRunner().invoke(compare, [str(study), str(theirs)])
    assert result.exit_code == 0 and "conclusion: not comparable" in result.output
    assert "rules: podium curve, not endpoints-v1.0" in result.output
    required = CliRunner().invoke(compare, [str(study), str(theirs), "--require", "comparable"])
    assert isinstance(required.exception, JudgedError) and required.exception.exit_code == 1


def test_the_report_draws_it_as_what_it_is(study: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner().invoke(report, [str(study), "-o", str(page)])
    assert result.exception is None, result.output
    text = page.read_text()
    assert "2 points of a podium curve, not an MLPerf Endpoints result" in text
    assert text.count("<svg") == 2 and "points of MLPerf Endpoints" not in text

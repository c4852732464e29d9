"""Submissions of curves on the command line: scores, comparisons and their exit codes."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from submissions.commands.compare import compare
from submissions.commands.score import score
from submissions.curves import curve as curves
from suite.errors import JudgedError, RequestError

CURVE = Path("results/box/deepseek-r1")
TREE = Path(__file__).resolve().parents[2] / "examples" / "base" / "tree"


def invoke(command: Any, *words: object) -> Result:
    return CliRunner().invoke(command, [*map(str, words)], catch_exceptions=False)


def read_scores(*paths: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(
        invoke(score, *paths, "--format", "json").stdout
    )
    return found


def read_verdict(*words: object) -> dict[str, Any]:
    [found] = json.loads(invoke(compare, *words, "--format", "json").stdout)["comparisons"]
    assert isinstance(found, dict)
    return found


def test_each_point_is_a_row(submitted: Path) -> None:
    found = read_scores(submitted / "beta" / "s1")
    [curve] = found["curves"]
    assert {
        name: curve[name] for name in ("org", "system", "model", "c_min", "c_max", "points")
    } == {
        "org": "beta",
        "system": "box",
        "model": "deepseek-r1",
        "c_min": 1,
        "c_max": 256,
        "points": 8,
    }
    rows = found["scores"]
    assert [each["concurrency"] for each in rows] == [1, 6, 16, 30, 64, 128, 256, 4388]
    assert [each["region"] for each in rows[:3]] == [
        "low_latency",
        "low_concurrency",
        "med_concurrency",
    ]
    assert all(each["compliant"] and each["value"] == each["system_tps"] for each in rows)
    assert curve["peak"] == max(each["system_tps"] for each in rows[:-1])
    assert (rows[-1]["region"], rows[-1]["tps_per_user"]) == ("offline", None)
    assert rows[-1]["system_tps"] == curve["offline_tps"]


def test_the_figures_are_those_of_the_summary(submitted: Path) -> None:
    folder = submitted / "acme" / "s1" / CURVE / "r64"
    summary = json.loads((folder / "result_summary.json").read_text("utf-8"))
    [row] = read_scores(folder)["scores"]
    tokens, seconds = summary["output_sequence_lengths"]["total"], summary["duration_ns"] / 1e9
    assert row["system_tps"] == pytest.approx(tokens / seconds)
    assert row["tps_per_user"] == pytest.approx(1e9 / summary["tpot"]["percentiles"]["90.0"])
    assert row["ttft_p90_ms"] == pytest.approx(summary["ttft"]["percentiles"]["90.0"] / 1e6)
    assert row["tps_per_kw"] == pytest.approx(row["system_tps"] / 8.19)


@pytest.mark.parametrize(
    "part", [".", "results", "results/box", CURVE, CURVE / "r6" / "point.yaml"]
)
def test_any_part_of_a_submission_has_scores(submitted: Path, part: Path) -> None:
    found = read_scores(submitted / "acme" / "s1" / part)
    assert len(found["scores"]) == (1 if "r6" in Path(part).parts else 7)
    assert [each["points"] for each in found["curves"]] == [7]


def test_several_submissions_are_found_in_a_folder(submitted: Path) -> None:
    assert [each["org"] for each in read_scores(submitted)["curves"]] == [
        "acme",
        "beta",
        "delta",
        "gamma",
    ]


def test_other_results_have_no_curves(results: Path) -> None:
    assert list(read_scores(results)) == ["scores"]


def test_a_broken_point_is_named_with_its_rule(altered: Path) -> None:
    found = read_scores(altered)
    broken = {each["concurrency"]: each["failed_rules"] for each in found["scores"]}
    assert {count: rules for count, rules in broken.items() if rules} == {30: ["endpoints.derived"]}
    assert not found["curves"][0]["compliant"] and found["curves"][0]["failed_rules"] == []
    text = invoke(score, altered).stdout
    assert "r30, which breaks endpoints.derived" in text and "podium check" in text


def test_runs_that_two_organisations_submit_are_not_compliant(
    submitted: Path, tmp_path: Path
) -> None:
    """Each submission alone would be."""
    for org in ("acme", "zcorp"):
        shutil.copytree(submitted / "acme" / "s1", tmp_path / org / "s1")
    found = read_scores(tmp_path)["scores"]
    assert {each["org"] for each in found} == {"acme", "zcorp"} and len(found) == 14
    assert all(each["failed_rules"] == ["endpoints.copied_run"] for each in found)
    assert all(each["compliant"] for each in read_scores(tmp_path / "zcorp")["scores"])


def test_broken_results_are_scored_without_an_exit_code(altered: Path, tmp_path: Path) -> None:
    """Points of curves as results of LoadGen: the judge exits with 1."""
    broken = TREE.parents[1] / "invalid" / "entry.agreement"
    for path in (altered, broken):
        found = invoke(score, path, "--format", "json")
        assert found.exit_code == 0
        assert not all(each["compliant"] for each in json.loads(found.stdout)["scores"])


def test_a_table_of_a_curve_fits_a_terminal(submitted: Path) -> None:
    text = invoke(score, submitted / "beta" / "s1" / CURVE).stdout
    assert "C_min 1, C_max 256, 8 points, peak 1,752.6 tokens/s" in text
    table = [line for line in text.splitlines() if "whole run" in line and "points" not in line]
    assert len(table) == 8 and max(map(len, table)) <= 80
    assert table[-1].split()[0] == "Offline"


def test_one_steady_window_is_told_in_the_singular(submitted: Path) -> None:
    text = invoke(score, submitted / "acme" / "s1").stdout
    assert "1 of 7 points declares a steady window for its official figures" in text


def test_csv_has_a_column_for_each_figure(submitted: Path) -> None:
    text = invoke(score, submitted / "acme" / "s1", "--format", "csv").stdout
    rows = list(csv.DictReader(text.splitlines()))
    names = ("concurrency", "region", "system_tps", "tps_per_user", "ttft_p90_ms", "tps_per_kw")
    assert len(rows) == 7 and all(row[name] for row in rows for name in names)
    assert {row["basis"] for row in rows} == {"whole_run"}


def test_each_curve_is_judged_once(submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Path] = []
    judge = curves.compliance_check.judge_path
    monkeypatch.setattr(
        curves.compliance_check,
        "judge_path",
        lambda path: judged.append(path) or judge(path),
    )
    read_scores(submitted / "acme")
    assert judged == [submitted / "acme" / "s1"]


def test_a_faster_system_dominates(submitted: Path) -> None:
    pair = submitted / "acme" / "s1", submitted / "beta" / "s1"
    assert read_verdict(*pair)["verdict"] == "B dominates"
    assert read_verdict(*reversed(pair))["verdict"] == "A dominates"
    assert read_verdict(*pair, "--baseline", pair[1])["verdict"] == "A dominates"
    text = invoke(compare, *pair).stdout
    assert "conclusion: B dominates" in text and "not tested" in text and "(1.30)" in text


def test_a_slow_point_makes_two_crossings(submitted: Path) -> None:
    found = read_verdict(submitted / "acme" / "s1", submitted / "delta" / "s1")
    assert found["verdict"].startswith("cross at x = ") and len(found["crossings"]) == 2


def test_every_path_is_compared_with_the_first(submitted: Path) -> None:
    paths = [submitted / name / "s1" for name in ("acme", "beta", "gamma")]
    found = json.loads(invoke(compare, *paths, "--format", "json").stdout)["comparisons"]
    assert [each["other"]["org"] for each in found] == ["beta", "gamma"]
    assert [each["first"]["org"] for each in found] == ["acme", "acme"]


def test_another_division_is_not_comparable(submitted: Path) -> None:
    pair = submitted / "acme" / "s1", submitted / "gamma" / "s1"
    assert "division: Standardized, not RDI" in invoke(compare, *pair).stdout
    with pytest.raises(JudgedError, match="not comparable"):
        CliRunner().invoke(
            compare,
            [*map(str, pair), "--require", "comparable"],
            catch_exceptions=False,
            standalone_mode=False,
        )


@pytest.fixture
def fleets(submitted: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two submissions of two systems each, of which one name is in both; that of the first
    submission has half as many accelerators.
    """
    roots = []
    for name, systems in (
        ("acme", {"box": "acme", "rack": "delta"}),
        ("beta", {"tower": "acme", "box": "beta"}),
    ):
        root = tmp_path / name / "s1"
        for system, origin in systems.items():
            shutil.copytree(submitted / origin / "s1/results/box", root / "results" / system)
        for part in ("src", "docs"):
            shutil.copytree(submitted / name / "s1" / part, root / part)
        roots.append(root)
    for path in (roots[0] / "results" / "box").rglob("system_desc.json"):
        text = path.read_text()
        path.write_text(text.replace('"accelerators_per_node":8', '"accelerators_per_node":4'))
    return roots[0], roots[1]


def compare_fleets(fleets: tuple[Path, Path], *words: object) -> Result:
    return CliRunner().invoke(compare, [*map(str, (*fleets, *words))])


def test_systems_without_a_partner_are_named(fleets: tuple[Path, Path]) -> None:
    found = json.loads(compare_fleets(fleets, "--format", "json").stdout)
    assert [
        (each["first"]["system"], each["other"]["system"]) for each in found["comparisons"]
    ] == [("box", "box")]
    assert [each.partition(": ")[2].split(",")[0] for each in found["unpaired"]] == [
        "rack",
        "tower",
    ]
    for words in ((), ("--format", "markdown")):
        text = compare_fleets(fleets, *words).stdout
        assert "rack, deepseek-r1: not compared" in text.replace("\\", "")


def test_a_requirement_is_missed_by_a_system_without_a_partner(
    submitted: Path, fleets: tuple[Path, Path]
) -> None:
    for path in (fleets[0] / "results" / "box").rglob("system_desc.json"):
        shutil.copy(submitted / "acme/s1/results/box" / path.relative_to(path.parents[2]), path)
    with pytest.raises(JudgedError, match="some results are not comparable") as error:
        run(*fleets, "--require", "comparable")
    assert "rack" in str(error.value) and "tower" in str(error.value)


def test_two_names_with_nothing_in_common_have_nothing_to_compare(
    fleets: tuple[Path, Path],
) -> None:
    for root, old, new in ((fleets[0], "box", "a"), (fleets[1], "box", "b")):
        (root / "results" / old).rename(root / "results" / new)
    found = compare_fleets(fleets)
    assert isinstance(found.exception, RequestError)
    assert "the baseline has other systems of the model alone" in str(found.exception)


def test_the_last_line_says_what_an_accelerator_yields(fleets: tuple[Path, Path]) -> None:
    lines = compare_fleets(fleets).stdout.strip().splitlines()
    assert "conclusion: B dominates, as whole systems of different size" in lines
    assert lines[-1].startswith("systems of different size: box (4 accelerators")
    assert "per accelerator B/A is (0.65) at the peaks, (0.65) to (5.97) over all" in lines[-1]
    assert "per kW B/A is (1.30) at the peaks, (1.30) to (11.95) over all" in lines[-1]
    assert any("B/A per accelerator" in each for each in lines)


def run(*words: object) -> None:
    CliRunner().invoke(compare, [*map(str, words)], catch_exceptions=False, standalone_mode=False)


def test_one_run_is_never_separable(submitted: Path) -> None:
    pair = submitted / "acme" / "s1", submitted / "beta" / "s1"
    run(*pair, "--require", "comparable")
    with pytest.raises(JudgedError, match="one run per point has no interval"):
        run(*pair, "--require", "separable")


def test_a_curve_that_is_not_compliant_is_named(submitted: Path, altered: Path) -> None:
    with pytest.raises(JudgedError, match=r"deepseek-r1 is not compliant: endpoints\.derived"):
        run(submitted / "beta" / "s1", altered)


def test_curves_and_other_results_do_not_mix(submitted: Path, results: Path) -> None:
    with pytest.raises(RequestError, match="only compare with each other"):
        run(submitted / "acme" / "s1", results)


@pytest.mark.parametrize(
    "option", [["--per", "watt"], ["--scaling"], ["--runs-for", "5%"], ["--confidence", "0.9"]]
)
def test_no_option_is_dropped_in_silence(submitted: Path, option: list[str]) -> None:
    with pytest.raises(RequestError, match=f"{option[0]}: not for curves"):
        run(submitted / "acme" / "s1", submitted / "beta" / "s1", *option)


def test_one_curve_has_nothing_to_compare_with(submitted: Path) -> None:
    with pytest.raises(RequestError, match="specify two curves of one model"):
        run(submitted / "acme" / "s1")
    with pytest.raises(JudgedError, match="no such file"):
        run(submitted / "acme" / "s1", submitted / "none")


def test_markdown_has_the_same_steps(submitted: Path) -> None:
    pair = submitted / "acme" / "s1", submitted / "beta" / "s1"
    text = invoke(compare, *pair, "--format", "markdown").stdout
    steps = [line for line in text.splitlines() if line.startswith("| 4.611 |")]
    assert steps == ["| 4.611 | 1,348.1 | 1,752.6 | (1.30) |"]
    assert "conclusion: B dominates" in text

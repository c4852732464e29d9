"""What `podium run` says of its own results: the host's noise in one line, and no advice against
forging them.
"""

from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from examples import EXAMPLES

from compliance.cli import check
from compliance.own_run import fold_disturbances, omit_editing_advice, shorten_advice
from compliance.verdict import Finding, PathJudgement, Severity
from suite.console.screen import OutputLevel

OTHERS = Finding(
    rule="noise.others",
    severity=Severity.WARNING,
    file="",
    line=None,
    found="",
    required="at most 10% on average",
    source="house rule",
    advice="end other programs and repeat the run",
)


def disturbed(tmp_path: Path, *found: Finding) -> list[PathJudgement]:
    """Five runs with telemetry, and findings about them."""
    for number in range(5):
        (tmp_path / f"telemetry_{number}.jsonl").touch()
    return [PathJudgement(path=str(tmp_path), round="podium-v1", findings=found)]


def busy(number: int, share: float) -> Finding:
    """Other programs during one run."""
    return replace(
        OTHERS,
        file=f"telemetry_{number}.jsonl",
        found=f"other programs on {share:.1%} of the cores",
    )


def test_noise_of_five_runs_is_one_line(tmp_path: Path) -> None:
    """First contact was a page of warnings."""
    pace = replace(
        OTHERS, rule="tree.pace", file="result_0.txt", found="epoch 1 trains 9 samples/s"
    )
    trend = replace(OTHERS, rule="noise.trend", file="telemetry_1.jsonl", found="9 in the first")
    other = replace(OTHERS, rule="entry.ceiling", file="run.json")
    results = disturbed(
        tmp_path, *(busy(number, 0.46 + number / 100) for number in range(4)), pace, trend, other
    )
    (kept,), line = fold_disturbances(results)
    assert kept.findings == (other,)
    assert line == (
        "disturbed: other programs used 46 to 49 % of the cores; noise.trend; tree.pace, during 4"
        " of 5 runs; podium -v run lists them"
    )


def test_an_error_and_a_pace_without_noise_stay(tmp_path: Path) -> None:
    pace = replace(OTHERS, rule="tree.pace")
    error = replace(busy(0, 0.5), severity=Severity.ERROR)
    results = disturbed(tmp_path, pace, error)
    assert fold_disturbances(results) == (results, "")


@pytest.mark.parametrize(
    ("advice", "left"),
    [
        (
            "find out what slowed the machine; do not edit times.",
            "find out what slowed the machine.",
        ),
        ("do not edit run.json.", ""),
        ("do not edit run.json; check the placement.", "check the placement."),
        (
            "serve both with one command, and do not edit its output.",
            "serve both with one command.",
        ),
        ("repeat the run.", "repeat the run."),
    ],
)
def test_nobody_is_told_not_to_edit_own_files(advice: str, left: str, tmp_path: Path) -> None:
    """Who has just run podium reads it as a reproach."""
    assert shorten_advice(advice) == left
    (result,) = omit_editing_advice(disturbed(tmp_path, replace(OTHERS, advice=advice)))
    assert result.findings[0].advice == left


@pytest.mark.parametrize(
    ("level", "lines"),
    [(OutputLevel(inner=True), 1), (OutputLevel(inner=True, verbose=True), 0), (OutputLevel(), 0)],
)
def test_only_a_campaign_shortens_its_check(level: OutputLevel, lines: int) -> None:
    """`podium check` itself, and `podium -v run`, say everything."""
    place = EXAMPLES / "invalid" / "noise.others"
    done = CliRunner().invoke(check, [str(place)], obj=level)
    assert done.output.count("disturbed: other programs used 46 % of the cores") == lines
    assert ("warning noise.others" in done.output) is not lines
    assert done.exit_code == 0 or isinstance(done.exception, click.exceptions.Exit)

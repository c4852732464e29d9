"""Runs of the MLPerf Endpoints client outside of any tree are scored, reported and compared as the
judge judges them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from corpus import PUBLISHED
from judged_examples import EXAMPLES, ensure_examples

from submissions.commands.compare import compare
from submissions.commands.report import report
from submissions.commands.score import score
from submissions.report.build import judge_and_build_report
from submissions.score.score import score_paths
from suite.errors import PodiumError

BASE = EXAMPLES / "base" / "endpoints" / "run"
SUMMARY = "performance/result_summary.json"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run by a Poisson process."""
    ensure_examples()
    return Path(shutil.copytree(BASE, tmp_path / "run"))


def say(command: click.Command, *arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code, and what it says."""
    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, PodiumError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None
    return result.exit_code, result.output


def change(run: Path, **fields: object) -> dict[str, Any]:
    """Change fields of the summary; return what they were."""
    summary: dict[str, Any] = json.loads((run / SUMMARY).read_text())
    (run / SUMMARY).write_text(json.dumps(summary | fields))
    return summary


def test_a_run_is_scored_with_what_its_summary_states(run: Path):
    summary = json.loads((run / SUMMARY).read_text())
    problems = list[str]()
    (row,) = score_paths([run], problems)
    assert problems == [] and row.judgement.compliant
    assert (row.round, row.scenario, row.figure.unit) == ("endpoints", "Server", "tokens/s")
    assert row.figure.value == pytest.approx(summary["tps"])
    assert row.figure.basis == "legacy_window" and row.figure.whole_run is not None


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ({"type": "max_throughput"}, "Offline"),
        ({"type": "concurrency", "target_concurrency": 4}, "concurrency 4"),
        ({"type": "burst"}, "burst"),
    ],
)
def test_a_run_is_named_by_its_load(run: Path, pattern: dict[str, object], named: str):
    stated = change(run)["run_config"]
    change(run, run_config=stated | {"load_pattern": pattern})
    (row,) = score_paths([run], [])
    assert row.scenario == named


def test_a_run_that_counted_no_tokens_has_a_rate_of_queries(run: Path):
    summary = change(run, output_sequence_lengths={}, tps=None, tpot={})
    (row,) = score_paths([run], [])
    assert (row.figure.unit, row.figure.value) == ("queries/s", pytest.approx(summary["qps"]))


def test_the_report_of_a_run_has_its_verdict_and_its_latencies(run: Path):
    built = judge_and_build_report([run], published=False)
    assert built.problems == []
    (part,) = built.document.parts
    assert part.verdict == "Valid"
    page = run.parent / "page.html"
    assert say(report, str(run), "-o", str(page))[0] == 0
    text = page.read_text()
    assert "Latencies of tokens, as measured by the Endpoints client" in text
    assert "time to first token (TTFT)" in text


def test_a_forged_run_is_scored_as_not_compliant_and_its_report_says_so(run: Path):
    change(run, tps=2 * change(run)["tps"])
    (row,) = score_paths([run], [])
    assert not row.judgement.compliant
    code, told = say(report, str(run), "-o", str(run.parent / "page.html"))
    assert code == 1 and "not compliant" in told


def test_two_runs_of_one_model_are_compared(run: Path, tmp_path: Path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    code, told = say(compare, str(run), str(other))
    assert code == 0
    assert "Server: tokens/s, more is better" in told
    code, told = say(score, str(tmp_path))
    assert code == 0 and "2 results, 2 compliant" in told


def test_a_summary_without_counts_is_one_sentence(run: Path):
    change(run, n_samples_completed=None)
    code, told = say(score, str(run))
    assert code == 1 and "no duration, counts or rate in it" in told


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "scenario", "value"),
    [
        ("poisson", "Server", 2584.12),
        ("offline", "Offline", 29752.44),
        ("c4", "concurrency 4", 4265),
    ],
)
def test_real_runs_have_the_rates_that_the_client_printed(name: str, scenario: str, value: float):
    (row,) = score_paths([PUBLISHED / "endpoints" / name], [])
    assert row.scenario == scenario and row.judgement.compliant
    assert row.figure.value == pytest.approx(value, abs=0.01)

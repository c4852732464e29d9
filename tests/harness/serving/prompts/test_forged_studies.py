"""Forgeries of a study of servers with the user's own prompts: each makes a figure better, and each
is found in the kept files.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from click.testing import CliRunner
from podium_fakes.scripted import WORDS, answering, delta, event, scripted, stream

from compliance.judge import Judge
from compliance.verdict import Severity
from submissions.commands.compare import compare
from submissions.commands.report import report
from suite.files.layout import (
    ACCURACY_LOG,
    ARRIVAL_RECORD_FILE,
    DETAIL_LOG,
    GAP_RECORD_FILE,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    START_RECORD_FILE,
    SYSTEM_RECORD,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
)
from suite.records import read_system_record
from suite.studies.documents import POINT_FILE, STUDY_FILE
from suite.studies.measured import read_measured_study

pytest.importorskip("httptools", reason="the extra `client` is not installed")

Edit = Callable[[Path], object]
PAUSE_S = 0.01
WORDS_OF_AN_ANSWER = WORDS * 3
FIRST = "in-flight-1"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A curve as the command writes it: two points, without a tokenizer."""
    folder = tmp_path_factory.mktemp("honest")
    (folder / "prompts.txt").write_text("Who sells?\nAnd who buys?\n", "utf-8")
    events = [event(delta("Two words")), *stream(WORDS_OF_AN_ANSWER, counted=15)]
    with scripted(answering(events, pause_s=PAUSE_S), has_no_delay=True) as server:
        words = ("curve", server.url, "--prompts", "prompts.txt", "--points", "1,3")
        bounds = ("--seconds", "0.8", "--first-token-ms", "500", "--per-token-ms", "100")
        done = subprocess.run(
            [sys.executable, "-m", "podium", *words, *bounds],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "PODIUM_CACHE": str(folder / "cache")},
            timeout=240,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    (study,) = (folder / "results/studies").iterdir()
    return study


def list_broken_rules(study: Path) -> set[str]:
    """The rules that a study breaks."""
    findings = Judge().judge_path(str(study)).findings
    return {each.rule for each in findings if each.severity is Severity.ERROR}


def find_run(study: Path, name: str = FIRST) -> Path:
    (run,) = study.glob(f"*/{name}")
    return run


def in_array(name: str, change: Callable[[Any], Any]) -> Edit:
    """Change an array of the first point."""

    def edit(study: Path) -> None:
        path = find_run(study) / name
        numpy.save(path, change(numpy.load(path)))

    return edit


def in_text(name: str, pattern: str, by: str, run: str = FIRST) -> Edit:
    """Change a text of a run."""

    def edit(study: Path) -> None:
        path = find_run(study, run) / name
        text, count = re.subn(pattern, by, path.read_text("utf-8"))
        assert count, f"{pattern} is not in {name}"
        path.write_text(text, "utf-8")

    return edit


def in_column(column: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change a column of a table, given a copy of the whole."""

    def edit(table: Any) -> Any:
        made = table.copy()
        made[:, column] = change(table)
        return made

    return edit


def leave_out_slow_point(study: Path) -> None:
    document = json.loads((study / STUDY_FILE).read_text("utf-8"))
    document["runs"] = document["runs"][:1]
    document["requests"][0]["request"]["concurrencies"] = [1]
    (study / STUDY_FILE).write_text(json.dumps(document), "utf-8")


def take_other_run(study: Path) -> None:
    """Show the run of one in flight as that of three."""
    other = find_run(study, "in-flight-3")
    shutil.rmtree(other)
    shutil.copytree(find_run(study), other)


def halve_ends(table: Any) -> Any:
    return table[:, 1] + (table[:, 2] - table[:, 1]) // 2


def halve_query_ends(table: Any) -> Any:
    made = table.copy()
    made["done_ns"] = made["issued_ns"] + (made["done_ns"] - made["issued_ns"]) // 2
    return made


def drop(name: str) -> Edit:
    return lambda study: (find_run(study) / name).unlink()


FORGERIES: dict[str, Edit] = {
    "twice as many tokens": in_array(
        TOKEN_RECORD_FILE, in_column(3, lambda table: 2 * table[:, 3])
    ),
    "twice as many tokens, in the record too": lambda study: (
        in_array(TOKEN_RECORD_FILE, in_column(3, lambda table: 2 * table[:, 3]))(study),
        in_text(RUN_RECORD, r'("tokens_(logged|recounted)": )(\d+)', r"\g<1>1\g<3>")(study),
    ),
    "answers that end earlier": in_array(TOKEN_RECORD_FILE, in_column(2, halve_ends)),
    "first tokens before their prompts": in_array(
        TOKEN_RECORD_FILE, in_column(1, lambda table: table[:, 1] - 10**9)
    ),
    "prompts that begin later": in_array(START_RECORD_FILE, lambda starts: starts + 8_000_000),
    "queries that end earlier": in_array(QUERY_RECORD_FILE, halve_query_ends),
    "shorter times between tokens": in_array(GAP_RECORD_FILE, lambda gaps: gaps // 2),
    "fewer times between tokens": in_array(GAP_RECORD_FILE, lambda gaps: gaps[:-3]),
    "no record of what came first": drop(ARRIVAL_RECORD_FILE),
    "more tokens at first than there are": in_array(
        ARRIVAL_RECORD_FILE, in_column(0, lambda table: table[:, 0] + 99)
    ),
    "longer prompts": in_array(USAGE_RECORD_FILE, lambda table: 3 * table),
    "other prompts": in_text(SYSTEM_RECORD, r'("prompts.sha256": ")\w{8}', r"\g<1>00000000"),
    "another model": in_text(RUN_RECORD, r'("model": ")\w+', r"\g<1>larger"),
    "another server": in_text(RUN_RECORD, r"http://127", "http://128"),
    "another number in flight": in_text(POINT_FILE, r'("concurrency": )1', r"\g<1>2"),
    "a better log": in_text(DETAIL_LOG, r'("result_tokens_per_second", "value": )', r"\g<1>9"),
    "longer answers in the log": in_text(ACCURACY_LOG, r'("token_count" : )15', r"\g<1>95"),
    "a point that is left out": leave_out_slow_point,
    "a run in the place of another": take_other_run,
}


@pytest.mark.slow
def test_the_honest_study_is_valid(honest: Path) -> None:
    assert list_broken_rules(honest) == set()


@pytest.mark.slow
def test_the_report_names_prompts_bounds_and_what_was_reached(honest: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner().invoke(report, [str(honest), "-o", str(page)])
    assert result.exit_code == 0, result.output
    shown = page.read_text("utf-8")
    study = read_measured_study(honest)
    assert study.first is not None
    settings = study.first.record.settings
    for wanted in (
        f"prompts.txt (2, SHA-256 {str(settings['prompts.sha256'])[:16]})",
        "engine and precision not stated",
        "within bounds",
        "requests/s within them",
        "steady in flight",
    ):
        assert wanted in shown, wanted
    first, second = (row.figures for row in study.rows)
    assert 0.9 < first.window_in_flight <= 1 and 2.7 < second.window_in_flight <= 3
    assert first.within == first.answers and first.itl_p50_ms > 5
    assert first.e2e_p90_ms > first.ttft_p90_ms and first.input_tps > 0


@pytest.mark.slow
def test_studies_of_other_prompts_do_not_compare(honest: Path, tmp_path: Path) -> None:
    """Whatever the numbers: the prompts decide them."""
    other = tmp_path / "results/studies" / honest.name
    shutil.copytree(honest, other)
    for path in other.glob(f"*/*/{SYSTEM_RECORD}"):
        document = json.loads(path.read_text("utf-8"))
        document["settings"]["prompts.sha256"] = "0" * 64
        path.write_text(json.dumps(document), "utf-8")
        digest = read_system_record(path.parent).compute_digest()
        run = path.with_name(RUN_RECORD)
        run.write_text(
            json.dumps({**json.loads(run.read_text("utf-8")), "system_sha256": digest}), "utf-8"
        )
    same, different = (
        CliRunner().invoke(compare, [str(honest), str(each)]) for each in (honest, other)
    )
    assert "not comparable: data set" not in same.output
    assert "not comparable: data set: prompts.sha256" in different.output, different.output


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forgery_is_found(honest: Path, tmp_path: Path, kind: str) -> None:
    study = tmp_path / "results/studies" / honest.name
    shutil.copytree(honest, study)
    FORGERIES[kind](study)
    assert list_broken_rules(study) != set()

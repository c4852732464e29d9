"""Scores, comparisons and the judge read each value of LoadGen's through the same code: there is no
second one to be shown another line.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import making
import pytest

import compliance
import submissions
from compliance.judge import Judge
from submissions.score.score import score_paths
from suite.loadgen.headline import HEADLINE_METRICS
from suite.loadgen.scenario import Scenario

ROOTS = [Path(next(iter(package.__path__))) for package in (compliance, submissions)]
READERS = "logs"
"""Folders of parsers: the judge's own, and those of kinds of rounds."""
LINES = (
    "90.00 percentile latency (ns)   : 168500000",
    "Samples per second: 207.888",
    "Completed samples per second    : 39.41",
    " * Early stopping 90th percentile estimate: 168500000",
    "Result is : VALID",
    (
        ':::MLLOG {"key": "result_samples_per_second", "value": 207.888, "time_ms": 5.1,'
        ' "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME"}'
    ),
)
RESULT = re.compile(
    r".*:::ML.*|(result|early_stopping)_\w+|.*(percentile latency|[Ss]amples per second).*|Result"
    r" is.*"
)
"""What names a result in a detail log or a summary."""
CLIENT_SUMMARY = "client_summary.py"
"""It writes a summary as the Endpoints client does, under that client's names."""
TIMES = "evidence.py"
"""The day of a log's first record, by which its round is told, and nothing else of it."""

CLIENT_TEXT = "report_text.py"
"""Any figure of `report.txt`, the text of another program than LoadGen."""


def modules() -> Iterator[Path]:
    yield from (
        path
        for root in ROOTS
        for path in sorted(root.rglob("*.py"))
        if READERS not in path.relative_to(root).parts
    )


def patterns(module: Path) -> Iterator[str | bytes]:
    """The regular expressions that stand in a module."""
    for node in ast.walk(ast.parse(module.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            parts = (
                part.value
                for each in node.args[:1]
                for part in ast.walk(each)
                if isinstance(part, ast.Constant)
            )
            yield from (part for part in parts if isinstance(part, str | bytes))


def taken(pattern: str | bytes) -> bool:
    """An expression that takes a number with its name out of one of the lines."""
    text = pattern if isinstance(pattern, str) else pattern.decode()
    return any(
        re.search(r"[A-Za-z]{3}.*\d", match.group())
        for line in LINES
        for match in re.finditer(text, line)
    )


@pytest.mark.slow
def test_no_other_module_takes_a_value_out_of_a_line() -> None:
    """A second expression for the same line takes, sooner or later, another line."""
    found = {}
    for module in modules():
        for pattern in patterns(module):
            if taken(pattern):
                found[module.name] = pattern
    assert found.keys() == {TIMES, CLIENT_TEXT}


@pytest.mark.parametrize(
    "pattern",
    [
        r"per second: ([\d.]+)",
        rb'"key": "result_\w+", "value": (\d+)',
        r"percentile latency.*: (\d+)",
    ],
)
def test_such_an_expression_would_be_found(pattern: str | bytes) -> None:
    assert taken(pattern) and not taken(r"\d+\.\d+")


def test_scores_and_comparisons_name_no_value_of_a_log() -> None:
    """They ask for the headline; which key of which log that is stands in suite/loadgen/headline.py
    alone.
    """
    found = {}
    for module in sorted(ROOTS[1].rglob("*.py")):
        if module.name == CLIENT_SUMMARY:
            continue
        texts = (
            node.value
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        if named := [text for text in texts if "\n" not in text and RESULT.fullmatch(text)]:
            found[module.name] = named
    assert found == {}


def test_who_reads_another_line_reads_it_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another key as the headline the score changes, the comparison follows it, and the judge
    holds that value against the ceiling.
    """
    root = making.write_tree(tmp_path / "results", Scenario.OFFLINE)
    before = [row.value for row in score_paths([root], []) if row.scenario]
    assert Judge().judge_path(str(root)).findings == ()
    monkeypatch.setitem(
        HEADLINE_METRICS,
        Scenario.OFFLINE,
        ("samples_per_second", "result_99.00_percentile_latency_ns"),
    )  # type: ignore[arg-type]
    after = [row.value for row in score_paths([root], []) if row.scenario]
    assert before != after
    assert "entry.ceiling" in {each.rule for each in Judge().judge_path(str(root)).findings}

"""No value of Python reaches a reader: every page, card and text that the examples can make is
searched for lists in brackets, None, nan and exponents.
"""

import html
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from submissions.commands.compare import compare
from submissions.commands.publish import publish
from submissions.commands.published import published
from submissions.commands.report import report
from submissions.commands.score import score

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "base"
PYTHON = {
    "a list": re.compile(r"\[['\"]"),
    "None": re.compile(r"(?<![\w-])None(?![\w-])"),
    "nan": re.compile(r"(?<![\w-])nan(?![\w-])"),
    "an exponent": re.compile(r"\d(?:\.\d+)?e[+-]\d"),
    "a dictionary": re.compile(r"\{'"),
    "a tuple": re.compile(r"\('"),
}
ROUNDS = ("inference-v0.5", "inference-v0.7", "training-v0.7", "documents")
PAGES = ("tree", "study", "peak", "curve", "precision", "generated", "speed", "bundle-with-ledger")


def read_page_texts(text: str) -> str:
    """Return what a reader of a page sees: no styles, scripts or marks."""
    text = re.sub(r"<(style|script)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", text))


def find_python_values(text: str) -> list[str]:
    return [
        f"{name}: {text[max(0, found.start() - 60) : found.end() + 60]!r}"
        for name, pattern in PYTHON.items()
        for found in pattern.finditer(text)
    ]


def run(command: object, *words: object) -> str:
    return CliRunner().invoke(command, [*map(str, words)], env={"COLUMNS": "200"}).stdout  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PAGES)
def test_no_report_shows_a_python_value(name: str, tmp_path: Path) -> None:
    subject = next((each for each in (EXAMPLES / name).glob("studies/*")), EXAMPLES / name / "tree")
    if not subject.exists():
        subject = EXAMPLES / name
    page = tmp_path / "page.html"
    run(report, subject, "-o", page)
    assert page.is_file(), subject
    assert find_python_values(read_page_texts(page.read_text("utf-8"))) == []


@pytest.mark.parametrize("round_name", ROUNDS)
def test_no_comparison_shows_a_python_value(round_name: str, tmp_path: Path) -> None:
    """`['resnet50 MultiStream, all rows but the baseline: ...']` stood above each table."""
    tree = EXAMPLES / "tree"
    for subject in (tree, EXAMPLES / "full"):
        words = (tree, subject, "--published", round_name)
        page = tmp_path / f"{subject.name}.html"
        run(compare, *words, "-o", page)
        assert find_python_values(read_page_texts(page.read_text("utf-8"))) == []
        for output_format in ("text", "markdown"):
            shown = run(compare, *words, "--format", output_format)
            assert shown and find_python_values(shown) == []


def test_no_other_text_shows_a_python_value(tmp_path: Path) -> None:
    shown = [run(published, "--round", name) for name in ROUNDS]
    shown += [run(score, EXAMPLES / name) for name in ("tree", "generated", "full")]
    assert all(shown)
    assert [each for text in shown for each in find_python_values(text)] == []


def test_no_site_shows_a_python_value(tmp_path: Path) -> None:
    from submissions.pack.bundle import pack_results

    bundle = pack_results(EXAMPLES / "tree", tmp_path / "mine.tar.zst")
    run(publish, bundle, "--published", "-o", tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 3
    for page in pages:
        assert find_python_values(read_page_texts(page.read_text("utf-8"))) == [], page.name

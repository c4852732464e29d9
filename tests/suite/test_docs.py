"""What the pages link to is there, and the site tells of every rule; the site itself is built by
`make docs`, which this does not need.
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from compliance.rules import load_rules
from compliance.rules.differences import load_difference_tables
from submissions.pack.bundle import pack_results
from suite.registry import (
    WORKLOAD_GROUP,
    load_endpoints_round,
    load_round,
    map_entry_points,
)

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/results/*.md"),
        *ROOT.glob("workloads/*/README.md"),
        *ROOT.glob("compliance/kinds/*/README.md"),
        *ROOT.glob("examples/*/README.md"),
    ]
)


def tokens(page: Path) -> Iterator[Token]:
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        yield token
        yield from token.children or ()


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and images that lead to files of the repository."""
    for token in tokens(page):
        target = str(token.attrs.get("href") or token.attrs.get("src") or "")
        if target and "://" not in target:
            yield target


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as GitHub makes them."""
    parsed = MarkdownIt().parse(page.read_text("utf-8"))
    titles = [
        after.content
        for token, after in zip(parsed, parsed[1:], strict=False)
        if token.type == "heading_open"
    ]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """A file that was moved leaves no link behind, and a heading that was renamed no anchor."""
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_pages_of_the_entrance_are_looked_at() -> None:
    """Neither a moved folder nor a changed pattern leaves the test above without pages or links."""
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "docs/reference/judge.md",
        "docs/guides/first-result.md",
        "workloads/gnmt/README.md",
    } <= names
    assert len(list(links(ROOT / "README.md"))) > 10


def test_every_folder_of_the_packages_has_its_line() -> None:
    """A new folder is explained where somebody looks for it."""
    page = (ROOT / "docs" / "internals" / "packages.md").read_text("utf-8")
    folders = {
        str(module.parent.relative_to(ROOT))
        for package in ("suite", "harness", "compliance", "submissions", "extras")
        for module in ROOT.glob(f"{package}/*/__init__.py")
    }
    assert "harness/training" in folders
    assert {folder for folder in folders if f"`{folder}" not in page} == set()


MAX_PAGE_WORDS: Final = 1500


def test_no_page_takes_longer_to_read_than_ten_minutes() -> None:
    """A page has one subject: a longer one is two."""
    written = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/results/*.md"),
    ]
    lengths = {
        str(page.relative_to(ROOT)): len(page.read_text("utf-8").split()) for page in written
    }
    assert len(lengths) > 50
    assert {name: words for name, words in lengths.items() if words > MAX_PAGE_WORDS} == {}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Load a script that lies in docs/, which is no package."""

    def script(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location("docs_script", ROOT / "docs" / name)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "docs_script", module)
        spec.loader.exec_module(module)
        return module

    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))

    return script


def test_every_rule_has_its_section_with_source_advice_and_example(
    load: Callable[[str], ModuleType],
) -> None:
    pages = load("hooks/rules.py").rule_pages()
    for rule in load_rules().values():
        page = pages[f"rules/{rule.id.partition('.')[0]}.md"]
        section = page.partition(f"## `{rule.id}` ")[2].partition("\n## ")[0]
        assert all(
            f"- **{part}:**" in section
            for part in (
                "Source",
                "What to do",
                "Rounds",
                "Verdict if violated",
                "For example",
            )
        ), rule.id
        assert f"[`{rule.id}`](" in pages["rules/index.md"]


def test_links_of_the_repository_become_links_of_the_site(
    load: Callable[[str], ModuleType],
) -> None:
    """A link that leads out of docs/ works in the site as well, and links to other hosts stay."""
    hook = load("hooks/links.py")
    site = {
        "README.md": "index.md",
        "docs/DESIGN.md": "DESIGN.md",
        "suite/engine.py": "source/suite/engine.py.md",
    }
    text = (
        "[a](../../suite/engine.py) [b](../DESIGN.md#results-on-disk) [c](../../README.md)"
        " [d](https://example.org/DESIGN.md) [e](#here)"
    )
    wanted = (
        "[a](../source/suite/engine.py.md) [b](../DESIGN.md#results-on-disk) [c](../index.md)"
        " [d](https://example.org/DESIGN.md) [e](#here)"
    )
    assert (
        hook.rewrite(text, "docs/guides/first-result.md", "guides/first-result.md", site) == wanted
    )


def test_a_page_lists_every_difference_from_official_checkers(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each difference has its row, whose links lead to sections that rules have."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "hooks")
    hook = load("hooks/differences.py")
    page = hook.insert_differences((ROOT / "docs/reference/differences.md").read_text("utf-8"))
    rows = [each for table in load_difference_tables() for each in table.difference]
    assert len(rows) > 90
    assert all(f"| {row.subject} | {row.official} | {row.here} |" in page for row in rows)
    questions = load_endpoints_round("endpoints-v1.0").open
    assert questions and all(f"| {name.replace('_', ' ')} |" in page for name in questions)
    rules = load("hooks/rules.py").rule_pages()
    for name, anchor in re.findall(r"\.\./(rules/[^)#]+)#([^)]+)\)", page):
        assert f"{{ #{anchor} }}" in rules[name]


@pytest.mark.slow
def test_the_pictures_show_what_the_run_printed_and_its_figures(
    load: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """A picture that is drawn anew has this run's words and numbers, and fetches nothing."""
    (tmp_path / "run.log").write_text(
        "resnet50: train\nbundle: /home/me/results/bundles/<x>.tar.zst\n"
    )
    script = load("screens.py")
    script.main(
        [
            "--log",
            str(tmp_path / "run.log"),
            "--results",
            str(ROOT / "tests/examples/base/tree"),
            "--out",
            str(tmp_path / "images"),
        ]
    )
    terminal, result = (
        (tmp_path / "images" / name).read_text() for name in ("run.svg", "result.svg")
    )
    words = " ".join(node.text or "" for node in ElementTree.fromstring(terminal).iter()).replace(
        "\xa0", " "
    )
    assert (
        "podium run resnet50" in words and "bundle: /home/me/results/bundles/<x>.tar.zst" in words
    )
    assert "url(" not in re.sub(r"url\(#[^)]*\)", "", terminal)
    told = [node.text for node in ElementTree.fromstring(result).iter() if node.text]
    assert (
        "resnet50: 0.50 minutes to top1 0.759" in told
        and "SingleStream" in told
        and "Result not verified by MLCommons Association." in told
    )


def test_a_screen_shows_a_command_and_its_output(
    load: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """Of any command, as the guides show them."""
    (tmp_path / "dry.log").write_text("gnmt: training, estimated: about 79 s\n")
    asked = ["--screen", "dry-run.svg", "podium run gnmt --dry-run", str(tmp_path / "dry.log")]
    load("screens.py").main([*asked, "--out", str(tmp_path)])
    drawn = ElementTree.fromstring((tmp_path / "dry-run.svg").read_text())
    words = " ".join(node.text or "" for node in drawn.iter()).replace("\xa0", " ")
    assert "podium run gnmt --dry-run" in words
    assert "gnmt: training, estimated: about 79 s" in words


def test_the_notebooks_figures_are_of_the_bundles_that_were_given(
    load: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `notebook` is not installed")
    bundle = pack_results(ROOT / "tests/examples/base/tree", tmp_path / "mine.tar.zst")
    load("screens.py").main(["--notebook", str(bundle), str(bundle), "--out", str(tmp_path)])
    served, trained = (
        ElementTree.fromstring((tmp_path / f"notebook-{number}.svg").read_text())
        for number in (1, 2)
    )
    assert not any("mine.tar.zst" in (node.text or "") for node in served.iter()), "SingleStream"
    assert any("mine.tar.zst" in (node.text or "") for node in trained.iter())


def test_each_setting_has_its_row_with_its_values(load: Callable[[str], ModuleType]) -> None:
    """The page of settings is made of the rows: every setting of the round, and of each workload
    with its values.
    """
    hook = load("hooks/settings.py")
    page = hook.insert_settings((ROOT / "docs/reference/settings.md").read_text("utf-8"))
    assert hook.MARKER not in page
    round = load_round()
    shared = page.partition("## Every workload\n")[2].partition("\n## ")[0]
    assert all(f"| `{key}` |" in shared for key in round.settings)
    for name in map_entry_points(WORKLOAD_GROUP):
        if name not in round.benchmarks:
            continue
        section = page.partition(f"(`{name}`)\n")[2].partition("\n## ")[0]
        assert all(f"| `{key}` |" in section for key in round.benchmark(name).settings), name
    assert "| `data.picture_size` | int; at least 1 | 32 | 224 | 224 | held |" in page
    assert "| `data.skip_broken` | bool | false | held |" in page

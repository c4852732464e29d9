"""What the pages link to is there, and the site tells of every rule; the site itself is built by `make docs`, which this does not need."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from compliance.rules import catalogue

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("workloads/*/README.md"), *ROOT.glob("tests/plugin/**/README.md")])


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
    titles = [after.content for token, after in zip(parsed, parsed[1:], strict=False) if token.type == "heading_open"]
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
    assert {"README.md", "CONTRIBUTING.md", "docs/JUDGE.md", "docs/guides/first-result.md", "workloads/gnmt/README.md"} <= names
    assert len(list(links(ROOT / "README.md"))) > 10


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the hook that writes the rules' pages, as MkDocs does."""
    spec = importlib.util.spec_from_file_location("docs_rules", ROOT / "docs/hooks/rules.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "docs_rules", module)
    spec.loader.exec_module(module)
    return module


def test_every_rule_has_its_section_with_source_advice_and_example(hook: ModuleType) -> None:
    pages = hook.rule_pages()
    for rule in catalogue().values():
        page = pages[f"rules/{rule.id.partition('.')[0]}.md"]
        section = page.partition(f"## `{rule.id}` ")[2].partition("\n## ")[0]
        assert all(f"- **{part}:**" in section for part in ("Source", "What to do", "Rounds", "Verdict where it is broken", "For example")), rule.id
        assert f"[`{rule.id}`](" in pages["rules/index.md"]

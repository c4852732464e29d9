"""The documentation site as `make docs` builds it, and its search in a real browser, from disk."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from browser import Browser

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*?"""
    r"""\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
)
"""What a page fetches from another host when it is opened; links that a reader follows are none."""
FETCHED_BY_STYLE = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once."""
    pytest.importorskip("material", reason="mkdocs-material is not installed: make .venv/docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    """A reader's browser tells nobody that the page was opened, and the site works offline."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert {
        str(page.relative_to(site)): found
        for page in pages
        if (found := LOADED.findall(page.read_text("utf-8")))
    } == {}
    styles = sorted(site.rglob("*.css"))
    assert styles
    assert [style for style in styles if FETCHED_BY_STYLE.search(style.read_text("utf-8"))] == []


def test_the_search_works_in_pages_opened_from_disk(browser: "Browser", site: Path) -> None:
    with browser.opened(site / "index.html") as seen:
        seen.page.click(".md-search__input")
        seen.page.keyboard.type("early stopping")
        found = seen.page.locator(".md-search-result__link").first
        found.wait_for()
        assert found.get_attribute("href")
    elsewhere = [each for each in seen.requests if not each.startswith(site.as_uri())]
    assert (elsewhere, seen.complaints) == ([], [])


def test_pages_of_source_files_are_left_out_of_the_search(site: Path) -> None:
    """They hold every word, so they would come before the page that explains it."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    places = {each["location"].partition("/")[0] for each in index["docs"]}
    assert {"guides", "rules", "workloads"} <= places
    assert "source" not in places
    assert any(site.glob("source/**/*.html"))


def test_workload_pages_have_a_title_and_a_table_with_a_header(site: Path) -> None:
    pages = sorted((site / "workloads").glob("*.html"))
    assert len(pages) >= 6
    for page in pages:
        text = page.read_text("utf-8")
        [title] = re.findall(r"<h1[^>]*>(.*?)<a ", text)
        assert re.fullmatch(r".+: .+ \(<code>[a-z0-9]+</code>\)", title), page.name
        assert not re.search(r"<tr>\s*(<th[^>]*></th>\s*)+</tr>", text), page.name


def test_no_command_of_the_home_page_is_cut(browser: "Browser", site: Path) -> None:
    """At the width of a usual laptop, beside the navigation."""
    with browser.opened(site / "index.html", viewport={"width": 1280, "height": 800}) as seen:
        cut = seen.page.evaluate(
            "[...document.querySelectorAll('pre > code')]"
            ".filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
        )
    assert cut == []

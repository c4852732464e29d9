"""A site in a real browser: every kind of page, light, dark and narrow; filters that need no
scripts.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from submissions.commands.publish import publish

if TYPE_CHECKING:
    from browser import Browser

pytestmark = pytest.mark.slow
PAGES = ("index.html", "resnet50/training.html", "resnet50/singlestream.html")
MODES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 780}},
}


@pytest.fixture(scope="module")
def site(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of one bundle and the published rows of its model."""
    target = tmp_path_factory.mktemp("site") / "site"
    CliRunner().invoke(
        publish,
        [str(bundle), "-o", str(target), "--published"],
        catch_exceptions=False,
        standalone_mode=False,
    )
    return target


@pytest.mark.parametrize("mode", MODES)
def test_pages_ask_for_nothing_and_can_be_read_by_everybody(
    browser: "Browser", site: Path, mode: str
) -> None:
    for name in PAGES:
        with browser.opened(site / name, **MODES[mode]) as seen:
            assert (name, seen.violations(), seen.requests, seen.complaints) == (name, [], [], [])
            assert seen.width() <= (MODES[mode].get("viewport") or {"width": 1280})["width"]


def test_a_filter_hides_rows_without_scripts(browser: "Browser", site: Path) -> None:
    with browser.opened(site / PAGES[1], java_script_enabled=False) as seen:
        rows = seen.page.locator("tbody tr:visible")
        before = rows.count()
        seen.page.get_by_label("profile published").uncheck()
        assert 0 < rows.count() < before


def test_a_result_leads_to_its_report_and_back(browser: "Browser", site: Path) -> None:
    with browser.opened(site / "index.html") as seen:
        with seen.page.expect_navigation():
            seen.page.locator(".matrix tbody a").first.click()
        assert "report" in seen.page.title()
        with seen.page.expect_navigation():
            seen.page.get_by_role("link", name="All results").click()
        assert seen.page.url == (site / "index.html").as_uri()

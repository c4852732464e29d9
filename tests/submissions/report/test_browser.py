"""The page in a real browser: light, dark, narrow, without scripts, without styles, printed, in
forced colours.
"""

import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from submissions.report import build
from submissions.report.command import render_document_html
from submissions.report.document import convert_document_to_data, parse_document_data

if TYPE_CHECKING:
    from browser import Browser

pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 360, "height": 780}}
STRICT = "sandbox; default-src 'none'; img-src 'self'; style-src 'self';"
"""What Jenkins allows pages of builds by default. Source: jenkins.io, Configuring Content Security
Policy.
"""
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": PHONE,
    "dark phone": PHONE | {"color_scheme": "dark"},
    "forced colours": {"forced_colors": "active"},
}


@pytest.fixture
def page(recorded: Path, tmp_path: Path) -> Path:
    """The page of a results folder with records, and with text that would like to be more than
    text.
    """
    for path in recorded.glob("open/acme/systems/*.json"):
        path.write_text(
            path.read_text("utf-8").replace("Example 9000", "<img src=x onerror=alert(1)>"), "utf-8"
        )
    target = tmp_path / "page.html"
    target.write_text(
        render_document_html(
            parse_document_data(
                convert_document_to_data(build.judge_and_build_report([recorded])[0])
            )
        ),
        "utf-8",
    )
    return target


def test_faint_text_is_found_each_time(browser: "Browser", tmp_path: Path) -> None:
    """The look for violations sees what it should: colours that it has met before, too."""
    page = tmp_path / "faint.html"
    page.write_text(
        '<!DOCTYPE html><html lang="en"><title>Faint</title><main>'
        + '<p style="color: #777; background: #888">faint</p>' * 2
        + "</main>",
        "utf-8",
    )
    with browser.opened(page) as seen:
        assert sum(each.startswith("color-contrast") for each in seen.violations()) == 1
        assert (
            seen.page.evaluate(
                "axe.run().then(told => told.violations.find(each => each.id =="
                " 'color-contrast').nodes.length)"
            )
            == 2
        )


@pytest.mark.parametrize("mode", MODES)
def test_a_page_asks_for_nothing_complains_of_nothing_and_can_be_read_by_everybody(
    browser: "Browser", page: Path, mode: str
) -> None:
    with browser.opened(page, **MODES[mode]) as seen:
        assert seen.violations() == []
        assert seen.requests == []
        assert seen.complaints == []
        assert seen.width() <= (MODES[mode].get("viewport") or {"width": 1280})["width"], (
            "nothing is cut off at the side"
        )


def test_without_scripts_the_page_says_the_same(browser: "Browser", page: Path) -> None:
    texts = []
    for allowed in (True, False):
        with browser.opened(page, java_script_enabled=allowed) as seen:
            seen.page.evaluate("document.querySelectorAll('.save').forEach(each => each.remove())")
            texts.append(seen.page.locator("main").inner_text())
    assert texts[0] == texts[1] and "Valid" in texts[0]


def test_the_theme_can_be_changed(browser: "Browser", page: Path) -> None:
    with browser.opened(page, color_scheme="light") as seen:
        before = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        seen.page.click("#theme button")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        assert seen.violations() == []


def test_it_prints(browser: "Browser", page: Path) -> None:
    with browser.opened(page, color_scheme="dark") as seen:
        printed = seen.page.pdf(format="A4")
    assert printed.startswith(b"%PDF") and len(printed) > 20_000


def test_under_a_policy_without_scripts_and_styles_it_can_still_be_read(
    browser: "Browser", page: Path
) -> None:
    """Where styles are forbidden, a figure that relies on them turns into black areas."""
    content = page.read_bytes()
    with browser.opened(page) as seen:
        seen.page.route(
            "**/*",
            lambda route: route.fulfill(
                body=content,
                headers={"content-type": "text/html", "content-security-policy": STRICT},
            ),
        )
        seen.page.goto("http://jenkins.example/page.html")
        assert "Figures were recomputed" in seen.page.locator("main").inner_text()
        box = seen.page.locator("svg.chart").first.bounding_box()
        assert box is not None and 300 < box["width"] < 700, "a figure has its own size"


def test_every_table_can_be_reached_by_keyboard(browser: "Browser", page: Path) -> None:
    with browser.opened(page, **PHONE) as seen:
        assert seen.page.evaluate(
            "[...document.querySelectorAll('.scroll')].every(each => each.tabIndex === 0)"
        )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_figure_can_be_saved_offline(browser: "Browser", page: Path, theme: str) -> None:
    """With its own colours and area: what is saved stands alone."""
    with browser.opened(page, color_scheme=theme) as seen:
        figure = seen.page.locator("figure.figure").first
        with seen.page.expect_download() as caught:
            figure.get_by_role("button", name="Save as SVG").click()
        name = caught.value.suggested_filename
        drawing = ElementTree.fromstring(Path(caught.value.path()).read_bytes())
        with seen.page.expect_download() as caught:
            figure.get_by_role("button", name="Save as PNG").click()
        content = Path(caught.value.path()).read_bytes()
        assert (seen.requests, seen.complaints) == ([], [])
    assert name == f"{figure_id(page)}.svg"
    assert (
        drawing[0].get("fill") == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 29, 38)"}[theme]
    )
    assert all(
        (each.get("color") or "").startswith("rgb") for each in drawing.iter() if each.get("class")
    )
    size = [2 * float(drawing.get(side) or 0) for side in ("width", "height")]
    assert list(struct.unpack(">II", content[16:24])) == size


def figure_id(page: Path) -> str:
    """Return the id of the first figure of a page."""
    found = re.search(r'<figure class="figure" id="([^"]+)"', page.read_text("utf-8"))
    assert found
    return found[1]

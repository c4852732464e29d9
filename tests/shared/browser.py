"""A real browser for pages: Debian's chromium, driven by playwright. Without one of both, the tests
that want it are skipped with the reason.

Preferred is chromium-headless-shell, the same browser of the same source package without its own
windows: half of the processor time.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
PATIENCE_MS = 120_000
"""Of a browser that shares its cores."""
COLOURS_ONCE = """() => {
    const color = axe.commons.color.Color.prototype, parse = color.parseString, known = new Map();
    if (!Object.getOwnPropertyDescriptor(color, "r")) throw new Error("an axe-core whose colours are kept otherwise");
    color.parseString = function (text) {
        if (!known.has(text)) { parse.call(this, text); known.set(text, [this.r, this.g, this.b, this.alpha]); }
        [this.r, this.g, this.b, this.alpha] = known.get(text);
        return this;
    };
}"""
"""axe-core parses the few colours of a page anew for each of its thousands of elements, half of its
time.
"""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What a page did while it was open."""

    page: Any
    requests: list[str] = field(default_factory=list)
    """Beyond the page itself and what it holds."""
    complaints: list[str] = field(default_factory=list)
    """Messages on the console, and errors of scripts."""

    def violations(self) -> list[str]:
        """Let axe-core look at the page; one line for each rule that is broken."""
        from axe_playwright_python.sync_playwright import Axe

        self.page.evaluate(Axe().axe_script)
        self.page.evaluate(COLOURS_ONCE)
        found = self.page.evaluate(
            "axe.run({resultTypes: ['violations']}).then(told => told.violations)"
        )
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]

    def width(self) -> int:
        """Give the width that the page needs, in CSS pixels."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


class Browser:
    """Opens pages of files."""

    def __init__(self, chromium: Any) -> None:
        self.chromium = chromium

    @contextmanager
    def opened(self, path: Path, **options: Any) -> Iterator[Seen]:
        """Open a file in a context of its own; offline, so that whatever it wanted from elsewhere
        fails.
        """
        context = self.chromium.new_context(offline=True, **options)
        context.set_default_timeout(PATIENCE_MS)
        seen = Seen(page=context.new_page())
        known = (path.as_uri(), "data:")
        seen.page.on(
            "request",
            lambda request: (
                None if request.url.startswith(known) else seen.requests.append(request.url)
            ),
        )
        seen.page.on("console", lambda message: seen.complaints.append(message.text))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        try:
            seen.page.goto(path.as_uri())
            yield seen
        finally:
            context.close()


@contextmanager
def launched() -> Iterator[Browser]:
    """Start the browser; skip where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install podium-suite[test]"
    )
    pytest.importorskip(
        "axe_playwright_python",
        reason="axe-playwright-python is not installed: pip install podium-suite[test]",
    )
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(
            "no chromium on this machine: apt-get install chromium-headless-shell, or chromium"
        )
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS
        )  # containers run as root
        try:
            yield Browser(chromium)
        finally:
            chromium.close()

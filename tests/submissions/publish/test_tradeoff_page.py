"""Throughput against latency on a site: the page, its data, and who is not on it."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from changed_results import change_result
from click.testing import CliRunner

from submissions.commands.publish import publish
from submissions.compare.per_unit import FigureBasis, FigureRequest
from submissions.publish import site
from submissions.publish.cards import SiteCards
from submissions.publish.site import SiteEntry
from submissions.report import build
from submissions.report.build import BuiltReport
from suite.result import Result

if TYPE_CHECKING:
    from browser import Browser

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def report(bundle: Path) -> BuiltReport:
    return build.judge_and_build_report([bundle], published=False)


def served(
    report: BuiltReport, system: str, rate: float, latency_ms: float, **changes: object
) -> list[Result]:
    """Results of Offline and SingleStream, of a system of its own."""
    single = next(each for each in report.results if each.scenario == "SingleStream")
    machine = replace(single.machine, accelerators=4)
    value = latency_ms * 1e6
    mine = change_result(single, system=system, value=value, machine=machine, **changes)
    offline = change_result(
        mine, scenario="Offline", metric="samples_per_second", unit="samples/s", value=rate
    )
    return [mine, offline]


def built(
    report: BuiltReport, results: Sequence[Result], per: FigureRequest | None = None
) -> dict[str, bytes]:
    entry = SiteEntry(
        name="a.tar.zst",
        path=Path("a.tar.zst"),
        report=report.document,
        rows=tuple(results),
        digest="a" * 64,
    )
    return dict(site.iterate_site_files("Ours", [entry], [], False, [], SiteCards(), per))


def test_several_systems_have_a_page_and_data(report: BuiltReport) -> None:
    files = built(report, [*served(report, "one", 100, 5), *served(report, HOSTILE, 50, 9)])
    page = files["tradeoff.html"].decode()
    assert "1 of 2 points are on the front" in page and "<svg" in page
    assert "<img" not in page and "\u202e" not in page
    (figure,) = json.loads(files["data/tradeoff.json"])["figures"]
    rows = list(csv.DictReader(io.StringIO(files["data/tradeoff.csv"].decode())))
    assert [(row["value"], row["front"]) for row in rows] == [("100.0", "True"), ("50.0", "False")]
    assert [each["value"] for each in figure["points"]] == [100, 50]
    assert figure["latency"] == "p90 of SingleStream, throughput of Offline"
    assert b'href="tradeoff.html"' in files["index.html"]


def test_the_axis_may_be_per_accelerator(report: BuiltReport) -> None:
    request = FigureRequest(basis=FigureBasis.ACCELERATOR)
    files = built(report, [*served(report, "one", 100, 5), *served(report, "two", 50, 9)], request)
    rows = list(csv.DictReader(io.StringIO(files["data/tradeoff.csv"].decode())))
    assert [row["value"] for row in rows] == ["25.0", "12.5"]
    assert "samples/s per accelerator" in files["tradeoff.html"].decode()


def test_one_system_alone_has_no_page(report: BuiltReport) -> None:
    files = built(report, served(report, "one", 100, 5))
    assert not [name for name in files if "tradeoff" in name]
    assert b"tradeoff" not in files["index.html"]


def test_a_result_that_does_not_count_is_named_and_no_point(report: BuiltReport) -> None:
    files = built(
        report,
        [
            *served(report, "one", 100, 5),
            *served(report, "two", 50, 4),
            *served(report, "broken", 900, 1, compliant=False),
        ],
    )
    assert "1 point of broken: not compliant: not drawn." in files["tradeoff.html"].decode()
    assert b"broken" not in files["data/tradeoff.csv"]


def test_an_axis_that_no_system_has_is_a_page_with_the_reason(report: BuiltReport) -> None:
    """The page was missing, as if nothing had been asked for."""
    request = FigureRequest(basis=FigureBasis.WATT)
    files = built(report, [*served(report, "one", 100, 5), *served(report, "two", 50, 9)], request)
    told = "2 points of one, two: no power of the same kind was measured"
    assert told in files["tradeoff.html"].decode() and b"<svg" not in files["tradeoff.html"]
    assert json.loads(files["data/tradeoff.json"])["figures"][0]["left_out"] == [told]


@pytest.mark.slow
def test_a_site_without_the_axis_that_was_asked_for_says_so(bundle: Path, tmp_path: Path) -> None:
    words = [str(bundle), "-o", str(tmp_path / "site"), "--per", "watt"]
    told = CliRunner().invoke(publish, words, catch_exceptions=False)
    assert told.exit_code == 0
    assert "without throughput per watt: throughput against latency needs" in told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_the_page_of_two_hundred_systems(
    browser: "Browser", report: BuiltReport, tmp_path: Path, width: int, theme: str
) -> None:
    results = [
        each
        for number in range(200)
        for each in served(report, f"box {number}", 100 + number % 90, 5 + number)
    ]
    content = built(report, results)["tradeoff.html"]
    page = tmp_path / "tradeoff.html"
    page.write_bytes(content)
    with browser.opened(page, viewport={"width": width, "height": 780}, color_scheme=theme) as seen:
        assert (seen.violations(), seen.requests, seen.complaints) == ([], [], [])
        assert seen.width() <= width
        with seen.page.expect_download() as caught:
            seen.page.get_by_role("button", name="Save as SVG").click()
        assert caught.value.suggested_filename == "tradeoff-1-resnet50.svg"
    assert len(content) < 1_500_000

"""The front page of a site: each system's figures at a glance, in any number of them, and nothing
drawn that was not measured.
"""

import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from changed_results import change_result

from compliance.verdict import Verdict
from submissions.publish.boards import iterate_result_boards
from submissions.publish.cards import SiteCards
from submissions.publish.command import read_site_entry
from submissions.publish.front_figure import FRONT_NAME_PX, shorten_name
from submissions.publish.matrix import build_result_matrix, group_boards_by_workload
from submissions.publish.rows import get_row_processor
from submissions.publish.site import SiteEntry, iterate_site_files
from submissions.report.drawing.card import measure_text
from submissions.report.sections.findings import VERDICT_LABELS
from submissions.signatures.ssh_keygen import TrustedSigners
from suite.result import Result

if TYPE_CHECKING:
    from browser import Browser

SYSTEMS = 200
BROKEN = SiteEntry(name="cut.tar.zst", path=Path("cut.tar.zst"), problems=("truncated",))


@pytest.fixture(scope="module")
def rows(bundle: Path) -> tuple[Result, ...]:
    """The rows of a bundle."""
    return read_site_entry(bundle, TrustedSigners(allowed=None))[1].rows


def copy_row(row: Result, number: int, runs: int = 5) -> Result:
    """Give another system the same row, with values of its own and as many runs."""
    value = (row.value or 0.0) * (1 + number / 10)
    values = tuple(value * (1 + place / 500) for place in range(runs))
    return change_result(
        row,
        id=f"{number:064x}",
        system=f"a-system-of-the-same-long-name-{number:03}-torch-fp32",
        value=value,
        runs=values,
    )


def render_index(rows: list[Result], *entries: SiteEntry) -> str:
    """Return the front page of these rows."""
    good = SiteEntry(name="all.tar.zst", path=Path("all.tar.zst"), rows=tuple(rows))
    pages = dict(iterate_site_files("Results", [good, *entries], [], False, [], SiteCards()))
    return pages["index.html"].decode()


def test_systems_stand_against_workloads_with_values_intervals_and_letters(
    rows: tuple[Result, ...],
) -> None:
    served = next(row for row in rows if row.scenario)
    page = unescape(render_index([copy_row(served, number) for number in range(3)]))
    table = page[page.index('<table class="matrix">') : page.index("</table>")]
    lines = table.split('<th scope="row">')[1:]
    assert [re.findall(r"<b>(\w)</b>", line) for line in lines] == [["A"], ["B"], ["C"]]
    assert all(re.search(r"[\d.]+ to [\d.]+</span>", line) for line in lines), "intervals"
    assert all(f">{VERDICT_LABELS[Verdict.VALID]}<" in line for line in lines)
    assert all(get_row_processor(served) in line for line in lines), "machines by name"


def test_training_comes_first_then_loadgens_scenarios(rows: tuple[Result, ...]) -> None:
    served = next(row for row in rows if row.scenario)
    training = next(row for row in rows if not row.scenario)
    names = ("Offline", "Server", "SingleStream", "MultiStream")
    scenarios = [change_result(served, scenario=name, system=training.system) for name in names]
    (workload,) = group_boards_by_workload(list(iterate_result_boards([*scenarios, training])))
    order = ["training", "SingleStream", "MultiStream", "Server", "Offline"]
    assert [board.label for board in workload.boards] == order
    (line,) = build_result_matrix([workload]).lines
    assert [figure.label for figure in line.cells[0].figures] == order
    assert line.cells[0].shared_reason == "one run, no interval"


def test_one_result_has_no_figure_and_is_not_tested(rows: tuple[Result, ...]) -> None:
    page = render_index([rows[0]])
    assert "<svg" not in page and "No figure" in page
    assert page.count('<li class="dim">one run, no interval</li>') == 1


def test_two_results_have_a_figure_for_their_scenario_alone(rows: tuple[Result, ...]) -> None:
    served = next(row for row in rows if row.scenario)
    training = next(row for row in rows if not row.scenario)
    page = render_index([training, *(copy_row(served, number) for number in (1, 2))])
    assert page.count("<svg") == 1 and page.count("<circle") == 2


def test_a_broken_bundle_is_told_as_broken_and_never_drawn(rows: tuple[Result, ...]) -> None:
    made = [copy_row(rows[0], number) for number in (1, 2)]
    page = render_index(made, BROKEN)
    line = next(part for part in page.split("<tr>") if "cut.tar.zst" in part)
    assert "Left out" in line and "truncated" in line
    assert page.count("<circle") == 2
    assert "cut.tar.zst" in render_index([], BROKEN), "also where it is the only one"


def test_a_missed_target_is_no_point(rows: tuple[Result, ...]) -> None:
    training = next(row for row in rows if not row.scenario)
    missed = change_result(copy_row(training, 3, runs=1), value=None, runs=(None,))
    page = render_index([copy_row(training, 1), copy_row(training, 2), missed])
    assert page.count("<circle") == 2 and missed.system in page


@pytest.mark.parametrize("letter", ["x", "\u96fb"])
def test_long_names_keep_both_ends(letter: str) -> None:
    """Engine and precision are at the end, and were cut off; wide letters ran into the value."""
    name = shorten_name(f"{letter * 60}-onnxruntime-int8")
    assert measure_text(name, 12) <= FRONT_NAME_PX
    assert name.startswith(letter * 3) and name.endswith("-int8")


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_two_hundred_systems_can_be_read_on_any_screen(
    browser: "Browser", rows: tuple[Result, ...], tmp_path: Path, width: int
) -> None:
    """The page was 48,000 pixels long on a phone."""
    many = [copy_row(row, number) for number in range(SYSTEMS) for row in rows]
    path = tmp_path / "index.html"
    path.write_text(render_index(many, BROKEN), "utf-8")
    with browser.opened(path, viewport={"width": width, "height": 780}) as seen:
        assert (seen.violations(), seen.requests, seen.complaints) == ([], [], [])
        assert seen.width() <= width
        assert seen.page.evaluate("document.documentElement.scrollHeight") < 6_000
        assert seen.page.locator(".matrix th[scope=row]").count() == SYSTEMS + 1

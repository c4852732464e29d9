"""The page of `podium compare -o`: a bar for each result that may be drawn, with its interval and
what is known of the difference, and nothing where nothing may be drawn.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from changed_results import change_result, make_result
from click.testing import CliRunner

from submissions.commands.compare import compare
from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.table_rows import COMPARISON_TABLE, list_shown_results
from submissions.compare.verdicts import SpeedVerdict
from submissions.report.document import BarChart, Tone
from submissions.report.drawing.bars import BAR_LEFT, draw_bar_chart
from submissions.report.sections.comparison import (
    MAX_DRAWN_BARS,
    build_comparison_bars,
    iterate_reference_bars,
)
from suite.errors import JudgedError, RequestError
from suite.measurement.intervals import Interval

if TYPE_CHECKING:
    from browser import Browser


def result(path: str, **changes: Any) -> ComparedResult:
    own = {each.name for each in fields(ComparedResult)}
    found = ComparedResult(
        path=path,
        result=make_result(
            system=f"box {path}",
            metric="latency_p90",
            unit="ns",
            value=8e6,
            runs=(8e6, 8e6, 8e6),
            compliant=True,
        ),
        interval=Interval(low=7e6, high=9e6),
        verdict=SpeedVerdict.NOT_TESTED,
    )
    measured = {name: changes.pop(name) for name in set(changes) - own}
    return replace(found, result=change_result(found.result, **measured), **changes)


def compared(*results: ComparedResult, **changes: Any) -> Comparison:
    found = Comparison(
        workload="resnet50",
        scenario="SingleStream",
        metric="latency_p90",
        unit="ns",
        comparable=True,
        results=(result("a", baseline=True, ratio=1.0, verdict=None), *results),
    )
    return replace(found, **changes)


def drawn(*results: ComparedResult) -> BarChart:
    chart = build_comparison_bars(compared(*results))
    assert chart is not None
    return chart


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (SpeedVerdict.FASTER, "separable, faster: 1.25 (1.10 to 1.40) times as fast"),
        (SpeedVerdict.SLOWER, "separable, slower: 1.25 (1.10 to 1.40) times as fast"),
        (SpeedVerdict.NOT_SEPARABLE, "not separable: 1.25 (1.10 to 1.40) times as fast"),
    ],
)
def test_the_verdict_is_written_on_the_bar(verdict: SpeedVerdict, told: str) -> None:
    ratio = Interval(low=1.1, high=1.4)
    chart = drawn(result("b", ratio=1.25, ratio_interval=ratio, verdict=verdict))
    assert [bar.verdict for bar in chart.bars] == ["baseline", told]
    assert told in draw_bar_chart(chart)


def test_a_ratio_of_single_runs_is_not_tested() -> None:
    chart = drawn(result("b", ratio=1.25, interval=None, runs=(8e6,)))
    assert chart.bars[1].verdict == "not tested: (1.25) times as fast"
    assert chart.bars[1].told == "8.00 ms" and chart.bars[1].low is None


def test_a_bar_and_its_interval_end_where_the_axis_has_them() -> None:
    chart = drawn(result("b", value=4e6, interval=Interval(low=3e6, high=5e6)))
    svg = draw_bar_chart(chart)
    widths = [float(each) for each in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]
    assert widths[1] == pytest.approx(widths[0] / 2, abs=0.1)
    low, high = re.findall(r'd="M([\d.]+) [\d.]+L([\d.]+)', svg)[1]
    assert float(low) - BAR_LEFT == pytest.approx(widths[0] * 3 / 8, abs=0.1)
    assert float(high) - BAR_LEFT == pytest.approx(widths[0] * 5 / 8, abs=0.1)


@pytest.mark.parametrize(
    "path",
    [
        "resnet50-smoke-{system}-{day}.tar.zst",
        "{day}/bundles/resnet50-smoke-{system}.tar.zst",
        "resnet50-smoke-{system}-{day}-{system}-onnxruntime.tar.zst",
        "results/{day}-{system}-{system}",
    ],
)
def test_bars_of_one_system_have_two_names(path: str) -> None:
    """Wherever the difference stands, it must not be what a long name loses."""
    system = "2c-intel-xeon-processor-onnxruntime-fp32"
    results = [
        result(path.format(system=system, day=day), system=system, verdict=None)
        for day in ("monday", "friday")
    ]
    chart = build_comparison_bars(compared(results=tuple(results)))
    assert chart is not None
    drawn = str(draw_bar_chart(chart))
    for day in ("monday", "friday"):
        assert re.search(rf">[^<]*{day}[^<]*<", drawn), day


def test_one_wide_interval_does_not_flatten_all_bars() -> None:
    """An interval of three noisy runs may end at 300 times its value."""
    wide = Interval(low=1e4, high=3e9)
    svg = str(draw_bar_chart(drawn(result("b", value=9.7e6, interval=wide))))
    widths = [float(each) for each in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]
    assert min(widths) > 150
    chart = drawn(result("b", value=9.7e6, interval=wide))
    assert chart.bars[1].told == "9.7 ms (0.010 to 3,000)", "the whole interval is told"


def test_published_rows_are_drawn_in_their_own_unit() -> None:
    """Samples per query of an older round were printed as milliseconds."""
    rows = [
        result(
            name,
            system=name,
            org="Lenovo",
            round="inference-v0.7",
            profile="published",
            division="closed",
            metric="samples_per_query",
            unit="samples/query",
            value=value,
            runs=(value,),
            interval=None,
            document="a log",
        )
        for name, value in (("DGX", 1760.0), ("T4", 272.0))
    ]
    found = compared(references=tuple(rows))
    (chart,) = iterate_reference_bars(found)
    assert [bar.told for bar in chart.bars] == ["1,760.00 samples/query", "272.00 samples/query"]
    assert chart.axis.unit == "samples/query"
    _, *rows = COMPARISON_TABLE.list_told_rows(list_shown_results(found))
    cells = [row[1].split("\n")[0] for row in rows]
    assert cells == ["8.0 ms", "1,760.00 samples/query", "272.00 samples/query"]


def test_what_does_not_count_or_is_not_comparable_has_no_bar() -> None:
    chart = drawn(
        result("b", compliant=False),
        result("c", reasons=("profile: smoke and full",)),
        result("d", ratio=1.0),
        ComparedResult(path="e", absent=True),
    )
    assert [bar.value for bar in chart.bars] == [8.0, None, None, 8.0]
    assert chart.bars[1].tone is Tone.BAD and chart.bars[1].verdict == "not compliant: not drawn"
    assert chart.bars[2].verdict == "not comparable: profile: smoke and full"
    assert draw_bar_chart(chart).count("<rect") == 2


def test_one_bar_is_no_figure() -> None:
    assert build_comparison_bars(compared(result("b", compliant=False))) is None


def test_of_two_hundred_systems_the_first_are_drawn_and_counted() -> None:
    chart = drawn(*(result(str(number), ratio=1.0) for number in range(200)))
    assert len(chart.bars) == MAX_DRAWN_BARS
    assert chart.description.endswith(f"The first {MAX_DRAWN_BARS} of 201 are drawn.")


def test_a_page_is_written_instead_of_the_table(
    bundle: Path, other: Callable[[], Path], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    told = run(bundle, other(), "-o", page)
    assert told == f"comparison: {page}\n"
    text = page.read_text("utf-8")
    assert text.count('<svg class="chart"') == 2 and "not tested" in text
    assert "separable" not in re.sub(r"<footer>.*", "", text, flags=re.DOTALL)


def test_bad_targets_are_refused_before_anything_is_read(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is a folder"):
        run(bundle, bundle, "-o", tmp_path)
    with pytest.raises(RequestError, match="^-o writes a page, not --format json$"):
        run(bundle, bundle, "-o", tmp_path / "page.html", "--format", "json")
    with pytest.raises(JudgedError, match="no such file"):
        run(tmp_path / "no", bundle, "-o", tmp_path / "page.html")


@pytest.fixture
def other(tmp_path: Path) -> Callable[[], Path]:
    """Make the example again, on a machine with more memory."""

    def make() -> Path:
        from submissions.pack.bundle import pack_results

        tree = tmp_path / "other"
        shutil.copytree(Path(__file__).resolve().parents[2] / "examples" / "base" / "tree", tree)
        for path in tree.rglob("*"):
            if path.is_file() and b"16.0 GiB" in path.read_bytes():
                path.write_bytes(path.read_bytes().replace(b"16.0 GiB", b"512 GiB"))
        return pack_results(tree, tmp_path / "other.tar.zst")

    return make


def run(*words: object) -> str:
    return str(
        CliRunner()
        .invoke(compare, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
        .output
    )


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_the_page(
    browser: "Browser",
    bundle: Path,
    other: Callable[[], Path],
    tmp_path: Path,
    width: int,
    theme: str,
) -> None:
    page = tmp_path / "page.html"
    run(bundle, other(), "-o", page)
    with browser.opened(page, viewport={"width": width, "height": 780}, color_scheme=theme) as seen:
        assert (seen.violations(), seen.requests, seen.complaints) == ([], [], [])
        assert seen.width() <= width
        last = "[...document.querySelectorAll('td:last-child')].map(td => td.offsetWidth)"
        assert min(seen.page.evaluate(last)) > 120, "a column of single letters is no text"

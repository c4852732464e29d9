"""Makes the images of the pages from a real run: `python docs/screens.py --log run.log --results
results`; those of podium's own pictures: `python docs/screens.py --card BUNDLE --study
results/studies/resnet50 --compare A B`; those of other commands in the guides: `python
docs/screens.py --screen dry-run.svg "podium run resnet50 --dry-run" dry-run.log`; and those of the
example notebook: `python docs/screens.py --notebook A B`.

`run.log` is the output of `podium run WORKLOAD`. The first image shows it as a terminal, the second
one the result as `podium score` reads it, with the accuracy after each epoch from the training log.
The others are the card of a bundle, throughput against latency of a sweep, the bars of a
comparison in Offline, what a command printed as a terminal, and the notebook's figures from two
bundles.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

from submissions.compare.compared_results import judge_compared_results
from submissions.compare.comparison import compare_results
from submissions.report import build
from submissions.report.document import BarChart, Document, Section
from submissions.report.drawing.bars import draw_bar_chart
from submissions.report.drawing.card import draw_result_card
from submissions.report.drawing.svg import draw_chart
from submissions.report.pictures import make_svg_standalone
from submissions.report.sections.comparison import build_comparison_bars
from suite.loadgen.scenario import Scenario

IMAGES: Final = Path(__file__).resolve().parent / "images"
NOTEBOOK: Final = IMAGES.parents[1] / "examples" / "two-bundles.ipynb"
COLUMNS: Final = 80
"""Least width of the terminal; lines that are longer widen it."""
TERMINAL: Final = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""rich's image of a terminal, in the reader's own monospaced font: nothing is fetched from other
hosts.
"""
WIDTH: Final = 1020
"""Width of the second image, as docs/way.svg has it."""
LEFT, TOP, RIGHT, BOTTOM = 70, 78, 600, 290
"""Edges of the curve's field, in units of the image."""
NS_PER_MS: Final = 1e6
MS_PER_MINUTE: Final = 60_000
MLLOG: Final = ":::MLLOG "

Score = Mapping[str, Any]
"""A row of `podium score --format json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training run."""

    points: Sequence[tuple[float, float]]
    """Minutes since run_start, accuracy."""
    metric: str
    target: float


def main(words: Sequence[str] | None = None) -> None:
    """Make both images; without `words`, as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, help="output of `podium run`")
    parser.add_argument("--results", type=Path, help="its results folder")
    parser.add_argument("--card", type=Path, help="bundle of the card")
    parser.add_argument("--study", type=Path, help="folder of a sweep")
    parser.add_argument("--compare", type=Path, nargs="+", help="results to compare")
    parser.add_argument(
        "--screen",
        nargs=3,
        action="append",
        default=[],
        metavar=("IMAGE", "COMMAND", "LOG"),
        help="image of a command and of the file with its output",
    )
    parser.add_argument("--notebook", type=Path, nargs=2, help="bundles of the example notebook")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the images")
    options = parser.parse_args(words)
    if bool(options.log) != bool(options.results):
        parser.error("--log and --results go together")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, drawn in images(options):
        (options.out / name).write_text(drawn, "utf-8")


def images(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield name and content of each image that was asked for."""
    if options.log:
        scores = scored(options.results)
        command = f"podium run {scores[0]['workload']}"
        yield "run.svg", screen(command, options.log.read_text("utf-8"))
        yield "result.svg", card(scores, curve(options.results, scores[0]))
    if options.card:
        yield "card.svg", draw_result_card(reported(options.card).parts[0])
    if options.study:
        section = sections(reported(options.study))["tradeoff"]
        yield "tradeoff.svg", make_svg_standalone(draw_chart(section.parts[0].charts[0]))
    if options.compare:
        yield "compare.svg", make_svg_standalone(draw_bar_chart(compared(options.compare)))
    for name, command, log in options.screen:
        yield name, screen(command, Path(log).read_text("utf-8"))
    if options.notebook:
        yield from draw_notebook_figures(*options.notebook)


def draw_notebook_figures(first: Path, second: Path) -> Iterator[tuple[str, str]]:
    """Run the code of the example notebook on two bundles, and yield its figures."""
    import matplotlib as mpl  # late: the extra `notebook` alone has it
    from matplotlib import pyplot

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "podium"  # equal figures have equal bytes
    mpl.rcParams["svg.fonttype"] = "none"  # text, in the reader's own font
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for known, given in (("first.tar.zst", first), ("second.tar.zst", second)):
        code = code.replace(f'"{known}"', repr(str(given)))
    namespace: dict[str, Any] = {"__name__": "notebook"}
    exec(compile(code, str(NOTEBOOK), "exec"), namespace)
    for number in pyplot.get_fignums():
        drawn = StringIO()
        pyplot.figure(number).savefig(drawn, format="svg", metadata={"Date": None})
        yield f"notebook-{number}.svg", drawn.getvalue()
    pyplot.close("all")


def compared(paths: Sequence[Path]) -> BarChart:
    """Compare results in Offline; the first is the baseline."""
    problems: list[str] = []
    sides = judge_compared_results(paths, problems)
    found = compare_results(sides, list(map(str, paths)))
    offline = next(each for each in found if each.scenario == Scenario.OFFLINE.label)
    return build_comparison_bars(offline) or sys.exit("; ".join(problems) or "fewer than two")


def reported(path: Path) -> Document:
    """Make the report of these results."""
    document, problems, _ = build.judge_and_build_report([path])
    if problems:
        sys.exit("; ".join(problems))
    return document


def sections(document: Document) -> Mapping[str, Section]:
    """Return the sections about all parts of a report, by their ids."""
    return {each.id: each for each in document.sections}


def screen(command: str, printed: str) -> str:
    """Show a command and what it printed as a terminal."""
    lines = Text.from_ansi(printed)
    console = Console(
        width=max(COLUMNS, *(line.cell_len for line in lines.split())),
        record=True,
        file=StringIO(),
        force_terminal=True,
    )
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(lines)
    return console.export_svg(title=command, unique_id="podium", code_format=TERMINAL)


def scored(results: Path) -> Sequence[Score]:
    """Ask podium for the scores; the first row is the run set's."""
    told = subprocess.run(
        [sys.executable, "-m", "suite.cli", "score", str(results), "--format", "json"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows: Sequence[Score] = json.loads(told.stdout)["scores"]
    if not all(row["compliant"] for row in rows):
        sys.exit(f"{results}: not compliant; see podium check")
    return rows


def curve(results: Path, row: Score) -> Curve:
    """Read accuracy over time from the training log of a row's set."""
    (path,) = results.glob(f"{row['division']}/{row['org']}/results/{row['system']}/*/result_0.txt")
    records = list(events(path))
    start = next(record["time_ms"] for record in records if record["key"] == "run_start")
    ((metric, target),) = next(
        record["value"] for record in records if record["key"] == "quality_target"
    ).items()  # workloads with one metric alone
    evaluations = [record for record in records if record["key"] == "eval_accuracy"]
    points = [
        ((record["time_ms"] - start) / MS_PER_MINUTE, float(record["value"]))
        for record in evaluations
    ]
    return Curve(points=points, metric=metric, target=target)


def events(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a training log."""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith(MLLOG):
            yield json.loads(line.removeprefix(MLLOG))


def card(scores: Sequence[Score], run: Curve) -> str:
    """Draw a result: the way to the target, and a tile for each scenario."""
    first = scores[0]
    title = f"{first['workload']}: {first['value']:.2f} minutes to {run.metric} {run.target:.3f}"
    below = (
        f"{first['round']} {first['profile']}, {first['division']} division, {first['system']},"
        f" {len(first['runs'])} run"
    )
    tiles = "".join(
        tile(index, row) for index, row in enumerate(row for row in scores if row["scenario"])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 340" font-family="Helvetica,'
        ' Arial, sans-serif" role="img" '
        f'aria-label="{escape(title)}">\n<rect width="{WIDTH}" height="340" fill="#ffffff"/>\n'
        f"{words(LEFT, 34, title, 19, '#111827', bold=True)}"
        f"{words(LEFT, 56, below, 13, '#4b5563')}{plot(run)}{tiles}"
        f"{words(LEFT, 328, 'Result not verified by MLCommons Association.', 11, '#4b5563')}"
        "</svg>\n"
    )


def plot(run: Curve) -> str:
    """Draw accuracy over minutes, and the target."""
    end = run.points[-1][0]

    def place(minutes: float, value: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * minutes / end, BOTTOM - (BOTTOM - TOP) * value

    points = [place(*point) for point in run.points]
    goal = place(0, run.target)[1]
    axes = (
        f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#374151"'
        ' stroke-width="1.3"/>\n'
    )
    line = (
        f'<path d="M{LEFT} {goal:.1f}H{RIGHT}" stroke="#b45309" stroke-width="1.3"'
        ' stroke-dasharray="6 4"/>\n'
    )
    way = (
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none"'
        ' stroke="#1d4ed8" stroke-width="2.5"/>\n'
    )
    dots = "".join(
        dot(x, y, value, above=value >= run.target)
        for (x, y), (_, value) in zip(points, run.points, strict=True)
    )
    scale = words(LEFT - 8, TOP + 5, "1", 12, "#4b5563", end=True) + words(
        LEFT - 8, BOTTOM + 4, "0", 12, "#4b5563", end=True
    )
    names = words(LEFT + 8, goal - 7, f"target {run.target:.3f}", 12, "#b45309") + words(
        RIGHT, BOTTOM + 18, f"{end:.2f} minutes", 12, "#4b5563", end=True
    )
    return axes + line + way + dots + scale + names


def dot(x: float, y: float, value: float, *, above: bool) -> str:
    """Draw an evaluation, its accuracy above or below the curve."""
    mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#1d4ed8"/>\n'
    return mark + words(x, y - 12 if above else y + 22, f"{value:.3f}", 12, "#111827", end=True)


def tile(index: int, row: Score) -> str:
    """Draw the figure of one scenario."""
    y = TOP + index * 54
    value, unit = (
        (row["value"] / NS_PER_MS, "ms") if row["unit"] == "ns" else (row["value"], row["unit"])
    )
    kind = row["metric"].replace("_", " ") if unit == "ms" else "throughput"
    box = (
        f'<rect x="650" y="{y}" width="340" height="46" rx="9" fill="#f3f4f6" stroke="#374151"'
        ' stroke-width="1.3"/>\n'
    )
    name = words(664, y + 21, row["scenario"], 15, "#111827", bold=True) + words(
        664, y + 37, kind, 11.5, "#4b5563"
    )
    return (
        box + name + words(976, y + 29, f"{value:,.2f} {unit}", 17, "#111827", bold=True, end=True)
    )


def words(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    *,
    bold: bool = False,
    end: bool = False,
) -> str:
    """Draw a line of text, from x or up to it."""
    style = ' font-weight="bold"' * bold + ' text-anchor="end"' * end
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"'
        f' fill="{colour}"{style}>{escape(text)}</text>\n'
    )


if __name__ == "__main__":
    main()

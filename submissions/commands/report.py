"""The command `report`."""

from pathlib import Path

import click

from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("paths", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    type=PATH_TYPE,
    metavar="FILE",
    help="Page to write (default: BUNDLE.html or report.html in the current folder).",
)
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--against",
    multiple=True,
    type=PATH_TYPE,
    metavar="PATH",
    help="Compare with these results; the first is the baseline. Repeatable.",
)
@click.option(
    "--beside",
    multiple=True,
    type=PATH_TYPE,
    metavar="FILE",
    help=(
        "JSON of guidellm, AIPerf or vllm bench serve about the server of a curve: show it beside"
        " the point with as many requests in flight. Repeatable."
    ),
)
@click.option(
    "--card",
    type=PATH_TYPE,
    metavar="FILE.png|svg",
    help="Write one picture to share, 1200 x 630: headlines, machine, verdict, date and seal.",
)
@click.option(
    "--figures", type=PATH_TYPE, metavar="FOLDER", help="Write each figure as a file of its own."
)
@click.option(
    "--figure-format",
    type=click.Choice(["svg", "png"]),
    default="svg",
    show_default=True,
    help="Format of --figures; PNG needs the extra pictures.",
)
@click.option(
    "--per",
    type=click.Choice(["accelerator", "dollar", "watt"]),
    help="Divide throughput, where it is drawn against latency; derived figures are not official.",
)
@click.option(
    "--prices", type=PATH_TYPE, metavar="FILE", help="TOML file of prices, for --per dollar."
)
@build_format_option("html", "json", "csv", "markdown", "trace", default="html")
def report(
    paths: tuple[Path, ...],
    output: Path | None,
    show: bool,
    against: tuple[Path, ...],
    beside: tuple[Path, ...],
    card: Path | None,
    figures: Path | None,
    figure_format: str,
    per: str | None,
    prices: Path | None,
    output_format: str,
) -> None:
    """Write a report page about results folders or bundles: verdict, figures, examples of the
    model's answers, findings and provenance.

    The page is a single file that loads nothing and needs no scripts. It lists the information that
    a bundle lacks. --format json prints every number of the page, csv the points of throughput
    against latency, and trace a file for ui.perfetto.dev. If a result is invalid, its page gives
    the reason, and the command exits with 1. With only --card or --figures, no page is written.

    Example: podium report mine.tar.zst --open
    """
    from submissions.report import command, pictures

    command.write_results_report(
        paths,
        output=output,
        against=against,
        beside=beside,
        output_format=output_format,
        show=show,
        per=per,
        prices=prices,
        pictures=pictures.PictureRequest(
            card=card, figures=figures, figure_format=pictures.PictureFormat(figure_format)
        ),
    )

"""The command `publish`."""

from pathlib import Path

import click

from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    "site",
    type=PATH_TYPE,
    required=True,
    metavar="SITE",
    help="Folder of the site; a site that podium built there is rebuilt.",
)
@click.option("--title", default="Results", show_default=True, help="Title of the site.")
@click.option(
    "--published",
    is_flag=True,
    help="Add podium's list of published results, each with its source but without ratios.",
)
@click.option(
    "--signers",
    type=PATH_TYPE,
    metavar="FILE",
    help="Trusted signers: an allowed_signers file of ssh-keygen. Rows then name their signers.",
)
@click.option(
    "--bundles",
    "copies",
    type=click.Choice(["copy", "link", "none"]),
    default="copy",
    show_default=True,
    help="Add the bundles to the site as copies or hard links, or leave them out.",
)
@click.option(
    "--url",
    "address",
    default="",
    metavar="ADDRESS",
    help="Address of the site; other sites then show its cards (og:image) where they link to it.",
)
@click.option(
    "--per",
    type=click.Choice(["accelerator", "dollar", "watt"]),
    help="Divide throughput, where it is drawn against latency; derived figures are not official.",
)
@click.option(
    "--prices", type=PATH_TYPE, metavar="FILE", help="TOML file of prices, for --per dollar."
)
@click.option(
    "--table",
    "tables",
    type=PATH_TYPE,
    multiple=True,
    metavar="FILE",
    help=(
        "Published values to print beside the scores of trees: MLCommons' summary_results.json, or"
        " a CSV file with the columns of podium published; repeatable."
    ),
)
@click.option(
    "--accept",
    type=PATH_TYPE,
    metavar="FILE",
    help="Waivers (TOML) for findings about trees, as for podium check.",
)
def publish(
    bundles: tuple[Path, ...],
    site: Path,
    title: str,
    published: bool,
    signers: Path | None,
    copies: str,
    address: str,
    per: str | None,
    prices: Path | None,
    tables: tuple[Path, ...],
    accept: Path | None,
) -> None:
    """Build a static site of bundles, studies and results trees. It works on any host, under any
    path, and from a local disk.

    Every bundle is checked again. A bundle that is not valid is left out and listed with the
    reason, and the command exits with 1. Results trees of published rounds are listed with all
    findings, and their broken results do not change the exit code. Results that no test can
    separate share a letter. data/ contains all rows.

    Example: podium publish bundles/*.tar.zst -o site
    """
    from submissions.publish import command
    from submissions.publish.trees import TreeOptions

    command.publish_site(
        bundles,
        site,
        title=title,
        published=published,
        bundles=command.BundleMode(copies),
        signers=signers,
        address=address,
        per=per,
        prices=prices,
        beside=TreeOptions(accept=accept, tables=tables),
    )

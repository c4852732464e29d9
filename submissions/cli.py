"""The commands run, score, pack, verify, sign, timestamp, compare, cost, published, report and
publish; thin, so that `--help` loads nothing.
"""

from pathlib import Path
from typing import Any

import click

from suite.cli import PATH_TYPE, RunOptions, add_common_options
from suite.console.parameters import WORKLOAD_OR_ALL_TYPE


@click.command()
@click.argument("workload", type=WORKLOAD_OR_ALL_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--seed", type=int, help="Seed of the first run; without it, drawn at random and logged."
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help=(
        "Training runs, and performance runs of each scenario; without it, as many as the round"
        " asks for."
    ),
)
@click.option(
    "--challenge",
    metavar="HEX",
    help=(
        "8 to 64 bytes that somebody else chose: the campaign's nonce is made from them, so it"
        " cannot be older."
    ),
)
@click.option(
    "--audit", is_flag=True, help="Run MLPerf's compliance tests before packing; see podium audit."
)
@click.option(
    "--peak",
    is_flag=True,
    help="Search Server's highest rate within the round's bound; the best run is the result.",
)
def run(
    workload: str,
    options: RunOptions,
    seed: int | None,
    runs: int | None,
    challenge: str | None,
    audit: bool,
    peak: bool,
) -> None:
    """Run the whole campaign of WORKLOAD, or of all: train, infer, check, pack; what is finished is
    not done again.

    Example: podium run resnet50
    """
    from submissions.campaign.run import run_campaigns

    run_campaigns(
        workload, options, seed=seed, runs=runs, challenge=challenge, audit=audit, peak=peak
    )


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="PATH...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def score(paths: tuple[Path, ...], form: str) -> None:
    """Score results folders, parts of them, or bundles: minutes of each training set, the metric of
    each scenario.

    A folder of logs that lies in no results tree is a set, too: its logs tell who ran what. A
    single training log is scored as one run, with its own minutes: give its folder for the set. A
    path inside a scenario means the scenario.

    Example: podium score results --format json
    """
    from submissions.score.score import run_score_command

    run_score_command(paths, form)


@click.command()
@click.argument("results", type=PATH_TYPE)
@click.option(
    "-o",
    "--output",
    "bundle",
    type=PATH_TYPE,
    required=True,
    metavar="BUNDLE",
    help="The bundle to write (.tar.zst).",
)
@click.option(
    "--workload", "workloads", multiple=True, help="Pack this workload alone; may be repeated."
)
@click.option("--system", "systems", multiple=True, help="Pack this system alone; may be repeated.")
def pack(results: Path, bundle: Path, workloads: tuple[str, ...], systems: tuple[str, ...]) -> None:
    """Seal RESULTS into a bundle; what the judge refuses is not packed.

    Example: podium pack results -o mine.tar.zst
    """
    from submissions.pack.bundle import pack_results

    packed = pack_results(results, bundle, workloads, systems)
    click.echo(f"{packed}: {packed.stat().st_size} bytes, sealed")


@click.command()
@click.argument("bundle", type=PATH_TYPE)
@click.option(
    "--signers",
    type=PATH_TYPE,
    metavar="FILE",
    help="Whom you trust: ssh-keygen's file of allowed signers.",
)
@click.option(
    "--revoked",
    type=PATH_TYPE,
    metavar="FILE",
    help="Keys that are no longer trusted: ssh-keygen's revocation list.",
)
@click.option(
    "--ca",
    "authorities",
    type=PATH_TYPE,
    metavar="FILE",
    help="Certificates of time-stamping authorities, PEM.",
)
@click.option(
    "--require",
    metavar="WORD,...",
    help="What must be shown, or the exit code is 1: signed, challenged, timestamped.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def verify(
    bundle: Path,
    signers: Path | None,
    revoked: Path | None,
    authorities: Path | None,
    require: str | None,
    form: str,
) -> int:
    """Verify that BUNDLE is byte for byte what was sealed, that the judge accepts what it says, and
    who signed it.

    A bundle that is sealed, signed and agrees with itself may still tell of runs that never took
    place: that no file can show.

    Example: podium verify mine.tar.zst --signers allowed_signers --require signed
    """
    from submissions.signatures.command import run_verify_command

    return run_verify_command(bundle, signers, revoked, authorities, require, form)


@click.command()
@click.argument("bundle", type=PATH_TYPE)
@click.option(
    "--key",
    type=PATH_TYPE,
    required=True,
    metavar="FILE",
    help="Your SSH key; its public half where ssh-agent has the key.",
)
@click.option(
    "--as",
    "claimed",
    metavar="NAME",
    help="Who you are, as files of allowed signers name you: bench@lab.example.",
)
@click.option(
    "--detached",
    is_flag=True,
    help="Write the statement and its signature beside BUNDLE, and leave it as it is.",
)
def sign(bundle: Path, key: Path, claimed: str | None, detached: bool) -> None:
    """Sign BUNDLE with an SSH key: a statement that the judge accepts these bytes, which goes
    behind the seal.

    ssh-keygen signs and asks for a passphrase; podium never reads the key. What the judge refuses
    is not signed.

    Example: podium sign mine.tar.zst --key ~/.ssh/id_ed25519 --as bench@lab.example
    """
    from submissions.signatures.signing import sign_bundle

    click.echo(
        f"{sign_bundle(bundle, key, claimed, detached)}: signed; who trusts your key checks it with"
        " podium verify --signers FILE"
    )


@click.command()
@click.argument("bundle", type=PATH_TYPE)
@click.option(
    "--query",
    type=PATH_TYPE,
    metavar="FILE",
    help="Write the request, to be carried to any authority of RFC 3161.",
)
@click.option(
    "--reply",
    type=PATH_TYPE,
    metavar="FILE",
    help="The authority's reply, which goes behind the seal.",
)
@click.option(
    "--ca",
    "authorities",
    type=PATH_TYPE,
    metavar="FILE",
    help="The authority's certificates, PEM; needed with --reply.",
)
def timestamp(
    bundle: Path, query: Path | None, reply: Path | None, authorities: Path | None
) -> None:
    """Have an authority say since when BUNDLE has been there: first --query, then --reply with
    --ca. Nothing is sent by podium.

    Example: podium timestamp mine.tar.zst --query q.tsq
    """
    from submissions.signatures.command import run_timestamp_command

    run_timestamp_command(bundle, query, reply, authorities)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="A B...")
@click.option(
    "--baseline",
    type=PATH_TYPE,
    metavar="PATH",
    help="The path that the others stand beside; without it, the first result of each kind.",
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Of intervals and verdicts, 0.5 to 0.999.",
)
@click.option(
    "--runs-for",
    metavar="PERCENT",
    help="Say how many runs each would show such a difference, as in 5%.",
)
@click.option(
    "--per",
    type=click.Choice(["accelerator", "dollar", "watt"]),
    help="Derive figures: no official metric, and no rate of latencies.",
)
@click.option(
    "--prices", type=PATH_TYPE, metavar="FILE", help="TOML file of prices, for --per dollar."
)
@click.option("--scaling", is_flag=True, help="Hold speed-up against the number of accelerators.")
@click.option(
    "--published",
    multiple=True,
    metavar="ROUND|documents|FILE.csv",
    help="Set published rows beside the results; may be repeated.",
)
@click.option(
    "--require",
    type=click.Choice(["comparable", "separable"]),
    help="End with 1 where a result may not be compared, or no difference is shown.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def compare(paths: tuple[Path, ...], **options: Any) -> None:
    """Compare results folders or bundles: ratios with their intervals and verdicts, or why two
    results may not be compared.

    A verdict is faster, slower, not separable or not tested; tests need three runs a side. A ratio
    in brackets was not tested.

    Example: podium compare mine.tar.zst theirs.tar.zst --baseline theirs.tar.zst
    """
    from submissions.compare import command

    command.run_compare_command(paths, command.CompareOptions(**options))


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="PATH...")
@click.option(
    "--prices",
    type=PATH_TYPE,
    required=True,
    metavar="FILE",
    help="TOML file of prices, each with its source.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def cost(paths: tuple[Path, ...], prices: Path, form: str) -> None:
    """Give the cost of a million samples, and of a training run, at your prices: a derived figure,
    never part of a score.

    Energy counts only where the result has measured power. Latencies have no cost. Rows of a sweep
    that passes its check are told as such.

    Example: podium cost results --prices prices.toml
    """
    from submissions.cost.command import report_costs

    report_costs(paths, prices, form)


@click.command()
@click.argument("workload", required=False)
@click.option(
    "--round", metavar="ROUND", help="One published round, or documents; without it, all."
)
@click.option("--org", help="One organisation.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def published(workload: str | None, round: str | None, org: str | None, form: str) -> None:
    """List published results of WORKLOAD, or of all, each with its source.

    Example: podium published resnet50 --round training-v0.7
    """
    from submissions.publications import print_published_results

    print_published_results(workload, round, org, form)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    type=PATH_TYPE,
    metavar="FILE",
    help="The page to write; without it, BUNDLE.html or report.html in the current folder.",
)
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--against",
    multiple=True,
    type=PATH_TYPE,
    metavar="PATH",
    help="Compare with these results, the first of which is the baseline; may be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "json", "markdown", "trace"]),
    default="html",
    show_default=True,
    help="Output format.",
)
def report(
    paths: tuple[Path, ...], output: Path | None, show: bool, against: tuple[Path, ...], form: str
) -> None:
    """Make one page of results folders or bundles: verdict, figures, examples of what the model
    does, findings, provenance.

    The page is one file, loads nothing, and needs no scripts. What a bundle does not tell, it says
    so. The JSON form has every number of it; trace is for ui.perfetto.dev. A path that does not
    count gets a page that says why, and the command ends with 1.

    Example: podium report mine.tar.zst --open
    """
    from submissions.report import command

    command.write_results_report(paths, output=output, against=against, form=form, show=show)


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=PATH_TYPE, metavar="BUNDLE...")
@click.option(
    "-o",
    "--output",
    "site",
    type=PATH_TYPE,
    required=True,
    metavar="SITE",
    help="The folder of the site; one that podium made is made anew.",
)
@click.option("--title", default="Results", show_default=True, help="Of the site.")
@click.option(
    "--published",
    is_flag=True,
    help="Add the published results that podium has, each with its source; without ratios.",
)
@click.option(
    "--signers",
    type=PATH_TYPE,
    metavar="FILE",
    help="Whom you trust: ssh-keygen's file of allowed signers; rows then name them.",
)
@click.option(
    "--bundles",
    "copies",
    type=click.Choice(["copy", "link", "none"]),
    default="copy",
    show_default=True,
    help="Copies, hard links, or none.",
)
def publish(
    bundles: tuple[Path, ...],
    site: Path,
    title: str,
    published: bool,
    signers: Path | None,
    copies: str,
) -> None:
    """Make a site of results: plain files, from any host and below any path, or opened from a disk.

    Every bundle is judged again; one that does not count is left out and named, and the command
    ends with 1. Results that no test can tell apart share a letter, and there are no ranks. data/
    has all rows as JSON and CSV, and as Parquet where pyarrow is installed.

    Example: podium publish bundles/*.tar.zst -o site
    """
    from submissions.publish import command

    command.publish_site(
        bundles,
        site,
        title=title,
        published=published,
        bundles=command.BundleMode(copies),
        signers=signers,
    )

"""The commands run, score, pack, verify, compare, cost and published; thin, so that `--help` loads nothing."""

from pathlib import Path
from typing import Any

import click

from suite.cli import PATH, Options, common_options
from suite.console.parameters import WORKLOAD_OR_ALL


@click.command()
@click.argument("workload", type=WORKLOAD_OR_ALL, metavar="WORKLOAD")
@common_options
@click.option("--seed", type=int, help="Seed of the first run; without it, drawn at random and logged.")
@click.option("--runs", type=click.IntRange(min=1), help="Runs of the training set; without it, as many as the round asks for.")
def run(workload: str, options: Options, seed: int | None, runs: int | None) -> None:
    """Run the whole campaign of WORKLOAD, or of all: train, infer, check, pack; what is finished is not done again.

    Example: podium run resnet50
    """
    from submissions.campaign import campaigns

    campaigns(workload, options, seed=seed, runs=runs)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True, help="Output format.")
def score(paths: tuple[Path, ...], form: str) -> None:
    """Score results folders, parts of them, or bundles: minutes of each training set, the metric of each scenario.

    A folder of logs that lies in no results tree is a set, too: its logs tell who ran what. A single training log is scored as
    one run, with its own minutes: give its folder for the set. A path inside a scenario means the scenario.

    Example: podium score results --format json
    """
    from submissions.score.score import report

    report(paths, form)


@click.command()
@click.argument("results", type=PATH)
@click.option("-o", "--output", "bundle", type=PATH, required=True, metavar="BUNDLE", help="The bundle to write (.tar.zst).")
@click.option("--workload", "workloads", multiple=True, help="Pack this workload alone; may be repeated.")
@click.option("--system", "systems", multiple=True, help="Pack this system alone; may be repeated.")
def pack(results: Path, bundle: Path, workloads: tuple[str, ...], systems: tuple[str, ...]) -> None:
    """Seal RESULTS into a bundle; what the judge refuses is not packed.

    Example: podium pack results -o mine.tar.zst
    """
    from submissions.pack.bundle import pack

    packed = pack(results, bundle, workloads, systems)
    click.echo(f"{packed}: {packed.stat().st_size} bytes, sealed")


@click.command()
@click.argument("bundle", type=PATH)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
def verify(bundle: Path, form: str) -> int:
    """Verify that BUNDLE is byte for byte what was sealed, and that the judge accepts what it says.

    A bundle that is sealed and agrees with itself may still tell of runs that never took place: that no file can show.

    Example: podium verify mine.tar.zst
    """
    from submissions.pack.bundle import proven, strangers, verify
    from suite.errors import MissingError

    problems = verify(bundle)
    if problems and (unknown := strangers(bundle)):
        raise MissingError(f"{bundle}: cannot be judged here: {', '.join(unknown)} is of a package that is not installed; install it and verify again")
    scope = "" if problems else proven(bundle)
    if form == "json":
        import json

        click.echo(json.dumps({"bundle": str(bundle), "whole": not problems, "problems": problems, "scope": scope}, indent=2))
    else:
        click.echo("\n".join([*problems, f"{bundle}: broken" if problems else f"{bundle}: sealed, unchanged since, and agrees with itself: {scope}"]))
    return int(bool(problems))


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="A B...")
@click.option("--baseline", type=PATH, metavar="PATH", help="The path that the others stand beside; without it, the first result of each kind.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of intervals and verdicts, 0.5 to 0.999.")
@click.option("--runs-for", metavar="PERCENT", help="Say how many runs each would show such a difference, as in 5%.")
@click.option("--per", type=click.Choice(["accelerator", "dollar"]), help="Derive figures: no official metric, and never of latencies.")
@click.option("--prices", type=PATH, metavar="FILE", help="TOML file of prices, for --per dollar.")
@click.option("--scaling", is_flag=True, help="Hold speed-up against the number of accelerators.")
@click.option("--published", multiple=True, metavar="ROUND|documents|FILE.csv", help="Set published rows beside the results; may be repeated.")
@click.option("--require", type=click.Choice(["comparable", "separable"]), help="End with 1 where a result may not be compared, or no difference is shown.")
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True, help="Output format.")
def compare(paths: tuple[Path, ...], **options: Any) -> None:
    """Compare results folders or bundles: ratios with their intervals and verdicts, or why two results may not be compared.

    A verdict is faster, slower, not separable or not tested; tests need three runs a side. A ratio in brackets was not tested.

    Example: podium compare mine.tar.zst theirs.tar.zst --baseline theirs.tar.zst
    """
    from submissions.compare import command

    command.report(paths, command.Options(**options))


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option("--prices", type=PATH, required=True, metavar="FILE", help="TOML file of prices, each with its source.")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True, help="Output format.")
def cost(paths: tuple[Path, ...], prices: Path, form: str) -> None:
    """Give the cost of a million samples, and of a training run, at your prices: a derived figure, never part of a score.

    Energy counts only where the result has measured power. Latencies have no cost.

    Example: podium cost results --prices prices.toml
    """
    from submissions.cost.command import report

    report(paths, prices, form)


@click.command()
@click.argument("workload", required=False)
@click.option("--round", metavar="ROUND", help="One published round, or documents; without it, all.")
@click.option("--org", help="One organisation.")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True, help="Output format.")
def published(workload: str | None, round: str | None, org: str | None, form: str) -> None:
    """List published results of WORKLOAD, or of all, each with its source.

    Example: podium published resnet50 --round training-v0.7
    """
    from submissions.publications import report

    report(workload, round, org, form)

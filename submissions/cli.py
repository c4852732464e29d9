"""The commands run, score, pack, verify and compare; thin, so that `--help` loads nothing."""

from pathlib import Path

import click

from suite.cli import PATH, Options, common_options


@click.command()
@click.argument("workload")
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
    from submissions.score import report

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
    from submissions.package import pack

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
    from submissions.package import proven, verify

    problems = verify(bundle)
    scope = "" if problems else proven(bundle)
    if form == "json":
        import json

        click.echo(json.dumps({"bundle": str(bundle), "whole": not problems, "problems": problems, "scope": scope}, indent=2))
    else:
        click.echo("\n".join([*problems, f"{bundle}: broken" if problems else f"{bundle}: sealed, unchanged since, and agrees with itself: {scope}"]))
    return int(bool(problems))


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="A B...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
def compare(paths: tuple[Path, ...], form: str) -> None:
    """Compare results folders or bundles, and say why two results may not be compared.

    Example: podium compare mine.tar.zst theirs.tar.zst
    """
    from submissions.compare import report

    report(paths, form)

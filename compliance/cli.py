"""The commands `check` and `explain`; thin, so that `--help` loads neither parsers nor rules."""

from pathlib import Path
from typing import Any, Final

import click

from suite.console.options import DEFAULT_RESULTS, build_format_option
from suite.console.parameters import PATH_TYPE, ROUND_TYPE, NameType

REPORT_FORMATS: Final = ("text", "json", "junit", "sarif", "github")
STATISTICS_FORMATS: Final = ("text", "json")


def list_rule_ids() -> list[str]:
    """Return the ids of all rules, for shell completion."""
    from compliance.rules import load_rules

    return sorted(load_rules())


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--round",
    "round_name",
    type=ROUND_TYPE,
    metavar="ROUND",
    help="Round to judge by (default: detected from each PATH).",
)
@click.option(
    "--truth",
    type=PATH_TYPE,
    help="Folder of labels or references, for results trees that have none.",
)
@click.option(
    "--tokenizer",
    type=PATH_TYPE,
    metavar="FILE",
    help=(
        "tokenizer.json of the model, to recount the tokens of runs of the Endpoints client from"
        " their events."
    ),
)
@click.option(
    "--config",
    type=PATH_TYPE,
    help=(
        "Check a file of hyper-parameters (TOML or JSON) against the closed division, and every"
        " PATH as another one."
    ),
)
@click.option(
    "--workload",
    help="With --config: the workload (default: the value of `workload` in the file).",
)
@click.option(
    "--strict",
    is_flag=True,
    help=(
        "Count warnings about the form (file layout and log format) as errors: for a result that is"
        " about to be submitted."
    ),
)
@click.option(
    "--accept",
    type=PATH_TYPE,
    metavar="FILE",
    help=(
        "Waivers (TOML): findings that are known and accepted, each with rule, path, by whom, until"
        " which day, and why. They are listed, but have no effect on a verdict."
    ),
)
@click.option("-x", "--exit-first", is_flag=True, help="Stop at the first PATH that is not valid.")
@click.option(
    "--statistics",
    is_flag=True,
    help="Count the findings of each rule instead of listing them; as text or JSON.",
)
@build_format_option(*REPORT_FORMATS)
def check(paths: tuple[str, ...], config: Path | None, workload: str | None, **values: Any) -> int:
    """Check logs, run sets, entries, systems, organisations, results trees and bundles. Each PATH
    is checked separately. Without PATH, podium checks the folder results.

    podium detects the round: one of MLPerf Training, Inference or Endpoints, or podium's own
    (podium list shows them). Results of any other round have the verdict unknown. In a published
    round, findings that affect the result (its score, quality, rules or identity) are errors;
    findings about its form (file layout and log format) are warnings.

    The report lists the results in each PATH, and the checks that were impossible. -v shows every
    place of a finding. --format github also adds a summary to the file in GITHUB_STEP_SUMMARY.
    podium verify checks the signatures of a bundle.

    Exit code 0: every PATH is valid. 1: a PATH is not valid, or does not exist. 2: the request is
    wrong, or a waiver has expired or is for an unknown rule. 3: a workload's package, or something
    that an option needs, is not installed.

    Example: podium check results --format json
    """
    from compliance.commands import CheckOptions, run_check_command, run_config_check_command

    options = CheckOptions(**values)
    if options.statistics and options.output_format not in STATISTICS_FORMATS:
        raise click.UsageError(f"--statistics: --format {' or '.join(STATISTICS_FORMATS)} only")
    if config is not None:
        if options.accept is not None:
            raise click.UsageError("--accept is for results; --config has no waivers")
        configs = [config, *map(Path, paths)]
        return run_config_check_command(
            configs, workload, options.round_name, options.output_format
        )
    return run_check_command(paths or (get_default_path(),), options)


def get_default_path() -> str:
    """Return the results folder; click.UsageError if there is none."""
    if not DEFAULT_RESULTS.is_dir():
        raise click.UsageError(
            f"nothing to judge: there is no folder {DEFAULT_RESULTS} here; name a PATH"
        )
    return str(DEFAULT_RESULTS)


@click.command()
@click.argument("rule", required=False, type=NameType(list_rule_ids), metavar="[RULE|PREFIX]")
@build_format_option("text", "json")
def explain(rule: str | None, output_format: str) -> None:
    """Explain what RULE requires, its source, and how to fix a violation. With PREFIX, such as
    training, list the rules whose names begin with it; without either, list all rules.

    Example: podium explain training.target
    """
    from compliance.commands import explain_rule, format_rule_list

    click.echo(
        format_rule_list(output_format) if rule is None else explain_rule(rule, output_format)
    )

"""The commands `check` and `explain`; thin, so that `--help` loads neither parsers nor rules."""

from pathlib import Path
from typing import Final

import click

from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, ROUND_TYPE, NameType

REPORT_FORMATS: Final = ("text", "json", "junit", "sarif", "github")


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
        "Check hyper-parameter files (TOML or JSON; this one and every PATH) against the closed"
        " division."
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
        "Waivers (TOML): findings that are known and accepted. They are still listed, but have no"
        " effect on a verdict."
    ),
)
@build_format_option(*REPORT_FORMATS)
def check(
    paths: tuple[str, ...],
    round_name: str | None,
    truth: Path | None,
    tokenizer: Path | None,
    config: Path | None,
    workload: str | None,
    strict: bool,
    accept: Path | None,
    output_format: str,
) -> int:
    """Check logs, result sets, entries, systems, organisations, results trees and bundles, each
    PATH separately.

    podium detects the round: one of MLPerf Training, Inference or Endpoints, or podium's own
    (podium list names them). Results of any other round are reported as unknown, neither valid nor
    invalid. In a published round, only findings that affect the result (its score, quality, rules
    or identity) are errors; findings about its form (file layout and log format) are warnings.

    The report lists the results found in each PATH, and what of them could not be checked. -v
    shows every place of a finding. --format github also adds a summary to the file
    that GITHUB_STEP_SUMMARY names.

    Of a sealed bundle, its signatures and what its manifest claims of commands and seeds are not
    looked at: podium verify checks them.

    --accept names a file of waivers: rule, path, by whom, until which day, and why.

    Without --config, at least one PATH is required. Exit code 0: every PATH is valid. 1: a PATH is
    invalid, unreadable, missing, or of an unknown round. 2: the request is wrong, or a waiver has
    expired or names an unknown rule. 3: all other
    PATHs are valid, but the package of a workload is not installed; or what an option needs is not.

    Example: podium check results --format json
    """
    from compliance.commands import run_check_command, run_config_check_command

    if config is not None and accept is not None:
        raise click.UsageError("--accept is for results; --config has no waivers")
    if config is not None:
        return run_config_check_command(
            [config, *map(Path, paths)], workload, round_name, output_format
        )
    if not paths:
        raise click.UsageError("nothing to judge: name a PATH, such as: podium check results")
    return run_check_command(
        paths,
        round_name,
        truth,
        output_format,
        strict=strict,
        tokenizer=tokenizer,
        accept=accept,
    )


@click.command()
@click.argument("rule", required=False, type=NameType(list_rule_ids), metavar="[RULE]")
@build_format_option("text", "json")
def explain(rule: str | None, output_format: str) -> None:
    """Explain what RULE requires, its source, and how to fix a violation; without RULE, list all
    rules.

    Example: podium explain training.target
    """
    from compliance.commands import explain_rule, format_rule_list

    click.echo(
        format_rule_list(output_format) if rule is None else explain_rule(rule, output_format)
    )

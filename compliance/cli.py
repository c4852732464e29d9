"""The commands check and explain; thin, so that `--help` loads neither parsers nor rules."""

from pathlib import Path
from typing import Final

import click

from suite.cli import PATH_TYPE
from suite.console.parameters import ROUND_TYPE, NameType

REPORT_FORMATS: Final = ("text", "json", "junit", "sarif", "github")


def list_rule_ids() -> list[str]:
    """List the rules, for shell completion."""
    from compliance.rules import load_rules

    return sorted(load_rules())


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
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
    help="Folder with labels or references, if the tree does not contain them.",
)
@click.option(
    "--config",
    type=PATH_TYPE,
    help=(
        "Check hyperparameter files (this TOML or JSON file and every PATH) against the"
        " closed division."
    ),
)
@click.option("--workload", help="Workload for --config (default: the file's own `workload`).")
@click.option(
    "--format",
    "form",
    type=click.Choice(REPORT_FORMATS),
    default="text",
    show_default=True,
    help="Output format.",
)
def check(
    paths: tuple[str, ...],
    round_name: str | None,
    truth: Path | None,
    config: Path | None,
    workload: str | None,
    form: str,
) -> int:
    """Check logs, sets, entries, systems, organisations, results trees and bundles, each PATH
    separately.

    Detects the round: Training v0.6 to v6.1, Inference v0.5 to v6.1, podium-v1. Results of any
    other round are neither valid nor broken: they are unknown.

    Exit code 0: all are valid; 1: one is not, or cannot be read, or belongs to an unknown round; 3:
    a workload's package is not installed.

    Example: podium check results --format json
    """
    from compliance.commands import check_config, check_paths

    if config is not None:
        return check_config([config, *map(Path, paths)], workload, round_name, form)
    if not paths:
        raise click.UsageError("nothing to judge: name a PATH")
    return check_paths(paths, round_name, truth, form)


@click.command()
@click.argument("rule", required=False, type=NameType(list_rule_ids), metavar="[RULE]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def explain(rule: str | None, form: str) -> None:
    """Explain what a rule requires, its source, and how to fix a violation; without RULE, list all
    rules.

    Example: podium explain training.target
    """
    from compliance.commands import explain_rule, format_rule_list

    click.echo(format_rule_list(form) if rule is None else explain_rule(rule, form))

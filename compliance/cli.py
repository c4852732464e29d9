"""The commands check and explain; thin, so that `--help` loads neither parsers nor rules."""

from pathlib import Path
from typing import Final

import click

from suite.cli import PATH_TYPE
from suite.console.parameters import ROUND_TYPE, NameType

REPORT_FORMATS: Final = ("text", "json", "junit", "sarif", "github")


def list_rule_ids() -> list[str]:
    """Name the rules, for the shell."""
    from compliance.rules import load_rules

    return sorted(load_rules())


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--round",
    "round_name",
    type=ROUND_TYPE,
    metavar="ROUND",
    help="Round to judge by; without it, the one that each PATH's content tells.",
)
@click.option(
    "--truth", type=PATH_TYPE, help="Folder with labels or references where the tree has none."
)
@click.option(
    "--config",
    type=PATH_TYPE,
    help=(
        "Judge a TOML or JSON file of hyper-parameters, and each PATH as one more, by closed rules."
    ),
)
@click.option(
    "--workload", help="With --config: the workload; without it, the file's own `workload`."
)
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
    """Judge logs, sets, entries, systems, organisations, results trees and bundles, each PATH on
    its own.

    Published results of MLPerf Training v0.6 and v0.7 and of MLPerf Inference v0.5 and v0.7 are
    judged by their own rounds; results of any other round are neither valid nor broken: they are
    unknown.

    Exit code 0: all are valid; 1: one is not, or cannot be read, or is of an unknown round; 3: a
    workload's package is not installed.

    Example: podium check results --format json
    """
    from compliance.commands import check_config, check_paths

    if config is not None:
        return check_config([config, *map(Path, paths)], workload, round_name, form)
    if not paths:
        raise click.UsageError("nothing to judge: give a PATH")
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
    """Say what RULE of the judge asks, where it stands, and what to do; without RULE, list all
    rules.

    Example: podium explain training.target
    """
    from compliance.commands import explain_rule, format_rule_list

    click.echo(format_rule_list(form) if rule is None else explain_rule(rule, form))

"""What the commands of the judge do, behind their options."""

import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from compliance import report
from compliance.judge import Judge
from compliance.rules import catalogue
from compliance.verdict import Finding, Result, Severity, Verdict
from suite import registry
from suite.errors import RequestError, unknown
from suite.legality import judge
from suite.rounds import HyperValue, Round
from suite.settings import convert, flatten, lookup
from suite.terms import Division


def check_paths(paths: Sequence[str], round_name: str | None, truth: Path | None, form: str) -> int:
    """Judge each path and print the report; 0 where all are valid, else 1. RequestError for an unknown round or truth folder."""
    if truth is not None and not truth.is_dir():
        raise RequestError(f"--truth {truth}: no such folder")
    judge = Judge(round_name, truth)
    return told([judge.result(path) for path in paths], form)


def told(results: Sequence[Result], form: str) -> int:
    """Print a report; give the exit code."""
    click.echo(report.as_json(results) if form == "json" else report.as_text(results), nl=form == "json")
    return int(any(result.verdict is not Verdict.VALID for result in results))


def check_config(path: Path, workload: str | None, round_name: str | None, form: str) -> int:
    """Judge a TOML file of hyper-parameters by the closed division's constraints; 0 where it is legal, else 1."""
    round = registry.round(round_name or registry.DEFAULT_ROUND)
    settings, named = hyperparameters(path, workload, round)
    rows = [(profile, row) for profile, row in round.benchmark(named).training.items() if row.division is Division.CLOSED]
    if not rows:
        raise RequestError(f"{named} has no closed division in round {round.name}")
    findings = [
        config_finding(path, f"{key} {found}", required, round.source(f"{named}.training.{profile}.constraints"))
        for profile, row in rows
        for key, found, required in (
            *((breach.key, breach.found, breach.required) for breach in judge(row.constraints, settings)),
            *((key, "is missing", "a value") for key in row.required if key not in settings),
        )
    ]
    return told([Result(path=str(path), round=round.name, findings=tuple(dict.fromkeys(findings)))], form)


def config_finding(path: Path, found: str, required: str, source: str) -> Finding:
    """Say what the closed division does not allow."""
    advice = "choose an allowed value, or submit to the open division"
    return Finding(rule="training.legality", severity=Severity.ERROR, file=str(path), line=None, found=found, required=required, source=source, advice=advice)


def hyperparameters(path: Path, workload: str | None, round: Round) -> tuple[Mapping[str, HyperValue], str]:
    """Read the file, and the workload that it or the option names; RequestError for unknown keys, wrong types or no workload."""
    try:
        table: Mapping[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"--config {path}: {error}") from error
    named = workload or table.get("workload")
    if not isinstance(named, str):
        raise RequestError(f"--config {path}: name the workload, with --workload or as `workload` in the file")
    settings = {**round.settings, **round.benchmark(named).settings}
    return read_settings(settings, table), named


def read_settings(known: Mapping[str, Any], table: Mapping[str, Any]) -> Mapping[str, HyperValue]:
    """Check keys and types as podium train does."""
    return {key: convert(lookup(known, key), key, value) for key, value in flatten(table, "").items() if key != "workload"}


def explain_rule(id: str) -> str:
    """Say all about a rule; RequestError names the nearest."""
    rules = catalogue()
    if id not in rules:
        raise unknown("rule", id, rules)
    rule = rules[id]
    scope = f"{rule.severity}; about a {rule.document.__name__}; rounds: {', '.join(sorted(rule.rounds)) if rule.rounds else 'all'}"
    parts = [f"{rule.id} ({scope})", rule.text, f"Source: {rule.source}", f"What to do: {rule.advice}"]
    return "\n".join(textwrap.fill(part, 100) for part in parts)

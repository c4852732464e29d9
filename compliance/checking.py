"""What the commands of the judge do, behind their options."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from compliance import report
from compliance.judge import Judge
from compliance.rules import Rule, catalogue
from compliance.verdict import Result, Verdict
from suite import registry
from suite.errors import RequestError, unknown


def check_paths(paths: Sequence[str], round_name: str | None, truth: Path | None, form: str) -> int:
    """Judge each path and print the report; 0 where all are valid, else 1. RequestError for an unknown round or truth folder."""
    if truth is not None and not truth.is_dir():
        raise RequestError(f"--truth {truth}: no such folder")
    judge = Judge(round_name, truth)
    return told([judge.result(path) for path in paths], form)


def check_config(configs: Sequence[Path], workload: str | None, round_name: str | None, form: str) -> int:
    """Judge files of hyper-parameters by the closed division's rules; 0 where all are legal, else 1."""
    from compliance.config import judge_config

    return told([judge_config(path, workload, round_name) for path in configs], form)


def told(results: Sequence[Result], form: str) -> int:
    """Print a report; give the exit code."""
    click.echo(report.render(results, form), nl=False)
    return int(any(result.verdict is not Verdict.VALID for result in results))


def explain_rule(id: str) -> str:
    """Say all about a rule; RequestError names the nearest."""
    rules = catalogue()
    if id not in rules:
        raise unknown("rule", id, rules)
    return "\n".join(textwrap.fill(part, 100, subsequent_indent="  ", break_long_words=False) for part in explanation(rules[id]))


def explanation(rule: Rule[object]) -> Iterator[str]:
    """Yield the paragraphs about a rule."""
    from compliance.rules.sightings import sighting

    yield f"{rule.id} ({rule.severity}; about a {rule.document.__name__})"
    yield rule.text
    yield f"Source: {rule.source}"
    yield f"What to do: {rule.advice}"
    yield f"Rounds: {', '.join(rounds_of(rule))}"
    yield f"Verdict where it is broken: {rule.weight if rule.severity == 'error' else 'none; it is a ' + rule.severity}"
    if rule.workload:
        yield f"Workload: {rule.workload}"
    if found := sighting(rule.id):
        yield f"For example: {found}"


def rounds_of(rule: Rule[object]) -> Sequence[str]:
    """Name the rounds that a rule judges by: its own, else all of the kinds that load it."""
    if rule.rounds is not None:
        return sorted(rule.rounds)
    return [name for name in registry.round_names() if rule.id in catalogue(registry.kind_of_round(name))]

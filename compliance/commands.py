"""Implements the judge's commands."""

import difflib
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from compliance.judge import Judge
from compliance.reports import render
from compliance.rules import Rule, load_rules
from compliance.verdict import PathJudgement, Verdict
from suite import registry
from suite.errors import MissingError, RequestError

RULE_LIST_WIDTH: Final = 100
"""Line width of the list of rules."""
MAX_SUGGESTED_RULES: Final = 3
"""Suggestions for a misspelt rule."""
DOCUMENT_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "ServedAuditTest": "a compliance test of an inference entry",
    "Audit": "a compliance test",
    "Bundle": "a bundle",
    "CheckpointFile": "the record of a checkpoint",
    "RunConditions": "what was recorded beside a run",
    "DescribedSystem": "a system description",
    "ServedEntry": "an inference entry",
    "ServedBenchmarkFolder": "a benchmark of a system",
    "ServedSystem": "a system",
    "InferenceEntry": "an inference entry",
    "LaterEntry": "an inference entry",
    "LaterEntryDocuments": "the papers of an inference entry",
    "LaterModel": "a benchmark of an inference system",
    "LaterSystem": "an inference system description",
    "LaterTest": "a compliance test of an inference entry",
    "LaterRun": "a LoadGen run",
    "LedgerFile": "a ledger",
    "LoadGenRun": "a LoadGen run",
    "MeasuredSession": "a session of MLPerf Power beside a LoadGen run",
    "PublishedOrganisation": "an organisation",
    "PeakFile": "a study",
    "RunPower": "the power of a run",
    "PublishedLog": "a training log",
    "PublishedSet": "a training set",
    "PublishedSystem": "a system",
    "ServedRun": "a LoadGen run",
    "ServedSubmission": "an organisation",
    "SourceFile": "any file",
    "SpeedFile": "a study",
    "StudyFile": "a study",
    "UninstalledResult": "a result of a workload that is not installed",
    "Submission": "an organisation",
    "SystemFile": "a system description",
    "TrainingLog": "a training log",
    "TrainingSet": "a training set",
    "UnjudgedPath": "a result of an unknown round",
}
"""What a rule checks, in words."""


def check_paths(paths: Sequence[str], round_name: str | None, truth: Path | None, form: str) -> int:
    """Judge each path and print the report; return 0 if all are valid, 3 if only a workload's
    package is missing, else 1.

    RequestError for an unknown round or truth folder.
    """
    if "" in paths:
        raise RequestError(
            "an empty PATH: give a log, a folder or a bundle; `.` is the folder that you stand in"
        )
    if truth is not None and not truth.is_dir():
        raise RequestError(f"--truth {truth}: no such folder")
    judge = Judge(round_name, truth)
    return print_judge_report([judge.judge_path(path) for path in paths], form)


def check_config(
    configs: Sequence[Path], workload: str | None, round_name: str | None, form: str
) -> int:
    """Judge files of hyperparameters by the closed division's rules; return 0 if all are legal,
    else 1.
    """
    from compliance.hyperparameter_check import judge_config

    return print_judge_report([judge_config(path, workload, round_name) for path in configs], form)


def print_judge_report(results: Sequence[PathJudgement], form: str) -> int:
    """Print a report and return the exit code."""
    click.echo(render.render_judge_report(results, form), nl=False)
    if all(result.verdict is Verdict.VALID or result.lacks_workload for result in results):
        return MissingError.exit_code if any(result.lacks_workload for result in results) else 0
    return 1


def format_rule_list(form: str) -> str:
    """List all rules: one line each, or in full as JSON."""
    rules = [rule for _, rule in sorted(load_rules().items())]
    if form == "json":
        return json.dumps({"rules": [build_rule_record(rule) for rule in rules]}, indent=2)
    width = max(len(rule.id) for rule in rules)
    lines = [
        f"{rule.id:<{width}}"
        f" {textwrap.shorten(rule.text, RULE_LIST_WIDTH - width - 1, placeholder=' ...')}"
        for rule in rules
    ]
    return "\n".join([*lines, "", f"{len(rules)} rules; podium explain RULE says more"])


def build_rule_record(rule: Rule[object]) -> dict[str, object]:
    """Return a rule's facts for JSON output."""
    record = {
        "id": rule.id,
        "severity": rule.severity,
        "about": DOCUMENT_DESCRIPTIONS.get(rule.document.__name__, ""),
        "text": rule.text,
    }
    return {
        **record,
        "source": rule.source,
        "advice": rule.advice,
        "rounds": list(list_rule_rounds(rule)),
        "workload": rule.workload,
    }


def explain_rule(id: str, form: str = "text") -> str:
    """Explain a rule in full; for an unknown id, RequestError suggests the nearest."""
    rules = load_rules()
    if id not in rules:
        near = difflib.get_close_matches(id, sorted(rules), n=MAX_SUGGESTED_RULES, cutoff=0.3)
        hint = (
            f"did you mean {' or '.join(repr(name) for name in near)}?"
            if near
            else "podium check names the rules that a result breaks"
        )
        raise RequestError(f"unknown rule '{id}'; {hint}")
    if form == "json":
        return json.dumps(build_rule_record(rules[id]), indent=2)
    return "\n".join(
        textwrap.fill(part, 100, subsequent_indent="  ", break_long_words=False)
        for part in describe_rule(rules[id])
    )


def describe_rule(rule: Rule[object]) -> Iterator[str]:
    """Yield the paragraphs of a rule's explanation."""
    from compliance.rules.example_findings import find_example_finding

    yield f"{rule.id} ({rule.severity}; about {DOCUMENT_DESCRIPTIONS[rule.document.__name__]})"
    yield rule.text
    yield f"Source: {rule.source}"
    yield f"What to do: {rule.advice}"
    yield f"Rounds: {', '.join(list_rule_rounds(rule))}"
    yield (
        "Verdict where it is broken:"
        f" {rule.weight if rule.severity == 'error' else 'none; it is a ' + rule.severity}"
    )
    if rule.workload:
        yield f"Workload: {rule.workload}"
    if found := find_example_finding(rule.id):
        yield f"For example: {found}"


def list_rule_rounds(rule: Rule[object]) -> Sequence[str]:
    """Return the rounds that a rule applies to: its own, else all of the kinds that load it."""
    if rule.rounds is not None:
        return sorted(rule.rounds)
    return [
        name
        for name in registry.list_round_names()
        if rule.id in load_rules(registry.load_round_kind(name))
    ]

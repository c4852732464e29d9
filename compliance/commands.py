"""Implement the judge's commands."""

import difflib
import json
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from compliance.judge import Judge
from compliance.own_run import fold_disturbances, omit_editing_advice
from compliance.reports import render
from compliance.reports.counts import format_check_summary
from compliance.reports.statistics import render_rule_counts
from compliance.rules import Rule, load_rules
from compliance.rules.differences import CheckerDifference, list_rule_differences
from compliance.verdict import (
    About,
    PathJudgement,
    Severity,
    Verdict,
    change_findings,
    judge_strictly,
)
from compliance.waivers import Waiver, apply_waivers, describe_idle_waivers, read_waivers
from suite import registry
from suite.console.screen import convert_to_final_path, get_output_level
from suite.errors import MissingError, RequestError
from suite.files.archives import refuse_archive

RULE_LIST_WIDTH: Final = 100
"""Line width of the list of rules."""
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Environment variable with which a workflow names the file that its step's summary is added to."""
RULE_NAME_WIDTH: Final = 30
"""Width of the column of ids in the list of rules."""
FIRST_SENTENCE: Final = re.compile(r"(?<=[a-z0-9)`'\"]\.) (?=[A-Z])")
"""The end of a rule's first sentence."""
MAX_SUGGESTED_RULES: Final = 3
"""Suggestions for a misspelt rule."""
LEAST_LIKENESS: Final = 0.6
"""Of a suggested rule's id to the one that was asked for, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How results are judged, and what is printed of them."""

    round_name: str | None = None
    """None: detected from each PATH."""
    truth: Path | None = None
    """Folder of labels or references."""
    tokenizer: Path | None = None
    """tokenizer.json, to recount tokens."""
    accept: Path | None = None
    """File of waivers."""
    strict: bool = False
    """Whether warnings about the form are errors."""
    exit_first: bool = False
    """Whether to stop at the first PATH that fails."""
    statistics: bool = False
    """Whether findings are counted by rule, and not listed."""
    output_format: str = "text"


def run_check_command(paths: Sequence[str], options: CheckOptions) -> int:
    """Judge each path and print the report; return 0 if all are valid, 3 if only a workload's
    package is missing, else 1.

    RequestError for an unknown round, truth folder or tokenizer, for an archive, and for waivers
    that cannot be used.
    """
    results = list(judge_paths(paths, options))
    if all(each.verdict is Verdict.VALID for each in results):
        results = list(map(name_final_paths, results))
    if options.statistics:
        click.echo(render_rule_counts(results, options.output_format))
        return get_exit_code(results)
    level, disturbances = get_output_level(), ""
    text = options.output_format == "text"
    if level.inner and text:
        results = omit_editing_advice(results)
        if not level.verbose:
            results, disturbances = fold_disturbances(results)
    code = print_judge_report(results, options.output_format)
    if disturbances:
        click.echo(disturbances)
    if text and not level.inner:
        click.echo(f"\n{format_check_summary(results, len(paths))}")
    return code


def judge_paths(paths: Sequence[str], options: CheckOptions) -> Iterator[PathJudgement]:
    """Yield the judgement of each path, up to the first that fails if that is wanted; errors as of
    `run_check_command`.
    """
    if "" in paths:
        raise RequestError("PATH is empty; use `.` for the current directory")
    if options.truth is not None and not options.truth.is_dir():
        raise RequestError(f"--truth {options.truth}: no such folder")
    for path in paths:
        refuse_archive(Path(path))
    waivers: Sequence[Waiver] = ()
    if options.accept:
        waivers = read_waivers(options.accept, datetime.now(UTC).date())
    counter = None
    if options.tokenizer is not None:
        from compliance.token_counter import load_token_counter

        counter = load_token_counter(options.tokenizer)
    judge, judged = Judge(options.round_name, options.truth, counter), []
    for path in paths:
        result = judge.judge_path(path)
        if options.strict:
            result = judge_strictly(result)
        judged.append(apply_waivers(result, waivers) if waivers else result)
        yield judged[-1]
        if options.exit_first and judged[-1].verdict is not Verdict.VALID:
            return
    if options.accept:
        for sentence in describe_idle_waivers(options.accept, judged, waivers):
            click.echo(f"podium: {sentence}", err=True)


def name_final_paths(judgement: PathJudgement) -> PathJudgement:
    """Name a result and its files by the paths that they have once a campaign is complete."""
    named = change_findings(
        judgement,
        lambda findings: [
            replace(each, file=convert_to_final_path(each.file)) for each in findings
        ],
    )
    results = [replace(each, path=convert_to_final_path(each.path)) for each in named.results]
    return replace(named, path=convert_to_final_path(named.path), results=tuple(results))


def run_config_check_command(
    configs: Sequence[Path], workload: str | None, round_name: str | None, output_format: str
) -> int:
    """Check hyperparameter files against the closed division; return 0 if all are legal, else 1.

    RequestError for an archive, and as `judge_config` raises it.
    """
    from compliance.hyperparameter_check import judge_config

    for path in configs:
        refuse_archive(path)
    return print_judge_report(
        [judge_config(path, workload, round_name) for path in configs], output_format
    )


def print_judge_report(results: Sequence[PathJudgement], output_format: str) -> int:
    """Print a report and return the exit code."""
    report = render.render_judge_report(results, output_format, verbose=get_output_level().verbose)
    # programs read the other formats, which are UTF-8 whatever the terminal shows
    click.echo(report.decode() if output_format == "text" else report, nl=False)
    if output_format == "github":
        from compliance.reports.github import render_step_summary

        write_step_summary(render_step_summary(results))
    return get_exit_code(results)


def get_exit_code(results: Sequence[PathJudgement]) -> int:
    """Return 0 if all results are valid, 3 if only a workload's package is missing, else 1."""
    if all(result.verdict is Verdict.VALID or result.lacks_workload for result in results):
        if any(result.lacks_workload for result in results):
            return MissingError.exit_code
        return 0
    return 1


def write_step_summary(text: str) -> None:
    """Append a summary to the file that a workflow's step names, if it names one; a file that
    cannot be written costs the summary alone.
    """
    if not (name := os.environ.get(SUMMARY_VARIABLE)):
        return
    file = Path(name)
    try:
        with file.open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(text)
    except OSError as error:
        click.echo(f"{SUMMARY_VARIABLE}={file}: {error.strerror}; no summary is written", err=True)


def format_rule_list(output_format: str, prefix: str = "") -> str:
    """List the rules below a prefix, or all: each with its first sentence, or in full as JSON."""
    rules = [rule for id, rule in sorted(load_rules().items()) if is_below_prefix(id, prefix)]
    if output_format == "json":
        return json.dumps({"rules": [build_rule_record(rule) for rule in rules]}, indent=2)
    width = min(RULE_NAME_WIDTH, max(len(rule.id) for rule in rules))
    lines = [line for rule in rules for line in format_listed_rule(rule, width)]
    return "\n".join([*lines, "", f"{len(rules)} rules; podium explain RULE shows details"])


def is_below_prefix(id: str, prefix: str) -> bool:
    """Return whether a rule's id is the prefix, or goes on behind it with a new word."""
    stem = prefix.rstrip(".-_")
    return id.startswith(stem) and (not stem or id[len(stem) : len(stem) + 1] in (*".-_", ""))


def format_listed_rule(rule: Rule[Any], width: int) -> Iterator[str]:
    """Yield the lines of a rule in a list: its id in a column of some width, then its first
    sentence; a longer id has a line of its own.
    """
    indent = " " * (width + 1)
    head = f"{rule.id} ".ljust(width + 1)
    if len(rule.id) > width:
        yield rule.id
        head = indent
    yield from textwrap.wrap(
        get_first_sentence(rule.text),
        RULE_LIST_WIDTH,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def get_first_sentence(text: str) -> str:
    """Return the text up to its first full stop before a capital letter."""
    return FIRST_SENTENCE.split(" ".join(text.split()), maxsplit=1)[0]


def build_rule_record(rule: Rule[Any]) -> dict[str, object]:
    """Return a rule's facts for JSON output."""
    record = {
        "id": rule.id,
        **({"former_id": rule.former} if rule.former else {}),
        "severity": rule.severity,
        "about": rule.about,
        "document": rule.document.document_name,
        "text": rule.text,
    }
    return {
        **record,
        "source": rule.source,
        "advice": rule.advice,
        "rounds": list(list_rule_rounds(rule)),
        "workload": rule.workload,
    }


def explain_rule(id: str, output_format: str = "text") -> str:
    """Explain a rule in full, also by its former id, or list the rules below a prefix; for an
    unknown id, RequestError suggests the nearest.
    """
    rules = load_rules()
    former = {old: rule.id for rule in rules.values() for old in rule.former.split()}
    id = former.get(id, id)
    if id not in rules and any(is_below_prefix(each, id) for each in rules):
        return format_rule_list(output_format, id)
    if id not in rules:
        near = difflib.get_close_matches(
            id, sorted(rules), n=MAX_SUGGESTED_RULES, cutoff=LEAST_LIKENESS
        )
        if near:
            hint = f"did you mean {' or '.join(repr(name) for name in near)}?"
        else:
            hint = "podium explain lists all rules"
        raise RequestError(f"unknown rule '{id}'; {hint}")
    if output_format == "json":
        return json.dumps(build_rule_record(rules[id]), indent=2)
    return "\n".join(
        textwrap.fill(part, 100, subsequent_indent="  ", break_long_words=False)
        for part in describe_rule(rules[id])
    )


def describe_rule(rule: Rule[Any]) -> Iterator[str]:
    """Yield the paragraphs of a rule's explanation."""
    from compliance.rules.example_findings import find_example_finding

    yield f"{rule.id} ({rule.severity}; about {rule.about}; for {rule.document.document_name})"
    if rule.former:
        yield f"Formerly: {rule.former}"
    yield rule.text
    yield f"Source: {rule.source}"
    yield f"What to do: {rule.advice}"
    if rule.doubt:
        yield f"Puts in doubt: {rule.doubt}"
    yield f"Rounds: {', '.join(list_rule_rounds(rule))}"
    yield f"Verdict if violated: {describe_verdict(rule)}"
    if rule.workload:
        yield f"Workload: {rule.workload}"
    for each in list_rule_differences(rule.id):
        yield f"Official checker: {describe_difference(each)}"
    if found := find_example_finding(rule.id):
        yield f"For example: {found}"


def describe_difference(difference: CheckerDifference) -> str:
    sentence = f"{difference.subject}: {difference.official}. podium: {difference.here}"
    if difference.reason:
        return f"{sentence} ({difference.reason})"
    return sentence


def describe_verdict(rule: Rule[Any]) -> str:
    """Describe the verdict that a violation leads to."""
    if rule.severity is not Severity.ERROR:
        return f"none; it is {'a' if rule.severity is Severity.WARNING else 'an'} {rule.severity}"
    if rule.about is About.FORM and not set(list_rule_rounds(rule)) <= {registry.DEFAULT_ROUND}:
        return f"none in a published round, where form is a warning; {rule.weight} with --strict"
    return str(rule.weight)


def list_rule_rounds(rule: Rule[Any]) -> Sequence[str]:
    """Return the rounds that a rule applies to: its own, or all rounds of the kinds that load
    it.
    """
    if rule.rounds is not None:
        return sorted(rule.rounds)
    return [
        name
        for name in registry.list_round_names()
        if rule.id in load_rules(registry.load_round_kind(name).name)
    ]

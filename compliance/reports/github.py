"""GitHub's workflow commands: annotations at file and line; and the summary of a workflow's step.

Source: docs.github.com, Workflow commands for GitHub Actions, Setting an error message;
actions/toolkit, core/src/command.ts: escaping.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from compliance.reports.counts import (
    ResultRow,
    build_result_rows,
    format_verdict_details,
)
from compliance.reports.limits import OmittedFindings, split_listed_findings
from compliance.verdict import Finding, PathJudgement, Severity, Verdict
from suite.files.untrusted_files import replace_unprintable

GITHUB_LEVELS: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "notice",
}
MAX_SUMMARY_ROWS: Final = 200
"""Rows of a table in a step's summary, which GitHub limits to 1 MiB."""
MAX_EXAMPLE_CHARACTERS: Final = 300
"""Maximum characters of a finding in a step's summary."""
MARKDOWN_MARKS: Final = re.compile(r"[\\`*_{}\[\]#|~@]")
VERDICT_LEVELS: Final = {
    Verdict.VALID: "notice",
    Verdict.NOT_CONVERGED: "warning",
    Verdict.UNKNOWN: "error",
    Verdict.BROKEN: "error",
}


class WorkflowCommand(NamedTuple):
    """One command and its level."""

    level: str
    text: str


def render_github_report(results: Sequence[PathJudgement]) -> str:
    """Render one command per PATH with its verdict and one per finding, errors first: GitHub shows
    the first ten of each level of a step alone.
    """
    # a file may have hundreds of findings
    relative = cache(partial(format_relative_path, Path.cwd()))
    commands = [
        *(command for result in results for command in iterate_verdict_commands(result)),
        *(command for result in results for command in iterate_finding_commands(result, relative)),
    ]
    order = list(GITHUB_LEVELS.values())
    ordered = sorted(commands, key=lambda command: order.index(command.level))
    return "".join(f"{command.text}\n" for command in ordered)


def iterate_verdict_commands(result: PathJudgement) -> Iterator[WorkflowCommand]:
    """Yield the command with the verdict on a PATH."""
    level = VERDICT_LEVELS[result.verdict]
    text = f"{result.path}: {result.verdict} ({format_verdict_details(result)})"
    yield WorkflowCommand(level, format_workflow_command(level, text, title="podium check"))


def iterate_finding_commands(
    result: PathJudgement, relative: Callable[[str], str]
) -> Iterator[WorkflowCommand]:
    """Yield the commands of a PATH's findings at their locations, and of those left out."""
    listed, left_out = split_listed_findings(result.findings)
    for finding in listed:
        level = choose_github_level(finding)
        yield WorkflowCommand(level, render_finding_annotation(finding, relative(finding.file)))
    for each in left_out:
        level = choose_github_level(each)
        text = f"{format_acceptance(each)}and {each.more} more of this rule in this file"
        command = format_workflow_command(level, text, file=relative(each.file), title=each.rule)
        yield WorkflowCommand(level, command)


def render_step_summary(results: Sequence[PathJudgement]) -> str:
    """Render the summary of a workflow's step as Markdown: each PATH's verdict, its results, worst
    first, and the rules with findings.
    """
    return "".join(f"{line}\n" for result in results for line in iterate_summary_lines(result))


def iterate_summary_lines(judged: PathJudgement) -> Iterator[str]:
    """Yield the lines of one PATH."""
    yield f"### {escape_markdown(judged.path)}: {judged.verdict}"
    yield ""
    yield escape_markdown(format_verdict_details(judged))
    yield ""
    yield from iterate_table_lines(ResultRow._fields, build_result_rows(judged))
    kinds: dict[tuple[bool, Severity, str], list[Finding]] = {}
    for each in judged.findings:
        kinds.setdefault((each.accepted is not None, each.severity, each.rule), []).append(each)
    yield from iterate_table_lines(
        ("severity", "rule", "findings", "for example"),
        [
            (
                f"accepted {severity}" if accepted else str(severity),
                rule,
                f"{len(kinds[accepted, severity, rule]):,}",
                format_finding_example(kinds[accepted, severity, rule][0]),
            )
            for accepted, severity, rule in sorted(
                kinds, key=lambda kind: (kind[0], list(Severity).index(kind[1]))
            )
        ],
    )


def iterate_table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table of at most MAX_SUMMARY_ROWS rows; nothing without rows."""
    if not rows:
        return
    for cells in (header, ["---"] * len(header)):
        yield f"| {' | '.join(cells)} |"
    for row in rows[:MAX_SUMMARY_ROWS]:
        yield f"| {' | '.join(map(escape_markdown, row))} |"
    yield ""
    if more := len(rows[MAX_SUMMARY_ROWS:]):
        yield f"and {more:,} more; `podium check -v` lists them"
        yield ""


def format_finding_example(first: Finding) -> str:
    """Format a finding with its location and its waiver, shortened."""
    if first.line:
        place = f"{first.file}:{first.line}"
    else:
        place = first.file
    text = f"{place}: {format_acceptance(first)}found {first.found}; expected {first.required}"
    if len(text) <= MAX_EXAMPLE_CHARACTERS:
        return text
    return f"{text[:MAX_EXAMPLE_CHARACTERS]}..."


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown, so that it is neither markup nor ends a table's cell."""
    return MARKDOWN_MARKS.sub(r"\\\g<0>", replace_unprintable(text)).replace("<", "&lt;")


def render_finding_annotation(finding: Finding, file: str) -> str:
    """Render one finding as an annotation at its location."""
    location = {"file": file} | ({"line": str(finding.line)} if finding.line else {})
    text = (
        f"{format_acceptance(finding)}found {finding.found}; expected {finding.required}\n"
        f"{finding.advice}\n{finding.source}"
    )
    return format_workflow_command(
        choose_github_level(finding), text, **location, title=finding.rule
    )


def choose_github_level(found: Finding | OmittedFindings) -> str:
    """Return the level of an annotation; of an accepted finding the lowest."""
    return GITHUB_LEVELS[Severity.INFO if found.accepted else found.severity]


def format_acceptance(found: Finding | OmittedFindings) -> str:
    """Format the beginning of a text about a finding that a waiver accepts; empty for others."""
    if found.accepted:
        return f"accepted {found.severity}, {found.accepted}; "
    return ""


def format_relative_path(here: Path, file: str) -> str:
    """Return a file's path relative to the working folder, which is the repository root in a
    workflow; files elsewhere keep their path.
    """
    path = Path(file)
    if path.is_relative_to(here):
        return path.relative_to(here).as_posix()
    return path.as_posix()


def format_workflow_command(name: str, message: str, **properties: str) -> str:
    """Format a command of a level, with its properties: file, line, title."""
    formatted = ",".join(
        f"{key}={encode_command_text(value, ':,')}" for key, value in properties.items()
    )
    return f"::{name} {formatted}::{encode_command_text(message)}"


def encode_command_text(text: str, more: str = "") -> str:
    """Escape a text so that nothing in it ends the command, starts another, or gives one to the
    terminal of whoever reads the log.
    """
    text = (
        "\n".join(map(replace_unprintable, text.split("\n")))
        .replace("%", "%25")
        .replace("\n", "%0A")
    )
    for letter in more:
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text

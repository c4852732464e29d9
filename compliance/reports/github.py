"""GitHub's workflow commands: annotations at file and line.

Source: docs.github.com, Workflow commands for GitHub Actions, Setting an error message;
actions/toolkit, core/src/command.ts: escaping.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from compliance.reports.limits import split_listed_findings
from compliance.verdict import Finding, PathJudgement, Severity, Verdict

GITHUB_LEVELS: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "notice",
}
VERDICT_LEVELS: Final = {
    Verdict.VALID: "notice",
    Verdict.NOT_CONVERGED: "warning",
    Verdict.UNKNOWN: "error",
    Verdict.BROKEN: "error",
}


def render_github_report(results: Sequence[PathJudgement]) -> str:
    """Render one command per finding, and one per PATH with its verdict."""
    relative = cache(
        partial(format_relative_path, Path.cwd())
    )  # a file may have hundreds of findings
    return "".join(
        f"{line}\n" for result in results for line in render_result_commands(result, relative)
    )


def render_result_commands(result: PathJudgement, relative: Callable[[str], str]) -> Iterator[str]:
    """Yield the commands of a result: its findings at their locations, then the verdict."""
    listed, left_out = split_listed_findings(result.findings)
    for finding in listed:
        yield render_finding_annotation(finding, relative(finding.file))
    for each in left_out:
        yield format_workflow_command(
            GITHUB_LEVELS[each.severity],
            f"and {each.more} more of this rule in this file",
            file=relative(each.file),
            title=each.rule,
        )
    yield format_workflow_command(
        VERDICT_LEVELS[result.verdict],
        f"{result.path}: {result.verdict} ({result.round})",
        title="podium check",
    )


def render_finding_annotation(finding: Finding, file: str) -> str:
    """Render one finding as an annotation at its location."""
    location = {"file": file} | ({"line": str(finding.line)} if finding.line else {})
    text = f"found {finding.found}; expected {finding.required}\n{finding.advice}\n{finding.source}"
    return format_workflow_command(
        GITHUB_LEVELS[finding.severity], text, **location, title=finding.rule
    )


def format_relative_path(here: Path, file: str) -> str:
    """Return a file's path relative to the working folder, which is the repository root in a
    workflow; files elsewhere keep their path.
    """
    path = Path(file)
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()


def format_workflow_command(name: str, message: str, **properties: str) -> str:
    """Format one workflow command."""
    formatted = ",".join(
        f"{key}={encode_command_text(value, ':,')}" for key, value in properties.items()
    )
    return f"::{name} {formatted}::{encode_command_text(message)}"


def encode_command_text(text: str, more: str = "") -> str:
    """Escape a text so that nothing in it ends the command or starts another."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    for letter in more:
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text

"""GitHub's workflow commands: annotations at file and line.

Source: docs.github.com, Workflow commands for GitHub Actions, Setting an error message;
actions/toolkit, core/src/command.ts: escaping.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from compliance.reports.limits import capped
from compliance.verdict import Finding, Result, Severity, Verdict

LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
VERDICTS: Final = {
    Verdict.VALID: "notice",
    Verdict.NOT_CONVERGED: "warning",
    Verdict.UNKNOWN: "error",
    Verdict.BROKEN: "error",
}


def render(results: Sequence[Result]) -> str:
    """Render one command per finding, and one per PATH with its verdict."""
    relative = cache(partial(relative_to, Path.cwd()))  # a file may have hundreds of findings
    return "".join(f"{line}\n" for result in results for line in commands(result, relative))


def commands(result: Result, relative: Callable[[str], str]) -> Iterator[str]:
    """Yield the commands of a result: its findings at their locations, then the verdict."""
    listed, left_out = capped(result.findings)
    for finding in listed:
        yield annotation(finding, relative(finding.file))
    for each in left_out:
        yield command(
            LEVELS[each.severity],
            f"and {each.more} more of this rule in this file",
            file=relative(each.file),
            title=each.rule,
        )
    yield command(
        VERDICTS[result.verdict],
        f"{result.path}: {result.verdict} ({result.round})",
        title="podium check",
    )


def annotation(finding: Finding, file: str) -> str:
    """Render one finding as an annotation at its location."""
    place = {"file": file} | ({"line": str(finding.line)} if finding.line else {})
    text = f"found {finding.found}; expected {finding.required}\n{finding.advice}\n{finding.source}"
    return command(LEVELS[finding.severity], text, **place, title=finding.rule)


def relative_to(here: Path, file: str) -> str:
    """Return a file's path relative to the working folder, which is the repository root in a
    workflow; files elsewhere keep their path.
    """
    path = Path(file)
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()


def command(name: str, message: str, **properties: str) -> str:
    """Format one workflow command."""
    told = ",".join(f"{key}={escaped(value, ':,')}" for key, value in properties.items())
    return f"::{name} {told}::{escaped(message)}"


def escaped(text: str, more: str = "") -> str:
    """Escape a text so that nothing in it ends the command or starts another."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    for letter in more:
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text

"""The judge, asked through its Python interface; every command of this package asks here."""

from pathlib import Path

from compliance.judge import Judge
from compliance.verdict import Finding, Result, Severity, Verdict
from suite import registry


def ask(path: Path) -> Result:
    """Judge one path."""
    return Judge(registry.round()).result(str(path))


def errors(path: Path) -> list[str]:
    """Judge one path; one sentence per finding that keeps it from counting."""
    return [sentence(finding) for finding in ask(path).findings if finding.severity is Severity.ERROR]


def valid(path: Path) -> bool:
    """Tell whether the judge accepts what lies at a path."""
    return ask(path).verdict is Verdict.VALID


def sentence(finding: Finding) -> str:
    """Say a finding in one line."""
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    return f"{place}: {finding.rule}: found {finding.found}; required: {finding.required}; {finding.advice}"

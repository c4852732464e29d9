"""The judge's errors about the files of a result."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from compliance.verdict import Finding, Severity
from suite.files.layout import locate_absolutely

ErrorIndex: TypeAlias = Mapping[Path, Sequence[tuple[Path, str]]]
"""File or folder -> the files in it with the rules that they break."""


def index_errors(findings: Iterable[Finding]) -> ErrorIndex:
    """Index files with the rules that they break by the file and each folder above it."""
    found = defaultdict[Path, list[tuple[Path, str]]](list)
    for each in findings:
        if each.severity is Severity.ERROR:
            file = locate_absolutely(each.file)
            for place in (file, *file.parents):
                found[place].append((file, each.rule))
    return found


def sort_rules(errors: Iterable[tuple[Path, str]]) -> tuple[str, ...]:
    """Return the rules of some errors, each once."""
    return tuple(sorted({rule for _, rule in errors}))

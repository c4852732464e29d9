"""Check that the round of a result is known."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.rules import rule
from compliance.verdict import About, Fault, Verdict
from suite import registry

VERSIONED_NAME_PATTERN: Final = re.compile(r"(.+)-(v?[0-9]+(?:\.[0-9]+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedPath:
    """A path whose content indicates an unknown round."""

    document_name: ClassVar[str] = "a result of an unknown round"

    path: Path
    evidence: str
    """The evidence for the round, or what was found without any."""
    required: str = ""
    """What would be judged; empty if only the round is unknown."""

    @property
    def advice(self) -> str | None:
        """What helps where no round would: None leaves the rule's own."""
        if self.required:
            return "name the path of a result itself."
        return None


@rule(
    "round.known",
    UnjudgedPath,
    About.IDENTITY,
    doubt="every figure: there is none to judge",
    weight=Verdict.UNKNOWN,
)
def known(result: UnjudgedPath) -> Iterator[Fault]:
    """A result belongs to a known round. Another round's rules do not apply to it.

    Source: house rule: a result is judged by the rules of its own round or not at all.
    Advice: use the checker of that round; if the result was made for a known round, name it with
    --round.
    """
    yield Fault(
        file=result.path,
        found=result.evidence,
        required=result.required
        or f"a known round: {', '.join(format_round_ranges(registry.list_round_names()))}",
        advice=result.advice,
    )


def format_round_ranges(names: Sequence[str]) -> Iterator[str]:
    """Yield the first and the last round of each suite: `training-v0.6 to v6.1`; a name without a
    version is one by itself.
    """
    suites: dict[str, list[str]] = {}
    found = {name: VERSIONED_NAME_PATTERN.fullmatch(name) for name in names}
    yield from (name for name, match in found.items() if match is None)
    for match in filter(None, found.values()):
        suites.setdefault(match[1], []).append(match[2])
    for suite, versions in suites.items():
        ordered = sorted(
            versions,
            key=lambda version: [int(part) for part in version.removeprefix("v").split(".")],
        )
        yield f"{suite}-{ordered[0]}" + (f" to {ordered[-1]}" if len(ordered) > 1 else "")

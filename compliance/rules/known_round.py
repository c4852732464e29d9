"""The round of a result must be a known one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compliance.rules import rule
from compliance.verdict import Fault, Verdict
from suite import registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A path whose content tells a round that is none of those known."""

    path: Path
    seen: str
    """By what it is told."""


@rule("round.known", Unjudged, weight=Verdict.UNKNOWN)
def known(result: Unjudged) -> Iterator[Fault]:
    """A result belongs to a round whose rules are known; another round's rules say nothing about
    it.

    Source: house rule: a result is judged by the rules of its own round, or not at all.
    Advice: use the checker of that round; if the result was made for a known round, name it with
    --round.
    """
    yield Fault(
        file=result.path,
        found=result.seen,
        required=f"a known round: {', '.join(ranges(registry.round_names()))}",
    )


def ranges(names: Sequence[str]) -> Iterator[str]:
    """Yield the first and the last round of each suite: `training-v0.6 to v6.1`."""
    suites: dict[str, list[str]] = {}
    for name in names:
        suite, _, version = name.rpartition("-")
        suites.setdefault(suite, []).append(version)
    for suite, versions in suites.items():
        told = sorted(
            versions,
            key=lambda version: [int(part) for part in version.removeprefix("v").split(".")],
        )
        yield f"{suite}-{told[0]}" + (f" to {told[-1]}" if len(told) > 1 else "")

"""The round of a result must be a known one."""

from collections.abc import Iterator
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
    """A result belongs to a round whose rules are known; another round's rules say nothing about it.

    Source: house rule: a result is judged by the rules of its own round, or not at all.
    Advice: use the checker of that round; if the result was made for a known round, name it with --round.
    """
    yield Fault(file=result.path, found=result.seen, required=f"a known round: {', '.join(registry.round_names())}")

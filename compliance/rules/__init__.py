"""The judge's rules: one typed function each, whose docstring states the rule, its source and what
to do.

A module of rules is named in the entry-point group `podium.rules`; every `Rule` in it counts. An
entry point whose name begins
with a kind of round and a dot (`training.log-clock`) is loaded for rounds of that kind alone. A
rule reads:

    @rule("training.init", TrainingLog)
    def init_limit(log: TrainingLog) -> Iterator[Fault]:
        '''Initialisation takes at most 20 minutes.

        Source: training_rules.adoc v0.7, Timing.
        Advice: move work that is not allowed before the clock behind run_start.
        '''
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

from compliance.verdict import Fault, Finding, Severity, Verdict
from suite import plugins, registry
from suite.rounds import RoundKind

D = TypeVar("D")
MAX_QUOTED_CHARACTERS: Final = 1000
"""Characters of a value that a finding quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[D]):
    """One rule: what it asks, of which kind of document, and the function that looks."""

    id: str
    document: type[D]
    severity: Severity
    weight: Verdict
    rounds: frozenset[str] | None
    """Names of rounds, None for all."""
    workload: str | None
    """The one workload that it is about, None for all."""
    text: str
    source: str
    advice: str
    check: Callable[[D], Iterable[Fault]]

    def __call__(self, document: D) -> Iterator[Finding]:
        """Judge one document."""
        for fault in self.check(document):
            yield self.build_finding(fault)

    def build_finding(self, fault: Fault) -> Finding:
        """Add what the rule knows to what it found."""
        return Finding(
            rule=self.id,
            severity=fault.severity or self.severity,
            file=str(fault.file),
            line=fault.line,
            found=truncate_quoted_text(fault.found),
            required=truncate_quoted_text(fault.required),
            source=self.source,
            advice=fault.advice or self.advice,
            weight=self.weight,
        )


def truncate_quoted_text(text: str) -> str:
    """Cut what a finding quotes: values in a file may have any length."""
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]}..."


def rule(
    id: str,
    document: type[D],
    *,
    severity: Severity = Severity.ERROR,
    weight: Verdict = Verdict.BROKEN,
    rounds: Iterable[str] | None = None,
    workload: str | None = None,
) -> Callable[[Callable[[D], Iterable[Fault]]], Rule[D]]:
    """Make a rule of a function; its docstring must hold `Source:` and `Advice:`, or it is a
    TypeError at import.
    """

    def build_rule(check: Callable[[D], Iterable[Fault]]) -> Rule[D]:
        parts = parse_rule_docstring(check.__doc__ or "")
        if not all(parts.values()):
            raise TypeError(
                f"rule {id}: the docstring of {check.__qualname__} needs a text, 'Source:' and"
                " 'Advice:'"
            )
        names = None if rounds is None else frozenset(rounds)
        return Rule(
            id=id,
            document=document,
            severity=severity,
            weight=weight,
            rounds=names,
            workload=workload,
            check=check,
            **parts,
        )

    return build_rule


def parse_rule_docstring(docstring: str) -> dict[str, str]:
    """Split a rule's docstring into text, source and advice, each on one line."""
    found = re.fullmatch(
        r"(?P<text>.*?)\n\s*Source:(?P<source>.*?)\n\s*Advice:(?P<advice>.*)",
        inspect.cleandoc(docstring),
        re.DOTALL,
    )
    return {
        name: " ".join(found[name].split()) if found else ""
        for name in ("text", "source", "advice")
    }


@cache
def load_rules(kind: str | None = None) -> Mapping[str, Rule[Any]]:
    """Load the rules of the group `podium.rules` by id, all or those that a kind of round needs;
    two of one id are a TypeError.

    Those of one module come in its order, so that what explains the rest is said first: an encoding
    before what it garbled.
    A rule of another package that has the name of one of podium's is warned of and passed over.
    """
    others = {*RoundKind} - {kind} if kind else set()
    points = registry.list_entry_points(registry.RULE_GROUP)
    names = [name for name in points if name.partition(".")[0] not in others]
    found: dict[str, Rule[Any]] = {}
    for name, module in registry.iterate_loaded_points(
        registry.RULE_GROUP,
        "rules",
        sorted(names, key=lambda name: not plugins.is_own_entry_point(points[name])),
    ):
        for each in iterate_module_rules(module):
            if found.setdefault(each.id, each) is each:
                continue
            if plugins.is_own_entry_point(points[name]):
                raise TypeError(f"two rules are called {each.id}")
            plugins.warn_about_package(
                points[name],
                f"rule {each.id} of package {plugins.describe_package(points[name])} is left out:"
                " another one has that name",
            )
    return found


def iterate_module_rules(module: ModuleType) -> Iterator[Rule[Any]]:
    """Yield the rules that stand in a module."""
    yield from (value for value in vars(module).values() if isinstance(value, Rule))


def judge_document(document: object, round: str, workload: str | None = None) -> Iterator[Finding]:
    """Apply every rule for this kind of document, round and workload."""
    for each in group_rules_by_document(round, workload).get(type(document), ()):
        for fault in each.check(document):
            yield each.build_finding(fault)


@lru_cache(maxsize=64)  # whoever wrote a log chose the name of its workload
def group_rules_by_document(
    round: str, workload: str | None
) -> Mapping[type[Any], Sequence[Rule[Any]]]:
    """Give a round's rules by the kind of document that they are about; those of other workloads
    are left out.
    """
    kind = registry.load_round_kind(round) if round in registry.list_round_names() else None
    found: dict[type[Any], list[Rule[Any]]] = {}
    for each in load_rules(kind).values():
        if (each.rounds is None or round in each.rounds) and each.workload in (None, workload):
            found.setdefault(each.document, []).append(each)
    return found

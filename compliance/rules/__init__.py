"""The judge's rules: one typed function each, whose docstring states the rule, its source and what
to do.

Every `Rule` in a module of this package counts for all rounds. Rules of one kind of round lie in
the package that the kind names (`compliance.kinds.training.rules`), and count for its rounds alone.
Other packages name their modules in the entry-point group `podium.rules`; an entry point whose name
begins with a kind of round and a dot (`training.my-rules`) is loaded for that kind alone. A rule
reads:

    @rule("log.init", PublishedLog, About.RULES, doubt="the time to train")
    def init(log: PublishedLog) -> Iterator[Fault]:
        '''Initialisation takes at most 20 minutes.

        Source: training_rules.adoc v0.7, Timing.
        Advice: move work that is not allowed before the clock behind run_start.
        '''

`about` says what of the result the rule bears on. In a published round, a finding about the form is
at most a warning, and an error names what of the result it puts in doubt (`doubt`).
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from compliance.verdict import About, Fault, Finding, Severity, Verdict
from suite import plugins, registry
from suite.rounds.kind import RoundKind
from suite.rounds.kind_checks import list_package_modules


class JudgedDocument(Protocol):
    """A document that rules check."""

    document_name: ClassVar[str]
    """Name in `podium explain`, with its article."""


D = TypeVar("D", bound=JudgedDocument)
MISSING_VALUE: Final = re.compile(r"^([^\s,;]+(?: of [^\s,;]+)?) None(?=$|,| of | in )")
"""A name and a missing value, at the start of what was found."""
NO_REQUIRED_VALUE: Final = re.compile(r"^None(?=$|,)")
MAX_QUOTED_CHARACTERS: Final = 1000
"""Maximum characters of a value in a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[D]):
    """One rule: its text, the kind of document that it checks, and its function."""

    id: str
    former: str
    """The ids before this release, separated by spaces, which `podium explain` still accepts; empty
    if it is the same.
    """
    document: type[D]
    about: About
    doubt: str
    """What of a published result an error puts in doubt; empty for rules about the form."""
    severity: Severity
    weight: Verdict
    unchecked: str
    """What of the result a finding says that the judge could not check; usually empty."""
    rounds: frozenset[str] | None
    """Names of rounds; None for all."""
    workload: str | None
    """The only workload that it applies to; None for all."""
    text: str
    source: str
    advice: str
    check: Callable[[D], Iterable[Fault]]

    def __call__(self, document: D) -> Iterator[Finding]:
        """Judge one document of podium's own round."""
        for fault in self.check(document):
            yield self.build_finding(fault)

    def build_finding(self, fault: Fault, *, published: bool = False) -> Finding:
        """Add what the rule knows to a fault. In a published round an error about the form becomes
        a warning, and so does one that names nothing of the result that it puts in doubt.
        """
        about = fault.about or self.about
        severity = fault.severity or self.severity
        doubt = ""
        if about is not About.FORM:
            doubt = fault.doubt or self.doubt
        if published and severity is Severity.ERROR and not doubt:
            severity = Severity.WARNING
        return Finding(
            rule=self.id,
            former_rule=self.former,
            about=about,
            doubt=doubt if published and severity is Severity.ERROR else "",
            severity=severity,
            file=str(fault.file),
            line=fault.line,
            found=truncate_quoted_text(word_missing_value(fault.found)),
            required=truncate_quoted_text(NO_REQUIRED_VALUE.sub("no value", fault.required)),
            source=self.source,
            advice=fault.advice or self.advice,
            weight=self.weight,
            unchecked=self.unchecked,
        )


def word_missing_value(found: str) -> str:
    """Say "no status" for what a rule found as `status None`: users know no None."""
    return MISSING_VALUE.sub(r"no \1", found)


def truncate_quoted_text(text: str) -> str:
    """Truncate a quoted text: values in a file may have any length."""
    if len(text) <= MAX_QUOTED_CHARACTERS:
        return text
    return f"{text[:MAX_QUOTED_CHARACTERS]}..."


def rule(
    id: str,
    document: type[D],
    about: About = About.FORM,
    *,
    doubt: str = "",
    former: str = "",
    severity: Severity = Severity.ERROR,
    weight: Verdict = Verdict.BROKEN,
    unchecked: str = "",
    rounds: Iterable[str] | None = None,
    workload: str | None = None,
) -> Callable[[Callable[[D], Iterable[Fault]]], Rule[D]]:
    """Turn a function into a rule. Its docstring must contain `Source:` and `Advice:`; otherwise
    the import raises TypeError.
    """

    def build_rule(check: Callable[[D], Iterable[Fault]]) -> Rule[D]:
        parts = parse_rule_docstring(check.__doc__ or "")
        if not all(parts.values()):
            raise TypeError(
                f"rule {id}: the docstring of {check.__qualname__} needs a text, 'Source:' and"
                " 'Advice:'"
            )
        names = None
        if rounds is not None:
            names = frozenset(rounds)
        return Rule(
            id=id,
            former=former,
            document=document,
            about=about,
            doubt=doubt,
            severity=severity,
            weight=weight,
            unchecked=unchecked,
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
    """Load all rules by id, or those of one kind of round. Two rules with one id raise TypeError.

    The rules of one module keep their order, so that causes come first: an encoding before the text
    that it garbled. A rule of another package with the id of one of podium's rules is left out with
    a warning.
    """
    found: dict[str, Rule[Any]] = {}
    for point, module in iterate_rule_modules(kind):
        for each in iterate_module_rules(module):
            if found.setdefault(each.id, each) is each:
                continue
            if point is None or plugins.is_own_entry_point(point):
                raise TypeError(f"two rules are called {each.id}")
            plugins.warn_about_package(
                point,
                f"rule {each.id} of package {plugins.describe_package(point)} is left out:"
                " another one has that name",
            )
    return found


def iterate_rule_modules(kind: str | None) -> Iterator[tuple[EntryPoint | None, ModuleType]]:
    """Yield the modules of rules for one kind of round or all, each with the entry point that
    brings it: those for all rounds, podium's kinds, other packages' kinds, other packages' rules.
    """
    for each in pkgutil.iter_modules(__path__, f"{__name__}."):
        if not each.ispkg:
            yield None, import_module(each.name)
    kinds = registry.map_entry_points(registry.ROUND_KIND_GROUP)
    brought = [(kinds[each.name], each.rules) for each in list_rule_kinds(kind)]
    for point, package in sorted(brought, key=lambda pair: not plugins.is_own_entry_point(pair[0])):
        for name in list_package_modules(package):
            yield point, import_module(name)
    if kind:
        others = {each.name for each in registry.iterate_kinds()} - {kind}
    else:
        others = set()
    points = registry.map_entry_points(registry.RULE_GROUP)
    names = sorted(name for name in points if name.partition(".")[0] not in others)
    for name, module in registry.iterate_loaded_points(registry.RULE_GROUP, "rules", names):
        yield points[name], module


def list_rule_kinds(kind: str | None) -> list[RoundKind]:
    """List the kinds whose rules judge results of one kind of round, or all kinds."""
    if kind is None:
        return list(registry.iterate_kinds())
    own = registry.load_kind(kind)
    return [own, *map(registry.load_kind, own.shared_rules)]


def iterate_module_rules(module: ModuleType) -> Iterator[Rule[Any]]:
    """Yield the rules that a module defines."""
    yield from (value for value in vars(module).values() if isinstance(value, Rule))


def judge_document(document: object, round: str, workload: str | None = None) -> Iterator[Finding]:
    """Apply every rule for this kind of document, round and workload."""
    published = is_published_round(round)
    for each in group_rules_by_document(round, workload).get(type(document), ()):
        for fault in each.check(document):
            yield each.build_finding(fault, published=published)


@cache
def is_published_round(round: str) -> bool:
    """Return whether a round is MLCommons'; podium writes both sides of its own."""
    return round in registry.list_round_names() and registry.load_round_kind(round).published


@lru_cache(maxsize=64)  # bounded: the workload's name comes from an untrusted log
def group_rules_by_document(
    round: str, workload: str | None
) -> Mapping[type[Any], Sequence[Rule[Any]]]:
    """Return a round's rules by the kind of document that they check, without those of other
    workloads.
    """
    known = round in registry.list_round_names()
    kind = None
    if known:
        kind = registry.load_round_kind(round).name
    found: dict[type[Any], list[Rule[Any]]] = {}
    for each in load_rules(kind).values():
        if (each.rounds is None or round in each.rounds) and each.workload in (None, workload):
            found.setdefault(each.document, []).append(each)
    return found

"""Pages with every rule of the judge, made of the rules themselves: one page per first word of
their ids, and a table of all.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from compliance.commands import describe_rule
from compliance.rules import Rule, load_rules

INTRODUCTION: Final = """# Rules of the judge

The {count} rules that `podium check` applies, as `podium explain RULE` shows them. A rule is one
typed function; this page is generated from them. An *error* makes a result not compliant; a
*warning* does not. *About* is what of the result a rule bears on: in a published round a finding
about the form is never more than a warning.

| rule | severity | about | what it requires |
|---|---|---|---|
"""

MARKS: Final = {"<": "&lt;", **{char: f"\\{char}" for char in "\\`*_>[]#"}}
"""Character that Markdown reads as a mark -> how to write it in a text."""


def rule_pages() -> Mapping[str, str]:
    """Write all pages: page -> Markdown."""
    rules = sorted(load_rules().values(), key=lambda rule: rule.id)
    groups = {name: list(group) for name, group in groupby(rules, key=group_of)}
    return {
        "rules/index.md": overview(rules),
        **{f"rules/{name}.md": group_page(name, group) for name, group in groups.items()},
    }


def group_of(rule: Rule[Any]) -> str:
    """Give the first word of a rule's id, which names its page."""
    return rule.id.partition(".")[0]


def anchor(rule: Rule[Any]) -> str:
    """Give the anchor of a rule on its page."""
    return rule.id.replace(".", "-")


def overview(rules: Sequence[Rule[Any]]) -> str:
    """Write the table of all rules."""
    rows = (
        f"| [`{rule.id}`]({group_of(rule)}.md#{anchor(rule)}) | {rule.severity} | {rule.about} |"
        f" {cell(rule.text)} |\n"
        for rule in rules
    )
    return INTRODUCTION.format(count=len(rules)) + "".join(rows)


def group_page(name: str, rules: Iterable[Rule[Any]]) -> str:
    """Write the page of the rules whose ids begin alike."""
    return f"# Rules `{name}.*`\n\n" + "\n".join(map(section, rules))


def section(rule: Rule[Any]) -> str:
    """Write what `podium explain` says of a rule: its text, then a list of facts."""
    title, text, *facts = describe_rule(rule)
    items = "".join(
        f"- **{name}:** {plain(value)}\n"
        for name, _, value in (fact.partition(": ") for fact in facts)
    )
    return (
        f"## `{rule.id}` {{ #{anchor(rule)}"
        f" }}\n\n*{title.partition(' ')[2].strip('()')}*\n\n{plain(text)}\n\n{items}"
    )


def plain(text: str) -> str:
    """Keep Markdown from reading marks in a rule's text."""
    return "".join(MARKS.get(char, char) for char in text)


def cell(text: str) -> str:
    """Make a text fit into a cell of a table."""
    return plain(text).replace("|", "\\|")

"""The tables of the page about differences from the official checkers, made of the files beside the
rules (`differences.toml`) and of the open questions of MLPerf Endpoints' round.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rules import anchor, cell, group_of

from compliance.rules import load_rules
from compliance.rules.differences import load_difference_tables
from suite.registry import load_endpoints_round

MARK: Final = "<!-- tables of differences -->"
"""Line of the page that the tables replace."""
ENDPOINTS_ROUND: Final = "endpoints-v1.0"


def insert_differences(markdown: str) -> str:
    """Replace the mark in a page by all tables."""
    if MARK not in markdown:
        return markdown
    return markdown.replace(MARK, "\n".join(iterate_lines()))


def iterate_lines() -> Iterator[str]:
    """Yield the lines of all tables."""
    for table in load_difference_tables():
        yield f"## {table.title}\n"
        if table.sources:
            yield f"Sources: {table.sources}.\n"
        yield "| subject | official checker | podium | reason | rules |\n|---|---|---|---|---|"
        for each in table.difference:
            cells = (each.subject, each.official, each.here, each.reason, link_rules(each.rules))
            yield f"| {' | '.join(cells)} |"
        yield ""
    yield "## MLPerf Endpoints v1.0\n"
    yield (
        "The rules' text, the client and the official checker disagree about these questions"
        " (`podium check` reads the answers from the round's file).\n"
    )
    yield "| question | rules | client | official checker | podium | rule |"
    yield "|---|---|---|---|---|---|"
    for name, question in load_endpoints_round(ENDPOINTS_ROUND).open.items():
        texts = (question.rules, question.client, question.checker, question.judged)
        cells = (name.replace("_", " "), *map(cell, texts), link_rules([question.rule]))
        yield f"| {' | '.join(cells)} |"


def link_rules(ids: Sequence[str]) -> str:
    """Write links to the sections of rules; TypeError for an id that no rule has."""
    known = load_rules()
    if unknown := [each for each in ids if each not in known]:
        raise TypeError(f"no rules: {unknown}")
    return ", ".join(
        f"[`{known[each].id}`](../rules/{group_of(known[each])}.md#{anchor(known[each])})"
        for each in ids
    )

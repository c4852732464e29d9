"""Check that documents which state one fact agree on it, whatever the fact and the round."""

from collections.abc import Iterator
from dataclasses import replace

from compliance.documents.facts import Contradiction, StatedFacts, Statement
from compliance.rules import rule
from compliance.verdict import About, Fault


@rule(
    "facts.agree",
    StatedFacts,
    About.IDENTITY,
    doubt="which system and settings gave the result",
    former="entry.system",
)
def agree(stated: StatedFacts) -> Iterator[Fault]:
    """Documents that state one fact agree on it: engine, provider, device, threads, settings,
    versions, weights, nonce, seed. One that leaves a fact out contradicts nothing. Versions of
    packages that differ are a warning, since a package may have been upgraded between two runs.

    Source: house rule: a fact that several documents state is one fact; for podium's own results,
    the table in compliance/kinds/podium/facts, whose documents podium writes from one record.
    Advice: keep the files that one command wrote together, and restore the one that was changed;
    after an upgrade or another choice of settings, repeat the run.
    """
    for each in stated.find_contradictions():
        yield replace(
            stated.build_fault(
                f"{each.other.key} {each.other.stated!r}{describe_part(each.other)}",
                describe_first_statement(each),
                each.other.document.find_line(each.other.key),
                file=each.other.document.file,
                severity=each.fact.severity,
                about=each.fact.about,
            ),
            doubt=each.fact.doubt,
        )


def describe_part(statement: Statement) -> str:
    """Name the part of the finding's file that states a value."""
    return f" in {statement.document.part}" if statement.document.part else ""


def describe_first_statement(each: Contradiction) -> str:
    """Describe the statement that the other one contradicts: its value, and where it stands."""
    first = each.first
    if first.key == each.other.key:
        return f"{first.stated!r}, as in {first.document.name}"
    return f"{first.key} {first.stated!r}, as in {first.document.name}"

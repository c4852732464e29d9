"""What a rule bears on decides whether its finding may be an error in a published round."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compliance.commands import describe_rule
from compliance.rules import load_rules, rule
from compliance.verdict import (
    About,
    Fault,
    Severity,
    Verdict,
    compute_verdict,
    escalate_form_warnings,
)
from suite import registry

PUBLISHED_KINDS = [kind.name for kind in registry.iterate_kinds() if kind.published]
FAULT = Fault(file=Path("x"), found="a", required="b")


def check(document: int) -> Iterator[Fault]:
    """A rule.

    Source: a test.
    Advice: none.
    """
    yield FAULT


@pytest.mark.parametrize(
    ("about", "doubt", "published", "severity"),
    [
        (About.FORM, "", True, Severity.WARNING),
        (About.FORM, "the score", True, Severity.WARNING),
        (About.SCORE, "the score", True, Severity.ERROR),
        (About.SCORE, "", True, Severity.WARNING),
        (About.FORM, "", False, Severity.ERROR),
        (About.SCORE, "", False, Severity.ERROR),
    ],
)
def test_form_is_never_an_error_in_a_published_round(
    about: About, doubt: str, published: bool, severity: Severity
) -> None:
    """An accepted log of an unknown shape would be called broken."""
    made = rule("test.about", int, about=about, doubt=doubt)(check)
    found = made.build_finding(FAULT, published=published)
    assert found.severity is severity
    assert found.about is about
    assert bool(found.doubt) == (published and severity is Severity.ERROR)


def test_a_fault_may_bear_on_something_else_than_its_rule() -> None:
    """A rule about form that meets a lost result has to say so."""
    made = rule("test.about", int)(check)
    fault = Fault(file=Path("x"), found="a", required="b", about=About.QUALITY, doubt="the target")
    found = made.build_finding(fault, published=True)
    assert (found.severity, found.about, found.doubt) == (
        Severity.ERROR,
        About.QUALITY,
        "the target",
    )


def test_strict_counts_form_alone() -> None:
    """A submitter wants to hear of it; a warning about the score stays what it is."""
    form = rule("test.form", int)(check).build_finding(FAULT, published=True)
    score = rule("test.score", int, about=About.SCORE, severity=Severity.WARNING)(
        check
    ).build_finding(FAULT, published=True)
    note = rule("test.note", int, severity=Severity.INFO)(check).build_finding(FAULT)
    weighed = escalate_form_warnings([form, score, note])
    assert [each.severity for each in weighed] == [Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert compute_verdict(weighed) is Verdict.BROKEN


@pytest.mark.parametrize("kind", PUBLISHED_KINDS)
def test_every_error_of_a_published_round_names_what_it_puts_in_doubt(kind: str) -> None:
    """Without it, an error could be about a form that nobody cares for."""
    lacking = [
        each.id
        for each in load_rules(kind).values()
        if each.severity is Severity.ERROR
        and each.weight is Verdict.BROKEN
        and each.about is not About.FORM
        and not each.doubt
    ]
    assert lacking == []


def test_explain_shows_what_a_rule_bears_on_and_puts_in_doubt() -> None:
    """A user must see why one finding counts and another does not."""
    about = {each.id: "\n".join(describe_rule(each)) for each in load_rules().values()}
    assert "about quality" in about["log.target"]
    assert "Puts in doubt: " in about["log.target"]

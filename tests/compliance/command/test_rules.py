"""How rules are registered, found and added up."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compliance import rules
from compliance.rules import Rule, load_rules, rule
from compliance.verdict import Fault, Finding, PathJudgement, Severity, Verdict, compute_verdict
from suite import registry


def check(document: int) -> Iterator[Fault]:
    """Numbers are even.

    Source: a test,
    over two lines.
    Advice: add one.
    """
    if document % 2:
        yield Fault(file=Path("x"), found=str(document), required="even", line=3)


def finding(severity: Severity, weight: Verdict = Verdict.BROKEN) -> Finding:
    return Finding(
        rule="r",
        severity=severity,
        file="f",
        line=None,
        found="a",
        required="b",
        source="c",
        advice="d",
        weight=weight,
    )


def test_a_docstring_is_the_rule_its_source_and_its_advice() -> None:
    made = rule("test.even", int)(check)
    assert (made.text, made.source, made.advice) == (
        "Numbers are even.",
        "a test, over two lines.",
        "add one.",
    )
    assert list(made(2)) == []
    [found] = made(3)
    assert (found.rule, found.line, found.source, found.advice, found.severity) == (
        "test.even",
        3,
        made.source,
        "add one.",
        Severity.ERROR,
    )


@pytest.mark.parametrize("text", ["", "A rule.", "A rule.\n\nSource: x.", "A rule.\n\nAdvice: x."])
def test_a_rule_without_source_or_advice_is_refused_at_import(text: str) -> None:
    def bare(document: int) -> Iterator[Fault]:
        yield from ()

    bare.__doc__ = text
    with pytest.raises(TypeError, match=r"test\.bare"):
        rule("test.bare", int)(bare)


def test_a_fault_may_weigh_less_than_its_rule() -> None:
    def mild(document: int) -> Iterator[Fault]:
        """A rule.

        Source: x.
        Advice: y.
        """
        yield Fault(file=Path("x"), found="a", required="b", severity=Severity.INFO, advice="z")

    [found] = rule("test.mild", int)(mild)(1)
    assert (found.severity, found.advice) == (Severity.INFO, "z")


def test_a_workloads_own_rules_apply_to_it_alone_and_in_their_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plugin's rule must not judge the five, and a round's rule not another round."""
    made = {
        "a": rule("test.a", int, workload="mine")(check),
        "b": rule("test.b", int, rounds=["old"])(check),
        "c": rule("test.c", int)(check),
        "d": rule("test.d", str)(check),  # type: ignore[arg-type]
    }
    monkeypatch.setattr(rules, "load_rules", lambda kind: made)
    monkeypatch.setattr(rules, "group_rules_by_document", rules.group_rules_by_document.__wrapped__)
    assert [each.rule for each in rules.judge_document(3, "new", "theirs")] == ["test.c"]
    assert [each.rule for each in rules.judge_document(3, "old", "mine")] == [
        "test.a",
        "test.b",
        "test.c",
    ]


def test_two_rules_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twins = [rule("test.twin", int)(check), rule("test.twin", int)(check)]
    monkeypatch.setattr(rules, "iterate_module_rules", lambda module: iter(twins))
    load_rules.cache_clear()
    with pytest.raises(TypeError, match=r"test\.twin"):
        load_rules()
    monkeypatch.undo()
    load_rules.cache_clear()


def test_a_kind_of_round_loads_its_own_rules_and_everybodys() -> None:
    """Starting costs time: whoever checks a training log waits for no parser of LoadGen's."""
    everything = load_rules()
    kinds = [kind.name for kind in registry.iterate_kinds()]
    for kind in kinds:
        loaded = load_rules(kind)
        assert loaded.keys() < everything.keys()
        assert {"file.present"} <= loaded.keys()
    each = [set(load_rules(kind)) for kind in kinds]
    assert set.union(*each) == everything.keys()
    shared = {id for id, rule in everything.items() if is_shared_rule_module(rule.check.__module__)}
    assert all(one & other <= shared for one in each for other in each if one is not other)


def is_shared_rule_module(name: str) -> bool:
    return name.startswith("compliance.kinds.endpoints.rules.") or name in (
        "compliance.rules.copied_runs",
        "compliance.rules.facts",
        "compliance.rules.file_integrity",
        "compliance.rules.known_round",
        "compliance.rules.role_files",
    )


def test_only_errors_weigh_and_the_worst_counts() -> None:
    assert compute_verdict([]) is Verdict.VALID
    assert compute_verdict([finding(Severity.WARNING), finding(Severity.INFO)]) is Verdict.VALID
    assert (
        compute_verdict([finding(Severity.ERROR, Verdict.NOT_CONVERGED)]) is Verdict.NOT_CONVERGED
    )
    assert (
        compute_verdict([finding(Severity.ERROR, Verdict.NOT_CONVERGED), finding(Severity.ERROR)])
        is Verdict.BROKEN
    )
    assert (
        PathJudgement(path="p", round="r", findings=(finding(Severity.ERROR),)).verdict
        is Verdict.BROKEN
    )


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("status None", "no status"),
        ("status None, last evaluation: top1 0.7", "no status, last evaluation: top1 0.7"),
        ("field of gnmt None", "no field of gnmt"),
        ("status 'success'", "status 'success'"),
        ("{'loss': None}", "{'loss': None}"),
        ("None of the runs", "None of the runs"),
    ],
)
def test_a_missing_value_is_worded_for_people(found: str, shown: str) -> None:
    def find_one(document: int) -> Iterator[Fault]:
        """A rule.

        Source: x.
        Advice: y.
        """
        yield Fault(file=Path("x"), found=found, required="None, as in run.json")

    [told] = rule("test.one", int)(find_one)(1)
    assert (told.found, told.required) == (shown, "no value, as in run.json")


def test_ids_are_words_that_people_can_type() -> None:
    for id, each in load_rules().items():
        assert id == each.id
        assert id.replace(".", "").replace("_", "").replace("-", "").isalnum()
        assert id.islower()
        assert id.count(".") == 1


def test_a_crash_in_a_rule_is_a_crash_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(document: int) -> Iterator[Fault]:
        """A rule.

        Source: x.
        Advice: y.
        """
        raise ZeroDivisionError

    monkeypatch.setattr(rules, "load_rules", lambda kind: {"a": rule("test.crash", int)(broken)})
    with pytest.raises(ZeroDivisionError):
        list(rules.judge_document(1, "any"))


HABITS: Final = re.compile(
    r"unmodified|unedited|do not edit|\bas (?:\S+ ){1,3}wrote\b|was deleted|are detected"
)
"""Advice that helps no honest submitter, and that accuses."""
WORDING: Final = re.compile(r"(?:^|\. )Of [^,.]*,|; |\bbut for\b|\balone\b")
"""A genitive first, a rule and its exception in one sentence, and "alone" for "only"."""


@pytest.mark.parametrize("rule", load_rules().values(), ids=load_rules())
def test_advice_says_what_to_do(rule: Rule[Any]) -> None:
    assert not HABITS.search(rule.advice), rule.advice


@pytest.mark.parametrize("rule", load_rules().values(), ids=load_rules())
def test_texts_have_one_fact_a_sentence(rule: Rule[Any]) -> None:
    assert not WORDING.search(rule.text), rule.text

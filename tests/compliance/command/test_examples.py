"""Every rule has an example that keeps it and one that breaks it, small files that lie in
tests/examples.
"""

from functools import cache
from pathlib import Path

import pytest
from examples import BASES, EXAMPLES, INVALID, result_of, seen, write
from judged_examples import STAMP

from compliance.rules import is_published_round, load_rules
from compliance.rules.example_findings import load_example_findings
from compliance.verdict import (
    About,
    PathJudgement,
    Severity,
    Verdict,
    compute_verdict,
    escalate_form_warnings,
)

OURS = sorted(
    rule.id for rule in load_rules().values() if rule.check.__module__.startswith("compliance.")
)
LIMIT_BYTES = 61_000
"""Of a rule's examples, valid and invalid, and its share of the bases."""


@cache
def judged(folder: Path) -> PathJudgement:
    """Judge an example once for all that is asked of it."""
    return result_of(folder)


def test_each_rule_has_examples_and_no_example_lacks_its_rule() -> None:
    """A rule without examples is a rule that nobody has seen work."""
    for half in ("valid", "invalid"):
        assert sorted(path.name for path in (EXAMPLES / half).iterdir()) == OURS


@pytest.mark.parametrize("rule", OURS)
def test_the_invalid_example_is_found_out(rule: str) -> None:
    result = judged(EXAMPLES / "invalid" / rule)
    found = [finding for finding in result.findings if finding.rule == rule]
    assert found, f"found only {sorted({finding.rule for finding in result.findings})}"
    made = load_rules()[rule]
    if made.severity is not Severity.ERROR or rule == "training.converged":
        return
    if is_published_round(result.round) and made.about is About.FORM:
        assert {finding.severity for finding in found} != {Severity.INFO}
        assert compute_verdict(escalate_form_warnings(found)) is not Verdict.VALID
    else:
        assert result.verdict is not Verdict.VALID


NAMING_INSTALLED = {"tree.folders", "tree.installed"}
"""Rules whose findings name the installed workloads: the fakes too, where other tests have made
them known.
"""


@pytest.mark.parametrize("rule", OURS)
def test_the_valid_example_raises_no_alarm(rule: str) -> None:
    result = judged(EXAMPLES / "valid" / rule)
    assert result.verdict is Verdict.VALID, result.findings
    assert not [finding for finding in result.findings if finding.rule == rule]


@pytest.mark.parametrize("base", sorted(BASES))
def test_a_base_raises_no_alarm_at_all(base: str) -> None:
    assert judged(EXAMPLES / "base" / base).findings == ()


@pytest.mark.slow
def test_each_finding_says_all_that_is_needed() -> None:
    for rule in OURS:
        for finding in judged(EXAMPLES / "invalid" / rule).findings:
            assert all(
                (finding.file, finding.found, finding.required, finding.source, finding.advice)
            ), finding


def test_examples_are_small() -> None:
    assert sum(
        path.stat().st_size
        for path in EXAMPLES.rglob("*")
        if path.is_file() and not path.is_symlink()
    ) < LIMIT_BYTES * len(OURS)


@pytest.mark.slow
def test_examples_are_what_the_builder_makes(tmp_path: Path) -> None:
    """What depends on a clock, a host or a random number cannot be compared with last week's."""
    write(tmp_path)
    assert contents(tmp_path) == contents(EXAMPLES)


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != STAMP
    }


def test_the_table_has_no_rule_twice_or_too_many() -> None:
    assert sorted(INVALID) == OURS


@pytest.mark.slow
def test_what_explain_shows_is_what_each_rule_finds() -> None:
    """`podium explain` shows one finding of each rule; the file with them is made from the
    examples.
    """
    shown, found = load_example_findings(), seen(EXAMPLES, judged)
    assert shown.keys() == found.keys()
    differing = {rule for rule in shown if shown[rule] != found[rule]}
    assert differing <= NAMING_INSTALLED, (
        "sightings are stale: run PYTHONPATH=tests/compliance/builders:tests/shared python"
        " tests/compliance/builders/examples.py"
    )

"""`podium score`, and what else scores results, says of each what `podium check` says of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from judged_examples import EXAMPLES

from compliance.judge import Judge
from compliance.results.indexed_result import IndexedResult
from compliance.rules import load_rules
from compliance.verdict import Verdict, compute_verdict
from podium import load
from submissions.result_index import open_results
from submissions.score.score import score_opened_results
from suite.errors import JudgedError
from suite.result import Result

OURS = sorted(
    rule.id for rule in load_rules().values() if rule.check.__module__.startswith("compliance.")
)


def score_example(path: Path) -> Sequence[tuple[IndexedResult, Result, Path]]:
    """Score a path; each result with the folder that paths in it are relative to."""
    try:
        with open_results(path) as results:
            root = results[0].results_root if path.is_file() else path
            return [(*pair, root) for pair in score_opened_results(path, results, [])]
    except JudgedError:  # no results, or none that can be read
        return []


def locate_example(rule: str, half: str) -> Path:
    """Return the path in an example that the judge is given."""
    folder = EXAMPLES / half / rule
    bundles = [*folder.glob("*.tar.zst")]
    return bundles[0] if bundles else folder


@pytest.mark.parametrize("half", ["valid", "invalid"])
@pytest.mark.parametrize("rule", OURS)
def test_no_rule_is_overlooked_where_results_are_scored(rule: str, half: str) -> None:
    """Rules were chosen by the first word of their names: an edited training log, which only the
    ledger's rules find out, was compliant in every table.
    """
    path = locate_example(rule, half)
    judged = Judge().judge_path(str(path))
    own = {str(path / each.path): each.verdict for each in judged.results}
    for result, row, root in score_example(path):
        place = str(path / (result.single_log or result.folder).relative_to(root))
        shared = [
            each
            for each in judged.findings_besides
            if Path(each.file).parent.name != "systems" or Path(each.file).stem == result.system
        ]
        expected = {own[place], compute_verdict(shared)} == {Verdict.VALID}
        assert row.compliant is expected, (place, own[place], shared)


@pytest.mark.parametrize("rule", ["ledger.kept", "ledger.links", "checkpoint.record"])
def test_a_record_says_why_it_is_broken_where_another_document_is(rule: str) -> None:
    """Its own findings alone were its errors, and it had none."""
    for record in load(locate_example(rule, "invalid")):
        assert record.verdict == "broken" and any(rule in error for error in record.errors)

"""podium beside the official checker of MLPerf Endpoints (PyPI endpoints-submission-cli, extra
`test`): each message that it has about a submission, podium's rule for the same, and the table of
both in the documentation. Without the package podium's half is tested alone.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from kinds.curve_edits import EDITS
from kinds.endpoints_curves import ORGANISATION, SUBMISSION, submission
from kinds.official_messages import MESSAGES, OfficialMessage
from official_endpoints import (
    IS_INSTALLED,
    OfficialFinding,
    check_submission_officially,
    list_official_messages,
)

from compliance.judge import Judge
from compliance.rules import load_rules
from compliance.verdict import Severity

PAGE: Final = Path(__file__).parents[4] / "docs" / "internals" / "endpoints-checks.md"
WITHOUT_EDIT: Final[Mapping[str, str]] = {
    "agentic-accuracy": "agentic benchmarks that the round does not have",
    "drafter-list-registry": "the checker's own file",
    "path-exists": "a folder that does not exist",
    "seed-set-registry": "the checker's own file",
}
"""Rules of the official checker that no edit of a submission breaks."""
installed: Final = pytest.mark.skipif(
    not IS_INSTALLED, reason="endpoints-submission-cli is not installed (extra test)"
)


@cache
def ask_about_honest(curve: str) -> frozenset[OfficialFinding]:
    """What the official checker says of an honest curve."""
    with TemporaryDirectory(prefix="podium-official-") as folder:
        submission(curve=curve)(Path(folder))
        return check_submission_officially(Path(folder) / ORGANISATION / SUBMISSION)


@installed
@pytest.mark.parametrize("curve", ["elected", "dedicated", "agentic"])
def test_the_official_checker_accepts_an_honest_submission(curve: str) -> None:
    found = ask_about_honest(curve)
    assert {each.severity for each in found} <= {"warning"}
    assert {each.rule for each in found} <= {"accuracy-gate", "steady-state-basis"}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: each.says)
def test_podium_finds_what_the_official_checker_speaks_of(
    tmp_path: Path, message: OfficialMessage
) -> None:
    submission(message.edit, message.curve)(tmp_path)
    judged = Judge().judge_path(str(tmp_path))
    found = {each.rule for each in judged.findings if each.severity is not Severity.INFO}
    if message.rule:
        assert message.rule in found
    else:
        assert found == set()


@installed
@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: each.says)
def test_the_official_checker_says_it(tmp_path: Path, message: OfficialMessage) -> None:
    submission(message.edit, message.curve)(tmp_path)
    found = check_submission_officially(tmp_path / ORGANISATION / SUBMISSION)
    new = found - ask_about_honest(message.curve)
    assert any(each.is_said(message.says) for each in new), new


@installed
def test_what_the_official_checker_refuses_podium_does_not_pass_over(tmp_path: Path) -> None:
    """Of the forged submissions of the other tests."""
    for place, (edit, _) in enumerate(EDITS.values()):
        root = tmp_path / str(place)
        submission(edit)(root)
        said = check_submission_officially(root / ORGANISATION / SUBMISSION)
        refused = any(each.severity == "error" for each in said)
        judged = Judge().judge_path(str(root))
        assert not refused or judged.findings


def read_table() -> Mapping[str, str]:
    """Read rule of the official checker -> podium's, in the words of the documentation."""
    section = PAGE.read_text().partition("## Beside the official checker")[2]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.MULTILINE)
    return {name: ours for names, ours in rows for name in re.findall(r"`([a-z0-9-]+)`", names)}


def test_the_documented_table_names_rules_that_there_are() -> None:
    known = load_rules()
    named = {rule for ours in read_table().values() for rule in re.findall(r"`([a-z._]+)`", ours)}
    assert named <= known.keys()


def test_the_documented_table_has_the_rule_of_each_message() -> None:
    table = read_table()
    for message in MESSAGES:
        row = table[message.says.partition(":")[0]]
        assert message.rule in row or "none" in row, message.says


@installed
def test_each_rule_of_the_official_checker_is_in_the_table_and_tried() -> None:
    rules = {each.partition(":")[0] for each in list_official_messages()}
    tried = {each.says.partition(":")[0] for each in MESSAGES}
    assert rules <= read_table().keys()
    assert rules - tried <= WITHOUT_EDIT.keys()

"""One comparison of organisations' names for both halves of the published rounds."""

import re
import shutil
from pathlib import Path

import pytest
from examples import EXAMPLES

from compliance.documents.organisation_name import is_organisation_name
from compliance.judge import Judge


@pytest.mark.parametrize(
    ("told", "folder", "same"),
    [
        ("Fujitsu, Inc.", "Fujitsu", True),
        ("fujitsu", "Fujitsu", True),
        ("Dell", "DellEMC", True),
        ("Shenzhen Institutes of Advanced Technology", "SIAT", True),
        ("Intel", "Inspur", False),
        ("In", "Intel", False),
        ("", "Intel", False),
        ("NVIDIA Partner", "Partner", False),
    ],
)
def test_a_name_may_be_longer_than_its_folder(told: str, folder: str, same: bool) -> None:
    """A legal form or initials are no other organisation; a blank name, or another one, is."""
    assert is_organisation_name(told, folder) is same


@pytest.mark.parametrize(("name", "accepted"), [("Acme, Inc.", True), ("globex", False)])
def test_logs_and_descriptions_are_compared_alike(
    tmp_path: Path, name: str, accepted: bool
) -> None:
    """`Fujitsu, Inc.` was an error in a training log, and accepted in descriptions of both
    halves.
    """
    found = set()
    for base, files, field in (
        ("trained-tree", "**/result_*.txt", '"submission_org", "value": '),
        ("trained-tree", "**/systems/*.json", '"submitter": '),
    ):
        tree = Path(
            shutil.copytree(EXAMPLES / "base" / base, tmp_path / f"{len(found)}-{field[1:10]}")
        )
        for path in tree.glob(files):
            path.write_text(
                re.sub(rf'({re.escape(field)})"[^"]*"', rf'\g<1>"{name}"', path.read_text())
            )
        found |= {finding.rule for finding in Judge().judge_path(str(tree)).findings}
    assert (
        not found & {"log.place", "org.description"}
        if accepted
        else {"log.place", "org.description"} <= found
    )

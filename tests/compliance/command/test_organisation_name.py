"""One comparison of organisations' names for both halves of the published rounds."""

import re
import shutil
import unicodedata
from pathlib import Path

import pytest
from examples import EXAMPLES
from system_records import put_system

from compliance.documents.organisation_name import is_organisation_name
from compliance.judge import Judge
from suite.files.layout import fold_name


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


ORGANISATION = "Zürich-Möbel"
TREES = (
    ("trained-tree", '"submission_org", "value": ', '"submitter": '),
    ("since-v5.1", '"submitter": '),
    ("filed-closed", '"submitter": '),
    ("tree", '"submission_org", "value": ', '"submitter": ', '"org": '),
)


def rename_organisation(tree: Path, folder: str, name: str, fields: tuple[str, ...]) -> None:
    """Rename an organisation's folder, and state another spelling in all of its files."""
    for path in tree.glob("**/system.json"):
        put_system(org=name)(path)
    for path in [*tree.glob("**/result_*.txt"), *tree.glob("**/*.json")]:
        text = path.read_text()
        for field in fields:
            text = re.sub(rf'({re.escape(field)})"acme"', rf'\g<1>"{name}"', text)
        path.write_text(text)
    for path in tree.glob("**/acme"):
        path.rename(path.with_name(folder))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("base", TREES, ids=lambda base: base[0])
def test_one_name_in_two_forms_of_unicode_is_one_organisation(
    tmp_path: Path, base: tuple[str, ...], form: str
) -> None:
    """macOS stores names of folders decomposed, and a keyboard types them composed."""
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    tree = Path(shutil.copytree(EXAMPLES / "base" / base[0], tmp_path / "tree"))
    before = {finding.rule for finding in Judge().judge_path(str(tree)).findings}
    rename_organisation(
        tree,
        unicodedata.normalize(form, ORGANISATION),
        unicodedata.normalize(other, ORGANISATION),
        base[1:],
    )
    told = {finding.rule for finding in Judge().judge_path(str(tree)).findings}
    assert told - {"checkpoint.record"} == before  # it has the hash of the log, which was edited


@pytest.mark.parametrize("base", TREES, ids=lambda base: base[0])
def test_names_that_print_alike_are_shown_with_their_code_points(
    tmp_path: Path, base: tuple[str, ...]
) -> None:
    """A Cyrillic letter in a name: both texts of the finding were the same to the eye."""
    tree = Path(shutil.copytree(EXAMPLES / "base" / base[0], tmp_path / "tree"))
    rename_organisation(tree, "acme", "\u0430cme", base[1:])
    told = [
        finding
        for finding in Judge().judge_path(str(tree)).findings
        if "\u0430cme" in finding.found and "acme" in finding.required
    ]
    assert told
    assert all("(U+0430)" in each.found and "(U+0061)" in each.required for each in told)


def test_names_of_other_scripts_are_told_apart() -> None:
    """Letters other than a to z were left out: two such names were equal."""
    assert fold_name("浪潮") != fold_name("联想")
    assert fold_name("Müller & Co.") == fold_name("mu\u0308ller_co")

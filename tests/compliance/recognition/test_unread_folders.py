"""A folder that cannot be read is named; its results are not called absent."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from examples import EXAMPLES

from compliance.judge import Judge
from compliance.verdict import Finding, ResultKind, Severity

HEADER: Final = (ctypes.c_uint32 * 2)(0x20080522, 0)
"""Version 3 of Linux' capabilities, of this thread; linux/capability.h."""
DAC_CAPABILITIES: Final = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
ENTRY: Final = "open/acme/results/box-torch-fp32/resnet50/SingleStream"


@contextmanager
def heed_permissions() -> Iterator[None]:
    """Let root, too, be refused what the mode of a file or folder refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = (ctypes.c_uint32 * 6)()
    assert libc.capget(HEADER, before) == 0
    reduced = (ctypes.c_uint32 * 6)(*before)
    reduced[0] &= ~DAC_CAPABILITIES
    assert libc.capset(HEADER, reduced) == 0
    try:
        yield
    finally:
        assert libc.capset(HEADER, before) == 0


def list_errors(given: Path, closed: Path, mode: int) -> list[Finding]:
    """Judge a path while one folder cannot be read; return the errors."""
    closed.chmod(mode)
    try:
        with heed_permissions():
            judged = Judge().judge_path(str(given))
    finally:
        closed.chmod(0o755)
    told = [each for each in judged.findings if each.severity is Severity.ERROR]
    for result in judged.results:
        is_set = result.kind is ResultKind.SET
        is_closed = closed.is_relative_to(result.path) and not (
            is_set and str(closed) != result.path
        )
        assert (told[0] in result.findings) is is_closed
    return told


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
@pytest.mark.parametrize(
    "folder",
    [
        "",
        "open",
        "open/acme",
        "open/acme/results",
        "open/acme/results/box-torch-fp32",
        "open/acme/results/box-torch-fp32/resnet50",
        ENTRY,
        f"{ENTRY}/performance",
        f"{ENTRY}/accuracy",
    ],
)
def test_a_folder_that_cannot_be_read_is_one_error(tmp_path: Path, folder: str, mode: int) -> None:
    tree = tmp_path / "t"
    shutil.copytree(EXAMPLES / "base" / "tree", tree)
    told = list_errors(tree, tree / folder, mode)
    (first,) = told
    assert (first.rule, first.file) == ("file.readable", str(tree / folder))
    assert first.found.startswith("Permission denied")
    assert first.advice == "make it readable (chmod -R u+rX), or ask its owner, and check again."


@pytest.mark.parametrize("folder", ["AMD", "AMD/results", "AMD/results/box/llama2_70b_lora"])
def test_an_organisation_that_cannot_be_read_is_not_left_out(tmp_path: Path, folder: str) -> None:
    tree = tmp_path / "training_v6.0"
    place = tree / "AMD/results/box/llama2_70b_lora"
    place.mkdir(parents=True)
    (place / "result_0.txt").write_text("")
    told = list_errors(tree, tree / folder, 0)
    assert [(each.rule, each.file) for each in told] == [("file.readable", str(tree / folder))]


def test_folders_that_are_no_results_may_be_closed(tmp_path: Path) -> None:
    tree = tmp_path / "t"
    shutil.copytree(EXAMPLES / "base" / "tree", tree)
    for name in ("lost+found", ".cache"):
        (tree / name).mkdir(mode=0)
    with heed_permissions():
        assert not [
            each
            for each in Judge().judge_path(str(tree)).findings
            if each.severity is Severity.ERROR
        ]
    assert os.access(tree, os.R_OK)

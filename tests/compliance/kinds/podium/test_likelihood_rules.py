"""Edited, cut and missing files of log-probabilities are found, and none makes the judge fail."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from kinds.tokens import write_likely
from spoiling import put

from compliance.judge import Judge
from compliance.verdict import Severity
from suite.files.layout import (
    LOGPROB_FILE,
    REFERENCE_LOGPROB_FILE,
    RUN_RECORD,
    SYSTEM_RECORD,
    compute_file_sha256,
)

FILES = (LOGPROB_FILE, REFERENCE_LOGPROB_FILE)
LIKELIHOODS, NETWORK = "answers.likelihoods", "answers.network"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An honest run in fp32."""
    write_likely(1e-6)(tmp_path)
    return next(tmp_path.rglob(LOGPROB_FILE)).parent


def find_rules(run: Path) -> set[str]:
    """The rules about log-probabilities that a run breaks."""
    found = Judge().judge_path(str(run)).findings
    rules = {each.rule for each in found if each.severity is not Severity.INFO}
    return rules & {LIKELIHOODS, NETWORK}


def name_again(run: Path) -> None:
    """Write the hashes of the files as they are now into run.json."""
    for name in FILES:
        key = f"{name.removesuffix('.npy')}_sha256"
        put(**{key: compute_file_sha256(run / name)})(run / RUN_RECORD)


def edit(run: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change the rows of a file, and its hash."""
    numpy.save(run / name, change(numpy.load(run / name)))
    name_again(run)


def set_first(column: str, value: float) -> Callable[[Any], Any]:
    """Change a value of the first row."""

    def change(table: Any) -> Any:
        table[column][0] = value
        return table

    return change


def test_an_honest_run_keeps_both_rules(run: Path):
    assert not find_rules(run)


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_another_one(run: Path, name: str):
    (run / name).write_bytes((run / name).read_bytes()[:-7])
    assert find_rules(run) == {LIKELIHOODS}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_is_missed(run: Path, name: str):
    (run / name).unlink()
    assert find_rules(run) == {LIKELIHOODS}


def test_a_run_without_likelihoods_is_no_worse(run: Path):
    """Many servers do not tell them."""
    for name in FILES:
        (run / name).unlink()
        put(**{f"{name.removesuffix('.npy')}_sha256": ""})(run / RUN_RECORD)
    assert not find_rules(run)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        (LOGPROB_FILE, "place", -(2**31)),
        (LOGPROB_FILE, "place", 2**31 - 1),
        (LOGPROB_FILE, "sample", -1),
        (LOGPROB_FILE, "said", 0.5),
        (LOGPROB_FILE, "said", -numpy.inf),
        (REFERENCE_LOGPROB_FILE, "place", -2),
        (REFERENCE_LOGPROB_FILE, "fp32", numpy.nan),
        (REFERENCE_LOGPROB_FILE, "fp32", 1e30),
        (REFERENCE_LOGPROB_FILE, "bf16", -numpy.inf),
    ],
)
def test_edited_rows_are_found(run: Path, name: str, column: str, value: float):
    """Whatever hash run.json then has; one row of one answer accuses no network."""
    edit(run, name, set_first(column, value))
    assert find_rules(run) == {LIKELIHOODS}


def test_both_files_may_be_edited_alike(run: Path):
    for name in FILES:
        edit(run, name, set_first("place", -5))
    assert find_rules(run) == {LIKELIHOODS}


@pytest.mark.parametrize("name", FILES)
def test_no_rows_are_no_failure(run: Path, name: str):
    edit(run, name, lambda table: table[:0])
    assert NETWORK not in find_rules(run)


def scale_errors(run: Path, times: float) -> None:
    """Make a system's errors as many times those of bf16."""
    reference = numpy.load(run / REFERENCE_LOGPROB_FILE)
    random = numpy.random.Generator(numpy.random.PCG64(9)).permutation(len(reference))
    left = 1 - numpy.exp(reference["fp32"])
    errors = ((reference["bf16"] - reference["fp32"]) / left)[random] * times

    def change(table: Any) -> Any:
        table["said"] = numpy.minimum(reference["fp32"] + left * errors, -1e-4)
        return table

    edit(run, LOGPROB_FILE, change)


@pytest.mark.parametrize(
    ("times", "stated", "rules"),
    [
        (1.0, "bf16", set()),
        (1.0, "fp32", {NETWORK}),
        (1e-4, "bf16", set()),
        (10.0, "bf16", {NETWORK}),
        (10.0, "int8", set()),
        (200.0, "int8", {NETWORK}),
    ],
)
def test_errors_are_held_to_the_stated_format(
    run: Path, times: float, stated: str, rules: set[str]
):
    scale_errors(run, times)
    for path in (run.parent / SYSTEM_RECORD, run.parent.parent / SYSTEM_RECORD):
        if path.is_file():
            put(precision=stated)(path)
    assert find_rules(run) == rules

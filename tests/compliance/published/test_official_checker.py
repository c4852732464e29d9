"""Beside the official training checker (PyPI mlperf-logging 4.1.68: compliance, seeds, reference
convergence points) on every published set at hand and on every mutant of one: where the two differ,
the differences beside the rules of training say why.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from corpus import PUBLISHED
from mutants.edited import EDITED
from mutants.families import LOGS
from mutants.training.bases import SetBase, contents, set_bases
from mutants.training.later import LATER
from official_checker import Opinion, check_log_officially, check_set_officially

from compliance.judge import Judge
from compliance.rules.differences import load_difference_tables
from compliance.verdict import Verdict

pytestmark = pytest.mark.slow


class Disagreement(NamedTuple):
    """A reason for which the official checker refuses what counts here."""

    rounds: str
    """Pattern of the rounds' names."""
    says: str
    """Pattern of what the official checker says."""
    reason: str
    """The subject of the difference (compliance/kinds/training/differences.toml)."""


REFUSED_OFFICIALLY: Final = (
    Disagreement(r"training_v0\.6", r".", "records of v0.6 in another style"),
    Disagreement(r".*", r"^seeds: .*logs no seed", "sets whose logs name no seed"),
    Disagreement(r".*", r"^seeds: .*Found parsing errors", "a garbled line in a log"),
    Disagreement(r".*", r"^convergence: KeyError", "benchmarks that the checker has no points for"),
    Disagreement(r".*", r"^\d+ logs instead of \d+", "sets with fewer runs in a copy"),
    Disagreement(r".*", r"^convergence: RCP found", "sets that need less training, with a factor"),
    Disagreement(
        r"training_v1\.1",
        r"weights_initialization|initialized_tensors",
        "names of initialised tensors",
    ),
)
"""Accepted by MLCommons and here, refused by the checker."""


def list_sets(rounds: str = "training_v*") -> list[Path]:
    """List the published sets."""
    return sorted(
        folder
        for folder in PUBLISHED.glob(f"{rounds}/*/results/*/*")
        if any(folder.glob("result_*.txt"))
    )


def get_version(folder: Path) -> str:
    """Return a set's round as the official checker names it."""
    return folder.parents[3].name.removeprefix("training_v") + ".0"


def is_closed(folder: Path) -> bool:
    """Tell from the system's description, as the package checker does."""
    description = folder.parents[2] / "systems" / f"{folder.parent.name}.json"
    try:
        return bool(json.loads(description.read_text())["division"] == "closed")
    except (OSError, ValueError, KeyError):
        return True


@cache
def judge_officially(folder: Path, aside: Path) -> Opinion:
    """Ask about a set once."""
    return check_set_officially(folder, get_version(folder), closed=is_closed(folder), aside=aside)


def find_reason(round: str, message: str) -> str | None:
    """Return the reason for which the official checker says this of what counts here."""
    return next(
        (
            each.reason
            for each in REFUSED_OFFICIALLY
            if re.fullmatch(each.rounds, round) and re.search(each.says, message)
        ),
        None,
    )


@pytest.mark.parametrize(
    "folder", list_sets(), ids=lambda path: path.relative_to(PUBLISHED).as_posix()
)
def test_what_the_official_checker_accepts_is_valid(folder: Path, tmp_path: Path) -> None:
    """Accepted is evidence: where the checker of a round accepts a set, an error here is wrong."""
    said, judged = judge_officially(folder, tmp_path), Judge().judge_path(str(folder))
    round = folder.parents[3].name
    if said.accepts:
        assert judged.verdict is not Verdict.BROKEN, judged.findings
    elif judged.verdict is not Verdict.BROKEN:
        unexplained = [text for text in said.messages if find_reason(round, text) is None]
        assert unexplained == []


def iterate_mutants(tmp_path: Path) -> Iterator[tuple[str, SetBase, bytes]]:
    """Yield each kind of mutant of a log once, in a log whose round's checker accepts it as it is;
    kinds take turns with the bases.
    """
    for rounds, kinds in (("training_v0.7", LOGS), ("training_v[1-9]*", (*LATER, *EDITED))):
        bases = [
            base
            for base in set_bases(PUBLISHED, tmp_path, rounds)
            if check_log_officially(base.log, get_version(base.origin)).accepts
        ]
        for at, kind in enumerate(kinds):
            for base in bases[at % len(bases) :] + bases[: at % len(bases)]:
                if (content := contents(kind, None, base)) is not None:
                    yield kind.name, base, content
                    break


FORM_OF_MUTANTS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "block_of_negative_epochs",
            "block_of_no_epochs",
            "block_of_unknown_epochs",
            "block_start_number_missing",
            "block_stop_number_missing",
            "block_without_a_count",
            "block_without_place",
            "epoch_start_number_missing",
            "epoch_stop_number_missing",
            "eval_start_number_missing",
            "eval_stop_number_missing",
            "metadata_missing_block_start",
            "metadata_missing_epoch_start",
            "metadata_missing_eval_accuracy",
        ),
        "blocks, epochs or evaluations without their number",
    ),
    **dict.fromkeys(
        (
            "gone_cache_clear",
            "gone_init_start",
            "gone_init_stop",
            "init_after_run",
            "init_start_after_init_stop",
            "init_stop_after_start",
            "initialised_in_the_run",
            "missing_cache_clear",
            "missing_init_start",
            "missing_init_stop",
        ),
        "no cache_clear, init_start or init_stop, or these in another order",
    ),
    **dict.fromkeys(
        (
            "missing_epochs_and_blocks",
            "never_block_stop",
            "unbounded_eval_start",
            "unbounded_eval_stop",
        ),
        "training or evaluation that starts or stops without a mark",
    ),
    **dict.fromkeys(
        ("start_line_behind_a_block", "stop_line_before_start_line"),
        "lines in another order than their times",
    ),
    **dict.fromkeys(
        ("cut_global_batch_size", "garbage_in_global_batch_size"),
        "a required hyperparameter on a garbled line",
    ),
    **dict.fromkeys(
        ("stop_in_the_other_dialect", "value_missing_run_start"),
        "run_start or run_stop without a value, or in the other round's style",
    ),
}
"""Kinds of mutants that the official checker refuses, and that are a warning here -> the reason."""


def test_what_the_official_checker_refuses_of_a_log_is_an_error(tmp_path: Path) -> None:
    """A mutant that the checker of its round sees must not be valid here, but for its form."""
    laxer, path = {}, tmp_path / "alone" / "result_1.txt"
    path.parent.mkdir()
    for name, base, content in iterate_mutants(tmp_path):
        path.write_bytes(content)
        version = get_version(base.origin)
        judged = Judge(f"training-v{version.removesuffix('.0')}").judge_path(str(path))
        if judged.verdict is Verdict.BROKEN:
            continue
        said = check_log_officially(path, version)
        if not said.accepts:
            laxer[name] = f"{base.name}: {said.messages[0][:200]}"
    assert {name: text for name, text in laxer.items() if name not in FORM_OF_MUTANTS} == {}
    assert set(FORM_OF_MUTANTS) <= set(laxer), "the list may be shorter"


def test_each_disagreement_has_its_row() -> None:
    """A disagreement that nobody can look up looks like a mistake."""
    subjects = {row.subject for table in load_difference_tables() for row in table.difference}
    reasons = {*(each.reason for each in REFUSED_OFFICIALLY), *FORM_OF_MUTANTS.values()}
    assert reasons <= subjects

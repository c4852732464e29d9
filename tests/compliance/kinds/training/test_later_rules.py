"""Rules about training logs since v1.0 that no accepted log gives reason to relax: what is edited
in them is told.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from making_training import (
    DIFFUSED_MS,
    LATE_MS,
    LLAMA_EVERY,
    Change,
    Record,
    describe,
    diffused,
    drop,
    measured,
    new,
    put,
    run,
)

from compliance.judge import Judge
from compliance.kinds.training.documents.system_description import read_described_system
from compliance.kinds.training.round import load_training_round
from compliance.recognition.tree_path import TreePosition
from compliance.rules import judge_document
from compliance.verdict import Severity

OTHER_OPTIMIZER_MS = 1_621_000_000_000
"""May 2021, in which runs of v1.0 were made."""


def told(
    folder: Path, changes: Sequence[Change], severity: Severity = Severity.ERROR, **shape: Any
) -> set[str]:
    """Judge a log of v5.1 with changes; the rules that find something of that weight."""
    records = measured(**shape)
    for change in changes:
        records = change(records)
    path = folder / "result_0.txt"
    path.write_text(new(records, LATE_MS))
    return {
        finding.rule
        for finding in Judge("training-v5.1").judge_path(str(path)).findings
        if finding.severity is severity
    }


def test_the_base_is_valid(tmp_path: Path) -> None:
    """What is broken below must be whole before."""
    assert told(tmp_path, [], evaluations=8) == set()


def shift(key: str, by: int) -> Change:
    """Move the number of samples of all records of a key."""

    def move(record: Record) -> Record:
        if record.key != key:
            return record
        return replace(record, metadata={"samples_count": record.metadata["samples_count"] + by})

    return lambda records: [move(each) for each in records]


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ([shift("eval_accuracy", -32)], True),
        ([shift("block_stop", LLAMA_EVERY)], True),
        ([shift("block_stop", 2 * LLAMA_EVERY)], False),
        ([shift("eval_accuracy", -LLAMA_EVERY)], False),
        ([put("eval_accuracy", 1, metadata={"samples_count": 5})], False),
        ([put("block_stop", 1, metadata={"samples_count": 5})], False),
    ],
)
def test_ends_may_be_counted_where_they_ended(
    tmp_path: Path, changes: Sequence[Change], holds: bool
) -> None:
    """Two vendors number blocks by their ends, and results 32 samples before their evaluation:
    every log had three findings.
    """
    found = told(tmp_path, changes, Severity.WARNING, evaluations=8)
    assert ("log.paired" not in found) is holds


def put_before(key: str, *records: Record) -> Change:
    """Put records before the first one of a key."""

    def insert(kept: list[Record]) -> list[Record]:
        place = next(index for index, each in enumerate(kept) if each.key == key)
        return [*kept[:place], *records, *kept[place:]]

    return insert


UNTRAINED = {"samples_count": 0}


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        (
            put_before(
                "init_stop",
                Record("eval_start", None, 7000, UNTRAINED),
                Record("eval_accuracy", 9.5, 8000, UNTRAINED),
                Record("eval_stop", None, 8000, UNTRAINED),
            ),
            True,
        ),
        (put_before("run_start", Record("eval_accuracy", 9.5, 9000.5, UNTRAINED)), False),
        (put_before("init_stop", Record("block_start", None, 8000, UNTRAINED)), False),
    ],
    ids=["in-initialisation", "after-it", "training"],
)
def test_an_untrained_model_may_be_evaluated_in_the_initialisation(
    tmp_path: Path, change: Change, holds: bool
) -> None:
    """An accepted set of v1.0 does; training before the start stays an error."""
    assert "log.span" in told(tmp_path, [change], Severity.WARNING if holds else Severity.ERROR)
    assert holds is (told(tmp_path, [change]) == set())


@pytest.mark.parametrize(("name", "holds"), [("close", True), ("Clos", True), ("closer", False)])
def test_a_division_cut_short_is_a_warning(tmp_path: Path, name: str, holds: bool) -> None:
    changes = [put("submission_division", value=name)]
    assert ("log.names" not in told(tmp_path, changes)) is holds
    assert ("log.names" in told(tmp_path, changes, Severity.WARNING)) is holds


@pytest.mark.parametrize("value", [None, "100", True, -1, 101, 100.5])
def test_steps_that_follow_from_other_steps_are_exact(tmp_path: Path, value: object) -> None:
    """A tolerance of 1.2 million steps would let a step more pass, and a relation to what is no
    number everything.
    """
    assert told(tmp_path, [put("opt_learning_rate_warmup_steps", value=value)]) == {"log.legality"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_steps", 1_200_001),
        ("opt_learning_rate_decay_steps", 1_199_901),
        ("opt_gradient_clip_norm", 1.0000001),
    ],
)
def test_whole_numbers_are_exact(tmp_path: Path, key: str, value: float) -> None:
    """Only fractions are printed with few digits."""
    assert told(tmp_path, [put(key, value=value)]) == {"log.legality"}


@pytest.mark.parametrize(
    "gone", [("block_stop",), ("block_start", "eval_start"), ("block_stop", "eval_stop")]
)
def test_where_training_and_evaluation_begin_and_end_is_told(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    """The rulesets since v1.0 ask for either of two."""
    changes = [drop(key) for key in gone]
    assert told(tmp_path, changes) == set()
    assert "log.present" in told(tmp_path, changes, Severity.WARNING)


def test_blocks_tell_where_evaluations_are(tmp_path: Path) -> None:
    """Accepted logs that have blocks mark no evaluations."""
    assert told(tmp_path, [drop("eval_start"), drop("eval_stop")]) == set()


@pytest.mark.parametrize(("optimizer", "holds"), [("lars", True), ("sgd", False)])
def test_a_key_of_another_optimizer_may_be_null(
    tmp_path: Path, optimizer: str, holds: bool
) -> None:
    """Logs of one optimizer tell the keys of the other without a value."""
    path = tmp_path / "result_0.txt"
    records = [
        *put("opt_name", value=optimizer)(run()),
        Record("sgd_opt_end_learning_rate", None, 9004),
    ]
    path.write_text(new(records, OTHER_OPTIMIZER_MS))
    findings = Judge("training-v1.0").judge_path(str(path)).findings
    assert (
        any(finding.found.startswith("no sgd_opt_end_learning_rate") for finding in findings)
        is not holds
    )


def described(home: Path, round_name: str, **fields: Any) -> set[tuple[str, Severity]]:
    """Judge the description of a system of a round, with fields changed; ... leaves one out."""
    rules = load_training_round(round_name).rules
    whole = (
        dict.fromkeys(rules.system_fields, "1")
        | {"status": (rules.system_statuses or ("onprem",))[0]}
        | fields
    )
    describe(home / "acme", **whole)
    system = read_described_system(
        home / "acme/systems/box.json",
        TreePosition(organisation_folder=home / "acme", system="box"),
        load_training_round(round_name),
    )
    return {(finding.rule, finding.severity) for finding in judge_document(system, round_name)}


@pytest.mark.parametrize("field", load_training_round("training-v5.1").rules.system_fields)
def test_each_field_of_a_description_is_asked_for(tmp_path: Path, field: str) -> None:
    """The rounds' own checker refuses a description without it; of old rounds few descriptions are
    at hand.
    """
    assert described(tmp_path, "training-v5.1", **{field: ...}) == {("org.fields", Severity.ERROR)}
    assert {rule for rule, _ in described(tmp_path, "training-v2.1", **{field: ...})} == {
        "org.fields"
    }
    assert described(tmp_path, "training-v2.1", cooling=...) == {("org.fields", Severity.WARNING)}


@pytest.mark.parametrize(
    ("round_name", "status", "severity"),
    [
        ("training-v5.1", "Available on-premise", None),
        ("training-v4.0", "Research, Development, or Internal (RDI)", None),
        ("training-v4.0", "onprem", Severity.WARNING),
        ("training-v4.1", "onprem", Severity.ERROR),
        ("training-v5.1", "available", Severity.ERROR),
        ("training-v3.1", "onprem", None),
        ("training-v3.1", "somewhere", Severity.ERROR),
        ("training-v5.1", "somewhere", Severity.ERROR),
    ],
)
def test_a_status_is_one_of_the_rounds_texts(
    tmp_path: Path, round_name: str, status: str, severity: Severity | None
) -> None:
    """Four are known; a description that was copied from an older round has another."""
    assert described(tmp_path, round_name, status=status) == (
        {("org.description", severity)} if severity else set()
    )


def diffusing(
    folder: Path, changes: Sequence[Change], severity: Severity = Severity.ERROR
) -> set[str]:
    """Judge a log of Stable Diffusion v5.0 with changes; the rules that find something of that
    weight.
    """
    records = diffused()
    for change in changes:
        records = change(records)
    path = folder / "result_0.txt"
    path.write_text(new(records, DIFFUSED_MS))
    return {
        finding.rule
        for finding in Judge("training-v5.0").judge_path(str(path)).findings
        if finding.severity is severity
    }


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda records: records, set()),
        (drop("eval_accuracy", 0), {"log.accuracy"}),
        (drop("eval_accuracy", -1), {"log.accuracy", "log.target"}),
        (drop("eval_accuracy", 1), set()),
        (put("run_stop", later=-40_000), {"log.checkpoint"}),
        (put("run_stop", later=90_000), set()),
        (put("run_start", later=90_000), {"log.span"}),
        (put("run_start", later=2_000), set()),
    ],
)
def test_checkpoints_that_are_evaluated_later_tell_when_the_run_ends(
    tmp_path: Path, change: Change, rules: set[str]
) -> None:
    """FID alone may settle that a checkpoint misses; the clock runs from the first batch to the
    last one of the checkpoint that passes.
    """
    assert diffusing(tmp_path, [change]) == rules


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        (put("run_start", later=4_000), True),
        (put("run_start", later=60_000), False),
        (put("run_stop", later=-4_000), True),
        (put("run_stop", later=-60_000), False),
    ],
)
def test_clocks_of_several_processes_are_seconds_apart(
    tmp_path: Path, change: Change, holds: bool
) -> None:
    """Where accepted logs of a benchmark mix processes, a shorter run is all the same one whose
    clock was moved.
    """
    records = [
        replace(record, value="bert") if record.key == "submission_benchmark" else record
        for record in change(measured())
    ]
    path = tmp_path / "result_0.txt"
    path.write_text(new(records, LATE_MS))
    found = [
        finding
        for finding in Judge("training-v5.0").judge_path(str(path)).findings
        if finding.rule in ("log.clock", "log.span")
    ]
    assert found
    assert all(finding.severity is Severity.WARNING for finding in found) is holds


@pytest.mark.parametrize(
    ("key", "value", "severity"),
    [
        ("opt_base_learning_rate", "fast", Severity.ERROR),
        ("opt_base_learning_rate", -1, Severity.ERROR),
        ("opt_base_learning_rate", None, Severity.WARNING),
        ("opt_base_learning_rate", "0.0009", None),
        ("opt_base_learning_rate", 0, None),
        ("gradient_accumulation_steps", 1.5, Severity.ERROR),
        ("gradient_accumulation_steps", 112.0, None),
    ],
)
def test_a_learning_rate_is_a_number_and_steps_are_whole(
    tmp_path: Path, key: str, value: object, severity: Severity | None
) -> None:
    """Rulesets that leave a value open ask for any record of it."""
    found = {
        each for each in Severity if "log.rates" in told(tmp_path, [put(key, value=value)], each)
    }
    assert found == ({severity} if severity else set())


def test_in_the_open_division_it_is_a_warning(tmp_path: Path) -> None:
    """Its hyper-parameters are free."""
    changes = [put("opt_base_learning_rate", value=-1), put("submission_division", value="open")]
    assert "log.rates" in told(tmp_path, changes, Severity.WARNING)


def copy_of(folder: Path, which: int, noise_ms: int, digits: int) -> list[tuple[Severity, str]]:
    """Put a copy of one run into a set, a day later, with another seed, milliseconds more and
    rounded results; what runs.distinct finds.
    """
    lately_runs(folder)
    lines = []
    for line in (folder / f"result_{which}.txt").read_text().splitlines():
        told = json.loads(line.removeprefix(":::MLLOG "))
        told["time_ms"] += 86_400_000 + noise_ms * (len(lines) // 7)
        told["value"] = (
            round(told["value"], digits)
            if isinstance(told["value"], float)
            else told["value"] + 5
            if told["key"] == "seed"
            else told["value"]
        )
        lines.append(f":::MLLOG {json.dumps(told)}\n")
    (folder / "result_7.txt").write_text("".join(lines))
    found = Judge("training-v5.1").judge_path(str(folder)).findings
    return [
        (finding.severity, finding.found) for finding in found if finding.rule == "runs.distinct"
    ]


def lately_runs(folder: Path) -> None:
    """Write ten runs that are separate."""
    for number in range(10):
        (folder / f"result_{number}.txt").write_text(
            new(measured(number=number, evaluations=8), LATE_MS + number * 3_600_000)
        )


def test_separate_runs_are_told_apart(tmp_path: Path) -> None:
    """Runs of one program on one machine are alike."""
    lately_runs(tmp_path)
    assert not [
        finding
        for finding in Judge("training-v5.1").judge_path(str(tmp_path)).findings
        if finding.rule == "runs.distinct"
    ]


@pytest.mark.parametrize(("noise_ms", "digits", "times"), [(1, 6, 2), (40, 5, 1), (1, 1, 1)])
def test_a_copy_that_was_disguised_is_told(
    tmp_path: Path, noise_ms: int, digits: int, times: int
) -> None:
    """Published sets hold copies, so it is only a warning."""
    found = copy_of(tmp_path, 3, noise_ms, digits)
    assert {severity for severity, _ in found} == {Severity.WARNING}
    assert len([text for _, text in found if "result_3.txt" in text]) == times

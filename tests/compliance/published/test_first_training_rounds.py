"""Published training results, where they lie beside the checkout: read as established, judged as
the rules say.
"""

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from corpus import CORPUS

from compliance.judge import Judge
from compliance.kinds.training.documents.log import (
    PublishedLog,
    read_published_log,
    read_published_set,
)
from compliance.kinds.training.round import load_training_round
from compliance.recognition.path_kind import recognise_path
from compliance.verdict import Severity, Verdict

ROUNDS = ("training-v0.6", "training-v0.7")
NOT_CONVERGED = frozenset({"training_v0.7/Google/results/tpu-v3-1024-TF/maskrcnn/result_0.txt"})
"""A run that ended with status abort: one may, of a set."""


def folder_of(round_name: str) -> Path:
    return CORPUS / round_name.replace("-", "_")


def rows(name: str) -> Iterator[Mapping[str, str]]:
    with (CORPUS / "expected" / name).open() as stream:
        yield from csv.DictReader(stream)


@cache
def read(path: Path, round_name: str) -> PublishedLog:
    return read_published_log(path, load_training_round(round_name), recognise_path(path).position)


def logs(round_name: str) -> Iterator[tuple[Mapping[str, str], PublishedLog]]:
    """What is established about each log, and the log; a set called mask stands there as
    maskrcnn.
    """
    for row in rows(f"{round_name.replace('-', '_')}_runs.csv"):
        system = folder_of(round_name) / row["org"] / "results" / row["system"]
        folder = (
            system / row["benchmark"]
            if (system / row["benchmark"]).is_dir()
            else system / row["benchmark"].removesuffix("rcnn")
        )
        yield row, read(folder / row["file"], round_name)


def sets() -> list[Path]:
    return sorted(
        {
            path.parent
            for name in ROUNDS
            for path in folder_of(name).glob("*/results/*/*/result_*.txt")
        }
    )


@pytest.mark.parametrize("round_name", ROUNDS)
def test_minutes_status_and_target_are_as_established(round_name: str) -> None:
    """A parser that loses a quirk loses a run's time or its last evaluation."""
    for row, log in logs(round_name):
        assert log.minutes == pytest.approx(float(row["ttt_min"]), abs=1e-4), log.path
        assert len(log.evaluations) == int(row["n_evals"]), log.path
        assert log.reached == (row["last_eval_reaches_target"] == "True"), log.path
        assert row["status"] in ("n/a", log.status), log.path
        assert row["division"] in ("", log.division), log.path
        batch = log.find_value("global_batch_size")
        assert row["global_batch_size"] in ("", str(batch)), log.path


@pytest.mark.parametrize("round_name", ROUNDS)
def test_every_log_is_well_formed(round_name: str) -> None:
    """What accepted logs do must not be told as a flaw that weighs."""
    for _, log in logs(round_name):
        assert not [
            flaw for flaw in log.source.parse_errors if flaw.kind not in log.source.leniency
        ], log.path
        assert log.benchmark
        assert len(log.dialects) == 1


@pytest.mark.slow
def test_no_accepted_log_is_broken() -> None:
    judge = Judge()
    for path in (
        path for name in ROUNDS for path in folder_of(name).glob("*/results/*/*/result_*.txt")
    ):
        result = judge.judge_path(str(path))
        errors = {finding.rule for finding in result.findings if finding.severity is Severity.ERROR}
        if str(path.relative_to(CORPUS)) in NOT_CONVERGED:
            assert (result.verdict, errors) == (Verdict.NOT_CONVERGED, {"log.converged"})
        else:
            assert (result.verdict, errors) == (Verdict.VALID, set()), path


@pytest.mark.slow
def test_every_set_is_valid_also_the_one_with_a_run_that_did_not_converge() -> None:
    judge = Judge()
    assert {str(folder): judge.judge_path(str(folder)).verdict for folder in sets()} == {
        str(folder): Verdict.VALID for folder in sets()
    }


@pytest.mark.slow
def test_organisations_and_rounds_have_no_error() -> None:
    judge = Judge()
    for name in ROUNDS:
        result = judge.judge_path(str(folder_of(name)))
        assert result.round == name
        assert result.verdict is Verdict.VALID, [
            finding for finding in result.findings if finding.severity is Severity.ERROR
        ]


@pytest.mark.slow
@pytest.mark.parametrize("round_name", ROUNDS)
def test_what_the_official_checker_accepts_is_valid_here(round_name: str) -> None:
    """v0.6's checker rejects much for its form, so only its acceptance is an oracle."""
    judge = Judge()
    accepted = [
        row["path"]
        for row in rows(f"{round_name.replace('-', '_')}_official_verdicts.csv")
        if row["verdict"] == "PASS"
    ]
    assert len(accepted) > 30
    for path in accepted:
        assert judge.judge_path(str(folder_of(round_name) / path)).verdict is Verdict.VALID, path


@pytest.mark.slow
def test_warnings_are_those_that_accepted_logs_give_reason_for() -> None:
    """A new warning on accepted logs has to be looked at before it is shipped."""
    judge = Judge()
    told = {
        (finding.severity, finding.rule)
        for folder in sets()
        for finding in judge.judge_path(str(folder)).findings
    }
    assert told == {
        (Severity.INFO, "file.cut"),  # no newline at the end
        (Severity.INFO, "file.foreign"),  # two processes wrote into one line
        (Severity.INFO, "log.instant"),  # SSD marks only the report of a result
        (Severity.WARNING, "log.after"),  # what was in flight when the clock stopped
        (Severity.WARNING, "log.converged"),  # the run that ended with status abort
        (Severity.WARNING, "log.epochs"),  # evaluations of the epoch before, blocks that skip
        (Severity.WARNING, "log.order"),  # lines of other processes, written late
        (Severity.WARNING, "log.paired"),  # evaluations numbered one above their start
        (Severity.WARNING, "log.unevaluated"),  # 16 evaluations of 120 blocks
        (Severity.WARNING, "log.older"),  # the text form from before v0.6
        (
            Severity.WARNING,
            "log.sizes",
        ),  # Mask R-CNN that tells 80,000 samples to train on and 1 to evaluate on
        (Severity.WARNING, "log.stopped"),  # evaluations in flight when the target was reached
        (Severity.WARNING, "log.uncleared"),  # cache_clear null
        (Severity.WARNING, "org.described"),  # no description of any system
        (Severity.WARNING, "runs.overlap"),  # runs on several systems of one name
    }


def test_a_set_reads_its_logs_by_number() -> None:
    folder = folder_of("training-v0.7") / "Fujitsu/results/gx_V100x8_ngc20.06_pytorch/gnmt"
    group = read_published_set(folder, load_training_round("training-v0.7"))
    assert [log.number for log in group.logs] == list(range(1, 11))
    assert group.benchmark == "gnmt"
    assert group.row is not None
    assert group.row.runs == 10

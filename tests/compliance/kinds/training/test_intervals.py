"""How far apart evaluations are: the rules' interval, the first one, and what the other evaluations
show.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from making_training import LATE_MS, Record, drop, measured, new

from compliance.judge import Judge
from compliance.verdict import Severity

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def weighed(
    folder: Path,
    round_name: str,
    benchmark: str,
    places: Sequence[float],
    batch: int = 768,
    division: str = "closed",
) -> set[Severity]:
    """Judge a log with evaluations at these places; how much log.interval finds weighs."""
    told = {
        "submission_benchmark": benchmark,
        "submission_division": division,
        "global_batch_size": batch,
    }
    field = (
        "samples_count" if benchmark.startswith(("llama", "stable", "deepseek")) else "epoch_num"
    )
    scores = [
        Record("eval_accuracy", 0.5, 20_000 + 10 * index, {field: place})
        for index, place in enumerate(places)
    ]
    kept = [
        replace(record, value=told.get(record.key, record.value))
        for record in drop("eval_accuracy")(measured(brief=True))
    ]
    stop = next(index for index, record in enumerate(kept) if record.key == "run_stop")
    path = folder / "result_0.txt"
    path.write_text(new([*kept[:stop], *scores, *kept[stop:]], LATE_MS))
    return {
        finding.severity
        for finding in Judge(round_name).judge_path(str(path)).findings
        if finding.rule == "log.interval"
    }


def every(interval: float, count: int, first: int = 1) -> list[float]:
    return [interval * index for index in range(first, first + count)]


def last_later(places: list[float], times: float) -> list[float]:
    return [*places[:-1], places[-1] * times]


BERT = every(150_000, 16)
GNN = every(0.05, 17)
SSD = [float(epoch) for epoch in range(1, 7)]


@pytest.mark.parametrize(
    ("round_name", "benchmark", "places"),
    [
        ("training-v5.0", "bert", BERT),
        ("training-v5.0", "bert", [place + 700 * (index % 3) for index, place in enumerate(BERT)]),
        ("training-v4.1", "gnn", GNN),
        ("training-v5.1", "dlrm_dcnv2", every(0.04999, 15)),
        ("training-v2.0", "dlrm", [1 + place for place in every(0.05, 15)]),
        ("training-v5.0", "stable_diffusion", every(512_000, 3, first=2)),
        ("training-v4.1", "ssd", SSD),
        ("training-v2.0", "rnnt", [50.0, 51.0, 52.0, 53.0]),
        ("training-v5.1", "llama31_405b", [287_280.0]),
        ("training-v5.1", "llama31_405b", [307_200.0, 353_280.0]),
    ],
)
def test_what_accepted_logs_do_is_quiet(
    tmp_path: Path, round_name: str, benchmark: str, places: list[float]
) -> None:
    """Batches make intervals uneven, epochs are counted from 0 or 1, and a schedule may begin
    late.
    """
    assert weighed(tmp_path, round_name, benchmark, places) == set()


@pytest.mark.parametrize(
    ("round_name", "benchmark", "places"),
    [
        ("training-v4.1", "gnn", last_later(GNN, 1.5)),
        ("training-v5.0", "bert", last_later(BERT, 1.5)),
        ("training-v5.0", "dlrm_dcnv2", last_later(every(0.04999, 15), 1.5)),
        ("training-v4.1", "gnn", every(0.5, 17)),
        ("training-v5.0", "bert", every(1_500_000, 16)),
        ("training-v5.0", "dlrm_dcnv2", every(0.4999, 15)),
        ("training-v5.0", "stable_diffusion", every(5_120_000, 3, first=2)),
        ("training-v4.1", "gnn", [0.85]),
        ("training-v2.0", "rnnt", every(10.0, 8)),
        ("training-v4.1", "ssd", [6.0]),
        ("training-v1.0", "resnet", [35.0]),
        ("training-v5.0", "llama31_405b", [46_080.0 * 6]),
        ("training-v5.1", "llama31_405b", [46_080.0 * 9]),
    ],
)
def test_evaluations_that_the_rules_have_elsewhere_are_errors(
    tmp_path: Path, round_name: str, benchmark: str, places: list[float]
) -> None:
    """The last one's progress is what a reference convergence point is held against."""
    assert ERROR in weighed(tmp_path, round_name, benchmark, places)


@pytest.mark.parametrize(
    ("round_name", "benchmark", "places", "division"),
    [
        ("training-v5.0", "bert", every(300_000, 8), "closed"),
        ("training-v5.0", "bert", every(1_500_000, 8), "open"),
        ("training-v2.0", "rnnt", [50.0, 51.0, 52.0, 80.0], "open"),
        ("training-v1.0", "unet3d", [1000.0, 1020.0, 1040.0, 1060.0, 1080.0, 1115.0], "closed"),
        ("training-v2.0", "dlrm", [1.0, 2.0, 3.0, 4.0], "closed"),
        ("training-v5.0", "stable_diffusion", every(512_000, 3, first=3), "closed"),
        ("training-v5.0", "stable_diffusion", every(512_000, 2, first=10), "closed"),
        ("training-v2.0", "dlrm", [1 + place for place in every(0.05, 5, first=12)], "closed"),
    ],
)
def test_what_a_logger_may_count_otherwise_is_a_warning(
    tmp_path: Path, round_name: str, benchmark: str, places: list[float], division: str
) -> None:
    """An accepted log that is called broken is worse than one oddity passed over."""
    assert weighed(tmp_path, round_name, benchmark, places, division=division) == {WARNING}


def test_a_batch_that_does_not_fit_the_interval_is_a_warning(tmp_path: Path) -> None:
    """BERT is evaluated more seldom with larger batches, so that four times the batch shows."""
    assert weighed(tmp_path, "training-v5.0", "bert", every(175_000, 12), batch=3072) == set()
    assert weighed(tmp_path, "training-v5.0", "bert", every(175_000, 12), batch=4 * 3072) == {
        WARNING
    }


def test_the_first_evaluations_of_lora_may_be_skipped(tmp_path: Path) -> None:
    """As many as the rules let pass at the batch size."""
    assert (
        weighed(tmp_path, "training-v5.1", "llama2_70b_lora", every(384, 4, first=4), batch=8)
        == set()
    )
    assert weighed(
        tmp_path, "training-v5.1", "llama2_70b_lora", every(384, 4, first=20), batch=8
    ) == {WARNING}


@pytest.mark.parametrize("batches", [44, 50, 1, 2, 45])
def test_a_first_evaluation_of_its_own_is_the_only_one_asked_for(
    tmp_path: Path, batches: int
) -> None:
    """DeepSeek-V3 begins to evaluate where FIRST_CHECK asks for it, which was too late for the rule
    about all others: each right log had a warning, and a wrong one two findings.
    """
    batch = 12_288
    places = [batch * batches, batch * (batches + 1), batch * (batches + 2)]
    found = weighed(tmp_path, "training-v6.1", "deepseekv3_671b", places, batch=batch)
    assert (not found) is (batches == 44)


def test_evaluations_that_ended_have_a_result(tmp_path: Path) -> None:
    """Results that are taken out leave where they were measured."""
    records = measured(evaluations=4)
    last = [record for record in records if record.key == "eval_accuracy"][-1]
    path = tmp_path / "result_0.txt"
    path.write_text(
        new(
            [record for record in records if record.key != "eval_accuracy" or record is last],
            LATE_MS,
        )
    )
    found = [
        finding.found
        for finding in Judge("training-v5.1").judge_path(str(path)).findings
        if finding.rule == "log.interval" and finding.severity is ERROR
    ]
    assert "1 eval_accuracy for 4 eval_stop" in found

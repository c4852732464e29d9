"""Results on embedded data that an earlier podium generated are judged as they were; any other data
are still found.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import making
import pytest
from making import Subject, changed, training_events, write_log
from spoiling import relabelled
from system_records import put_system

from compliance.judge import Judge
from suite import registry
from suite.files.layout import compute_folder_sha256
from suite.rounds import Round
from suite.terms import Profile

WITH_EARLIER = [
    name
    for name, row in making.ROUND.benchmarks.items()
    if row.training[Profile.SMOKE].earlier_train_samples
]


def rules(path: Path) -> set[str]:
    return {finding.rule for finding in Judge().judge_path(str(path)).findings}


def subject(workload: str) -> Subject:
    metric = next(iter(making.ROUND.benchmark(workload).metrics))
    return Subject(
        workload=workload, metric=metric, served=0.5, answers=[], write_truth=lambda folder: None
    )


@pytest.mark.parametrize("workload", WITH_EARLIER)
def test_earlier_sizes_of_the_training_set_are_accepted(tmp_path: Path, workload: str) -> None:
    """A bundle from before the scenes changed would be rejected for its 950 images otherwise; one
    image fewer is nobody's set.
    """
    row, events = (
        making.ROUND.benchmark(workload).training[Profile.SMOKE],
        training_events(subject=subject(workload)),
    )
    for count in (row.train_samples, *row.earlier_train_samples, 100):
        log = write_log(
            tmp_path / f"{count}" / "result_0.txt", changed(events, "train_samples", value=count)
        )
        assert ("training.samples" in rules(log)) is (count == 100)


@pytest.fixture
def accept(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make a truth one that an earlier podium generated."""

    def made(sha256: str) -> None:
        def rows(name: str = making.ROUND.name) -> Round:
            found = original(name)
            row = found.benchmark(making.WORKLOAD)
            halves = {
                **row.inference,
                Profile.SMOKE: replace(
                    row.inference[Profile.SMOKE], earlier_truth_sha256=(sha256,)
                ),
            }
            return replace(
                found,
                benchmarks={**found.benchmarks, making.WORKLOAD: replace(row, inference=halves)},
            )

        original = registry.load_round
        monkeypatch.setattr("compliance.judge.registry.load_round", rows)

    return made


def test_an_earlier_truth_is_accepted(tmp_path: Path, accept: Callable[[str], None]) -> None:
    """It is pinned beside today's: labels that are neither are still found."""
    relabelled(tmp_path)
    assert "accuracy.pinned" in rules(tmp_path)
    accept("7b" * 32)
    assert "accuracy.pinned" in rules(tmp_path)
    accept(compute_folder_sha256(next(tmp_path.glob("**/labels.txt")).parent))
    assert "accuracy.pinned" not in rules(tmp_path)


def test_an_earlier_truth_counts_for_smoke_alone(
    tmp_path: Path, accept: Callable[[str], None]
) -> None:
    """Embedded data of any version are no result of full."""
    relabelled(tmp_path)
    for path in tmp_path.glob("**/system.json"):
        put_system(profile="full")(path)
    assert "entry.profile" not in rules(tmp_path)
    accept(compute_folder_sha256(next(tmp_path.glob("**/labels.txt")).parent))
    assert "entry.profile" in rules(tmp_path)

"""How fast a training may be: by its own epochs and evaluations, by what served, and by what the
harness can supply.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from making import Event, training_events, write_log
from spoiling import put, swap, with_offline_of_ten
from system_records import put_system

from compliance.judge import Judge
from suite.files.layout import RUN_RECORD

EPOCH_S, EVALUATION_S = 9.0, 0.9
"""How long one takes in the examples."""
OFFLINE = 4.0
"""Samples/s in the examples' Offline."""


def told(path: Path, rule: str) -> list[str]:
    return [each.found for each in Judge().judge_path(str(path)).findings if each.rule == rule]


def timed(epochs_ms: Sequence[int], evaluations_ms: Sequence[int]) -> list[Event]:
    """A run whose epochs and evaluations take so long."""
    epochs, evaluations = iter(epochs_ms), iter(evaluations_ms)
    taken = {"epoch_stop": epochs, "eval_accuracy": evaluations}
    events = training_events(scores=(0.375, 0.5, 0.875)[: len(epochs_ms)])
    return [
        replace(event, after_ms=next(taken[event.key])) if event.key in taken else event
        for event in events
    ]


@pytest.mark.parametrize(
    ("epochs_ms", "evaluations_ms", "found"),
    [
        ((9000, 9000, 3100), (1500, 1500, 600), []),
        ((30_000, 9000, 9000), (4000, 1500, 1500), []),
        ((9000, 9000, 2900), (1500, 1500, 1500), ["epoch 3 trains 1649 samples/s"]),
        ((940, 9000, 9000), (1500, 1500, 1500), ["epoch 1 trains 5053 samples/s"]),
        ((9000, 9000, 9000), (1500, 1500, 490), ["an evaluation of 500 ms"]),
        ((9000, 9000, 9000), (1500, 1500, 1), ["an evaluation of 11 ms"]),
        ((9000, 9000, 9000), (900, 900, 10), []),
        ((9000, 9000, 9000), (1, 1, 1), []),
    ],
)
def test_one_epoch_or_evaluation_is_not_three_times_as_fast_as_all_others(
    tmp_path: Path, epochs_ms: Sequence[int], evaluations_ms: Sequence[int], found: list[str]
) -> None:
    """A first one that compiles is slower; one that is faster begins behind the others' begin. What
    takes less than a second tells nothing.
    """
    write_log(tmp_path / "result_0.txt", timed(epochs_ms, evaluations_ms))
    assert told(tmp_path, "training.pace") == found


def test_answers_that_are_generated_become_shorter(tmp_path: Path) -> None:
    """So an evaluation of Transformer may be ten times as fast as the one before."""
    write_log(tmp_path / "result_0.txt", timed((9000, 9000, 9000), (20_000, 15_000, 1500)))
    swap('"podium_workload", "value": "resnet50"', '"podium_workload", "value": "transformer"')(
        tmp_path / "result_0.txt"
    )
    assert told(tmp_path, "training.pace") == []


def serve(folder: Path, engine: str, epoch_rate: float, evaluation_rate: float) -> Path:
    """A tree that trains and evaluates so many samples a second, and serves four with an engine."""
    with_offline_of_ten(folder)
    log = next(folder.glob("**/resnet/result_0.txt"))
    for key, count in (
        ("train_samples", epoch_rate * EPOCH_S),
        ("eval_samples", evaluation_rate * EVALUATION_S),
    ):
        swap(f'"key": "{key}", "value": \\d+', f'"key": "{key}", "value": {round(count)}')(log)
    put_system(engine=engine)(next(folder.glob("**/Offline/system.json")))
    return folder


@pytest.mark.parametrize(
    ("engine", "factor", "evaluation_factor"),
    [("torch", 1.0, 1.5), ("onnxruntime", 1.5, 4.5)],
)
def test_training_is_not_faster_than_serving_whatever_engine_served(
    tmp_path: Path, engine: str, factor: float, evaluation_factor: float
) -> None:
    """Another engine may be slower: by so much that a framework's forward pass is 4.5 times as
    fast. A bound that is not there bounds nothing.
    """
    slow = serve(tmp_path / "slow", engine, 0.9 * factor * OFFLINE, 0.8 * OFFLINE)
    assert told(slow, "tree.pace") == []
    fast = serve(tmp_path / "fast", engine, 1.2 * factor * OFFLINE, 0.8 * OFFLINE)
    assert [each.split(" trains")[0] for each in told(fast, "tree.pace")] == [
        f"epoch {number}" for number in (1, 2, 3)
    ]
    rate = evaluation_factor * OFFLINE
    alike = serve(tmp_path / "alike", engine, 1.0, 0.8 * rate)
    assert told(alike, "tree.pace") == []
    quick = serve(tmp_path / "quick", engine, 1.0, 1.3 * rate)
    assert [each.split(" takes")[0] for each in told(quick, "tree.pace")] == [
        "the slowest evaluation"
    ]


@pytest.mark.parametrize(("ceiling", "found"), [(900.0, 1), (2000.0, 0)])
def test_no_evaluation_is_faster_than_the_harness(
    tmp_path: Path, ceiling: float, found: int
) -> None:
    """Evaluations take their samples from the same harness as queries do."""
    with_offline_of_ten(tmp_path)
    log = next(tmp_path.glob("**/resnet/result_0.txt"))
    swap('"key": "precision", "value": "fp32"', '"key": "precision", "value": "bf16"')(log)
    for path in tmp_path.glob(f"**/Offline/performance/run_1/{RUN_RECORD}"):
        put(ceiling=ceiling)(path)
    faster = [each for each in told(tmp_path, "tree.pace") if "evaluation" in each]
    assert len(faster) == found


def test_the_examples_are_what_is_said_of_them(tmp_path: Path) -> None:
    """Else the rates above would be others."""
    with_offline_of_ten(tmp_path)
    (path,) = tmp_path.glob("**/Offline/performance/run_1/mlperf_log_detail.txt")
    lines = [json.loads(line[9:]) for line in path.read_text().splitlines()]
    rates = [line["value"] for line in lines if line["key"] == "result_samples_per_second"]
    assert [round(rate, 1) for rate in rates] == [OFFLINE]

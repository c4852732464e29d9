"""Step times on paper: the model reproduces the published points, and says what it cannot know."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from extras.scaling.cli import scaling
from extras.scaling.model import (
    SHARD_EXCHANGE,
    compute_exchange_ms,
    fit_published_points,
    predict_left_out_step,
    predict_step_parts,
    read_scaling_data,
)
from suite.errors import JudgedError, RequestError

TREE = Path(__file__).parents[2] / "examples" / "base" / "tree"
PUBLISHED = {
    "DGX-1": (148.3, 0),
    "DGX-2": (148.1, 0),
    "DGX-1 x130": (47.2, 7),
    "ABCI x512": (50.0, -10),
    "DGX-2H": (135.1, 4),
    "DGX-2H x32": (52.2, -3),
    "DGX-2H x96": (36.5, -4),
    "C4140": (148.8, 0),
    "2xC4140": (148.0, 1),
    "4xC4140": (150.2, -1),
    "DGX-A100": (145.4, 12),
    "DGX-A100 x2": (87.3, -10),
    "DGX-A100 x96": (27.5, -3),
}
"""System -> measured milliseconds of a step, and the error in percent where it is left out of the
fit; computed apart, from the same logs.
"""


def asked(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(scaling, [*words, "--format", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_text_is_sentences_and_shows_what_was_asked_once() -> None:
    done = CliRunner().invoke(
        scaling, ["resnet50", "--devices", "2048", "--batch", "81920"], catch_exceptions=False
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("A step takes 12 ms of overhead, the devices' work, and")
    assert "T = " not in done.stdout
    assert sum("2,048 x 40" in line for line in lines) == 1
    assert all(len(line) <= 100 for line in lines)
    other = CliRunner().invoke(
        scaling, ["resnet50", "--devices", "16", "--batch", "640"], catch_exceptions=False
    )
    assert other.stdout.splitlines()[-1].split()[:3] == ["16", "x", "40"]


def test_the_published_table_comes_out_to_three_digits() -> None:
    """A slip in the model or in a point would show in every figure that follows from them."""
    table = {
        row["system"]: row
        for row in asked("resnet50", "--devices", "2048", "--batch", "81920")["points"]
    }
    assert {
        name: (round(row["measured_ms"], 1), round(100 * row["left_out_error"]))
        for name, row in table.items()
    } == PUBLISHED
    assert round(table["ABCI x512"]["samples_per_s"], -3) == 1_722_000


def test_devices_that_fill_no_whole_nodes_exchange_over_the_network_too() -> None:
    """Nine devices in nodes of eight are two nodes."""
    point = next(point for point in read_scaling_data().point if point.per_node == 8)
    times = [
        compute_exchange_ms(replace(point, devices=devices), 25_000_000, 30.0, 0.5)
        for devices in (8, 9, 15, 16)
    ]
    assert times[0] == 0 < times[1] == times[2] == times[3]


def test_divided_weights_are_gathered_twice_and_cost_three_times_the_bytes() -> None:
    """12 bytes of each weight pass the network, instead of 4 of its gradient; within a node,
    neither does.
    """
    point = next(point for point in read_scaling_data().point if point.devices > point.per_node)
    whole = compute_exchange_ms(point, 25_000_000, 0.0, 0.5)
    assert compute_exchange_ms(point, 25_000_000, 0.0, 0.5, SHARD_EXCHANGE) == pytest.approx(
        3 * whole
    )
    on_one = replace(point, devices=point.per_node)
    assert compute_exchange_ms(on_one, 25_000_000, 100.0, 0.5, SHARD_EXCHANGE) == 0


def test_shards_say_what_a_device_holds() -> None:
    """25.6 million weights of 16 bytes on 64 devices."""
    words = ("resnet50", "--devices", "64", "--batch", "640")
    whole, divided = asked(*words), asked(*words, "--shard")
    assert whole["state_gb_per_device"] is None
    assert divided["state_gb_per_device"] == pytest.approx(25_557_032 * 16 / 64 / 1e9)
    assert divided["asked"]["exchange_ms"] > 1.5 * whole["asked"]["exchange_ms"]
    assert divided["points"] == whole["points"]
    told = CliRunner().invoke(scaling, [*words, "--shard"], catch_exceptions=False).stdout
    assert "64 devices hold 0.00639 GB" in " ".join(told.split())


@pytest.mark.slow
def test_each_point_is_predicted_from_the_others_within_15_percent() -> None:
    """A model that only repeats what it was fitted to says nothing of other systems."""
    for point in read_scaling_data().point:
        other = predict_left_out_step(point)
        assert (
            other is not None
            and abs(other / point.compute_step_ms(read_scaling_data().images) - 1) < 0.15
        )
    assert fit_published_points().error < 0.035


def test_2048_devices_of_abcis_kind_come_near_the_published_rate() -> None:
    """81,920 pictures a step, 74.7 s: "over 1.73 million images a second"."""
    found = asked("resnet50", "--devices", "2048", "--batch", "81920", "--per-node", "4")["asked"]
    assert found["samples_per_s"] == pytest.approx(1.69e6, rel=0.005)
    assert found["limit"] == "overhead of a step"


def test_one_node_exchanges_nothing_over_the_network() -> None:
    point = read_scaling_data().point[0]
    assert compute_exchange_ms(point, 25_000_000, 100.0, 0.3) == 0.0
    found = predict_step_parts(point, 25_000_000, fit_published_points(), 1500.0)
    assert found.step_ms == found.overhead_ms + found.compute_ms


def test_the_rate_of_a_device_is_taken_from_a_training_of_ones_own() -> None:
    """On the machine and with the batch of that training the model gives its throughput back."""
    found = asked("resnet50", "--devices", "1", "--batch", "64", "--from", str(TREE))
    assert found["own"]["batch"] == 64
    assert found["asked"]["samples_per_s"] == pytest.approx(found["own"]["throughput"], rel=0.01)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("resnet50", "--devices", "7", "--batch", "100"), "not a multiple of 7"),
        (("gnmt", "--devices", "8", "--batch", "64"), "--from RESULTS"),
        (("ssd", "--devices", "8", "--batch", "64"), "--from RESULTS"),
    ],
)
def test_what_the_model_does_not_know_is_refused(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        asked(*words)


def test_results_without_a_training_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="no such file or folder"):
        asked("resnet50", "--devices", "1", "--batch", "1", "--from", str(tmp_path / "none"))
    with pytest.raises(JudgedError, match="no training log of gnmt"):
        asked("gnmt", "--devices", "1", "--batch", "1", "--from", str(TREE))

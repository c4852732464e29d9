"""The energy of a run set: the mean of its runs in every figure, and only of channels that are
of the same parts in all.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds.powered_training import trained

from compliance.kinds.podium.results import energy
from suite.measurement.mean_energy import average_energies


def two_runs(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> tuple[list[Path], list[Path]]:
    """A run beside a meter, and the same run again whose telemetry differs."""
    trained()(folder)
    for name in ("result_{}.txt", "telemetry_{}.jsonl"):
        shutil.copyfile(folder / name.format(0), folder / name.format(1))
    lines = [json.loads(line) for line in (folder / "telemetry_1.jsonl").read_text().splitlines()]
    for line in lines:
        change(line)
    (folder / "telemetry_1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [folder / f"result_{n}.txt" for n in (0, 1)], [
        folder / f"telemetry_{n}.jsonl" for n in (0, 1)
    ]


def test_each_figure_is_the_mean_of_the_runs(tmp_path: Path) -> None:
    """MLPerf's mean was that of the first run alone."""
    logs, telemetry = two_runs(
        tmp_path, lambda line: line.update(p=line["p"] * 3) if "p" in line else None
    )
    (first,), (both,) = (
        average_energies(energy.read_training_energies(logs[:1], telemetry[:1])),
        average_energies(energy.read_training_energies(logs, telemetry)),
    )
    assert first.mlperf_mean_w and both.mlperf_mean_w == pytest.approx(2 * first.mlperf_mean_w)
    assert (both.joules, both.average_w) == pytest.approx((2 * first.joules, 2 * first.average_w))
    assert both.edge_j == pytest.approx(3 * first.edge_j)


def test_a_channel_that_is_about_other_parts_in_another_run_has_no_mean(tmp_path: Path) -> None:
    """A sum of one package and a sum of two have one name."""

    def moved(line: dict[str, Any]) -> None:
        for channel in line.get("channels", ()):
            channel.update(scope=["gpu0"] if channel["name"] == "meter" else None)

    logs, telemetry = two_runs(tmp_path, moved)
    assert average_energies(energy.read_training_energies(logs, telemetry)) == ()

"""What other programs and heat took from a run, by its telemetry."""

import json
from pathlib import Path
from typing import Any

import pytest

from suite.files.layout import TELEMETRY_FILE
from suite.measurement.host_load import read_host_load
from suite.units import NS_PER_S

HEAD = {"telemetry": 1, "channels": [], "clocks_ns": [0, 1000 * NS_PER_S]}


def write_lines(folder: Path, *lines: dict[str, Any], end: str = "") -> None:
    text = "".join(json.dumps(each) + "\n" for each in (HEAD, *lines))
    (folder / TELEMETRY_FILE).write_text(text + end)


def build_host(at_s: float, others: float, steal: float = 0.0) -> dict[str, Any]:
    return {"t": int(at_s * NS_PER_S), "host": {"cpu_others": others, "steal": steal}}


def test_shares_are_weighted_by_their_overlap_with_the_run(tmp_path: Path) -> None:
    write_lines(tmp_path, build_host(1, 1.0), build_host(2, 0.2, 0.1), build_host(4, 0.6))
    load = read_host_load(tmp_path, 1001 * NS_PER_S, 1003 * NS_PER_S)
    assert load.others_share == pytest.approx((0.3 + 0.6) / 2)
    assert load.throttled_share is None


def test_a_gpu_that_is_held_down_is_seen(tmp_path: Path) -> None:
    states = [
        {"t": at * NS_PER_S, "gpu0": {"event_reasons": reasons}}
        for at, reasons in ((1, 0x20), (2, 0))
    ]
    write_lines(tmp_path, *states)
    assert read_host_load(tmp_path, 1000 * NS_PER_S, 1003 * NS_PER_S).throttled_share == 0.5


@pytest.mark.parametrize("end", ['{"t": "x", "host": {}}\n', "no JSON\n", '{"t": 5'])
def test_a_damaged_file_gives_what_stands_before_the_damage(tmp_path: Path, end: str) -> None:
    write_lines(tmp_path, build_host(1, 0.5), end=end)
    assert read_host_load(tmp_path, 1000 * NS_PER_S, 1002 * NS_PER_S).others_share == 0.5


@pytest.mark.parametrize("share", [10**30, -0.5, 1.5, "0.5", None])
def test_what_is_no_share_of_the_cores_says_nothing(tmp_path: Path, share: Any) -> None:
    write_lines(tmp_path, build_host(1, 0.5), build_host(2, share, 0.25), build_host(3, share, 2))
    load = read_host_load(tmp_path, 1000 * NS_PER_S, 1003 * NS_PER_S)
    assert load.others_share == pytest.approx((0.5 + 0.25) / 2)


def test_nothing_is_known_without_telemetry(tmp_path: Path) -> None:
    assert read_host_load(tmp_path, 0, 1).others_share is None

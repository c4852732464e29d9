"""Where instances run is decided from the machine's cores alone, and what it cannot hold is
refused.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from harness.machine import placement
from harness.machine.placement import (
    InstancePlacement,
    choose_default_core_groups,
    parse_loadgen_cores,
    place_instances,
    read_numa_nodes,
    resolve_instance_count,
    sort_by_numa_node,
    split_cores,
)
from suite.errors import RequestError
from suite.process.devices import format_number_list


def test_groups_are_equal_and_disjoint():
    """A core in two groups would be shared by two pinned processes; an uneven group would be the
    slowest.
    """
    assert split_cores(range(8), 2) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert split_cores([0, 1, 2, 3, 4], 2) == ((0, 1), (2, 3))


def test_a_group_keeps_to_one_numa_node(tmp_path: Path):
    """Cores that alternate between nodes by number would put each instance's memory on both."""
    for node, cores in {"node0": "0,2,4", "node1": "1,3,5-5\n"}.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(cores)
    assert split_cores(sort_by_numa_node(range(6), read_numa_nodes(tmp_path)), 2) == (
        (0, 2, 4),
        (1, 3, 5),
    )


def test_a_machine_that_tells_no_nodes_keeps_the_order(tmp_path: Path):
    """Containers often hide /sys."""
    assert sort_by_numa_node([3, 1], read_numa_nodes(tmp_path / "none")) == [1, 3]


def test_the_usual_groups_are_one_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What podium doctor prints: two where the machine tells of one node, or of none."""
    monkeypatch.setattr(placement, "NUMA_FOLDER", tmp_path)
    monkeypatch.setattr(placement.os, "sched_getaffinity", lambda _: set(range(8)))
    assert choose_default_core_groups() == ((0, 1, 2, 3), (4, 5, 6, 7))
    for node, cores in {"node0": "0,2", "node1": "1,3", "node2": "4-5", "node3": "6-7"}.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(cores)
    assert choose_default_core_groups() == ((0, 2), (1, 3), (4, 5), (6, 7))
    monkeypatch.setattr(placement.os, "sched_getaffinity", lambda _: {0})
    assert choose_default_core_groups() == ((0,),)


@pytest.mark.parametrize("cores", [(0,), (0, 1, 2, 3), (0, 2, 3, 9), ()])
def test_cores_are_written_as_the_kernel_does(cores: tuple[int, ...]):
    """The text is read back by the reader of the kernel's own lists."""
    assert tuple(placement.parse_kernel_list(format_number_list(cores))) == cores


@pytest.mark.parametrize(("asked", "words"), [(-1, "below 0"), (10**6, "too many for")])
def test_what_the_machine_cannot_hold_is_refused(asked: int, words: str):
    """Exit code 2, before anything starts."""
    with pytest.raises(RequestError, match=words) as caught:
        resolve_instance_count({"sut.instances": asked})
    assert caught.value.exit_code == 2


def test_instances_are_pinned_only_where_the_cores_are_free(monkeypatch: pytest.MonkeyPatch):
    """Who is pinned cannot avoid another program."""
    monkeypatch.setattr(placement, "measure_busy_share", lambda: 0.5)
    assert place_instances(["cpu"], 1) == (InstancePlacement(device="cpu"),)
    monkeypatch.setattr(placement, "measure_busy_share", lambda: 0.0)
    assert set(place_instances(["cpu"], 1)[0].cores) == os.sched_getaffinity(0)
    assert place_instances(["cpu"], 0) == ()


@pytest.mark.parametrize(
    ("pin", "busy", "pinned"),
    [("auto", 0.5, False), ("auto", 0.0, True), ("on", 0.5, True), ("off", 0.0, False)],
)
def test_the_user_may_decide_whether_instances_are_pinned(
    pin: str, busy: float, pinned: bool, monkeypatch: pytest.MonkeyPatch
):
    """A machine whose other load is known to end needs no look; one shared with a daemon that comes
    and goes must not be trusted to it.
    """
    monkeypatch.setattr(placement, "measure_busy_share", lambda: busy)
    assert bool(place_instances(["cpu"], 1, {"sut.pin": pin})[0].cores) is pinned


def test_cores_kept_for_loadgen_are_nobody_elses(monkeypatch: pytest.MonkeyPatch):
    """An instance on LoadGen's core would delay the queries of all others."""
    monkeypatch.setattr(placement, "NUMA_FOLDER", Path("/nonexistent"))
    monkeypatch.setattr(placement.os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4, 5})
    placed = place_instances(["cpu"], 2, {"sut.pin": "on", "sut.loadgen_cores": "0,3"})
    assert [each.cores for each in placed] == [(1, 2), (4, 5)]
    assert parse_loadgen_cores({"sut.loadgen_cores": "3,0"}) == (0, 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sut.instances": 1, "sut.loadgen_cores": "0-"}, "no list of cores such as 0-1,4"),
        ({"sut.instances": 1, "sut.loadgen_cores": "0,0"}, "no list of cores"),
        ({"sut.instances": 1, "sut.loadgen_cores": "0-999999999999"}, "no list of cores"),
        ({"sut.instances": 1, "sut.loadgen_cores": "1-2"}, "may not use core 2 here; it has 0-1"),
        (
            {"sut.instances": 2, "sut.loadgen_cores": "1"},
            "2 instances are too many for 1 cores that sut.loadgen_cores leaves",
        ),
        (
            {"sut.loadgen_cores": "1"},
            "sut.loadgen_cores: the system under test is in LoadGen's own process",
        ),
        ({"sut.pin": "on"}, "sut.pin: the system under test is in LoadGen's own process"),
    ],
)
def test_cores_that_cannot_be_kept_are_refused(
    settings: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
):
    """A setting without effect would be stamped into the records as if it had one."""
    monkeypatch.setattr(placement.os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(RequestError, match=words) as caught:
        resolve_instance_count(settings)
    assert caught.value.exit_code == 2

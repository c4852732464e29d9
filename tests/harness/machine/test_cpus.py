"""What others use of the cores."""

from typing import Any

import pytest

from harness import thread_count
from harness.distributed import SingleRank
from harness.machine import cpus
from harness.machine.cpus import measure_cpu_use
from suite import registry


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Looks to come, on four cores."""
    looks: list[float] = []
    monkeypatch.setattr(cpus, "measure_cpu_use", lambda: looks.pop(0))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(4)))
    return looks


@pytest.mark.parametrize(
    ("shares", "own", "busy"),
    [
        ([100.0, 0.0], {0, 1}, 0.5),
        ([100.0, 0.0, 50.0], {1, 2}, 0.25),
        ([30.0], {7}, 0.3),
        ([], {0}, 0.0),
    ],
)
def test_only_the_cores_that_may_be_used_are_watched(
    monkeypatch: pytest.MonkeyPatch, shares: list[float], own: set[int], busy: float
):
    """Another user's cores say nothing; a system that tells of none is taken for free."""
    monkeypatch.setattr("psutil.cpu_percent", lambda interval, percpu: shares)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: own)
    assert measure_cpu_use() == pytest.approx(busy)


def test_a_quiet_host_costs_one_look(host: list[float]):
    """Half a second before every run; more would be felt."""
    host += [0.05, 0.9, 0.9]
    assert cpus.measure_busy_share() == 0.05 and len(host) == 2


def test_work_that_is_over_in_a_moment_does_not_count(host: list[float]):
    """The last writes of an installation would be taken for a busy host."""
    host += [0.9, 0.8, 0.02]
    assert cpus.measure_busy_share() == 0.02
    host += [0.9, 0.4, 0.6]
    assert cpus.measure_busy_share() == 0.4


def test_what_others_use_is_said_in_cores(host: list[float]):
    """A share alone would not tell two busy cores of two from two of sixty-four; a little is not
    worth a line.
    """
    assert thread_count.describe_busy_cores(0.475, 2).startswith(
        "other programs use 1.9 of 4 cores, so timings are unreliable; using 2"
    )
    assert thread_count.describe_busy_cores(0.1, 4) == ""


@pytest.mark.parametrize(
    ("number", "share", "taken"),
    [
        (2, 0.1, 2),
        (2, 0.2, 2),
        (2, 0.5, 1),
        (2, 1.0, 1),
        (3, 1.0, 2),
        (16, 0.13, 14),
        (16, 1.0, 8),
        (1, 1.0, 1),
    ],
)
def test_threads_leave_others_their_cores(
    monkeypatch: pytest.MonkeyPatch, number: int, share: float, taken: int
):
    """A thread that shares its core keeps the others waiting at every kernel; but where all is
    taken, half is a fair share.
    """
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(number)))
    assert cpus.choose_core_count(share) == taken


def test_large_kernels_keep_every_core():
    """One thread of SSD's training beside two busy loops made a third of the quiet rate, and two
    nearly half, which is a fair share.
    """
    assert cpus.choose_core_count(1.0, large_kernels=True) == cpus.count_available_cores()


def test_a_workload_says_that_its_kernels_are_large(
    host: list[float], capsys: pytest.CaptureFixture[str]
):
    """What the workload says has to arrive where threads are counted; one that says nothing has
    small kernels.
    """
    host += [0.5, 0.5, 0.5]
    large = {
        name: registry.load_workload(name).has_large_kernels
        for name in ("ssd", "maskrcnn", "gnmt", "resnet50")
    }
    assert large == {"ssd": True, "maskrcnn": True, "gnmt": False, "resnet50": False}
    assert thread_count.resolve_thread_count(0, SingleRank(), large_kernels=True) == 4
    assert (
        "other programs use 2.0 of 4 cores, so timings are unreliable; using 4"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("asked", "begun", "neighbours", "threads"),
    [(0, 0, 1, 2), (0, 0, 2, 1), (0, 0, 8, 1), (3, 0, 1, 3), (3, 4, 2, 3), (0, 4, 1, 4)],
)
def test_what_is_asked_for_or_begun_stays(
    host: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked: int,
    begun: int,
    neighbours: int,
    threads: int,
):
    """A resumed run on other threads would be another run; a user's own number is not to be
    corrected; ranks share what is left.
    """
    host += [0.5, 0.5, 0.5]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(neighbours))
    assert thread_count.resolve_thread_count(asked, SingleRank(), begun) == threads
    told = (
        f"other programs use 2.0 of 4 cores, so timings are unreliable; using {threads} CPU"
        f" {'thread' if threads == 1 else 'threads'} (override with --threads)\n"
    )
    assert capsys.readouterr().out == told


def test_nothing_is_said_on_a_quiet_host(host: list[float], capsys: pytest.CaptureFixture[str]):
    """A line before every run would not be read."""
    host += [0.02]
    assert thread_count.resolve_thread_count(0, SingleRank()) == 4 and capsys.readouterr().out == ""


def test_a_rank_that_does_not_lead_takes_what_the_leader_saw(
    host: list[float], capsys: pytest.CaptureFixture[str]
):
    """Ranks that looked at once would take one another for others, and each would say so."""

    class Second(SingleRank):
        leads = False

        def share_value(self, value: Any) -> Any:
            return shared.pop(0)

    shared = [0.5, 0]
    assert (
        thread_count.resolve_thread_count(0, Second()) == 2
        and capsys.readouterr().out == ""
        and not shared
    )

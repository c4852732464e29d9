"""The sampler's process: what it writes, and what is left of a run's telemetry whatever happens to
it.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from podium_fakes.drive import partial, until
from processes import is_alive

from harness.machine.telemetry import host
from harness.machine.telemetry import process as telemetry
from harness.machine.telemetry.process import (
    RunSampler,
    collect_inherited_state,
    plan_sampling,
    sample_during_block,
)
from harness.machine.telemetry.sampled import SamplingPlan, SourceOpening
from suite.files.layout import PARTIAL_SUFFIX
from suite.process.names import TEMPLATE_PROCESS_NAME

METER = "podium_fakes.meter"
CLOSES = "import os, time; os.close(1); time.sleep(60)"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def started(path: Path, *functions: str, goes_on: bool = False, **options: Any) -> RunSampler:
    """Start a sampler of the fakes' sources alone."""
    return RunSampler(
        SamplingPlan(
            path=str(path),
            sources=tuple(
                SourceOpening(function=f"{METER}:{name}", options=options) for name in functions
            ),
            goes_on=goes_on,
        )
    )


@pytest.mark.slow
def test_the_host_is_sampled_from_channels_to_end(tmp_path: Path):
    """First line channels and clocks, then a state a second, last line counts and clocks; shares
    are 0-1.
    """
    path = tmp_path / "telemetry.jsonl"
    with sample_during_block(path, "cpu") as sampler:
        until(lambda: partial(path).exists() and b'"host":{' in partial(path).read_bytes())
    head, *states, foot = lines(path)
    assert sampler.lost == () and list(tmp_path.iterdir()) == [path]
    assert head["telemetry"] == 1 and [
        (each["id"], each["name"], each["kind"]) for each in head["channels"]
    ] == [(0, "host", "state")]
    assert foot["end"]["readings"] == [len(states)] and len(states) >= 2
    times = [head["clocks_ns"][0], *(state["t"] for state in states), foot["end"]["clocks_ns"][0]]
    assert times == sorted(times)
    told = [state["host"] for state in states]
    assert all(
        0 <= host["cpu_own"] + host["cpu_others"] + host["steal"] <= 1.001
        for host in told
        if host["cpu_own"] is not None
    )
    assert all(host["rss_mib"] > 1 and host["free_mib"] > 1 for host in told)


@pytest.mark.slow
def test_own_work_is_told_from_others(tmp_path: Path):
    """A child's work is this run's own: noise would be found in every run otherwise. Its sibling's,
    not below the root, is others'.
    """
    path = tmp_path / "telemetry.jsonl"
    spin = [
        sys.executable,
        "-c",
        "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass",
    ]
    worker = subprocess.Popen(spin)
    try:
        own = RunSampler(plan_sampling(path, "cpu"))
        seen = SourceOpening(
            function="harness.machine.telemetry.host:open_host", options={"root_pid": worker.pid}
        )
        other = RunSampler(SamplingPlan(path=str(tmp_path / "other.jsonl"), sources=(seen,)))
        time.sleep(3.2)
        used_s = sum(psutil.Process(worker.pid).cpu_times()[:2])
    finally:
        worker.kill()
        worker.wait()
    own.finish()
    other.finish()
    assert used_s > 0.05
    mine, its = (
        sum(line["host"]["cpu_own"] or 0 for line in lines(file)[1:-2])
        for file in (path, tmp_path / "other.jsonl")
    )
    assert mine > 0.02 and its > 0.02 and abs(mine - its) < 0.6 * max(mine, its) + 0.1


@pytest.mark.parametrize("listed", [True, False])
def test_own_processes_are_found_without_a_look_at_all_others(
    monkeypatch: pytest.MonkeyPatch, listed: bool
):
    """Among thousands of processes that look is so dear that it came once in half a minute, and
    until then a run's new processes were others'.
    """
    if listed and not host.CHILDREN_FILE.exists():
        pytest.skip("this kernel lists no children (CONFIG_PROC_CHILDREN)")
    looked: list[int] = []
    whole = psutil.Process.children
    monkeypatch.setattr(
        psutil.Process,
        "children",
        lambda self, recursive=False: looked.append(self.pid) or whole(self, recursive),
    )
    monkeypatch.setattr(host, "CHILDREN_FILE", host.CHILDREN_FILE if listed else Path("/nowhere"))
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        grandchild = int(shell.stdout.readline())
        try:
            found = {process.pid for process in host.ProcessFamily(os.getpid()).find_processes()}
        finally:
            psutil.Process(grandchild).kill()
    assert {os.getpid(), shell.pid, grandchild} <= found and bool(looked) is not listed


@pytest.mark.parametrize("name", ["other", TEMPLATE_PROCESS_NAME])
def test_memory_that_a_template_shares_is_counted_once(name: str):
    """Its child has the same pages; its processor time is its own."""
    program = (
        f"open('/proc/self/comm', 'w').write({name!r}); held = bytearray(64 << 20);"
        " print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        family = host.ProcessFamily(os.getpid())
        family.known = [psutil.Process(child.pid)]
        family.members.next_ns = time.monotonic_ns() + 10**12
        assert family.sum_cpu_s() > 0.0
        child.communicate("\n")
    assert (family.rss_bytes > 64 << 20) is (name != TEMPLATE_PROCESS_NAME)


@pytest.mark.slow
def test_power_channels_are_read_at_their_own_period(tmp_path: Path):
    """Energy and power sources come to the same process: their lines carry the channel's number and
    microjoules or microwatts.
    """
    path = partial(tmp_path / "t.jsonl")
    sampler = started(tmp_path / "t.jsonl", "open_meter", period_ms=50)
    until(lambda: path.exists() and path.read_bytes().count(b'"e":') >= 5)
    sampler.finish()
    head, *readings, foot = lines(tmp_path / "t.jsonl")
    assert [(each["name"], each["kind"]) for each in head["channels"]] == [
        ("fake:energy", "energy"),
        ("fake:power", "power"),
    ]
    assert head["channels"][0]["grade"] == "counter" and head["channels"][0]["range_uj"] == 10**9
    energy = [line["e"] for line in readings if line["i"] == 0]
    assert energy == [10_000_000 * n for n in range(1, len(energy) + 1)] and len(energy) >= 5
    assert {line["p"] for line in readings if line["i"] == 1} == {5_000_000}
    assert foot["end"]["readings"] == [len(energy), len(readings) - len(energy)]


@pytest.mark.slow
def test_a_source_that_falls_silent_costs_its_readings_alone(tmp_path: Path):
    """An exception of one source must not end the others'; numbers that are none become null."""
    sampler = RunSampler(
        SamplingPlan(
            path=str(tmp_path / "t.jsonl"),
            sources=(
                SourceOpening(
                    function=f"{METER}:open_meter", options={"period_ms": 50, "fails_every": 2}
                ),
                SourceOpening(function=f"{METER}:open_odd"),
                SourceOpening(function=f"{METER}:open_nothing"),
            ),
        )
    )
    time.sleep(0.6)
    sampler.finish()
    _, *readings, foot = lines(tmp_path / "t.jsonl")
    assert foot["end"]["missed"][0] == foot["end"]["missed"][1] > 0 == foot["end"]["missed"][2]
    assert {json.dumps(line["odd"]) for line in readings if "odd" in line} == {
        '{"temp_c": null, "mhz": [null, 1.0]}'
    }


def test_a_killed_sampler_costs_the_telemetry_and_says_so(tmp_path: Path):
    """The run is kept without the record; half a file would be taken for a whole one."""
    sampler = started(tmp_path / "telemetry.jsonl", "open_meter")
    assert sampler.process is not None
    os.kill(sampler.process.popen.pid, signal.SIGKILL)
    sampler.finish()
    assert sampler.lost == (
        "telemetry.jsonl is lost: the sampler was ended by signal 9",
    ) and not list(tmp_path.iterdir())


def test_one_process_samples_one_run_after_another(tmp_path: Path):
    """Each LoadGen run waited a third of a second for a new one."""
    pids = []
    for name in ("a", "b", "c"):
        sampler = started(tmp_path / name, "open_meter")
        assert sampler.process is not None
        pids.append(sampler.process.popen.pid)
        sampler.pause_sampling() if name == "a" else sampler.finish()
    assert len(set(pids)) == 1 and sorted(path.name for path in tmp_path.iterdir()) == [
        "a.partial",
        "b",
        "c",
    ]
    assert all([*lines(path)[-1]] == ["end"] for path in tmp_path.iterdir())


def test_what_a_source_prints_costs_nothing(tmp_path: Path):
    """It was taken for the sampler's answer, and filled the pipe that nobody reads until the
    end.
    """
    for run in range(4):
        sampler = started(tmp_path / str(run), "open_loud", characters=60_000)
        sampler.finish()
        assert sampler.lost == () and (tmp_path / str(run)).exists()


def test_a_process_that_closes_its_answers_and_stays_costs_the_telemetry_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Waiting for its end failed the run."""
    monkeypatch.setattr(telemetry, "SAMPLER_STOP_LIMIT_S", 0.2)
    monkeypatch.setattr(
        telemetry,
        "collect_inherited_state",
        lambda: collect_inherited_state()._replace(command=(sys.executable, "-c", CLOSES)),
    )
    sampler = started(tmp_path / "t.jsonl", "open_meter")
    assert (
        sampler.lost == ("t.jsonl is lost: the sampler does not answer",)
        and sampler.process is None
    )


@pytest.mark.slow
def test_an_idle_process_that_does_not_answer_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The next run goes on with a new one."""
    first = started(tmp_path / "first", "open_meter")
    assert first.process is not None
    stopped = first.process.popen
    first.finish()
    stopped.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(telemetry, "SAMPLER_START_LIMIT_S", 5.0)
    second = started(tmp_path / "second", "open_meter")
    second.finish()
    assert (
        second.lost == () and (tmp_path / "second").exists() and stopped.poll() == -signal.SIGKILL
    )


@pytest.mark.parametrize("how", ["killed", "changed"])
def test_an_idle_process_that_is_dead_or_would_be_started_otherwise_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    """The next run would have no telemetry, or that of another meter."""
    first = started(tmp_path / "first", "open_meter")
    assert first.process is not None
    process = first.process.popen
    first.finish()
    assert process.poll() is None
    if how == "killed":
        process.kill()
        process.wait()
    else:
        monkeypatch.setenv("METER", "another")
    second = started(tmp_path / "second", "open_meter")
    assert (
        second.process is not None
        and second.process.popen.pid != process.pid
        and process.poll() is not None
    )
    second.finish()
    assert second.lost == () and (tmp_path / "second").exists()


def test_a_full_disk_costs_the_telemetry_and_says_so(tmp_path: Path):
    """A disk that fills up in the middle of a run ends the sampler, not the run."""
    (tmp_path / f"telemetry.jsonl{PARTIAL_SUFFIX}").symlink_to("/dev/full")
    sampler = started(tmp_path / "telemetry.jsonl", "open_meter")
    sampler.finish()
    assert sampler.lost == ("telemetry.jsonl is lost: No space left on device",) and not list(
        tmp_path.iterdir()
    )


def test_a_folder_that_is_gone_costs_the_telemetry_alone(tmp_path: Path):
    """A sampler that cannot begin is no reason to wait, or to fail."""
    sampler = started(tmp_path / "nowhere" / "telemetry.jsonl", "open_meter")
    sampler.finish()
    assert sampler.lost == ("telemetry.jsonl is lost: No such file or directory",)


def test_an_exception_of_the_run_takes_its_telemetry_along(tmp_path: Path):
    """A run that failed leaves nothing that could be read as a result's record."""
    with pytest.raises(ZeroDivisionError), sample_during_block(tmp_path / "telemetry.jsonl", "cpu"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_goes_on_in_the_same_file(tmp_path: Path):
    """The resumed run's segment follows the first; what a kill tore of the last line goes."""
    path = tmp_path / "telemetry_0.jsonl"
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    first = started(path, "open_meter")
    first.pause_sampling()
    assert not path.exists() and [*lines(partial)[-1]] == ["end"]
    with partial.open("a") as stream:
        stream.write('{"t":12')
    second = started(path, "open_meter", goes_on=True)
    second.finish()
    keys = [next(iter(line)) for line in lines(path)]
    assert (
        keys.count("telemetry") == keys.count("end") == 2
        and keys[0] == "telemetry"
        and keys[-1] == "end"
        and not partial.exists()
    )


def until_gone(pid: int) -> None:
    """Wait some seconds for a process to end."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        until(lambda: not is_alive(process), 20)


@pytest.mark.slow
@pytest.mark.parametrize("idle", [False, True])
def test_the_sampler_ends_with_its_parent(tmp_path: Path, idle: bool):
    """A parent that is killed cannot say stop, and a forked worker of its may hold the pipe open: a
    sampler left behind would run for ever.
    """
    program = f"""
        import os, time
        from harness.machine.telemetry.process import RunSampler, plan_sampling
        from pathlib import Path
        sampler = RunSampler(plan_sampling(Path({str(tmp_path / "t.jsonl")!r}), "cpu"))
        worker = os.fork()
        if not worker:
            time.sleep(60)
            os._exit(0)
        print(sampler.process.popen.pid, worker, flush=True)
        if {idle}:
            sampler.finish()
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    sampler, worker = map(int, parent.stdout.readline().split())
    while idle and not (tmp_path / "t.jsonl").exists():
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    try:
        until_gone(sampler)
        assert (tmp_path / "t.jsonl").exists() == idle
    finally:
        os.kill(worker, signal.SIGKILL)
        parent.stdout.close()

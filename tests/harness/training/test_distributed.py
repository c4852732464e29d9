"""Several ranks: one log, one decision, and none that hangs."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from podium_fakes import EVALUATION_S
from podium_fakes.drive import (
    events,
    heads_and_ends,
    keys,
    log_path,
    partial,
    slowed,
    start,
    until,
    valid_events,
    weights,
    words,
)
from processes import children_of, is_alive, rank_of
from warm import TORCH_RUN, Child, Warm

from compliance.judge import Judge
from compliance.verdict import Verdict
from harness import distributed
from harness.distributed import (
    RankFailed,
    RankFailure,
    RankGroup,
    RankLost,
    RankWatch,
    SingleRank,
    join_launched_ranks,
)
from harness.training import timed_run
from harness.training.loop import RunEnding
from harness.training.seeds import compute_rank_seed
from harness.training.state.checkpointing import list_checkpoint_numbers
from suite.errors import AbortedError, RequestError
from suite.process.launcher import read_launcher_variable
from suite.process.signals import Terminated, raise_signals_in_block

RANKS = (
    "--nproc-per-node",
    "2",
    "--rdzv-backend",
    "c10d",
    "--rdzv-endpoint",
    "localhost:0",
    "-m",
    "harness",
)
TORCH = ("--set", "fake.torch=true", "--set", "fake.gain=0.05")
TURNS = 5
"""Kills in a launch."""
DDP = (*TORCH, "--set", "fake.ddp=true")


class Store:
    """What a TCPStore does, in this process."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def get(self, key: str) -> str:
        return self.values[key]

    def check(self, names: list[str]) -> bool:
        return all(key in self.values for key in names)

    def add(self, key: str, amount: int) -> int:
        with self.lock:
            self.values[key] = self.values.get(key, 0) + amount
            return self.values[key]

    def compare_set(self, key: str, expected: str, value: str) -> str:
        with self.lock:
            return self.values.setdefault(key, value) if not expected else self.values[key]


def on_all(store: Store, work: Callable[[RankGroup], object], size: int = 3) -> list[object]:
    """Run the same on all ranks, each in a thread."""
    results: list[object] = [None] * size

    def one(rank: int) -> None:
        try:
            results[rank] = work(RankGroup(store, rank, rank, size))
        except (RankFailed, RankLost) as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return results


def test_all_ranks_get_what_rank_0_says():
    """A decision to stop that only some take would hang the rest."""
    assert (
        on_all(
            Store(),
            lambda ranks: [
                ranks.share_value(f"from {ranks.rank}"),
                ranks.share_value({"top1": ranks.rank}),
            ],
        )
        == [["from 0", {"top1": 0}]] * 3
    )


def test_all_ranks_wait_for_the_last():
    """A checkpoint gets its name when every rank has written its part."""
    arrived: list[int] = []

    def work(ranks: RankGroup) -> int:
        time.sleep(0.05 * ranks.rank)
        arrived.append(ranks.rank)
        ranks.wait_for_ranks()
        return len(arrived)

    assert on_all(Store(), work) == [3, 3, 3]


def test_a_rank_that_fails_ends_the_agreements_of_all():
    """The others learn which rank and why, instead of waiting for it; the first to fail is the one
    that is named.
    """

    def work(ranks: RankGroup) -> object:
        if ranks.rank == 1:
            ranks.report_failure("disk gone")
            ranks.report_failure("a consequence")
            return ranks.find_failure()
        ranks.wait_for_ranks()
        return None

    first, second, third = on_all(Store(), work)
    assert (
        second is None
        and str(first) == str(third) == "rank 1: disk gone"
        and isinstance(first, RankFailed)
    )


def test_one_process_agrees_with_itself():
    """Without torchrun nothing is exchanged."""
    ranks = SingleRank()
    ranks.wait_for_ranks()
    ranks.report_failure("x")
    assert ranks.share_value(5) == 5 and ranks.leads and ranks.find_failure() is None
    with join_launched_ranks("cpu") as (found, watch):
        assert isinstance(found, SingleRank) and watch is None


def test_a_rank_blocked_in_a_collective_is_ended(monkeypatch: pytest.MonkeyPatch):
    """NCCL would wait for ever: after the grace time the log is ended from the watching thread, and
    the process with it.
    """
    said: list[object] = []
    monkeypatch.setattr(distributed, "WATCH_INTERVAL_S", 0.01)
    monkeypatch.setattr(distributed, "FAILURE_GRACE_S", 0.05)
    monkeypatch.setattr(os, "_exit", said.append)
    store = Store()
    watch = RankWatch(RankGroup(store, 0, 0, 2))
    watch.last_words = said.append
    RankGroup(store, 1, 1, 2).report_failure("out of memory")
    until(lambda: len(said) == 2)
    assert said == [RankFailure(sentence="rank 1: out of memory", lost=False), 1]


def test_a_store_that_is_gone_ends_a_rank_too(monkeypatch: pytest.MonkeyPatch):
    """The store goes with the process that held it: whoever is left is alone."""
    said: list[object] = []
    monkeypatch.setattr(distributed, "WATCH_INTERVAL_S", 0.01)
    monkeypatch.setattr(distributed, "FAILURE_GRACE_S", 0.05)
    monkeypatch.setattr(os, "_exit", said.append)
    monkeypatch.setattr(Store, "check", lambda *_: (_ for _ in ()).throw(ConnectionError("reset")))
    watch = RankWatch(RankGroup(Store(), 1, 1, 2))
    watch.last_words = said.append
    until(lambda: len(said) == 2)
    assert said == [RankFailure(sentence="the launcher's store is gone (reset)", lost=True), 75]


def test_a_rank_whose_pulse_stops_is_gone(monkeypatch: pytest.MonkeyPatch):
    """A stopped process or a cut network closes no connection: the others would wait for ever in an
    agreement.
    """
    monkeypatch.setattr(distributed, "WATCH_INTERVAL_S", 0.01)
    monkeypatch.setattr(distributed, "MAX_PULSE_SILENCE_S", 0.2)
    monkeypatch.setattr(distributed, "FAILURE_GRACE_S", 60.0)
    store = Store()
    watch = RankWatch(RankGroup(store, 0, 0, 2))
    with pytest.raises(RankLost, match="rank 1 is gone: not heard of for") as caught:
        RankGroup(store, 2, 2, 3).wait_for_ranks()
    watch.stop_watching()
    assert caught.value.exit_code == 75


def test_the_rank_that_finds_another_gone_says_so_itself(monkeypatch: pytest.MonkeyPatch):
    """Of two ranks only one is left to say it: waiting in the store, it was ended by its watch,
    without a word before the clock.
    """
    monkeypatch.setattr(distributed, "WATCH_INTERVAL_S", 0.01)
    monkeypatch.setattr(distributed, "MAX_PULSE_SILENCE_S", 0.2)
    monkeypatch.setattr(os, "_exit", lambda _: None)
    ranks = RankGroup(Store(), 0, 0, 2)
    watch = RankWatch(ranks)
    with pytest.raises(RankLost, match="rank 1 is gone: not heard of for"):
        ranks.wait_for_ranks()
    watch.stop_watching()


def test_a_collective_that_fails_with_nobodys_word_is_a_lost_rank(monkeypatch: pytest.MonkeyPatch):
    """kill -9 leaves no word: the run was called aborted for good, though nothing was wrong with
    it.
    """
    monkeypatch.setattr(distributed, "MAX_REPORT_WAIT_S", 0.1)
    store = Store()
    first, second = (RankGroup(store, rank, rank, 2) for rank in range(2))
    broken = RuntimeError(
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
        " [127.0.0.1]:1"
    )
    lost = first.find_cause(broken)
    assert (
        lost is not None
        and lost.lost
        and "another rank is gone" in lost.sentence
        and "Connection closed by peer" in lost.sentence
    )
    assert first.find_cause(ValueError("of its own")) is None
    monkeypatch.setattr(distributed, "MAX_REPORT_WAIT_S", 60.0)
    threading.Timer(0.05, second.report_failure, ["out of memory"]).start()
    assert first.find_cause(broken) == RankFailure(sentence="rank 1: out of memory", lost=False)


@pytest.mark.parametrize(("lost", "ended"), [(False, AbortedError), (True, Terminated)])
def test_a_signal_behind_the_failure_of_another_rank_aborts_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: bool, ended: type[Exception]
):
    """torchrun signals whoever is left: the log was kept as of a run that goes on. Behind a lost
    rank it does go on.
    """
    store, ends = Store(), list[object]()

    def finish(*given: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        ends.append(given[-1])

    monkeypatch.setattr(timed_run.attempts, "record_run_end", finish)
    monkeypatch.setattr(timed_run, "record_run_ending", lambda *given: ends.append(given[-1]))
    job: Any = SimpleNamespace(
        name="fake",
        ranks=RankGroup(store, 0, 0, 2),
        watch=None,
        working_entry=SimpleNamespace(results=tmp_path),
        entry=SimpleNamespace(results=tmp_path),
        get_state_folder=lambda index: tmp_path,
    )
    RankGroup(store, 1, 1, 2).report_failure("broken on purpose", lost=lost)
    nothing: Any = None
    reason = "interrupted" if lost else "run 0 aborted: rank 1: broken on purpose"
    with pytest.raises(ended, match=reason), raise_signals_in_block() as job.signals:  # noqa: SIM117
        with timed_run.handle_timed_failures(job, nothing, 0, nothing):
            raise Terminated("interrupted by SIGTERM")
    assert ends == ([] if lost else [RunEnding.BROKEN] * 2)


def test_a_rank_that_comes_out_by_itself_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """gloo raises in the collective: the main thread ends the log then."""
    monkeypatch.setattr(distributed, "WATCH_INTERVAL_S", 0.01)
    monkeypatch.setattr(os, "_exit", lambda _: pytest.fail("ended from the side"))
    store = Store()
    watch = RankWatch(RankGroup(store, 0, 0, 2))
    RankGroup(store, 1, 1, 2).report_failure("x")
    time.sleep(0.05)
    watch.stop_watching()


def test_wrong_variables_of_the_launcher_are_told(monkeypatch: pytest.MonkeyPatch):
    """WORLD_SIZE without RANK is a launch by hand that went wrong."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(RequestError, match="torchrun"):
        read_launcher_variable("RANK")


def test_each_rank_has_noise_of_its_own():
    """The same dropout on every rank would waste the batch; rank 0 has the seed that is logged."""
    seeds = [compute_rank_seed(7, rank) for rank in range(4)]
    assert seeds[0] == 7 and len(set(seeds)) == 4 and compute_rank_seed(8, 1) != seeds[1]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """Where ranks come from, and most of their launchers."""
    started = Warm(
        "podium_fakes.torchrun",
        "torch.distributed.run",
        *TORCH_RUN,
        "podium_fakes.engine",
        "podium_fakes.tiny",
        "torch._dynamo",
    )
    yield started
    started.end()


def ranks_of(
    warm: Warm, asked: Sequence[str], *more: str, env: Mapping[str, str] | None = None
) -> Child:
    """Start two ranks under a torchrun that is a fork as they are."""
    return warm.start([*more, *RANKS, *asked], env, launcher="podium_fakes.torchrun")


@pytest.fixture(scope="module")
def whole(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Train two ranks that average by DDP, without a disturbance; the results and what was
    printed.
    """
    folder = tmp_path_factory.mktemp("whole")
    child = ranks_of(
        warm,
        words(
            folder,
            "--seed",
            "4",
            *DDP,
            "--set",
            "checkpoint.interval_s=0.1",
            "--set",
            "fake.step_ms=20",
        ),
    )
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    return folder, out


@pytest.mark.slow
def test_two_ranks_keep_one_log_and_go_on_after_a_kill(
    warm: Warm, whole: tuple[Path, str], tmp_path: Path
):
    """torchrun with gloo: world size logged, one set of markers; killed inside an epoch and
    resumed, the weights are the same.
    """
    more = (*DDP, "--set", "checkpoint.interval_s=0.1", "--set", "fake.step_ms=20")
    undisturbed, out = whole
    assert out.count("target reached") == 1
    log = log_path(undisturbed)
    assert (
        keys(log).count("run_start") == 1
        and next(e for e in events(log) if e["key"] == "world_size")["value"] == 2
    )
    results = tmp_path / "killed"
    child = ranks_of(warm, words(results, "--seed", "4", *more), env=slowed())
    until(
        lambda: max(list_checkpoint_numbers(results / ".podium" / "fake" / "run_0"), default=0) >= 4
    )
    ranks = running(child, set())
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    until(lambda: not any(map(is_alive, ranks.values())))
    again = ranks_of(warm, words(results, "--resume", *more))
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert (
        weights(results) == weights(undisturbed) and keys(log_path(results)).count("resumed") == 1
    )


@pytest.mark.slow
def test_two_ranks_of_a_node_have_one_sampler(warm: Warm, tmp_path: Path):
    """Two samplers would write one file; the work of both ranks is the run's own."""
    child = ranks_of(
        warm, words(tmp_path, "--seed", "4", "--set", "fake.torch=true", "--set", "fake.step_ms=20")
    )
    _, told = child.communicate(timeout=300)
    assert child.returncode == 0, told
    assert heads_and_ends(log_path(tmp_path).with_name("telemetry_0.jsonl")) == ["telemetry", "end"]
    assert sorted(path.name for path in log_path(tmp_path).parent.iterdir()) == [
        "result_0.txt",
        "telemetry_0.jsonl",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fault", ["epoch", "setup"])
def test_a_rank_that_raises_ends_the_run_on_all(warm: Warm, tmp_path: Path, rank: int, fault: str):
    """Within seconds, exit not 0, the log aborted and finished (or none, before the clock), and the
    cause named.
    """
    began = time.monotonic()
    faults = (
        "--set",
        f"fake.fault={fault}",
        "--set",
        f"fake.fault_rank={rank}",
        "--set",
        "fake.step_ms=5",
    )
    child = ranks_of(warm, words(tmp_path, "--seed", "4", *TORCH, *faults))
    _, err = child.communicate(timeout=90)
    assert (
        child.returncode != 0
        and f"broken on purpose in {fault}" in err
        and time.monotonic() - began < 60
    )
    if fault == "setup":
        assert not list((tmp_path / "open").rglob("result_*"))
    else:
        assert (
            events(log_path(tmp_path))[-1]["metadata"]["status"] == "aborted"
            and not partial(log_path(tmp_path)).exists()
        )
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
def test_sigterm_to_the_launcher_leaves_a_run_that_can_go_on(warm: Warm, tmp_path: Path):
    """A scheduler ends torchrun, torchrun its ranks: the log keeps `.partial`, nothing goes on
    running.
    """
    child = ranks_of(
        warm,
        words(tmp_path, "--seed", "4", *TORCH, "--set", "checkpoint.interval_s=0.1"),
        env=slowed(),
    )
    until(
        lambda: (
            max(list_checkpoint_numbers(tmp_path / ".podium" / "fake" / "run_0"), default=0) >= 2
        )
    )
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert partial(log_path(tmp_path)).exists() and not log_path(tmp_path).exists()
    assert events(partial(log_path(tmp_path)))[-1]["metadata"].get("status") == "aborted"
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)


@pytest.mark.slow
def test_ranks_stopped_in_an_evaluation_are_valid_once_they_are_resumed(warm: Warm, tmp_path: Path):
    """They leave it together, and save behind it: one process saved the position of before with
    the log's end of now.
    """
    asked = words(tmp_path, "--seed", "4", *TORCH, "--resume")
    child = ranks_of(warm, asked, env={**os.environ, EVALUATION_S: "3"})
    log = partial(log_path(tmp_path))
    until(lambda: log.exists() and "eval_start" in log.read_text())
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    again = ranks_of(warm, asked)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    judged = Judge().judge_path(str(tmp_path))
    assert judged.verdict is Verdict.VALID, judged.findings
    assert keys(log_path(tmp_path)).count("resumed") == 1


def running(
    launcher: "Child | subprocess.Popen[str]", known: set[int]
) -> dict[int, psutil.Process]:
    """Find the ranks of a launcher, without those that are known already."""
    found: dict[int, psutil.Process] = {}
    with suppress(psutil.NoSuchProcess):
        for process in children_of(launcher.pid):
            with suppress(psutil.Error):
                if process.pid not in known and (rank := rank_of(process)):
                    found[int(rank)] = process
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ranks_that_are_killed_go_on_bit_by_bit_when_torchrun_restarts_them(
    warm: Warm, tmp_path: Path
):
    """kill -9 of either rank at 20 points, up to five in a launch: one whole log, the same weights,
    and never an empty or shortened log.
    """
    more = (*TORCH, "--set", "checkpoint.interval_s=0.1", "--set", "fake.step_ms=20")
    whole = ranks_of(warm, words(tmp_path / "whole", "--seed", "4", *more))
    assert (whole.communicate(timeout=120), whole.returncode)[1] == 0
    random, points = Random(1), 0
    while points < 20:
        results, known = tmp_path / f"killed-{points}", set[int]()
        child = ranks_of(warm, words(results, "--seed", "4", *more), "--max-restarts", str(TURNS))
        for turn in range(TURNS):

            def has_saved_or_ended(
                turn: int = turn,
                child: Child = child,
                results: Path = results,
                known: set[int] = known,
            ) -> bool:
                both = saved(results) >= turn and len(running(child, known)) == 2
                return child.poll() is not None or both

            until(has_saved_or_ended, 120)
            # also before there is a log, and while ranks meet again
            time.sleep(random.random() * (1.0 if turn == 0 else 0.5))
            ranks = running(child, known)
            known |= {process.pid for process in ranks.values()}
            if points % 2 in ranks:
                ranks[points % 2].kill()
                points += 1
        _, err = child.communicate(timeout=300)
        assert child.returncode == 0, err
        assert weights(results) == weights(tmp_path / "whole")
        assert [
            event["metadata"]["status"]
            for event in valid_events(log_path(results))
            if event["key"] == "run_stop"
        ] == ["success"]
        assert not list((results / "open").rglob("*.partial"))


@pytest.mark.slow
def test_a_resumed_set_goes_on_after_a_restart_of_its_ranks(
    warm: Warm, whole: tuple[Path, str], tmp_path: Path
):
    """The restarted ranks, here interpreters of their own with PyTorch's DDP, took it for an older
    one, threw it away and began another.
    """
    more = (*DDP, "--set", "checkpoint.interval_s=0.1", "--set", "fake.step_ms=40")
    first = ranks_of(warm, words(tmp_path, "--seed", "4", *more), env=slowed())
    until(lambda: saved(tmp_path) >= 2)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=120)
    stood = saved(tmp_path)
    again = start(
        words(tmp_path, "--resume", *more),
        ("-m", "torch.distributed.run", "--max-restarts", "3", *RANKS),
        env=slowed(),
    )
    until(lambda: saved(tmp_path) > stood and len(running(again, set())) == 2)
    running(again, set())[1].kill()
    _, err = again.communicate(timeout=200)
    assert again.returncode == 0, err
    assert (
        next(event for event in events(log_path(tmp_path)) if event["key"] == "seed")["value"] == 4
    )
    assert not list((tmp_path / ".podium").rglob("superseded"))
    assert weights(tmp_path) == weights(whole[0])  # they average, too


def saved(results: Path) -> int:
    """Number the newest checkpoint; a finished run has all there are."""
    return (
        99
        if log_path(results).exists()
        else max(list_checkpoint_numbers(results / ".podium" / "fake" / "run_0"), default=0)
    )


def by_hand(warm: Warm, results: Path, port: int, rank: int, *more: str, step_ms: int = 0) -> Child:
    """Start one of two ranks without a launcher that restarts or ends the other."""
    own = {
        "WORLD_SIZE": "2",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return warm.start(words(results, *more), slowed(step_ms, **own))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_whoever_is_left_ends_with_75_and_the_run_goes_on(warm: Warm, tmp_path: Path, rank: int):
    """No launcher ends the others here: within seconds the one that is left says how to go on; the
    log keeps `.partial`.
    """
    more = (*DDP, "--set", "checkpoint.interval_s=0.1", "--set", "fake.step_ms=20")
    results, port = tmp_path / "results", free_port()
    pair = [
        by_hand(warm, results, port, each, "--seed", "4", *more, step_ms=100) for each in range(2)
    ]
    until(
        lambda: max(list_checkpoint_numbers(results / ".podium" / "fake" / "run_0"), default=0) >= 2
    )
    pair[rank].send_signal(signal.SIGKILL)
    began = time.monotonic()
    _, told = pair[1 - rank].communicate(timeout=120)
    pair[rank].communicate()
    assert pair[1 - rank].returncode == 75 and time.monotonic() - began < 60, told
    assert "--resume`" in told and "Traceback" not in told
    assert partial(log_path(results)).exists() and not log_path(results).exists()
    port = free_port()
    again = [by_hand(warm, results, port, each, "--resume") for each in range(2)]
    assert [(each.communicate(timeout=120), each.returncode)[1] for each in again] == [0, 0]
    assert keys(log_path(results)).count("resumed") == 1 and "aborted" not in [
        e["metadata"].get("status") for e in valid_events(log_path(results))
    ]


@pytest.mark.slow
def test_ranks_that_do_not_see_the_results_are_told_before_the_clock(warm: Warm, tmp_path: Path):
    """Two machines without a shared folder: rank 1's checkpoints would be missing when they are
    needed.
    """
    port, pair = free_port(), []
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        pair.append(
            by_hand(warm, tmp_path / str(rank) / "results", port, rank, "--seed", "4", *TORCH)
        )
    told = [each.communicate(timeout=120)[1] for each in pair]
    assert [each.returncode for each in pair] == [1, 2]
    assert all(
        "rank 1 on" in each and "does not see the files that rank 0 writes there" in each
        for each in told
    )
    assert not list(tmp_path.rglob("result_*"))


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

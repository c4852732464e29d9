"""Small duties that results depend on: making room, one command at a time, devices, seeds,
requests, the job's identity.
"""

import errno
import json
import multiprocessing
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from podium_fakes.drive import options

from harness.distributed import SingleRank
from harness.failures import describe_exception, write_traceback
from harness.machine.device import resolve_device
from harness.request import RunRequest, resolve_request
from harness.training import log_header, seeds
from harness.training.request import TrainingRequest, resolve_training_request
from harness.training.run_context import TrainingJob
from suite import registry
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.cache import locate_cache_folder
from suite.files.superseded import SupersededFiles, move_to_superseded
from suite.process import lock
from suite.process.lock import lock_results_folder
from suite.process.signals import UnheardSignals
from suite.terms import Division, Precision, Profile

# ---- making room ----


def fill(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_what_makes_room_keeps_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Whoever looks for an earlier result finds it where it lay, one folder deeper; and it is
    said.
    """
    old = fill(tmp_path / "open" / "acme" / "run.json", "old")
    moved = move_to_superseded([old, tmp_path / "never", old], results=tmp_path)
    kept = tmp_path / ".podium" / "superseded" / "1" / "open" / "acme" / "run.json"
    assert (
        not old.exists()
        and kept.read_text() == "old"
        and moved == SupersededFiles(pairs=((old, kept),), has_results=True)
    )
    assert (
        f"earlier results moved to {tmp_path / '.podium' / 'superseded' / '1'}"
        in capsys.readouterr().out
    )


def test_nothing_to_move_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A first run has no history, and no folder for one."""
    assert move_to_superseded([tmp_path / "never"], results=tmp_path) == SupersededFiles()
    assert capsys.readouterr().out == "" and not (tmp_path / ".podium").exists()


def test_state_of_an_unfinished_run_moves_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """ "earlier results moved" for results that never were sends people searching."""
    state = fill(tmp_path / ".podium" / "fake" / "campaign.json", "{}")
    move_to_superseded([state], results=tmp_path).move_back()
    assert state.exists() and capsys.readouterr().out == ""


def test_each_time_has_a_folder_of_its_own(tmp_path: Path):
    """The second history must not overwrite the first."""
    for number in ("first", "second", "third"):
        move_to_superseded([fill(tmp_path / "run", number)], results=tmp_path)
    kept = [
        (tmp_path / ".podium" / "superseded" / str(place) / "run").read_text()
        for place in (1, 2, 3)
    ]
    assert kept == ["first", "second", "third"]


def test_a_refused_run_gives_back_what_made_room_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Whatever the refused one has left there goes."""
    folder, file = (
        fill(tmp_path / "set" / "result_0.txt", "good").parent,
        fill(tmp_path / "state.json", "good"),
    )
    moved = move_to_superseded([folder, file], results=tmp_path)
    fill(folder / "result_0.txt.partial", "half")
    moved.move_back()
    assert file.read_text() == "good" and [path.name for path in folder.iterdir()] == [
        "result_0.txt"
    ]
    assert "earlier results put back" in capsys.readouterr().out
    SupersededFiles().move_back()
    assert capsys.readouterr().out == ""


# ---- one command at a time ----


def hold(results: Path, answer: "multiprocessing.connection.Connection") -> None:
    """Try to hold a results folder, in another process."""
    try:
        with lock_results_folder(results):
            answer.send("held")
    except RequestError as error:
        answer.send(str(error))


def elsewhere(results: Path) -> str:
    """Say what another process meets."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=hold, args=(results, sender))
    process.start()
    told = str(receiver.recv())
    process.join()
    return told


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_second_command_is_refused_while_the_first_is_at_work(tmp_path: Path):
    """Two would move each other's logs aside; when the first has ended, however, the next may
    work.
    """
    with lock_results_folder(tmp_path):
        assert "another podium command is using it" in elsewhere(tmp_path)
    assert elsewhere(tmp_path) == "held"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    """Some network file systems have none: "another podium command is using it" sent its user after
    a command that did not exist.
    """

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.fcntl, "lockf", refuse)
    with (
        pytest.raises(
            RequestError,
            match=r"its file system gives no locks \(.*\); use a folder on another one",
        ),
        lock_results_folder(tmp_path),
    ):
        raise AssertionError


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_an_error_inside_lets_the_folder_go(tmp_path: Path):
    """A failed run must not lock the folder for ever."""
    with pytest.raises(JudgedError), lock_results_folder(tmp_path):
        raise JudgedError("broken")
    assert elsewhere(tmp_path) == "held"


def test_a_request_that_is_refused_leaves_the_folder_as_it_was(tmp_path: Path):
    """Empty folders and a lock said that something had been done; an empty folder of a benchmark is
    refused by the judge.
    """
    benchmark = tmp_path / "a" / "results" / "open" / "acme" / "results" / "box" / "resnet"
    for there in (tmp_path, benchmark.parents[4], benchmark.parents[1]):
        there.mkdir(parents=True, exist_ok=True)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(RequestError), lock_results_folder(benchmark.parents[4]):
            benchmark.mkdir(parents=True)
            raise RequestError("refused")
        assert sorted(tmp_path.rglob("*")) == before


def test_what_a_failed_command_has_left_stays(tmp_path: Path):
    """State of an unfinished run is what the next command goes on with."""
    with pytest.raises(JudgedError), lock_results_folder(tmp_path / "results"):
        state = fill(tmp_path / "results" / ".podium" / "fake" / "campaign.json", "{}")
        log = fill(
            tmp_path
            / "results"
            / "open"
            / "acme"
            / "results"
            / "box"
            / "resnet"
            / "result_0.txt.partial",
            "half",
        )
        raise JudgedError("broken")
    assert state.exists() and log.exists() and (tmp_path / "results" / ".podium" / "lock").exists()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_lock_that_was_taken_away_locks_nobody_out_and_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Who opened the file before it went holds nothing that others see, and takes the new one."""
    taking, path = lock.fcntl.lockf, tmp_path / ".podium" / "lock"

    def late(*given: Any) -> None:
        taking(*given)
        monkeypatch.setattr(lock.fcntl, "lockf", taking)
        path.unlink()

    monkeypatch.setattr(lock.fcntl, "lockf", late)
    with lock_results_folder(tmp_path):
        assert path.exists() and "another podium command is using it" in elsewhere(tmp_path)


# ---- devices ----


def torch_with(count: int) -> SimpleNamespace:
    """A torch that sees so many GPUs."""
    return SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: count > 0, device_count=lambda: count)
    )


@pytest.mark.parametrize(
    ("device", "rank", "gpus", "found"),
    [
        ("cpu", 0, 8, "cpu"),
        ("auto", 0, 0, "cpu"),
        ("auto", 0, 1, "cuda:0"),
        ("auto", 3, 4, "cuda:3"),
        ("cuda", 1, 2, "cuda:1"),
        ("cuda:1", 0, 2, "cuda:1"),
        ("cuda:0", 1, 2, "cuda:0"),
    ],
)
def test_a_rank_takes_its_own_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, rank: int, gpus: int, found: str
):
    """Unless one is named."""
    monkeypatch.setitem(sys.modules, "torch", torch_with(gpus))
    assert resolve_device(device, rank) == found


@pytest.mark.parametrize(("device", "gpus"), [("cuda", 0), ("cuda:2", 2)])
def test_a_gpu_that_is_not_there_is_missing(
    monkeypatch: pytest.MonkeyPatch, device: str, gpus: int
):
    """Exit 3: the request would do on another machine."""
    monkeypatch.setitem(sys.modules, "torch", torch_with(gpus))
    with pytest.raises(MissingError, match=f"this machine has {gpus} usable GPUs"):
        resolve_device(device)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:one", "cuda:-1", "", "cpu:x", "mps"])
def test_a_device_that_nobody_knows_is_a_wrong_request(
    monkeypatch: pytest.MonkeyPatch, device: str
):
    """Before a framework is imported, which takes seconds."""
    monkeypatch.setitem(sys.modules, "torch", None)
    if device == "cuda:":
        with pytest.raises(ImportError):
            resolve_device(device)
        return
    with pytest.raises(RequestError, match="write auto, cpu, cuda or cuda:N"):
        resolve_device(device)


# ---- seeds ----


def test_ranks_have_seeds_of_their_own_that_all_know():
    """Dropout must differ among ranks, and be the same when the run is repeated."""
    assert seeds.compute_rank_seed(7, 0) == 7
    others = [seeds.compute_rank_seed(7, rank) for rank in range(1, 64)]
    assert len({7, *others}) == 64 and others == [
        seeds.compute_rank_seed(7, rank) for rank in range(1, 64)
    ]
    assert all(0 <= seed < seeds.SEED_LIMIT for seed in others) and seeds.compute_rank_seed(
        8, 1
    ) != seeds.compute_rank_seed(7, 1)


def test_the_same_seed_starts_the_same_numbers():
    """Python's and numpy's, without torch."""
    np = pytest.importorskip("numpy")
    found = []
    for seed in (5, 5, 6):
        seeds.seed_generators(seed, 0, "none")
        found.append((random.random(), float(np.random.random())))
    assert found[0] == found[1] != found[2]


def test_drawn_seeds_are_in_range_and_not_one():
    """A set whose seeds repeat is no set."""
    drawn = {seeds.generate_random_seed() for _ in range(50)}
    assert len(drawn) > 45 and all(0 <= seed < seeds.SEED_LIMIT for seed in drawn)


# ---- requests ----


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "tourch"}, "did you mean 'torch'"),
        ({"input": "dally"}, "unknown input pipeline 'dally'"),
        ({"framework": "fakes"}, "did you mean 'fake'"),
        ({"data": Path("nowhere")}, "--data nowhere: no such folder"),
        ({"device": "gpu"}, "--device gpu"),
        ({"assignments": ("fake.gane=1",)}, "did you mean 'fake.gain'"),
        ({"assignments": ("fake.steps=many",)}, "'many' is not of type int"),
    ],
)
def test_a_request_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], words: str
):
    """Names with their nearest, folders with what is wrong with them."""
    with pytest.raises(RequestError, match=words):
        resolve_request(replace(options(tmp_path / "results"), **changes), "fake")
    assert not list(tmp_path.rglob("*.json"))


def test_a_results_folder_that_cannot_be_made_is_told(tmp_path: Path):
    """A file lies in its place."""
    (tmp_path / "results").write_text("a file")
    with pytest.raises(RequestError, match="--results .*results"):
        resolve_request(options(tmp_path / "results"), "fake")


def test_what_the_user_chose_is_kept_apart_from_what_the_round_says(tmp_path: Path):
    """Advice may change the one, never the other."""
    request = resolve_request(options(tmp_path, "server.target_qps=5", "fake.steps=3"), "fake")
    assert request.chosen == {"server.target_qps": 5.0, "fake.steps": 3}
    assert (
        request.settings.items() > request.chosen.items() and request.settings["fake.gain"] == 0.06
    )


def test_a_request_has_the_ranks_own_gpu_and_its_runs_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is looked up once: ranks that look again may find another one."""
    monkeypatch.setitem(sys.modules, "torch", torch_with(2))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    request = resolve_training_request("fake", options(tmp_path, device="cuda")).request
    monkeypatch.setitem(sys.modules, "torch", torch_with(0))
    assert request.build_run(1, Precision.FP32).device == request.device == "cuda:1"


def test_an_own_system_name_gets_no_suffix(tmp_path: Path):
    """The name is the user's; a detected one says engine and precision, so that two never share a
    folder.
    """
    named = resolve_request(options(tmp_path, system="My Box"), "fake").build_entry(
        Division.OPEN, "fake", Precision.BF16
    )
    detected = resolve_request(options(tmp_path, system=None), "fake").build_entry(
        Division.OPEN, "fake", Precision.BF16
    )
    assert named.system == "my-box" and detected.system.endswith("-fake-bf16")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"PODIUM_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/podium"),
        ({"HOME": "/h"}, "/h/.cache/podium"),
        ({"PODIUM_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/podium"),
    ],
)
def test_where_the_cache_lies(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
):
    """The user's variable, the system's, then the usual place; an empty variable is none."""
    for name in ("PODIUM_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert locate_cache_folder() == Path(folder)


# ---- the job ----


@pytest.fixture
def request_here(tmp_path: Path) -> RunRequest:
    return resolve_request(options(tmp_path, "fake.steps=4"), "fake")


def job(request: RunRequest, **changes: Any) -> TrainingJob:
    """A job of one rank."""
    entry = request.build_entry(Division.OPEN, "fake", Precision.FP32)
    row = request.row.training[Profile.SMOKE]
    usual = TrainingJob(
        training=TrainingRequest(request=request, row=row, hyper={}, entry=entry, system={}),
        working_entry=entry,
        threads=2,
        ranks=SingleRank(),
        watch=None,
        signals=UnheardSignals(),
    )
    return replace(usual, **changes)


def test_a_jobs_identity_is_json_and_names_every_setting(request_here: RunRequest):
    """It decides whether an unfinished run may go on: what is not in it may differ unnoticed."""
    identity = job(request_here).collect_identity()
    assert json.loads(json.dumps(identity)) == identity
    assert {f"setting {key}" for key in request_here.settings} <= identity.keys() and identity[
        "setting fake.steps"
    ] == 4
    assert {
        "round",
        "profile",
        "org",
        "system",
        "framework",
        "input",
        "data",
        "device",
        "precision",
        "threads",
        "world_size",
    } <= identity.keys()


def test_a_run_is_told_the_jobs_threads(request_here: RunRequest):
    """They are counted once a set: a second count on a busier host would be another run."""
    own = job(request_here, threads=5)
    assert own.build_run(1).threads == own.collect_identity()["threads"] == 5


def test_an_error_is_one_line():
    """However many it had."""
    assert describe_exception(RequestError("plain words")) == "plain words"
    assert describe_exception(ValueError("first\n   second")) == "ValueError: first second"


def test_the_traceback_is_kept_for_whoever_has_to_mend_it(tmp_path: Path):
    """The user sees a sentence; the rest lies in a file that it names."""
    try:
        raise ValueError("deep inside")
    except ValueError as error:
        told = write_traceback(tmp_path / "state", 3, error)
    assert told == f"traceback in {tmp_path / 'state' / 'traceback-3.txt'}"
    assert "in test_the_traceback_is_kept" in (tmp_path / "state" / "traceback-3.txt").read_text()


def test_a_traceback_that_cannot_be_kept_hides_no_error(tmp_path: Path):
    """A full disk may be the very error."""
    (tmp_path / "state").write_text("a file in the folder's place")
    assert "could not be kept" in write_traceback(tmp_path / "state", 0, ValueError("x"))


# ---- the header of a log ----


def test_a_limit_states_how_it_is_enforced():
    """As MLPerf's ruleset of the Transformer asks for it."""
    row = registry.load_round().benchmark("transformer")
    settings = {"data.over_length": "truncate", "max_sequence_length": 64}
    described = log_header.describe_method(row, settings, "max_sequence_length")
    assert described == {"method": "truncate"}
    assert log_header.describe_method(row, settings, "global_batch_size") == {}


# ---- the file cache ----


def test_the_file_cache_is_cleared_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """MLPerf asks for it before a run that counts; who may not is told why."""
    monkeypatch.setattr(log_header, "DROP_CACHES", tmp_path / "drop_caches")
    assert log_header.clear_file_cache() is None and (tmp_path / "drop_caches").read_text() == "3\n"
    monkeypatch.setattr(log_header, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    assert "No such file or directory" in str(log_header.clear_file_cache())

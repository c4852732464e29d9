"""`podium train` from the request to the sealed log and checkpoint, with the fake workload."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from podium_fakes import drive, fake
from podium_fakes.drive import entry, events, keys, log_path, marks, options, partial

from compliance.judge import Judge
from compliance.verdict import Verdict
from harness import progress
from harness.distributed import RankLost, Ranks
from harness.machine import cpus, system_description
from harness.training import export, log_header, run_set
from harness.training import request as training_request
from harness.training.request import resolve_training_request
from harness.training.run_context import TrainingJob
from harness.training.run_set import announce_preparation, train_run_set
from harness.training.timed_run import check_data_sizes, check_evaluation_schedule
from suite import registry
from suite.errors import (
    AbortedError,
    JudgedError,
    MachineError,
    MissingError,
    PodiumError,
    RequestError,
    TemporaryError,
)
from suite.files.layout import compute_folder_sha256
from suite.process import garbage
from suite.process.signals import Terminated, raise_signals_in_block
from suite.rounds import HyperValue
from suite.terms import Division, Precision, Profile


def record(results: Path) -> dict[str, object]:
    (path,) = (results / "checkpoints" / "fake").glob("*/record.json")
    return json.loads(path.read_text())


def values(path: Path) -> dict[str, object]:
    return {event["key"]: event["value"] for event in events(path)}


@pytest.mark.slow
def test_a_run_leaves_log_checkpoint_and_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The whole way: what infer, check and pack build on."""
    train_run_set("fake", options(tmp_path, power="off"), seed=1)
    found, kept = values(log_path(tmp_path)), record(tmp_path)
    folder = tmp_path / "checkpoints" / "fake" / str(kept["sha256"])
    assert compute_folder_sha256(folder) == kept["sha256"] == found["checkpoint_sha256"]
    assert (
        kept["target_reached"]
        and kept["nonce"] == found["campaign_nonce"]
        and kept["seed"] == found["seed"] == 1
    )
    assert (
        kept["reference_accuracy"]
        == found["reference_accuracy"]
        == kept["scores"]
        == {"top1": found["eval_accuracy"]}
    )
    assert kept["training_log"] == str(log_path(tmp_path).relative_to(tmp_path))
    assert json.loads(entry(tmp_path).system_file.read_text())["submitter"] == "tests"
    assert not list(tmp_path.rglob("*.partial")) and not list(
        (tmp_path / ".podium" / "fake").glob("run_*")
    )
    told = capsys.readouterr().out.splitlines()
    assert (
        told[-3].startswith("fake: target reached: top1 0.")
        and str(kept["sha256"])[:12] in told[-3]
        and "minutes" in told[-3]
    )
    assert told[0].startswith("fake: preparing, profile smoke") and any(
        line.startswith("fake: training until top1 0.") for line in told
    )
    assert told[-2:] == [
        f"fake: logs in {log_path(tmp_path).parent}",
        f"next: podium infer fake --results {tmp_path} --org tests",
    ]


@pytest.mark.slow
def test_the_log_says_what_was_run(tmp_path: Path):
    """The judge compares these stamps with the path, the round and the bundle."""
    train_run_set("fake", options(tmp_path, "global_batch_size=4", power="off"), seed=9)
    found, order = values(log_path(tmp_path)), keys(log_path(tmp_path))
    assert (
        found["submission_benchmark"],
        found["submission_org"],
        found["submission_platform"],
    ) == ("resnet", "tests", drive.SYSTEM)
    assert (found["submission_division"], found["submission_status"], found["podium_profile"]) == (
        "open",
        "research",
        "smoke",
    )
    assert (found["podium_round"], found["podium_workload"], found["run_index"]) == (
        "podium-v1",
        "fake",
        0,
    )
    assert (
        found["precision"],
        found["framework"],
        found["device"],
        found["world_size"],
        found["threads"],
    ) == ("fp32", "fake", "cpu", 1, 1)
    assert (
        found["settings"]["global_batch_size"] == found["global_batch_size"] == 4
        and found["command_line"] == sys.argv
    )
    assert (
        found["quality_target"] == {"top1": 0.759}
        and found["train_samples"] == 40
        and len(str(found["campaign_nonce"])) == 32
    )
    assert (
        order.index("cache_clear")
        < order.index("init_start")
        < order.index("opt_name")
        < order.index("init_stop")
        < order.index("run_start")
    )
    assert order[-3:] == ["run_stop", "checkpoint_sha256", "reference_accuracy"]


@pytest.mark.slow
def test_the_official_checker_accepts_the_log(tmp_path: Path):
    """MLCommons' own rules for training v0.7, open division."""
    train_run_set("fake", options(tmp_path), seed=1)
    command = [
        sys.executable,
        "-m",
        "mlperf_logging.compliance_checker",
        "--usage",
        "training",
        "--ruleset",
        "0.7.0",
        str(log_path(tmp_path)),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "SUCCESS" in done.stdout + done.stderr, (
        done.stdout + done.stderr
    )


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run(tmp_path: Path):
    """A seed that is logged but not used would be worth nothing; a drawn one differs."""
    for name, seed in (("a", 5), ("b", 5), ("c", None)):
        train_run_set("fake", options(tmp_path / name), seed=seed)
    assert (
        record(tmp_path / "a")["sha256"]
        == record(tmp_path / "b")["sha256"]
        != record(tmp_path / "c")["sha256"]
    )
    assert record(tmp_path / "a")["nonce"] != record(tmp_path / "b")["nonce"]


@pytest.mark.slow
def test_a_target_missed_is_exit_1_with_a_finished_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Shuffled labels must fail, and be seen to."""
    with pytest.raises(JudgedError, match="1 of 1 runs did not reach the target") as caught:
        train_run_set("fake", options(tmp_path, "data.shuffle_labels=true"), seed=1)
    assert caught.value.exit_code == 1 and "not >= 0.7590" in capsys.readouterr().out
    run_stop = next(event for event in events(log_path(tmp_path)) if event["key"] == "run_stop")
    assert (
        run_stop["metadata"]["status"] == "aborted" and record(tmp_path)["target_reached"] is False
    )


@pytest.mark.slow
def test_a_perfect_score_of_a_house_workload_is_valid(tmp_path: Path):
    """A hundred samples, all of them right, are ordinary."""
    train_run_set("fake", options(tmp_path, "fake.gain=0.9", power="off"), seed=1)
    assert values(log_path(tmp_path))["eval_accuracy"] == 1.0
    judged = Judge().judge_path(str(log_path(tmp_path).parent))
    assert judged.verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ([range(1, 3)], "ends a block with epoch 2, and the row wants the next evaluation after 1"),
        ([range(1, 2), range(2, 5)], "ends a block with epoch 4"),
        ([range(1, 8)], "ends a block with epoch 7"),
        ([], "yields no epochs"),
    ],
)
def test_an_evaluation_that_is_not_due_is_refused_before_the_clock(
    blocks: list[range], sentence: str
):
    """The judge would refuse the finished run."""
    row = registry.load_round().benchmark("fake").training[Profile.SMOKE]
    job = cast(TrainingJob, SimpleNamespace(name="fake", training=SimpleNamespace(row=row)))
    with pytest.raises(RequestError, match=sentence):
        check_evaluation_schedule(job, blocks)
    check_evaluation_schedule(job, [range(epoch, epoch + 1) for epoch in range(1, 7)])


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["nan_score", "nan_loss"])
def test_a_number_that_is_none_leaves_no_checkpoint(tmp_path: Path, fault: str):
    """NaN as accuracy must never become weights that infer takes."""
    with pytest.raises(JudgedError, match="did not reach"):
        train_run_set("fake", options(tmp_path, f"fake.fault={fault}", "fake.gain=0.01"), seed=1)
    assert not (tmp_path / "checkpoints").exists()
    last = events(log_path(tmp_path))[-1]
    assert last["key"] == "run_stop" and last["metadata"]["status"] == "aborted"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["epoch", "evaluate"])
def test_an_exception_in_the_clock_is_an_aborted_run(tmp_path: Path, fault: str):
    """One sentence with the cause, a finished log without success, no weights, and the traceback
    for who mends it.
    """
    with pytest.raises(
        JudgedError, match="run 0 aborted: ValueError: broken on purpose in"
    ) as caught:
        train_run_set("fake", options(tmp_path, f"fake.fault={fault}", "fake.gain=0.01"), seed=1)
    assert caught.value.exit_code == 1 and not (tmp_path / "checkpoints").exists()
    assert (
        events(log_path(tmp_path))[-1]["metadata"]["status"] == "aborted"
        and not partial(log_path(tmp_path)).exists()
    )
    assert "broken on purpose" in Path(str(caught.value).rsplit("traceback in ", 1)[1]).read_text()


def test_memory_that_runs_out_is_exit_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An error of the machine is no run that missed its target; the batch is named."""
    monkeypatch.setattr(fake, "KERNEL", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    with pytest.raises(
        MachineError, match=r"run 0 aborted: memory does not suffice .*--set global_batch_size=N; "
    ) as caught:
        train_run_set("fake", options(tmp_path, "fake.fault=kernel"), seed=1)
    assert caught.value.exit_code == 3
    assert events(log_path(tmp_path))[-1]["metadata"]["status"] == "aborted"


def test_a_lost_data_worker_leaves_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No fault of the run: exit 75, and the log keeps `.partial`."""
    lost = "DataLoader worker (pid 4711) is killed by signal: Killed. "  # PyTorch: DataLoader.cpp
    whole = tmp_path / "whole"
    train_run_set("fake", options(whole), seed=1)
    taking = fake.FakeTraining.train_epoch

    def lose_worker(training: fake.FakeTraining, epoch: int, first_step: int = 0) -> Iterator[int]:
        if epoch > 1:
            raise RuntimeError(lost)
        yield from taking(training, epoch, first_step)

    results = tmp_path / "lost"
    with monkeypatch.context() as patched:
        patched.setattr(fake.FakeTraining, "train_epoch", lose_worker)
        with pytest.raises(
            TemporaryError,
            match=r"^fake: run 0 stopped: a data worker was ended by Killed, .*"
            r"--set data\.workers=0 does without; .*; to go on: `podium train fake .*--resume`$",
        ) as caught:
            train_run_set("fake", options(results), seed=1)
    assert caught.value.exit_code == 75
    assert not log_path(results).exists() and partial(log_path(results)).exists()
    train_run_set("fake", options(results), resume=True)
    assert marks(log_path(results)) == marks(log_path(whole))


def test_a_training_is_gone_when_its_checkpoint_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its loaders and its memory outlived it where it referred to itself: 15 processes beside the
    answers of `podium run`.
    """
    trainings: list[weakref.ref[fake.FakeTraining]] = []
    alive: list[object] = []
    built, finish = fake.FakeTraining.__init__, run_set.finish_training_run

    def refer_to_itself(training: fake.FakeTraining, *given: object) -> None:
        built(training, *given)
        training.myself = training
        trainings.append(weakref.ref(training))

    def look(*given: object) -> object:
        alive.extend(each() for each in trainings if each() is not None)
        return finish(*given)

    monkeypatch.setattr(fake.FakeTraining, "__init__", refer_to_itself)
    monkeypatch.setattr(run_set, "finish_training_run", look)
    train_run_set("fake", options(tmp_path, power="off"), seed=1)
    assert trainings and not alive


def test_a_kernel_that_is_not_there_is_exit_3(tmp_path: Path):
    """A number format that this machine's kernels lack is no broken workload; the traceback lies
    where an undone set does not take it along.
    """
    with pytest.raises(
        MissingError,
        match=(
            "fake: this machine's kernels do not run it in fp32 .RuntimeError: could not create a"
            " primitive"
        ),
    ) as caught:
        train_run_set("fake", options(tmp_path, "fake.fault=kernel"), seed=1)
    assert (
        caught.value.exit_code == 3
        and "LSTM" in Path(str(caught.value).rsplit("traceback in ", 1)[1]).read_text()
    )
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "fault", "kind", "words"),
    [
        (
            Precision.BF16,
            "bf16 raise",
            MissingError,
            (
                "--precision bf16: tried, and failed: RuntimeError: could .* can train it with fake"
                " in fp32, fp16"
            ),
        ),
        (
            Precision.BF16,
            "bf16 SIGILL",
            MissingError,
            (
                "the process that tried it was ended by SIGILL; this machine can train it with fake"
                " in fp32, fp16"
            ),
        ),
        (
            Precision.INT8,
            "",
            RequestError,
            (
                "--precision int8: there is no code to train it so; this machine can train it in"
                " fp32, fp16, bf16"
            ),
        ),
    ],
)
def test_a_number_format_that_cannot_be_trained_in_is_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: Precision,
    fault: str,
    kind: type[PodiumError],
    words: str,
):
    """It was noticed inside the clock, after the earlier results had been moved aside."""
    monkeypatch.setenv("PODIUM_FAKE_TRIAL", fault)
    with pytest.raises(kind, match=words):
        train_run_set("fake", options(tmp_path, precision=precision), seed=1)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.slow
def test_an_exception_before_the_clock_leaves_no_log(tmp_path: Path):
    """No run was started: there is nothing to judge."""
    with pytest.raises(
        JudgedError, match="could not be set up: ValueError: broken on purpose in setup"
    ):
        train_run_set("fake", options(tmp_path, "fake.fault=setup"), seed=1)
    assert not list((tmp_path / "open" / "tests" / "results").rglob("result_*"))


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_scored_can_be_scored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Hours of training must not go with a failure after them."""
    import podium_fakes.fake as fake

    def broken(*_: object) -> None:
        raise OSError("no memory for inference")

    with (
        monkeypatch.context() as patch,
        pytest.raises(JudgedError, match="could not be scored: OSError: no memory"),
    ):
        patch.setattr(fake, "FakeInference", broken)
        train_run_set("fake", options(tmp_path, power="off"), seed=1)
    assert partial(log_path(tmp_path)).exists() and not log_path(tmp_path).exists()
    before = keys(partial(log_path(tmp_path)))
    train_run_set("fake", options(tmp_path, power="off"), resume=True)
    assert (
        keys(log_path(tmp_path)) == [*before, "checkpoint_sha256", "reference_accuracy"]
        and record(tmp_path)["target_reached"]
    )


@pytest.mark.slow
def test_a_set_has_as_many_runs_as_the_round_asks_for(tmp_path: Path):
    """Run i has seed + i and a log of its own; all share the nonce."""
    train_run_set("fake", options(tmp_path, profile=Profile.QUICK), seed=10)
    first, second = values(log_path(tmp_path, 0)), values(log_path(tmp_path, 1))
    assert (first["seed"], second["seed"], first["run_index"], second["run_index"]) == (
        10,
        11,
        0,
        1,
    )
    assert (
        first["campaign_nonce"] == second["campaign_nonce"]
        and first["checkpoint_sha256"] != second["checkpoint_sha256"]
    )
    assert len(list((tmp_path / "checkpoints" / "fake").iterdir())) == 2


@pytest.mark.slow
def test_the_user_says_how_many_runs(tmp_path: Path):
    """`--runs` goes before the round's number."""
    train_run_set("fake", options(tmp_path), seed=1, runs=3)
    assert [log_path(tmp_path, index).exists() for index in range(4)] == [True, True, True, False]


@pytest.mark.slow
def test_one_run_of_a_large_set_may_miss_the_target(tmp_path: Path):
    """training_rules v0.7: one that does not converge counts as the slowest, from five runs on."""
    train_run_set("fake", options(tmp_path / "five", "fake.lame_seed=3"), seed=1, runs=5)
    with pytest.raises(JudgedError, match="1 of 3 runs did not reach the target"):
        train_run_set("fake", options(tmp_path / "three", "fake.lame_seed=3"), seed=1, runs=3)


@pytest.mark.slow
def test_earlier_results_are_moved_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A second set in the same place neither mixes with the first nor destroys it."""
    train_run_set("fake", options(tmp_path), seed=1, runs=2)
    nonce = values(log_path(tmp_path))["campaign_nonce"]
    capsys.readouterr()
    train_run_set("fake", options(tmp_path), seed=1)
    moved = tmp_path / ".podium" / "superseded" / "1"
    assert (
        values(moved / log_path(tmp_path).relative_to(tmp_path))["campaign_nonce"]
        == nonce
        != values(log_path(tmp_path))["campaign_nonce"]
    )
    assert (
        not log_path(tmp_path, 1).exists() and "earlier results moved to" in capsys.readouterr().out
    )


@pytest.mark.slow
def test_a_set_that_is_complete_is_not_run_again(tmp_path: Path):
    """`podium run` may be typed twice."""
    train_run_set("fake", options(tmp_path), seed=1)
    before = log_path(tmp_path).read_bytes()
    train_run_set("fake", options(tmp_path), resume=True)
    assert log_path(tmp_path).read_bytes() == before


@pytest.mark.slow
def test_a_set_goes_on_only_with_what_it_was_begun_with(tmp_path: Path):
    """Half of a run with other settings would be a run of nothing."""
    train_run_set("fake", options(tmp_path), seed=1)
    with pytest.raises(RequestError, match=r"setting global_batch_size 8, not 4"):
        train_run_set("fake", options(tmp_path, "global_batch_size=4"), resume=True)
    with pytest.raises(RequestError, match=r"seed 1, not 2"):
        train_run_set("fake", options(tmp_path), seed=2, resume=True)


@pytest.mark.slow
def test_a_set_goes_on_with_the_threads_that_it_was_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Begun on a busy host and resumed on a quiet one: refused for other threads, or half of a run
    with other rounding.
    """
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(4)))
    monkeypatch.setattr(cpus, "measure_cpu_use", lambda: 0.5)
    train_run_set("fake", options(tmp_path, threads=0), seed=1)
    assert (
        values(log_path(tmp_path))["threads"] == 2
        and "other programs use 2.0 of 4 cores" in capsys.readouterr().out
    )
    monkeypatch.setattr(cpus, "measure_cpu_use", lambda: 0.0)
    train_run_set("fake", options(tmp_path, threads=0), runs=2, resume=True)
    assert (
        values(log_path(tmp_path, 1))["threads"] == 2
        and "other programs use" not in capsys.readouterr().out
    )
    train_run_set("fake", options(tmp_path / "new", threads=0), seed=1)
    assert values(log_path(tmp_path / "new"))["threads"] == 4


@pytest.mark.slow
def test_the_number_of_runs_may_grow(tmp_path: Path):
    """`--resume --runs 3` goes on with a set of one."""
    train_run_set("fake", options(tmp_path), seed=1)
    before = log_path(tmp_path).read_bytes()
    train_run_set("fake", options(tmp_path), runs=3, resume=True)
    assert log_path(tmp_path).read_bytes() == before and log_path(tmp_path, 2).exists()


@pytest.mark.slow
def test_resume_with_nothing_to_go_on_with_begins(tmp_path: Path):
    """`podium run` always asks to go on."""
    train_run_set("fake", options(tmp_path), seed=1, resume=True)
    assert log_path(tmp_path).exists()


def test_illegal_hyper_parameters_are_refused_before_the_clock(tmp_path: Path):
    """The judge would refuse the log after days of training; every breach is named with its
    source.
    """
    with pytest.raises(
        RequestError, match=r"sgd_opt_momentum is 0.8; it must be 0.9.*training_rules"
    ) as caught:
        train_run_set(
            "fake", options(tmp_path, "sgd_opt_momentum=0.8", profile=Profile.FULL), seed=1
        )
    assert caught.value.exit_code == 2 and not list(tmp_path.rglob("result_*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "counts"),
    [(Profile.FULL, "train_samples 80, and profile full requires 81"), (Profile.SMOKE, "")],
)
def test_other_data_are_refused_in_the_closed_division_and_told_in_the_open_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    profile: Profile,
    counts: str,
):
    """Before the clock: a run that cannot count takes days, and what it replaced is back."""
    row = registry.load_round().benchmark("fake").training[profile]
    monkeypatch.setattr(
        training_request, "require_training_row", lambda request: replace(row, train_samples=81)
    )
    if counts:
        with pytest.raises(RequestError, match=f"fake: {counts}: in the closed division"):
            train_run_set("fake", options(tmp_path, profile=profile), seed=1, runs=1)
        assert not [
            path for path in tmp_path.rglob("*") if path.is_file() and "result_" in path.name
        ]
        return
    train_run_set("fake", options(tmp_path, profile=profile), seed=1)
    assert (
        "fake: train_samples 80, and profile smoke requires 81: the judge will reject this run"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("found", [3, 4, 5, 6, None])
def test_the_size_of_a_corpus_may_lie_in_a_range(found: int | None):
    """Pairs are counted before a limit of length that the user is free to choose; a workload that
    does not tell them has other data.
    """
    row = replace(
        registry.load_round().benchmark("fake").training[Profile.FULL], corpus_samples=(4, 5)
    )
    job = cast(
        TrainingJob,
        SimpleNamespace(
            name="fake",
            training=SimpleNamespace(row=row),
            ranks=SimpleNamespace(leads=True),
            request=SimpleNamespace(profile=Profile.FULL),
        ),
    )
    facts: dict[str, HyperValue] = {} if found is None else {"corpus_samples": found}
    with (
        nullcontext()
        if found in (4, 5)
        else pytest.raises(
            RequestError, match=f"corpus_samples {found}, and profile full requires 4 to 5"
        )
    ):
        check_data_sizes(job, facts)


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
def test_the_closed_division_clears_the_cache_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
):
    """`true` only where it was really dropped; `full` is logged as closed and on premises."""
    place = tmp_path / "drop_caches" if allowed else tmp_path / "nowhere" / "drop_caches"
    monkeypatch.setattr(log_header, "DROP_CACHES", place)
    train_run_set("fake", options(tmp_path, profile=Profile.FULL), seed=1, runs=1)
    found = {event["key"]: event for event in events(log_path(tmp_path, division=Division.CLOSED))}
    cleared = found["cache_clear"]
    assert (
        cleared["value"] is (True if allowed else None)
        and ("reason" in cleared["metadata"]) is not allowed
    )
    assert not allowed or place.read_text() == "3\n"
    assert (
        found["submission_status"]["value"] == "onprem"
        and found["submission_division"]["value"] == "closed"
    )


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("fak", {}, "unknown workload 'fak'; did you mean 'fake'"),
        (
            "fake",
            {"assignments": ("fake.gian=1",)},
            "unknown setting 'fake.gian'; did you mean 'fake.gain'",
        ),
        ("fake", {"data": Path("/nowhere")}, "no such folder"),
        ("fake", {"framework": "fakes"}, "unknown framework 'fakes'; did you mean 'fake'"),
        ("fake", {"framework": "fakes", "engine": "fakes"}, "unknown framework 'fakes'"),
        ("fake", {"device": "gpu"}, "write auto, cpu, cuda"),
    ],
)
def test_a_wrong_request_is_exit_2(
    tmp_path: Path, name: str, changes: dict[str, object], words: str
):
    """Told in one sentence with the nearest name, before anything is written."""
    with pytest.raises(RequestError, match=words) as caught:
        train_run_set(name, options(tmp_path, **changes), seed=1)
    assert caught.value.exit_code == 2 and not (tmp_path / ".podium").exists()


def test_a_results_folder_that_cannot_be_written_is_refused(tmp_path: Path):
    """Before anything is timed."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="--results"):
        train_run_set("fake", options(tmp_path / "file" / "results"), seed=1)


def test_a_checkpoint_of_another_workload_is_named(tmp_path: Path):
    """The workload refuses; the harness passes its sentence on."""
    import podium_fakes.fake as fake

    (tmp_path / "model.json").write_text(json.dumps({"workload": "other", "weight": 1}))
    with pytest.raises(PodiumError, match="is a checkpoint of other"):
        fake.FakeInference(None, tmp_path, None)


@pytest.mark.slow
def test_a_refused_request_leaves_earlier_results_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A typo in --data must not cost the results that are there."""
    train_run_set("fake", options(tmp_path), seed=1)
    before = log_path(tmp_path).read_bytes()

    def refused(*_: object) -> None:
        raise RequestError("no pictures")

    monkeypatch.setattr("podium_fakes.fake.build_training", refused)
    with pytest.raises(RequestError, match="no pictures"):
        train_run_set("fake", options(tmp_path), seed=2)
    assert log_path(tmp_path).read_bytes() == before
    assert json.loads((tmp_path / ".podium" / "fake" / "campaign.json").read_text())["seed"] == 1


@pytest.mark.slow
def test_a_kill_between_the_seal_and_its_note_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The weights are in their place already: --resume must find them there."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("harness.training.state.set_state.record_run_ending", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run_set("fake", options(tmp_path), seed=1)
    train_run_set("fake", options(tmp_path), resume=True)
    assert record(tmp_path)["target_reached"] and not list(
        (tmp_path / ".podium" / "fake").glob("run_*")
    )


@pytest.mark.slow
def test_two_commands_do_not_work_in_one_results_folder(tmp_path: Path):
    """The second would move the first one's live log aside."""
    code = "import sys, time; from pathlib import Path; from suite.process.lock import lock_results_folder"
    code += (
        "\nwith lock_results_folder(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(RequestError, match="another podium command"):
        train_run_set("fake", options(tmp_path), seed=1)
    holder.kill()
    holder.communicate()
    train_run_set("fake", options(tmp_path), seed=1)
    assert log_path(tmp_path).exists()


SIZES = [
    (80, 100, []),
    (4800, 100, ["train_samples 80"]),
    (None, 1008, ["eval_samples 100"]),
    (None, None, []),
]


@pytest.mark.slow
@pytest.mark.parametrize(("train", "evaluated", "words"), SIZES)
def test_data_of_another_size_are_told_before_the_clock(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    train: int | None,
    evaluated: int | None,
    words: list[str],
):
    """The run goes on, since somebody may want to see it; that it will not count is said first."""
    row = registry.load_round().benchmark("fake").training[Profile.SMOKE]
    monkeypatch.setattr(
        training_request,
        "require_training_row",
        lambda request: replace(row, train_samples=train, eval_samples=evaluated),
    )
    train_run_set("fake", options(tmp_path), seed=1)
    told = capsys.readouterr().out
    assert [
        line.split(", and")[0].removeprefix("fake: ")
        for line in told.splitlines()
        if "the judge will reject this run" in line
    ] == words
    assert log_path(tmp_path).exists()


def test_a_signal_that_follows_a_lost_rank_takes_neither_its_sentence_nor_the_command_along(
    tmp_path: Path,
):
    """A launcher ends the ranks that are left: all they said was "interrupted by SIGTERM"."""
    ranks = SimpleNamespace(world_size=2)
    with (
        pytest.raises(Terminated) as told,
        raise_signals_in_block() as signals,
        run_set.report_rank_failures(cast(Ranks, ranks), signals, "fake", options(tmp_path)),
        signals.postpone(),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        raise RankLost("another rank is gone")
    assert str(told.value).startswith(
        "fake: interrupted by SIGTERM: another rank is gone; to go on: start 2 ranks again with `-m"
        " harness train fake"
    )


def test_a_signal_while_the_other_ranks_are_told_takes_no_reason_away(tmp_path: Path):
    """The run has ended for a reason of its own; its log says so already."""

    def fail(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)

    ranks = cast(Ranks, SimpleNamespace(report_failure=fail))
    with (
        pytest.raises(AbortedError, match="^loss is not a number$"),
        raise_signals_in_block() as signals,
        run_set.report_rank_failures(ranks, signals, "fake", options(tmp_path)),
    ):
        raise AbortedError("loss is not a number")


@pytest.mark.slow
def test_a_training_run_has_the_usual_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all of its epochs; and the run behind it in the same process as well."""
    seen = list[object]()
    plain = fake.FakeTraining.train_epoch

    def train_epoch(training: fake.FakeTraining, epoch: int, first_step: int = 0) -> Iterator[int]:
        seen.append(gc.get_threshold())
        return plain(training, epoch, first_step)

    monkeypatch.setattr(fake.FakeTraining, "train_epoch", train_epoch)
    gc.set_threshold(garbage.SELDOM_THRESHOLD)
    train_run_set("fake", options(tmp_path), seed=1, runs=2)
    assert len(seen) > 2 and set(seen) == {garbage.USUAL_THRESHOLDS}


@pytest.mark.parametrize(
    ("flags", "asked", "taken"),
    [
        ("avx2 avx512f", None, Precision.FP32),
        ("avx2 avx512f", Precision.BF16, Precision.BF16),
        ("avx512_bf16", None, Precision.BF16),
    ],
)
def test_bf16_that_would_be_emulated_is_no_default(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: str,
    asked: Precision | None,
    taken: Precision,
):
    """Quick trains in bf16, which a processor without its instructions computes many times slower
    than fp32; who asks for it gets it.
    """
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : fpu {flags}\n")
    monkeypatch.setattr(system_description, "CPU_INFO_FILE", tmp_path / "cpuinfo")
    asking = options(
        tmp_path / "results",
        profile=Profile.QUICK,
        framework="torch",
        engine="torch",
        data=tmp_path,
        precision=asked,
        system=None,
    )
    training = resolve_training_request("resnet50", asking)
    assert training.request.precision == taken
    assert training.entry.system.endswith(f"-{taken}")
    announce_preparation(training)
    told = capsys.readouterr().out
    assert (
        "would emulate it, so training takes fp32; --precision bf16 trains in bf16" in told
    ) is (taken is Precision.FP32)


def delay(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> None:
    """Let a function take longer than the silence that is allowed."""
    original = getattr(where, name)

    def slow(*given: object) -> object:
        time.sleep(0.6)
        return original(*given)

    monkeypatch.setattr(where, name, slow)


@pytest.mark.slow
def test_no_phase_of_a_training_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """In a long step, an evaluation, a resumed run's first look at its state, and while the
    checkpoint is scored.
    """
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.2)
    for where, name in (
        (fake.FakeTraining, "__init__"),
        (fake.FakeTraining, "evaluate"),
        (fake.FakeTraining, "restore"),
        (export, "score_reference_accuracy"),
    ):
        delay(monkeypatch, where, name)
    asked = ("fake.steps=3", "fake.step_ms=600", "checkpoint.interval_s=0")
    evaluate = fake.FakeTraining.evaluate

    def stop_and_evaluate(training: fake.FakeTraining) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(training)

    with monkeypatch.context() as cut, pytest.raises(Terminated):
        cut.setattr(fake.FakeTraining, "evaluate", stop_and_evaluate)
        train_run_set("fake", options(tmp_path, *asked), seed=1)
    capsys.readouterr()
    train_run_set("fake", options(tmp_path, *asked), resume=True)
    told = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" so far")]
    for phase in (
        "preparing, profile smoke: the data survey and the model come before the clock",
        r"training until top1 .*",
        r"epoch \d+/\d+",
        r"epoch \d+/\d+, evaluating",
        "scoring the checkpoint .*",
    ):
        assert any(re.fullmatch(rf"fake: {phase}: 0:0\d so far", line) for line in told), told

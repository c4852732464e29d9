"""A result that is there stays until the new one is whole: what is interrupted, failed or refused
takes nothing away.
"""

import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from podium_fakes import drive
from podium_fakes.drive import (
    entry,
    events,
    listed,
    log_path,
    options,
    partial,
    slowed,
    until,
    weights,
    words,
)
from podium_fakes.kept import keep_ceiling, keep_checkpoint, run_folders, run_record, verdict_of
from warm import Warm

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.serving import infer as serving
from harness.serving import staging
from harness.training.run_set import train_run_set
from harness.training.state import set_state
from harness.training.state.checkpointing import list_checkpoint_numbers
from suite.cli import group
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.files.layout import locate_staged_results
from suite.loadgen.scenario import Scenario
from suite.process.signals import Interrupted

pytestmark = pytest.mark.slow

SLOW = ("--set", "fake.step_ms=20", "--set", "fake.gain=0.02")
FASTER = (
    "server.target_qps=20000",
    "fake.sleep_ms=2",
    "batching.max_batch=8",
    "loadgen.min_duration_ms=400",
)
"""Queries at five times the rate that such a device answers at most."""
OFFLINE = ("loadgen.min_duration_ms=20",)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")


def tree(results: Path) -> Mapping[str, bytes]:
    """What counts in a results folder: everything but podium's own state, files that are not
    finished, and the ledger, which grows with each attempt.
    """
    files = (
        path
        for path in results.rglob("*")
        if path.is_file() and not {".podium", "ledger"} & {*path.relative_to(results).parts}
    )
    return {str(path.relative_to(results)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that each test takes a copy of: `trained`, and `served`."""
    folder = tmp_path_factory.mktemp("made")
    keep_ceiling(folder / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PODIUM_CACHE", str(folder / "cache"))
        train_run_set("fake", options(folder / "trained"), seed=1, runs=2)
        keep_checkpoint(folder / "served")
        infer(folder / "served")
    return folder


@pytest.fixture
def trained(made: Path, tmp_path: Path) -> Path:
    """A finished set of two runs."""
    return shutil.copytree(made / "trained", tmp_path / "results")


def state(results: Path) -> Path:
    """Where the set that is made beside another keeps its first run."""
    return locate_staged_results(results, "fake") / ".podium" / "fake" / "run_0"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_set_takes_nothing_away_and_goes_on(
    light: Warm, trained: Path, how: signal.Signals
):
    """The finished log had been moved aside, every other row was no longer compliant, and nothing
    said how to restore it.
    """
    before = tree(trained)
    child = light.start(
        words(trained, "--seed", "4", "--runs", "2", "--set", "checkpoint.interval_s=0.04", *SLOW),
        slowed(),
    )
    until(lambda: max(list_checkpoint_numbers(state(trained)), default=0) >= 3)
    child.send_signal(how)
    out, err = child.communicate(timeout=40)
    assert (
        tree(trained) == before
        and "moved" not in out
        and "put back" not in out
        and "Traceback" not in err
    )
    train_run_set("fake", options(trained), resume=True, given=())
    after = tree(trained)
    assert {path.removesuffix(".partial") for path in after} == set(
        after
    ) and before.keys() & after.keys() >= {str(log_path(trained, 1).relative_to(trained))}
    assert [event["value"] for event in events(log_path(trained, 1)) if event["key"] == "seed"] == [
        5
    ] and not locate_staged_results(trained, "fake").exists()
    assert len(list((trained / ".podium" / "superseded").rglob("result_*.txt"))) == 2


def test_a_set_is_whole_or_not_there(trained: Path):
    """One run of the new set beside one of the old would be a set of nothing."""
    before = tree(trained)
    with (
        pytest.raises(JudgedError, match="run 1 aborted|broken on purpose"),
        pytest.MonkeyPatch.context() as patch,
    ):
        second = set_state.record_run_ending

        def failing(*given: object) -> object:
            if given[3] == 1:
                raise JudgedError("broken on purpose after the first run")
            return second(*given)  # type: ignore[arg-type]

        patch.setattr(set_state, "record_run_ending", failing)
        train_run_set("fake", options(trained), seed=8, runs=2)
    assert tree(trained) == before


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("fake.fault=epoch", "run 0 aborted"),
        ("data.shuffle_labels=true", "1 of 1 runs did not reach the target"),
    ],
)
def test_a_failed_run_does_not_replace_one_that_reached_its_target(
    trained: Path, capsys: pytest.CaptureFixture[str], setting: str, told: str
):
    """It is kept for whoever wants to see why; the earlier result still counts."""
    before = tree(trained)
    capsys.readouterr()
    with pytest.raises(JudgedError, match=told):
        train_run_set("fake", options(trained, setting), seed=1, runs=1)
    found = tree(trained)
    assert {path: found[path] for path in before} == before
    if "shuffle" in setting:
        kept = Path(capsys.readouterr().out.split("this one is stored in ")[1].split("\n")[0])
        assert list(kept.rglob("result_0.txt"))


def test_a_set_that_reached_its_target_replaces_one_that_missed_it(tmp_path: Path):
    """And so does a later miss: it says more than the earlier one."""
    with pytest.raises(JudgedError):
        train_run_set("fake", options(tmp_path, "data.shuffle_labels=true"), seed=1)
    missed = log_path(tmp_path).read_bytes()
    with pytest.raises(JudgedError):
        train_run_set("fake", options(tmp_path, "data.shuffle_labels=true"), seed=2)
    assert log_path(tmp_path).read_bytes() != missed
    train_run_set("fake", options(tmp_path), seed=3)
    assert '"success"' in log_path(tmp_path).read_text()


@pytest.mark.parametrize("moment", range(8))
def test_a_kill_while_a_set_takes_its_place_is_mended_by_the_next_command(
    trained: Path, monkeypatch: pytest.MonkeyPatch, moment: int
):
    """Whatever has been moved by then: no log is lost, and none of the old set stands beside the
    new.
    """
    calls = iter(range(100))
    replace = Path.replace

    def killed(path: Path, target: Path) -> Path:
        brought = (
            "/next/" in str(path)
            and "/next/" not in str(target)
            and "superseded" not in str(target)
        )
        if brought and next(calls) == moment:
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run_set("fake", options(trained), seed=30, runs=3)
    train_run_set("fake", options(trained), resume=True, given=())
    seeds = [
        next(event["value"] for event in events(log_path(trained, index)) if event["key"] == "seed")
        for index in range(3)
    ]
    assert (
        seeds == [30, 31, 32]
        and not locate_staged_results(trained, "fake").exists()
        and not partial(log_path(trained)).exists()
    )
    assert len(list((trained / "checkpoints" / "fake").glob("*/record.json"))) == 5


@pytest.mark.parametrize("refusal", ["system-file", "data", "setting"])
def test_a_refused_request_leaves_no_state_and_says_nothing_of_results(
    light: Warm, tmp_path: Path, refusal: str
):
    """ "earlier results moved", "put back", for a leftover of the refused request itself."""
    results = tmp_path / "results"
    wrong = {
        "system-file": ("--system-file", "nosuch.toml"),
        "data": ("--set", "fake.fault=refused"),
        "setting": ("--set", "nosuch=1"),
    }[refusal]
    for _ in range(2):
        child = light.start(words(results, *wrong))
        out, err = child.communicate(timeout=40)
        assert (
            child.returncode == 2
            and "earlier results" not in out + err
            and len(err.strip().splitlines()) == 1
        )
    assert not results.exists()


def test_the_first_interrupt_saves_and_names_the_command_that_goes_on(light: Warm, tmp_path: Path):
    """Most smoke epochs are shorter than the interval between checkpoints: a Ctrl-C lost
    everything, and said that --resume goes on.
    """
    results = tmp_path / "my results"
    whole = tmp_path / "whole"
    train_run_set("fake", options(whole, "fake.step_ms=20", "fake.gain=0.02"), seed=4)
    child = light.start(words(results, "--seed", "4", *SLOW), slowed(500))
    until(
        lambda: (
            partial(log_path(results)).exists()
            and "epoch_start" in partial(log_path(results)).read_text()
        )
    )
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=40)
    assert child.returncode == 130 and "saved in epoch 1, after step " in err
    command = shlex.split(err.split("`")[1])
    assert command == ["podium", "train", "fake", "--results", str(results), "--resume"]
    again = light.start(command[1:])
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert (
        weights(results) == weights(whole) and drive.keys(log_path(results)).count("resumed") == 1
    )


def test_an_interrupt_in_an_evaluation_saves_what_was_trained(light: Warm, tmp_path: Path):
    """Evaluations take minutes: the signal does not wait for their end, and the epoch before them
    is kept.
    """
    child = light.start(words(tmp_path, "--seed", "4", *SLOW, "--set", "fake.evaluate_s=30"))
    until(
        lambda: (
            partial(log_path(tmp_path)).exists()
            and "eval_start" in partial(log_path(tmp_path)).read_text()
        )
    )
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=40)
    assert child.returncode == 143 and "saved after epoch 1, before its evaluation" in err


@pytest.mark.parametrize("option", [("--set", "fake.gain=0.5"), ("--precision", "bf16")])
def test_what_is_typed_goes_before_what_the_set_was_begun_with(
    light: Warm, tmp_path: Path, option: tuple[str, str]
):
    """--resume takes the set's options, and refuses others by name."""
    child = light.start(words(tmp_path, "--seed", "4", *SLOW), slowed())
    until(
        lambda: (
            partial(log_path(tmp_path)).exists()
            and "epoch_start" in partial(log_path(tmp_path)).read_text()
        )
    )
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=40)
    again = light.start(["train", "fake", "--results", str(tmp_path), "--resume", *option])
    _, err = again.communicate(timeout=120)
    assert (
        again.returncode == 2
        and "--resume: the set was started with " in err
        and option[1].split("=")[0] in err
    )


def infer(
    results: Path, *assignments: str, scenario: Scenario = Scenario.OFFLINE, **changes: object
) -> None:
    serving.serve_workload(
        "fake",
        options(results, *OFFLINE, *assignments, **changes),
        scenarios=(scenario,),
        mode="all",
        checkpoint=None,
    )


@pytest.fixture
def served(made: Path, tmp_path: Path) -> Path:
    """Offline, in both modes."""
    return shutil.copytree(made / "served", tmp_path / "results")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_runs_take_nothing_away(light: Warm, served: Path, how: signal.Signals):
    """`score` said `no performance run` after a Ctrl-C, where a VALID one had been."""
    before = tree(served)
    arguments = [
        "infer",
        *words(
            served,
            "--scenario",
            "offline",
            "--set",
            "loadgen.min_duration_ms=60000",
            "--set",
            "batching.max_batch=4",
        )[1:],
    ]
    child = light.start(arguments)
    until(lambda: bool(listed(served / ".podium", "performance/*.partial")))
    child.send_signal(how)
    child.communicate(timeout=40)
    assert tree(served) == before
    infer(served)
    assert tree(served).keys() == before.keys() and tree(served) != before


def test_runs_that_fail_take_nothing_away(served: Path):
    """A fault in the middle of a scenario, and a run that is INVALID, leave the VALID one."""
    before = tree(served)
    with pytest.raises(PodiumError, match="broken on purpose"):
        infer(served, "fake.fault=inference")
    assert tree(served) == before
    with pytest.raises(RequestError):
        infer(served, system_file=Path("nosuch.toml"))
    assert tree(served) == before


def test_an_invalid_run_is_kept_aside_where_a_valid_one_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The user tried a rate: what counted before still does, and what was tried can be looked
    at.
    """
    keep_checkpoint(tmp_path / "results")
    infer(tmp_path / "results", "server.qps_share=0.01", scenario=Scenario.SERVER)
    before = tree(tmp_path / "results")
    with pytest.raises(JudgedError, match="INVALID"):
        infer(tmp_path / "results", *FASTER, scenario=Scenario.SERVER)
    assert tree(tmp_path / "results") == before
    kept = Path(capsys.readouterr().out.split("this one is stored in ")[1].split("\n")[0])
    assert {verdict_of(path.parent) for path in kept.rglob("run.json")} == {
        "ACCURACY",
        "INVALID",
    }


def test_runs_beside_their_training_set_need_nothing_else(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    """Only runs without it are told that `podium check` wants it."""
    infer(trained)
    assert "run set is not in" not in capsys.readouterr().out
    infer(trained, org="others")
    assert "run set is not in" in capsys.readouterr().out


def test_a_superseded_result_comes_back_and_counts(served: Path):
    """ "earlier results moved to .podium/superseded/1" had no way back: copied by hand, the runs
    were "made by step 2, and superseded later" to the judge.
    """

    def errors() -> set[tuple[str, str]]:
        found = Judge().judge_path(str(served)).findings
        return {(each.rule, each.found) for each in found if each.severity is Severity.ERROR}

    before, found = tree(served), errors()
    infer(served, "batching.max_batch=4")
    assert tree(served) != before
    told = CliRunner().invoke(group, ["restore", "--results", str(served)])
    assert told.exit_code == 0 and "Offline/performance" in told.output
    # a run that a busy machine repeated has superseded one before
    latest = max((served / ".podium" / "superseded").iterdir(), key=lambda each: int(each.name))
    done = CliRunner().invoke(group, ["restore", latest.name, "--results", str(served)])
    assert done.exit_code == 0 and "restored: open/tests/results/testbed/fake/" in done.output
    assert tree(served) == before and errors() == found
    assert not any(rule.startswith("ledger") for rule, _ in found)
    infer(served, "batching.max_batch=5")
    assert not any(rule.startswith("ledger") for rule, _ in errors())


@pytest.mark.parametrize("moment", range(4))
def test_a_kill_while_runs_take_their_place_is_mended_by_the_next_command(
    served: Path, monkeypatch: pytest.MonkeyPatch, moment: int
):
    """Moved aside, and not yet brought: the next command brings them before it does anything
    else.
    """
    calls = iter(range(100))
    moving: Callable[..., Path] = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if (
            "/serving/" in str(path)
            and not str(path).endswith(".partial")
            and next(calls) == moment
        ):
            os._exit(9)
        return moving(path, target)

    child = os.fork()
    if child == 0:
        Path.replace = killed  # type: ignore[method-assign, assignment]
        infer(served, "batching.max_batch=4")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with monkeypatch.context() as patch, pytest.raises(click.Abort):
        patch.setattr(serving, "probe_system", lambda *_: (_ for _ in ()).throw(click.Abort()))
        infer(served)
    records = [run_record(folder) for folder in run_folders(entry(served))]
    assert len(records) == 2 and {record.settings["batching.max_batch"] for record in records} == {
        4
    }


@pytest.mark.parametrize("moment", ["move_to_superseded", "write_json"])
def test_a_signal_or_a_full_disk_while_runs_take_their_place_loses_neither(
    served: Path, monkeypatch: pytest.MonkeyPatch, moment: str
):
    """The earlier runs were aside, and the new ones were cleaned away as if they were not whole."""
    original, calls = getattr(staging, moment), iter(range(100))

    def disturbed(*given: object, **named: object) -> object:
        turn = next(calls)
        found = original(*given, **named)
        if moment == "move_to_superseded":
            os.kill(os.getpid(), signal.SIGINT)
        elif turn == 1:
            raise OSError(28, "No space left on device")
        return found

    with monkeypatch.context() as patch, pytest.raises((Interrupted, MissingError)):
        patch.setattr(staging, moment, disturbed)
        infer(served, "batching.max_batch=4")
    with monkeypatch.context() as patch, pytest.raises(click.Abort):
        patch.setattr(serving, "probe_system", lambda *_: (_ for _ in ()).throw(click.Abort()))
        infer(served, org="other")  # whoever comes next brings them
    records = [run_record(folder) for folder in run_folders(entry(served))]
    assert len(records) == 2 and {record.settings["batching.max_batch"] for record in records} == {
        4
    }


def test_two_misses_and_a_stop_between_them_say_nothing_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """ "the earlier result stays, since it reached the target": it never had, and it was gone."""
    miss = "data.shuffle_labels=true"
    with pytest.raises(JudgedError):
        train_run_set("fake", options(tmp_path, miss), seed=1)
    moving = set_state.move_to_superseded

    def killed(paths: object, **named: object) -> object:
        moving(paths, **named)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        real = set_state.move_set_into_results

        def take_place(*given: object) -> None:
            patch.setattr(set_state, "move_to_superseded", killed)
            real(*given)  # type: ignore[arg-type]

        patch.setattr(set_state, "move_set_into_results", take_place)
        train_run_set("fake", options(tmp_path, miss), seed=5)
    with pytest.raises(JudgedError, match="1 of 1 runs did not reach"):
        train_run_set("fake", options(tmp_path), resume=True, given=())
    assert "stays in place" not in capsys.readouterr().out
    assert [event["value"] for event in events(log_path(tmp_path)) if event["key"] == "seed"] == [5]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("runs", -3),
        ("logs", "../../../../esc"),
        ("options", {"threads": "many"}),
        ("options", {"profile": "big"}),
        ("options", {"config": 5}),
    ],
)
def test_a_campaigns_state_that_nobody_wrote_is_told(tmp_path: Path, key: str, value: object):
    """A negative number of runs moved the finished log aside; others were tracebacks."""
    train_run_set("fake", options(tmp_path), seed=1)
    path = tmp_path / ".podium" / "fake" / "campaign.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    before = tree(tmp_path)
    with pytest.raises(RequestError, match="without --resume"):
        train_run_set("fake", options(tmp_path), resume=True, given=())
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "told", [{"home": "../..", "standing": []}, {"home": "open/tests", "standing": ["/etc/passwd"]}]
)
def test_a_record_of_the_way_that_names_what_lies_elsewhere_is_left(
    served: Path, told: Mapping[str, object]
):
    """Bytes of others: the next command would have moved what lies there."""
    keep = served.parent / "keep.txt"
    keep.write_text("mine")
    made = served / ".podium" / "fake" / "serving"
    made.mkdir(parents=True, exist_ok=True)
    (made / staging.COMPLETE_RUNS_FILE).write_text(
        json.dumps({"standing": ["../keep.txt"], **told, "displaced": False})
    )
    before = tree(served)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(click.Abort):
        patch.setattr(serving, "probe_system", lambda *_: (_ for _ in ()).throw(click.Abort()))
        infer(served)
    assert keep.read_text() == "mine" and tree(served) == before

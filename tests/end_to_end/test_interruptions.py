"""A campaign that is stopped, wherever and however: nothing goes on running, nothing reads as
valid, the next run ends it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from podium_fakes import EVALUATION_S, STEP_MS
from podium_fakes.drive import until
from processes import is_alive
from warm import Child, Warm

from suite.loadgen.scenario import Scenario

Podium = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
Begin = Callable[..., Child]

pytestmark = pytest.mark.slow

LONG = ("--set", "fake.step_ms=40")
"""Makes training take seconds."""
STOPPED_MS = 300
"""A step of a process that is stopped in its training: it is still there however late the test
comes to it.
"""


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Begin `podium ...` in a process group of its own, with steps as slow as asked for; whatever
    is left of it ends with the test.
    """
    begun: list[subprocess.Popen[str]] = []

    def run(*words: object, step_ms: int = 0) -> subprocess.Popen[str]:
        output = (tmp_path / "output.txt").open("w")
        command = [sys.executable, "-u", "-m", "suite.cli", *map(str, words)]
        pipes: dict[str, Any] = {
            "stdout": output,
            "stderr": subprocess.STDOUT,
            "text": True,
            "start_new_session": True,
        }
        begun.append(subprocess.Popen(command, env=environment | {STEP_MS: str(step_ms)}, **pipes))
        output.close()
        return begun[-1]

    yield run
    end_all(begun)


@pytest.fixture
def begin(warm: Warm, environment: dict[str, str]) -> Iterator[Begin]:
    """Begin `podium ...` likewise, where neither the start of its interpreter nor what it prints is
    what is tested.
    """
    begun: list[Child] = []

    def run(*words: object, step_ms: int = 0) -> Child:
        begun.append(warm.start(list(map(str, words)), environment | {STEP_MS: str(step_ms)}))
        return begun[-1]

    yield run
    end_all(begun)


def end_all(begun: "Sequence[subprocess.Popen[str] | Child]") -> None:
    """End with the test what is left."""
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def family(process: "subprocess.Popen[str] | Child") -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def in_loadgen(results: Path, scenario: str) -> Callable[[], bool]:
    """Tell that LoadGen has begun to write the performance run of a scenario."""
    return lambda: any(results.glob(f"open/*/results/*/fake/{scenario}/performance/*.partial"))


def in_training(results: Path) -> Callable[[], bool]:
    """Tell that the clock of training runs."""

    def begun() -> bool:
        with suppress(FileNotFoundError):  # renamed meanwhile
            return any(
                '"run_start"' in path.read_text()
                for path in results.glob("open/*/results/*/resnet/*.partial")
            )
        return False

    return begun


@pytest.mark.parametrize(
    ("place", "number", "code"),
    [
        ("training", signal.SIGINT, 130),
        ("training", signal.SIGTERM, 143),
        ("training", signal.SIGKILL, -signal.SIGKILL),
        ("loadgen", signal.SIGINT, 130),
        ("loadgen", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_stopped_campaign_leaves_nothing_running_and_nothing_valid_and_is_resumed(
    podium: Podium,
    forked: Podium,
    start: Start,
    begin: Begin,
    tmp_path: Path,
    fake: Sequence[str],
    place: str,
    number: int,
    code: int,
) -> None:
    results = tmp_path / "results"
    long = LONG if place == "training" else ("--set", "loadgen.min_duration_ms=1000")
    words = ("run", "fake", "--results", results, "--seed", 1, *fake, *long)
    process = (begin if number != signal.SIGKILL and place == "training" else start)(
        *words, step_ms=STOPPED_MS * (place == "training")
    )
    until(in_training(results) if place == "training" else in_loadgen(results, "SingleStream"))
    relatives = family(process)
    process.send_signal(number)
    assert process.wait(timeout=40) == code
    until(lambda: not any(map(is_alive, relatives)), limit_s=60)
    assert not list(results.rglob("*.tar.zst"))
    assert podium("check", results).returncode == 1
    outcome = forked(*words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert re.fullmatch(r"bundle: /.*\.tar\.zst", outcome.stdout.splitlines()[-1])
    if place == "loadgen":
        assert "train: already finished" in outcome.stdout
    assert podium("check", results).returncode == 0


@pytest.mark.parametrize(
    ("number", "code", "evaluations"),
    [(signal.SIGTERM, 143, (1,)), (signal.SIGINT, 130, (2,)), (signal.SIGTERM, 143, (1, 1))],
)
def test_a_training_stopped_in_an_evaluation_is_valid_once_it_is_resumed(
    forked: Podium,
    warm: Warm,
    environment: dict[str, str],
    tmp_path: Path,
    trained: Sequence[str],
    number: int,
    code: int,
    evaluations: Sequence[int],
) -> None:
    """block_stop and eval_start stood twice in its log, and whatever was served with its weights
    was broken for good.
    """
    results = tmp_path / "results"
    words = ["train", "fake", "--results", results, "--seed", 1, *trained, "--resume"]
    slow = environment | {EVALUATION_S: "3"}
    for turn, evaluation in enumerate(evaluations):
        process = warm.start([str(word) for word in words], slow)
        try:
            until(partial(is_evaluating, results, evaluation + turn))
        finally:
            process.send_signal(number)
        assert process.wait(timeout=40) == code
        assert count_events(results, "run_stop") == turn + 1
    outcome = forked(*words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert count_events(results, "resumed") == len(evaluations)
    checked = forked("check", results)
    assert checked.returncode == 0, checked.stdout


def is_evaluating(results: Path, evaluation: int) -> bool:
    return count_events(results, "eval_start") == evaluation


def count_events(results: Path, key: str) -> int:
    """Count the events of one kind in the log of a training."""
    for path in results.glob("open/*/results/*/resnet/result_0.txt*"):
        with suppress(FileNotFoundError):  # renamed meanwhile
            return path.read_text().count(f'"key": "{key}"')
    return 0


def test_a_killed_podium_train_is_ended_by_podium_run(
    forked: Podium, begin: Begin, tmp_path: Path, fake: Sequence[str], trained: Sequence[str]
) -> None:
    """Training is taken up where it stood: the same nonce, and a log that was resumed."""
    results = tmp_path / "results"
    process = begin(
        "train", "fake", "--results", results, "--seed", 1, *trained, *LONG, step_ms=STOPPED_MS
    )
    until(
        lambda: any(
            path.name.removeprefix("at_").isdigit()
            for path in (results / ".podium" / "fake" / "run_0").glob("at_*")
        )
    )
    process.kill()
    process.wait(timeout=40)
    outcome = forked("run", "fake", "--results", results, *fake, *LONG)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    (log,) = results.glob("open/*/results/*/resnet/result_0.txt")
    assert '"resumed"' in log.read_text()


def test_another_seed_for_an_unfinished_campaign_is_refused(
    podium: Podium, begin: Begin, tmp_path: Path, fake: Sequence[str]
) -> None:
    process = begin(
        "run",
        "fake",
        "--results",
        tmp_path / "results",
        "--seed",
        1,
        *fake,
        *LONG,
        step_ms=STOPPED_MS,
    )
    until(in_training(tmp_path / "results"))
    process.send_signal(signal.SIGINT)
    process.wait(timeout=40)
    outcome = podium("run", "fake", "--results", tmp_path / "results", "--seed", 2, *fake, *LONG)
    assert outcome.returncode == 2
    assert "seed 1, not 2" in outcome.stderr


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("fake: scoring the checkpoint", signal.SIGTERM),
        ("fake: target reached", signal.SIGTERM),
        ("fake: infer", signal.SIGTERM),
        ("fake: infer", signal.SIGHUP),
        ("probe: ", signal.SIGTERM),
    ],
)
def test_one_signal_is_never_lost_between_two_steps(
    start: Start,
    forked: Podium,
    tmp_path: Path,
    fake: Sequence[str],
    words: str,
    number: signal.Signals,
) -> None:
    """A SIGTERM in the hand-over between training and serving was lost: the campaign went on to its
    end.
    """
    results, output = tmp_path / "results", tmp_path / "output.txt"
    command = (
        "run",
        "fake",
        "--results",
        results,
        "--seed",
        1,
        *fake,
        "--set",
        "loadgen.min_duration_ms=300",
    )
    process = start(*command)
    until(lambda: words in output.read_text())
    relatives = family(process)
    process.send_signal(number)
    assert process.wait(timeout=40) == 128 + number, output.read_text()
    assert (
        "Traceback" not in output.read_text()
        and "run the same command to resume" in output.read_text().splitlines()[-1]
    )
    until(lambda: not any(map(is_alive, relatives)), limit_s=60)
    if words == "fake: infer":
        outcome = forked(*command)
        assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("place", ["training", "loadgen"])
def test_two_interrupts_end_at_once_with_one_sentence(
    start: Start, tmp_path: Path, fake: Sequence[str], place: str
) -> None:
    """They left a traceback, or a campaign that did not end within a minute."""
    results, output = tmp_path / "results", tmp_path / "output.txt"
    long = LONG if place == "training" else ("--set", "loadgen.min_duration_ms=60000")
    process = start(
        "run",
        "fake",
        "--results",
        results,
        "--seed",
        1,
        *fake,
        *long,
        step_ms=STOPPED_MS * (place == "training"),
    )
    until(in_training(results) if place == "training" else in_loadgen(results, "SingleStream"))
    relatives = family(process)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.4)
    assert process.wait(timeout=30) == 130
    told = output.read_text()
    assert "Traceback" not in told and told.count("podium: ") == 1
    until(lambda: not any(map(is_alive, relatives)), limit_s=60)


def test_of_two_campaigns_in_one_folder_one_is_refused_and_the_other_ends_well(
    begin: Begin, podium: Podium, tmp_path: Path, fake: Sequence[str], trained: Sequence[str]
) -> None:
    """Each wrote the other's state file away: `.podium/run-fake.json: No such file or
    directory`.
    """
    results = tmp_path / "results"
    words = ("run", "fake", "--results", results, "--seed", 1, *fake, *LONG)
    first = begin(*words)
    until(in_training(results))
    state = (results / ".podium" / "run-fake.json").read_bytes()
    for command in (
        words,
        ("train", "fake", "--results", results, *trained),
        ("run", "fake", "--results", results, "--seed", 2, *fake),
    ):
        second = podium(*command)
        assert second.returncode == 2 and "another podium command is using it" in second.stderr
    assert (results / ".podium" / "run-fake.json").read_bytes() == state
    assert first.wait(timeout=400) == 0
    assert podium("check", results).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_new_campaign_that_is_stopped_leaves_the_finished_one_valid(
    begin: Begin,
    podium: Podium,
    forked: Podium,
    tmp_path: Path,
    fake: Sequence[str],
    campaign: Any,
    number: signal.Signals,
) -> None:
    """The new set stood beside the old runs until the campaign went on: `check` said broken.
    Stopped in training, and in each scenario.
    """
    results = tmp_path / "results"
    shutil.copytree(campaign[0], results)
    bundle = next(results.glob("bundles/*.tar.zst")).read_bytes()
    made = results / ".podium" / "fake" / "campaign"
    words = (
        "run",
        "fake",
        "--results",
        results,
        "--seed",
        7,
        *fake,
        *LONG,
        "--set",
        "loadgen.min_duration_ms=1000",
    )
    scenarios = (in_loadgen(made, scenario.folder) for scenario in Scenario)
    for step_ms, place in ((STOPPED_MS, in_training(made)), *((0, each) for each in scenarios)):
        process = begin(*words, step_ms=step_ms)
        until(place)
        process.send_signal(number)
        process.wait(timeout=40)
        told = podium("check", results)
        assert told.returncode == 0, told.stdout
        assert (
            seeds(results) == [1] and next(results.glob("bundles/*.tar.zst")).read_bytes() == bundle
        )
    outcome = forked(*words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (
        "train: already finished" in outcome.stdout
        and outcome.stdout.splitlines()[-1] == f"bundle: {next(results.glob('bundles/*.tar.zst'))}"
    )
    assert seeds(results) == [7] and not made.exists()
    assert podium("check", results).returncode == 0


def seeds(results: Path) -> list[int]:
    """Tell the seeds of the training runs that stand in a results folder."""
    return [
        int(found[1])
        for log in results.glob("open/*/results/*/resnet/result_*.txt")
        if (found := re.search(r'"seed", "value": (\d+)', log.read_text()))
    ]


CUT = """
import os, shutil, sys
from itertools import count
from pathlib import Path
from compliance.judge import Judge
from submissions.campaign import replacement as beside

home, replace, rename = Path(sys.argv[1]), Path.replace, Path.rename
for moment in count():
    copy = shutil.copytree(home, home.with_name(f"cut-{moment}"))
    child = os.fork()
    if child == 0:
        calls = count()
        Path.replace = lambda *given: os._exit(9) if next(calls) == moment else replace(*given)
        Path.rename = lambda *given: os._exit(9) if next(calls) == moment else rename(*given)
        beside.settle_campaign(copy, "fake")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = [Judge().judge_path(str(copy)).verdict.value if list(copy.glob("open/*/results/*/*/*")) else "empty"]
    beside.settle_campaign(copy, "fake")
    print(code, *found, Judge().judge_path(str(copy)).verdict.value, file=sys.stderr)
    if code == 0:
        break
"""
"""Kills the bringing of a campaign at each of its moments, and ends it; the judge's word after
both.
"""


def test_a_campaign_that_is_killed_on_its_way_to_its_place_is_never_broken(
    podium: Podium, environment: dict[str, str], tmp_path: Path, fake: Sequence[str], campaign: Any
) -> None:
    """Half of the old beside half of the new would be refused for what neither did."""
    results = tmp_path / "results"
    shutil.copytree(campaign[0], results)
    keep = (
        "import submissions.campaign.run as at; from suite.cli import main; real = "
        "at.settle_campaign; at.settle_campaign = lambda *given: None; main()"
    )
    words = ["run", "fake", "--results", str(results), "--seed", "7", *fake]
    assert (
        subprocess.run(
            [sys.executable, "-c", keep, *words], env=environment, capture_output=True, check=False
        ).returncode
        == 0
    )
    assert podium("check", results).returncode == 0 and seeds(results) == [1]
    cut = subprocess.run(
        [sys.executable, "-c", CUT, str(results)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    *killed, last = [line.split() for line in cut.stderr.splitlines()]
    assert len(killed) > 15 and last == ["0", "valid", "valid"]
    assert all(
        code == "9" and found in ("valid", "empty") and ended == "valid"
        for code, found, ended in killed
    ), killed

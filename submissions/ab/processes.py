"""One run of a side: `podium infer` or `podium train` in a process of its own, with a results
folder of its own.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.ab.sides import THREADS_OPTION, AbPoint, AbRequest, AbSide
from suite.ab.study import AB
from suite.errors import (
    JudgedError,
    MissingError,
    PodiumError,
    RequestError,
    TemporaryError,
)
from suite.files.layout import CHECKPOINTS_FOLDER, RUN_RECORD, STATE_FOLDER
from suite.files.scratch import create_temporary_folder
from suite.loadgen.scenario import Scenario
from suite.process.parent import ask_kernel_to_end_with_parent
from suite.records import find_system_folder
from suite.rounds import HyperValue
from suite.studies.kind import EXPECTED_RATE_SETTING, RATE_MARGIN
from suite.workload import Mode

COMMAND_PREFIX: Final = "podium: "
"""What the sentence of a command that failed begins with."""
GRACE_S: Final = 20.0
"""House rule: a command ends its own children within POSTPONED_GRACE_S of a signal
(suite/process/signals.py), and is killed after twice that time.
"""
MAX_TOLD_LINES: Final = 3
PYTHON_VARIABLES: Final = ("PYTHONHOME", "PYTHONPATH")
"""They lead every Python to the packages of one. Source: python --help-env."""
NO_PODIUM: Final = "No module named podium"
"""What Python says last if it lacks podium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRun:
    """What one process has left."""

    folder: Path
    """Of the LoadGen run."""
    system_folder: Path
    """With the record of its system."""
    truth: Path | None
    """Ground truth of its accuracy set; None of own prompts."""
    description: Path | None
    """Description of its machine; None of own prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSide:
    """What the first run of a side has shown, so that its others are alike."""

    threads: int = 0
    """CPU threads, also those of the other side's first run; 0 before it."""
    rate: float = 0.0
    """Samples/s, from which the one query of Offline is sized; 0 before it."""


class SideError(Exception):
    """A process that did not end well: its exit code, and what it said last."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


@contextmanager
def create_side_results(results: Path) -> Iterator[Path]:
    """Create the results folder of one process, with the checkpoints of another one; it goes at the
    end.
    """
    with create_temporary_folder() as scratch:
        home = scratch / "results"
        home.mkdir()
        if (results / CHECKPOINTS_FOLDER).is_dir():
            (home / CHECKPOINTS_FOLDER).symlink_to((results / CHECKPOINTS_FOLDER).resolve())
        yield home


@contextmanager
def run_side(
    request: AbRequest, point: AbPoint, results: Path, known: KnownSide
) -> Iterator[ChildRun]:
    """Measure one run of a side in a process of its own, and yield what it has left, which goes at
    the end.

    Args:
        request: of the comparison.
        point: which run.
        results: folder with the checkpoints.
        known: what the side's first run has shown.

    Raises:
        SideError: the process ended with an error, and without a run.
    """
    with create_side_results(results) as home:
        words = list_side_words(request, point, known)
        code, told = run_podium(request.get_side(point.side), [*words, "--results", str(home)])
        found = sorted(each for each in home.rglob(RUN_RECORD) if STATE_FOLDER not in each.parts)
        if len(found) != 1:
            raise SideError(code, find_sentence(told, code))
        yield locate_child_run(home, found[0].parent)


def locate_child_run(home: Path, folder: Path) -> ChildRun:
    """Return what a process has left in its results folder."""
    truths = sorted(home.glob("*/*/truth/*/"))
    described = sorted(home.glob("*/*/systems/*.json"))
    return ChildRun(
        folder=folder,
        system_folder=find_system_folder(folder),
        truth=truths[0] if truths else None,
        description=described[0] if described else None,
    )


def list_side_words(request: AbRequest, point: AbPoint, known: KnownSide) -> list[str]:
    """List the words of the command that measures a run."""
    if request.training:
        return list_training_words(request, point, known)
    side, planned = request.get_side(point.side), AB.describe_run(request, point)
    words = ["infer", request.workload or side.endpoint, "--scenario", planned.scenario.value]
    if request.workload:
        words += ["--profile", request.profile, "--mode", planned.mode.value]
        if side.endpoint:
            words += ["--endpoint", side.endpoint]
    if planned.mode is Mode.PERFORMANCE:
        words += ["--runs", "1"]
    options = dict(side.options)
    if known.threads and not side.endpoint:
        options[THREADS_OPTION] = str(known.threads)
    for name, value in options.items():
        words += [f"--{name}", value]
    settings = dict(planned.settings)
    if known.rate and planned.scenario is Scenario.OFFLINE and planned.mode is Mode.PERFORMANCE:
        settings = {EXPECTED_RATE_SETTING: RATE_MARGIN * known.rate, **settings}
    for name, setting in settings.items():
        words += ["--set", f"{name}={format_setting_word(setting)}"]
    return [*words, *request.shared, "--system", planned.name_system("")]


def list_training_words(request: AbRequest, point: AbPoint, known: KnownSide) -> list[str]:
    """List the words of the command that times steps of a training."""
    side, planned = request.get_side(point.side), AB.describe_run(request, point)
    words = ["train", request.workload, "--profile", request.profile]
    words += ["--time-steps", str(request.seconds)]
    words += ["--seed", str(request.seed)]  # the same samples in the same order
    options = dict(side.options)
    if known.threads:
        options[THREADS_OPTION] = str(known.threads)
    for name, value in options.items():
        words += [f"--{name}", value]
    for name, setting in side.settings.items():
        words += ["--set", f"{name}={format_setting_word(setting)}"]
    return [*words, *request.shared, "--system", planned.name_system("")]


def format_setting_word(value: HyperValue) -> str:
    """Format the value of a setting as the command line reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def run_podium(side: AbSide, words: Sequence[str]) -> tuple[int, str]:
    """Run a command of a side's installation, and return its exit code and its output. A signal
    ends the command first.
    """
    interpreter = side.python or sys.executable
    process = subprocess.Popen(
        [interpreter, "-P", "-m", "podium", *words],  # not the working folder's podium
        env=build_side_environment(side),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches this command, which ends the other one
        preexec_fn=ask_kernel_to_end_with_parent,  # else it would disturb the next command
        text=True,
        errors="replace",
    )
    try:
        told, _ = process.communicate()
    except BaseException:
        end_process(process)
        raise
    return process.returncode, told


def build_side_environment(side: AbSide) -> dict[str, str]:
    """Return the variables of a side's processes: another installation has its own packages."""
    found = dict(os.environ)
    if side.python:
        for name in PYTHON_VARIABLES:
            found.pop(name, None)
    return found | dict(side.environment)


def end_process(process: "subprocess.Popen[str]") -> None:
    """End a command, and kill it if it goes on."""
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def find_sentence(told: str, code: int) -> str:
    """Return why a command failed: its own sentence, or the last lines that it printed."""
    lines = [each.strip() for each in told.splitlines() if each.strip()]
    own = [each.removeprefix(COMMAND_PREFIX) for each in lines if each.startswith(COMMAND_PREFIX)]
    if own:
        return own[-1]
    return "; ".join(lines[-MAX_TOLD_LINES:]) or f"ended with exit code {code}, without a word"


def build_side_error(error: SideError, what: str) -> PodiumError:
    """Return the error of this command for that of a side: with its exit code."""
    kinds: dict[int, type[PodiumError]] = {
        each.exit_code: each for each in (RequestError, MissingError, TemporaryError)
    }
    if error.sentence.endswith(NO_PODIUM):
        return MissingError(f"{what}: {error.sentence}; install podium-suite there")
    kind = kinds.get(error.code, JudgedError)
    return kind(f"{what}: {error.sentence}")

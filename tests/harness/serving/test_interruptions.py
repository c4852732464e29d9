"""`podium infer` that is stopped, from outside and from inside: nothing goes on running, nothing
reads as valid.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from podium_fakes.drive import entry, start, until, words
from podium_fakes.kept import keep_ceiling, keep_checkpoint, run_folders
from processes import is_alive

from suite.loadgen.scenario import Scenario
from suite.process.names import TEMPLATE_PROCESS_NAME

pytestmark = pytest.mark.slow

LONG = (
    "--scenario",
    "single-stream",
    "--mode",
    "performance",
    "--set",
    "loadgen.min_duration_ms=60000",
)


@pytest.fixture
def running(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A performance run of a minute, LoadGen's files begun."""
    keep_checkpoint(tmp_path / "results")
    keep_ceiling(tmp_path / "cache")
    arguments = ["infer", *words(tmp_path / "results", *LONG)[1:]]
    process = start(arguments, env={**os.environ, "PODIUM_CACHE": str(tmp_path / "cache")})
    partial = (
        entry(tmp_path / "results")
        .locate_performance_run("fake", Scenario.SINGLE_STREAM)
        .with_name("run_1.partial")
    )
    try:
        until(lambda: (partial / "mlperf_log_detail.txt").exists())
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def children(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def loadgen(process: "subprocess.Popen[str]") -> psutil.Process:
    """Find the child of the template."""
    (template,) = (
        child
        for child in psutil.Process(process.pid).children()
        if child.name() == TEMPLATE_PROCESS_NAME
    )
    (child,) = template.children()
    return child


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stopped_parent_takes_everything_with_it(
    running: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals, code: int
):
    """Ctrl-C goes to the whole group, as on a terminal; kill -9 to the parent alone."""
    family = children(running)
    os.kill(running.pid, number) if number == signal.SIGKILL else os.killpg(running.pid, number)
    assert running.wait(40) == code
    until(lambda: not any(map(is_alive, family)), limit_s=60)
    assert run_folders(entry(tmp_path / "results")) == []
    if number != signal.SIGKILL:
        told = running.stderr.read() if running.stderr else ""
        assert not list((tmp_path / "results").rglob("*.partial")) and "Traceback" not in told
        arguments = [
            "infer",
            *words(tmp_path / "results", *LONG)[1:],
        ]  # a command that refuses its options would be no advice
        assert (
            "runs that ended are kept until the same command runs them again:"
            f" {shlex.join(['podium', *arguments])}" in told
        )


def test_a_killed_child_is_one_sentence(running: "subprocess.Popen[str]", tmp_path: Path):
    """As the kernel does when memory runs out."""
    loadgen(running).kill()
    assert running.wait(40) == 1
    assert (
        running.stderr
        and "the LoadGen process was ended by SIGKILL; nothing of that run counts"
        in running.stderr.read()
    )
    assert run_folders(entry(tmp_path / "results")) == [] and not list(
        (tmp_path / "results").rglob("*.partial")
    )

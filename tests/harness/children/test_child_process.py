"""A process for each LoadGen run: its result, its failures, and that it never outlives anybody."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from podium_fakes.children import abort_elsewhere, end, fail, note_and_sleep, parent_of, whoami
from podium_fakes.drive import until

from harness.children import process as child_process
from harness.children import template
from harness.children.process import (
    ChildFailure,
    describe_child_failure,
    describe_process_end,
    run_in_child,
)
from harness.kernel_errors import KernelError
from suite.errors import JudgedError, MissingError, PodiumError, RequestError, TemporaryError
from suite.process.signals import Terminated


@pytest.fixture(params=[False, True], ids=["new", "forked"], autouse=True)
def forked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Children are new interpreters, or forks of a template."""
    monkeypatch.setattr(child_process, "templates", [])
    if request.param:
        child_process.load_ahead([])
    yield request.param
    while child_process.templates:
        child_process.templates.pop().end()


def test_a_result_comes_from_another_process_and_its_second_thread():
    """On the main thread StartTest would hold every signal back; an unblocked SIGINT would print a
    traceback.
    """
    word, pid, on_main, blocked = run_in_child(whoami, "hello")
    assert (word, on_main, blocked) == ("hello", False, True) and pid != os.getpid()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


@pytest.mark.parametrize(
    ("job", "kind"), [("judged", JudgedError), ("request", RequestError), ("missing", MissingError)]
)
def test_errors_keep_their_exit_code(job: str, kind: type[PodiumError]):
    """A wrong checkpoint is exit 2 whichever process finds out."""
    with pytest.raises(kind, match=f"^{job} on purpose$"):
        run_in_child(fail, job)


def test_other_exceptions_are_one_sentence_and_carry_their_traceback(
    capfd: pytest.CaptureFixture[str],
):
    """Who wrote the workload needs the line, who typed the command needs the sentence: 40 lines on
    the terminal hid it.
    """
    with pytest.raises(JudgedError, match="^the system under test failed") as caught:
        run_in_child(fail, "bug")
    assert str(caught.value) == "the system under test failed: KeyError: 'bug on purpose'"
    assert "in fail" in caught.value.__notes__[0] and "Traceback" not in capfd.readouterr().err


def test_a_processor_without_an_instruction_lacks_something():
    """A library built for a newer processor is nothing that the system under test did wrong: exit
    3.
    """
    with pytest.raises(KernelError, match="was ended by SIGILL"):
        run_in_child(end, "SIGILL")


def test_a_failing_worker_ends_the_process_at_once():
    """LoadGen waits for ever for answers that do not come; three threads that fail together are
    told once.
    """
    start = time.monotonic()
    with pytest.raises(JudgedError, match="^worker [012]$"):
        run_in_child(abort_elsewhere, "")
    assert time.monotonic() - start < 50


@pytest.mark.parametrize(
    ("job", "words"), [("exit", "exit status 5"), ("SIGKILL", "SIGKILL"), ("SIGSEGV", "SIGSEGV")]
)
def test_a_child_that_vanishes_is_told(job: str, words: str):
    """Out of memory or a crash in native code leave no message; waiting for one would hang."""
    with pytest.raises(
        JudgedError, match=rf"the LoadGen process .*{words}; nothing of that run counts"
    ):
        run_in_child(end, job)


def test_a_signal_to_the_parent_ends_the_child(tmp_path: Path):
    """SIGTERM from a scheduler must not leave LoadGen running."""
    note = tmp_path / "pid"

    def terminate() -> None:
        until(lambda: note.exists() and note.read_text() != "")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate).start()
    with pytest.raises(Terminated):
        run_in_child(note_and_sleep, str(note))
    assert not psutil.pid_exists(int(note.read_text()))


PARENT = """
import sys
from harness.children.process import run_in_child, load_ahead
from podium_fakes.children import note_and_sleep

if __name__ == "__main__":
    if sys.argv[2:]:
        load_ahead([])
    run_in_child(note_and_sleep, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_child_ends_with_its_parent(tmp_path: Path, forked: bool, number: signal.Signals):
    """kill -9 lets the parent do nothing more; the child has to see it by itself."""
    note, script = tmp_path / "pid", tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(note), *["forked"] * forked]
    parent: subprocess.Popen[Any] = subprocess.Popen(
        command, env=environment, stderr=subprocess.DEVNULL
    )
    until(lambda: note.exists() and note.read_text() != "")
    parent.send_signal(number)
    assert parent.wait(50) != 0
    until(lambda: not psutil.pid_exists(int(note.read_text())), limit_s=40)


@pytest.mark.slow
def test_a_template_that_is_killed_takes_its_child_along(tmp_path: Path, forked: bool):
    """And the next child has a new one."""
    if not forked:
        pytest.skip("there is none")
    note = tmp_path / "pid"

    def kill() -> None:
        until(lambda: note.exists() and note.read_text() != "")
        os.kill(psutil.Process(int(note.read_text())).ppid(), signal.SIGKILL)

    threading.Thread(target=kill).start()
    with pytest.raises(
        JudgedError, match="the LoadGen process was ended by SIGKILL; nothing of that run counts"
    ):
        run_in_child(note_and_sleep, str(note))
    until(lambda: not psutil.pid_exists(int(note.read_text())), limit_s=40)
    assert run_in_child(whoami, "again")[0] == "again"


def test_a_template_that_cannot_start_means_new_interpreters(monkeypatch: pytest.MonkeyPatch):
    """No memory for another process."""

    def refused(process: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(template, "start_child_process", refused)
    child_process.load_ahead([])
    assert run_in_child(parent_of, "") == os.getpid()


def test_a_fork_of_its_owner_asks_no_template(forked: bool):
    """It may not wait for it."""
    run_in_child(whoami, "first")
    pid = os.fork()
    if not pid:
        os._exit(0 if run_in_child(whoami, "fork")[0] == "fork" else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert run_in_child(whoami, "after")[0] == "after"


def test_sentences():
    """What stands in the error line."""
    assert (
        describe_process_end(-9) == "was ended by SIGKILL"
        and describe_process_end(3) == "ended with exit status 3"
    )
    assert describe_child_failure(MissingError("no GPU")) == ChildFailure(
        sentence="no GPU", error_class=MissingError
    )
    assert describe_child_failure(TemporaryError("later")).error_class is JudgedError

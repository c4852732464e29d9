"""A process for each LoadGen run: its result, its failures, and that it never outlives anybody."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from podium_fakes.drive import until

from harness.child_process import Abort, Failure, ending, failure, in_child
from harness.kernel_errors import KernelError
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.process.signals import Terminated


def whoami(job: str, abort: Abort) -> tuple[str, int, bool, bool]:
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    return job, os.getpid(), threading.current_thread() is threading.main_thread(), blocked


def fail(job: str, abort: Abort) -> None:
    raise {"judged": JudgedError, "request": RequestError, "missing": MissingError}.get(job, KeyError)(f"{job} on purpose")


def abort_elsewhere(job: str, abort: Abort) -> None:
    """A worker's thread fails while LoadGen would wait for ever."""
    for number in range(3):
        threading.Thread(target=abort, args=(JudgedError(f"worker {number}"),), daemon=True).start()
    time.sleep(60)


def end(job: str, abort: Abort) -> None:
    if job == "exit":
        os._exit(5)
    os.kill(os.getpid(), getattr(signal, job))
    time.sleep(60)


def note_and_sleep(job: str, abort: Abort) -> None:
    Path(job).write_text(str(os.getpid()))
    time.sleep(60)


def test_a_result_comes_from_another_process_and_its_second_thread():
    """On the main thread StartTest would hold every signal back; an unblocked SIGINT would print a traceback."""
    word, pid, on_main, blocked = in_child(whoami, "hello")
    assert (word, on_main, blocked) == ("hello", False, True) and pid != os.getpid()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


@pytest.mark.parametrize(("job", "kind"), [("judged", JudgedError), ("request", RequestError), ("missing", MissingError)])
def test_errors_keep_their_exit_code(job: str, kind: type[PodiumError]):
    """A wrong checkpoint is exit 2 whichever process finds out."""
    with pytest.raises(kind, match=f"^{job} on purpose$"):
        in_child(fail, job)


def test_other_exceptions_are_one_sentence_and_carry_their_traceback(capfd: pytest.CaptureFixture[str]):
    """Who wrote the workload needs the line, who typed the command needs the sentence: 40 lines on the terminal hid it."""
    with pytest.raises(JudgedError, match="^the system under test failed") as caught:
        in_child(fail, "bug")
    assert str(caught.value) == "the system under test failed: KeyError: 'bug on purpose'"
    assert "in fail" in caught.value.__notes__[0] and "Traceback" not in capfd.readouterr().err


def test_a_processor_without_an_instruction_lacks_something():
    """A library built for a newer processor is nothing that the system under test did wrong: exit 3."""
    with pytest.raises(KernelError, match="was ended by SIGILL"):
        in_child(end, "SIGILL")


def test_a_failing_worker_ends_the_process_at_once():
    """LoadGen waits for ever for answers that do not come; three threads that fail together are told once."""
    start = time.monotonic()
    with pytest.raises(JudgedError, match="^worker [012]$"):
        in_child(abort_elsewhere, "")
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(("job", "words"), [("exit", "exit status 5"), ("SIGKILL", "SIGKILL"), ("SIGSEGV", "SIGSEGV")])
def test_a_child_that_vanishes_is_told(job: str, words: str):
    """Out of memory or a crash in native code leave no message; waiting for one would hang."""
    with pytest.raises(JudgedError, match=rf"the LoadGen process .*{words}; nothing of that run counts"):
        in_child(end, job)


def test_a_signal_to_the_parent_ends_the_child(tmp_path: Path):
    """SIGTERM from a scheduler must not leave LoadGen running."""
    note = tmp_path / "pid"

    def terminate() -> None:
        until(lambda: note.exists() and note.read_text() != "")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate).start()
    with pytest.raises(Terminated):
        in_child(note_and_sleep, str(note))
    assert not psutil.pid_exists(int(note.read_text()))


PARENT = """
import sys
from harness.child_process import in_child
from test_child_process import note_and_sleep

if __name__ == "__main__":
    in_child(note_and_sleep, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_child_ends_with_its_parent(tmp_path: Path, number: signal.Signals):
    """kill -9 lets the parent do nothing more; the child has to see it by itself."""
    note, script = tmp_path / "pid", tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    parent: subprocess.Popen[Any] = subprocess.Popen([sys.executable, str(script), str(note)], env=environment, stderr=subprocess.DEVNULL)
    until(lambda: note.exists() and note.read_text() != "")
    parent.send_signal(number)
    assert parent.wait(20) != 0
    until(lambda: not psutil.pid_exists(int(note.read_text())), limit_s=10)


AHEAD = """
import os, sys
from harness.child_process import in_child, load_ahead
from test_child_process import seen

if __name__ == "__main__":
    load_ahead(["broken", "ahead"])
    for word in ("first", "second"):
        os.environ["WORD"] = word
        print(*in_child(seen, "ahead"))
    print("ahead" in sys.modules)
"""


def seen(job: str, abort: Abort) -> tuple[bool, str, str, str]:
    return job in sys.modules, os.environ["WORD"], Path.cwd().name, str(os.getppid())


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [True, False])
def test_what_children_have_in_common_is_loaded_once(tmp_path: Path, ahead: bool):
    """Where children are forked from, and not in their parent; a module that cannot be imported stops nobody. Each child has its parent's present
    environment. A folder whose name is too long for a socket in it means a new interpreter for each child."""
    loads, folder, script = tmp_path / "loads", Path("/tmp") if ahead else tmp_path / ("t" * 80), tmp_path / "parent.py"
    folder.mkdir(exist_ok=True)
    script.write_text(AHEAD)
    (tmp_path / "broken.py").write_text("raise RuntimeError")
    (tmp_path / "ahead.py").write_text(f"import os, pathlib; pathlib.Path({str(loads)!r}).open('a').write(f'{{os.getpid()}}\\n')")
    imports = os.pathsep.join([str(tmp_path), str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": imports, "TMPDIR": str(folder)}
    ran = subprocess.run([sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    first, second, parent = ran.stdout.splitlines()
    assert parent == "False" and ran.stderr == ""
    assert first.split()[:3] == [str(ahead), "first", tmp_path.name] and second.split()[:3] == [str(ahead), "second", tmp_path.name]
    assert first.split()[3] == second.split()[3]
    assert loads.exists() == ahead
    if ahead:
        assert loads.read_text().split() == [first.split()[3]]


def test_sentences():
    """What stands in the error line."""
    assert ending(-9) == "was ended by SIGKILL" and ending(3) == "ended with exit status 3"
    assert failure(MissingError("no GPU")) == Failure(exit_code=3, sentence="no GPU")
    assert isinstance(Failure(exit_code=99, sentence="x").error(), JudgedError)

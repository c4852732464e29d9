"""A process that LoadGen's are forked from, in programs of their own: what it loads, and what may
go wrong with it meanwhile.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from podium_fakes.children import in_a_process
from podium_fakes.drive import until

from harness.children import template

AHEAD = """
import os, sys
from harness.children.process import run_in_child, load_ahead
from podium_fakes.children import seen

if __name__ == "__main__":
    load_ahead(sys.argv[1:])
    for word in ("first", "second"):
        os.environ["WORD"] = word
        print(*run_in_child(seen, "ahead"), flush=True)
    print("ahead" in sys.modules)
"""
DEADLY = (
    "raise RuntimeError",
    "import sys; sys.exit(3)",
    "raise KeyboardInterrupt",
    *(f"import os; os.kill(os.getpid(), {number})" for number in (4, 9)),
)
THREADED = (
    "import threading, time; threading.Thread(target=time.sleep, args=(100,), daemon=True).start()"
)
HANGS = (
    "import os, pathlib,"
    " time\npathlib.Path(os.environ['NOTE']).write_text(str(os.getpid()))\ntime.sleep(100)\n"
)


def with_modules(folder: Path, *names: str, **modules: str) -> "subprocess.Popen[str]":
    """Start a program whose children shall have modules loaded ahead, in a folder with these
    modules beside it.
    """
    script = folder / "parent.py"
    script.write_text(AHEAD)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    imports = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "PYTHONPATH": imports, "NOTE": str(folder / "note")}
    return subprocess.Popen(
        [sys.executable, str(script), *names],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_what_children_have_in_common_is_loaded_once(tmp_path: Path):
    """In the template, and not in its parent. Each child has its parent's present environment."""
    noting = (
        "import os, pathlib\nos.environ['OWN'] ="
        " 'kept'\npathlib.Path(os.environ['NOTE']).open('a').write(f'{os.getpid()}\\n')\nprint('once',"
        " end='')\n"
    )
    out, err = with_modules(tmp_path, "ahead", ahead=noting).communicate()
    first, second, parent = out.removeprefix("once").splitlines()
    assert parent == "False" and err == "" and out.count("once") == 1
    assert first.split()[:3] == ["True", "first", tmp_path.name] and second.split()[:3] == [
        "True",
        "second",
        tmp_path.name,
    ]
    assert {first.split()[3], second.split()[3]} == set((tmp_path / "note").read_text().split()), (
        "one template loaded it, and both are its children"
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", [*DEADLY, THREADED])
def test_a_template_that_dies_means_new_interpreters(tmp_path: Path, text: str):
    """What kills it may do a child no harm, and one that it harms says so itself; a fork would lack
    a template's thread.
    """
    ran = with_modules(tmp_path, "deadly", deadly=text)
    out, err = ran.communicate()
    first, second, _ = out.splitlines()
    assert (first.split()[:2], second.split()[:2]) == (
        ["False", "first"],
        ["False", "second"],
    ) and first.split()[3] == second.split()[3] == str(ran.pid)


def test_a_process_that_has_asked_for_a_gpu_is_known(tmp_path: Path):
    """CUDA keeps its device files open, and does not work in a fork."""
    (tmp_path / "5").symlink_to("/dev/null")
    assert not template.has_open_gpu(tmp_path) and not template.has_open_gpu(tmp_path / "nothing")
    (tmp_path / "6").symlink_to("/dev/nvidiactl")
    assert template.has_open_gpu(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_need_not_wait_for_a_template_that_loads(tmp_path: Path, number: signal.Signals):
    """An import may hang, on a network's file system."""
    ran, note = with_modules(tmp_path, "hangs", hangs=HANGS), tmp_path / "note"
    until(lambda: note.exists() and note.read_text() != "")
    began = time.monotonic()
    ran.send_signal(number)
    ran.communicate()
    assert ran.returncode != 0 and time.monotonic() - began < 50
    until(lambda: not psutil.pid_exists(int(note.read_text())), limit_s=40)


@pytest.mark.slow
def test_a_process_of_multiprocessing_ends_although_it_has_a_template():
    """It waits for its children, and the template for its end."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=in_a_process, args=(sender,))
    process.start()
    assert receiver.recv() == "inside"
    process.join(120)
    assert process.exitcode == 0

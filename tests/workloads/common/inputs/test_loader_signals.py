"""Loader workers when the whole process group is signalled, as schedulers and closing terminals
do.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from suite.process.signals import WORKER_SURVIVAL_S

BODY = """
import sys, time
import torch
from suite.process.signals import Interrupted, kill_children_and_exit, raise_signals_in_block
from workloads.common.inputs.batches import BatchLoader

class Numbers(torch.utils.data.Dataset):
    def __getitem__(self, index):
        time.sleep(0.05)
        return index

if __name__ == "__main__":
    loader = BatchLoader(Numbers(), list, 1, pinned=False)
    try:
        with raise_signals_in_block() as signals, signals.postpone():
            batches = iter(loader.read([[number] for number in range(60)]))
            next(batches)
            print("ready", flush=True)
            while signals.received is None:
                next(batches)
            print("saved after", next(batches), flush=True)
    except Interrupted as error:
        kill_children_and_exit(str(error), error.exit_code)  # as the command does: at a plain end torch waits for the worker for 15 s
"""


@pytest.mark.slow
def test_a_group_that_is_terminated_still_makes_its_step() -> None:
    """The worker was gone at once, the parent's loop broke before it could save, and all steps
    since the last checkpoint were lost.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", BODY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    os.killpg(child.pid, signal.SIGTERM)
    told, errors = child.communicate(timeout=60)
    assert (
        child.returncode == 143
        and told.startswith("saved after ")
        and "is killed by signal" not in errors
    )


SLOW_KILL = """
import multiprocessing.process, time
kill_at_once = multiprocessing.process.BaseProcess.kill

def kill(process):
    kill_at_once(process)
    time.sleep(0.5)  # as on a busy machine: the parent hears of it before it goes on

multiprocessing.process.BaseProcess.kill = kill
"""


@pytest.mark.slow
def test_a_run_with_many_loaders_ends_with_its_own_exit_code() -> None:
    """The first that was killed made PyTorch's handler raise before the others were: a traceback,
    exit code 1, and loaders that lived on.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW_KILL + BODY.replace("list, 1,", "list, 2,")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    child.terminate()
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 143 and "Traceback" not in errors


LEFT = """
import sys
import torch
from workloads.common.inputs.batches import BatchLoader

class Numbers(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index

if __name__ == "__main__":
    loader = BatchLoader(Numbers(), list, 1, pinned=False)
    next(loader.read([[number] for number in range(9)]))
    loader.myself = loader  # as a training refers to itself, or the traceback of one that failed
    print("at its end", flush=True)
"""


@pytest.mark.slow
def test_a_process_does_not_wait_for_a_loader_that_is_left() -> None:
    """It took 15 s to end, and a worker's end was a traceback behind the last line."""
    child = subprocess.Popen(
        [sys.executable, "-c", LEFT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "at its end\n"
    began_s = time.monotonic()
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (0, "")
    assert time.monotonic() - began_s < WORKER_SURVIVAL_S / 2

"""The small kernels of a recurrent network beside as many busy loops as the machine has cores."""

import os
import statistics
import subprocess
import sys
from typing import Final

import pytest
from podium_fakes.busy import loops

from suite.process.openmp import USER_SPIN_VARIABLES

LOOP_LIMIT_S: Final = 60.0
LEAST_ROUNDS, MOST_ROUNDS = 2, 5
STEPS: Final = """
import os, sys, time
from suite.process import openmp
openmp.limit_openmp_spinning(os.environ)
import torch
from harness.machine import cpus as cores
cores.CPU_PROBE_S = 0.1
cell, head = torch.nn.LSTMCell(128, 128), torch.nn.Linear(128, 2500)
token, state = torch.randn(16, 128), (torch.zeros(16, 128), torch.zeros(16, 128))
for line in sys.stdin:
    torch.set_num_threads(cores.choose_core_count(cores.measure_busy_share()))
    end, steps = time.monotonic() + 0.4, 0
    while time.monotonic() < end:
        loss = head(cell(token, state)[0]).sum()
        loss.backward()
        steps += 1
    print(steps, flush=True)
"""


@pytest.mark.slow
def test_small_kernels_do_not_collapse_beside_other_programs():
    """Two spinning threads on two busy cores took a step in thirty times as long, each time; half
    of the quiet rate is a fair share.

    One good round suffices: the machine's other programs may take any of them.
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in USER_SPIN_VARIABLES
    }
    quiet, busy = list[int](), list[int]()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", STEPS], env=environment, text=True, **pipes
    ) as process:

        def steps() -> int:
            assert process.stdin and process.stdout
            print("go", file=process.stdin, flush=True)
            return int(process.stdout.readline())

        def fair() -> bool:
            return max(busy) > statistics.median(quiet) / 8

        steps()
        while len(busy) < LEAST_ROUNDS or (len(busy) < MOST_ROUNDS and not fair()):
            quiet.append(steps())
            with loops([LOOP_LIMIT_S] * len(os.sched_getaffinity(0))):
                busy.append(steps())
        assert process.stdin
        process.stdin.close()
    assert fair(), f"quiet {quiet}, busy {busy}"

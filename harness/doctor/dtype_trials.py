"""Precision trials before a precision is reported as ready: tiny networks of the workload's kind,
in child processes that may crash.
"""

import multiprocessing
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from harness.children.process import end, ending
from harness.children.starting import end_with_parent, start
from harness.kernel_errors import brief
from harness.request import Request
from suite import registry
from suite.engine import Engine, Network, Plan
from suite.errors import MissingError, RequestError
from suite.files.cache import cache_folder
from suite.process import garbage
from suite.terms import Precision

START_S: Final = 600.0
"""House rule: Python and a framework may take minutes to load from a network file system or beside
other work; that decides nothing.
"""
LIMIT_S: Final = 60.0
"""House rule: a tiny network that takes longer counts as hung."""


class Half(StrEnum):
    """Training or inference."""

    TRAINING = "training"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A trial of one workload in one precision."""

    workload: str
    half: Half
    engine: str
    """For training, the framework."""
    precision: Precision


class Ending(StrEnum):
    """How a trial ended."""

    RAN = "ran"
    REFUSED = "refused"
    """Not implemented."""
    FAILED = "failed"
    UNTRIED = "not tried"
    """There is nothing to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a trial."""

    ending: Ending
    why: str = ""


def tried(attempts: Iterable[Attempt], device: str) -> dict[Attempt, Result]:
    """Run the trials, one child process per engine, in parallel; after a crash another child runs
    the remaining ones.
    """
    grouped = [
        list(group)
        for _, group in groupby(
            sorted(attempts, key=lambda each: each.engine), key=lambda each: each.engine
        )
    ]
    running = [(group, *begun(group, device)) for group in grouped]
    found: dict[Attempt, Result] = {}
    try:
        for group, process, receiver in running:
            found |= read(group, process, receiver)
    finally:
        for _, process, _ in running:
            end(process)
    left = [each for group in grouped for each in group if each not in found]
    return found | tried(left, device) if left else found


def begun(attempts: Sequence[Attempt], device: str) -> tuple[SpawnProcess, Connection]:
    """Start a child on some trials."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child_main, args=(attempts, device, sender), daemon=True)
    start(process)
    sender.close()
    return process, receiver


def read(
    attempts: Sequence[Attempt], process: SpawnProcess, receiver: Connection
) -> dict[Attempt, Result]:
    """Read a child's results; if it dies or hangs in a trial, that trial failed, and later ones are
    left out.
    """
    found: dict[Attempt, Result] = {}
    with receiver:
        for attempt, limit_s in ((attempts[0], START_S), *((each, LIMIT_S) for each in attempts)):
            try:
                if not receiver.poll(limit_s):
                    found[attempt] = Result(
                        ending=Ending.FAILED, why=f"took longer than {limit_s:.0f} s"
                    )
                    break
                if told := receiver.recv():
                    found[attempt] = told
            except EOFError:
                process.join()
                found[attempt] = Result(
                    ending=Ending.FAILED,
                    why=f"the process that tried it {ending(process.exitcode)}",
                )
                break
    return found


def child_main(attempts: Sequence[Attempt], device: str, sender: Connection) -> None:
    """Run the trials one after another; discard what libraries print."""
    garbage.look_seldom()
    threading.Thread(target=end_with_parent, daemon=True).start()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of tiny kernels would only wait for one another
    load(attempts[0], device)
    sender.send(None)
    for attempt in attempts:
        sender.send(result(attempt, device))


def load(attempt: Attempt, device: str) -> None:
    """Import the framework of the first trial, which tells what is wrong with it."""
    with suppress(Exception):
        registry.trial(registry.workload(attempt.workload), attempt.engine, device)


def result(attempt: Attempt, device: str) -> Result:
    """Run one trial in this process."""
    try:
        return (
            Result(ending=Ending.RAN)
            if made(attempt, device)
            else Result(ending=Ending.UNTRIED, why="there is no trial network for it")
        )
    except RequestError as error:
        return Result(ending=Ending.REFUSED, why=str(error))
    except Exception as error:  # each framework has its own exception types
        return Result(ending=Ending.FAILED, why=f"tried, and failed: {brief(error)}")


def made(attempt: Attempt, device: str) -> bool:
    """Train a step, or serve: the engine's own trial if it has one, else the workload's networks;
    False if there is nothing to try.
    """
    engine = registry.engine(attempt.engine) if attempt.half is Half.INFERENCE else None
    own = registry.engine_trial(engine) if engine else None
    if own is not None:
        own(device, attempt.precision)
        return True
    if engine is not None and engine.name not in engine.accepts:
        return False
    trial = registry.trial(registry.workload(attempt.workload), attempt.engine, device)
    if trial is None:
        return False
    if engine is None:
        trial.step(attempt.precision)
    else:
        for network in trial.networks:
            serve(engine, network, attempt.precision, device)
    return True


def serve(engine: Engine[Any], network: Network[Any], precision: Precision, device: str) -> None:
    """Compile a network, and run it once."""
    plan: Plan[Any] = Plan(
        device=device,
        precision=precision,
        threads=1,
        max_batch=len(network.inputs[0]),
        cache=cache_folder() / "engines",
    )
    engine.compile(network, plan).open()(*network.inputs)


def check_training(request: Request, precision: Precision) -> None:
    """Refuse a precision that training does not support, or that this machine's kernels lack."""
    check(
        Attempt(
            workload=request.name,
            half=Half.TRAINING,
            engine=request.options.framework,
            precision=precision,
        ),
        request.run(0, precision).device,
    )


def check(wanted: Attempt, device: str) -> None:
    """Before any clock, refuse a precision that does not run, and name those that do; fp32 always
    runs and is not tried.
    """
    if wanted.precision is Precision.FP32:
        return
    found = tried([wanted], device)[wanted]
    if found.ending in (Ending.RAN, Ending.UNTRIED):
        return
    others = tried(
        [replace(wanted, precision=other) for other in Precision if other is not wanted.precision],
        device,
    )
    able = (
        ", ".join(
            attempt.precision for attempt, outcome in others.items() if outcome.ending is Ending.RAN
        )
        or "no other either"
    )
    verb = "train" if wanted.half is Half.TRAINING else "serve"
    if found.ending is Ending.REFUSED:
        raise RequestError(
            f"{wanted.workload}: --precision {wanted.precision}: there is no code to {verb} it so;"
            f" this machine can {verb} it in {able}"
        )
    raise MissingError(
        f"{wanted.workload}: --precision {wanted.precision}: {found.why}; this machine can {verb}"
        f" it with {wanted.engine} in {able}"
    )

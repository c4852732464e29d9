"""Precision trials before a precision is reported as ready: tiny networks of the workload's kind,
in child processes that may crash.
"""

import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final

from harness.children.process import describe_process_end, end_child
from harness.children.starting import end_with_parent, start_child_process
from harness.kernel_errors import format_first_sentence
from harness.request import RunRequest
from suite import registry
from suite.engine import Engine, Network, Plan
from suite.errors import MissingError, PodiumError, RequestError
from suite.files.cache import (
    ENGINE_CACHE_FOLDER,
    check_cache_writable,
    locate_cache_folder,
)
from suite.files.scratch import create_temporary_folder
from suite.process import garbage
from suite.terms import Precision

MAX_IMPORT_S: Final = 600.0
"""House rule: Python and a framework may take minutes to load from a network file system or beside
other work; that decides nothing.
"""
MAX_TRIAL_S: Final = 60.0
"""House rule: a tiny network that takes longer counts as hung."""


class WorkloadHalf(StrEnum):
    """Training or inference."""

    TRAINING = "training"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionTrial:
    """A trial of one workload in one precision."""

    workload: str
    half: WorkloadHalf
    engine: str
    """For training, the framework."""
    precision: Precision


class TrialEnding(StrEnum):
    """How a trial ended."""

    RAN = "ran"
    REFUSED = "refused"
    """Not implemented."""
    FAILED = "failed"
    UNTRIED = "not tried"
    """There is nothing to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """Result of a trial."""

    ending: TrialEnding
    why: str = ""


def run_precision_trials(
    attempts: Iterable[PrecisionTrial], device: str
) -> dict[PrecisionTrial, TrialResult]:
    """Run the trials, one child process per engine, in parallel; after a crash another child runs
    the remaining ones.
    """
    grouped = [
        list(group)
        for _, group in groupby(
            sorted(attempts, key=lambda each: each.engine), key=lambda each: each.engine
        )
    ]
    running = [(group, *start_trial_child(group, device)) for group in grouped]
    found: dict[PrecisionTrial, TrialResult] = {}
    try:
        for group, process, receiver in running:
            found |= collect_trial_results(group, process, receiver)
    finally:
        for _, process, _ in running:
            end_child(process)
    left = [each for group in grouped for each in group if each not in found]
    if left:
        return found | run_precision_trials(left, device)
    return found


def start_trial_child(
    attempts: Sequence[PrecisionTrial], device: str
) -> tuple[SpawnProcess, Connection]:
    """Start a child on some trials."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_trial_child, args=(attempts, device, sender), daemon=True)
    start_child_process(process)
    sender.close()
    return process, receiver


def collect_trial_results(
    attempts: Sequence[PrecisionTrial], process: SpawnProcess, receiver: Connection
) -> dict[PrecisionTrial, TrialResult]:
    """Read a child's results; if it dies or hangs in a trial, that trial failed, and later ones are
    left out.
    """
    found: dict[PrecisionTrial, TrialResult] = {}
    with receiver:
        for attempt, limit_s in (
            (attempts[0], MAX_IMPORT_S),
            *((each, MAX_TRIAL_S) for each in attempts),
        ):
            try:
                if not receiver.poll(limit_s):
                    found[attempt] = TrialResult(
                        ending=TrialEnding.FAILED, why=f"took longer than {limit_s:.0f} s"
                    )
                    break
                if outcome := receiver.recv():
                    found[attempt] = outcome
            except EOFError:
                process.join()
                found[attempt] = TrialResult(
                    ending=TrialEnding.FAILED,
                    why=f"the process that tried it {describe_process_end(process.exitcode)}",
                )
                break
    return found


def run_trial_child(attempts: Sequence[PrecisionTrial], device: str, sender: Connection) -> None:
    """Run the trials one after another; discard what libraries print."""
    garbage.reduce_garbage_collection()
    threading.Thread(target=end_with_parent, daemon=True).start()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of tiny kernels would only wait for one another
    import_trial_framework(attempts[0], device)
    sender.send(None)
    for attempt in attempts:
        sender.send(run_single_trial(attempt, device))


def import_trial_framework(attempt: PrecisionTrial, device: str) -> None:
    """Import the framework of the first trial, which shows what is wrong with it."""
    with suppress(Exception):
        registry.load_workload(attempt.workload).build_trial(attempt.engine, device)


def run_single_trial(attempt: PrecisionTrial, device: str) -> TrialResult:
    """Run one trial in this process."""
    try:
        if try_precision(attempt, device):
            return TrialResult(ending=TrialEnding.RAN)
        return TrialResult(ending=TrialEnding.UNTRIED, why="there is no trial network for it")
    except RequestError as error:
        return TrialResult(ending=TrialEnding.REFUSED, why=str(error))
    except Exception as error:  # each framework has its own exception types
        return TrialResult(
            ending=TrialEnding.FAILED, why=f"tried, and failed: {format_first_sentence(error)}"
        )


def try_precision(attempt: PrecisionTrial, device: str) -> bool:
    """Train a step, or serve: the engine's own trial if it has one, else the workload's networks;
    False if there is nothing to try.
    """
    engine = None
    if attempt.half is WorkloadHalf.INFERENCE:
        engine = registry.load_engine(attempt.engine)
    own = registry.find_engine_trial(engine) if engine else None
    if own is not None:
        own(device, attempt.precision)
        return True
    if engine is not None and engine.name not in engine.accepts:
        return False
    trial = registry.load_workload(attempt.workload).build_trial(attempt.engine, device)
    if trial is None:
        return False
    if engine is None:
        trial.step(attempt.precision)
    else:
        for network in trial.networks:
            run_network_once(engine, network, attempt.precision, device)
    return True


def run_network_once(
    engine: Engine[Any], network: Network[Any], precision: Precision, device: str
) -> None:
    """Compile a network, and run it once."""
    with open_trial_cache() as cache:
        plan: Plan[Any] = Plan(
            device=device,
            precision=precision,
            threads=1,
            max_batch=len(network.inputs[0]),
            cache=cache,
        )
        engine.compile(network, plan).open()(*network.inputs)


@contextmanager
def open_trial_cache() -> Iterator[Path]:
    """Yield the engines' cache, or a temporary folder if it cannot be written: a precision may run
    all the same.
    """
    try:
        cache = locate_cache_folder() / ENGINE_CACHE_FOLDER
        check_cache_writable(cache)
    except PodiumError:
        with create_temporary_folder() as folder:
            yield folder
    else:
        yield cache


def check_training_precision(request: RunRequest) -> None:
    """Refuse a precision that training does not support, or that this machine's kernels lack."""
    check_precision_runs(
        PrecisionTrial(
            workload=request.name,
            half=WorkloadHalf.TRAINING,
            engine=request.framework,
            precision=request.precision,
        ),
        request.device,
    )


def check_precision_runs(requested: PrecisionTrial, device: str) -> None:
    """Before any clock, refuse a precision that does not run, and name those that do; fp32 always
    runs and is not tried.
    """
    if requested.precision is Precision.FP32:
        return
    found = run_precision_trials([requested], device)[requested]
    if found.ending in (TrialEnding.RAN, TrialEnding.UNTRIED):
        return
    others = run_precision_trials(
        [
            replace(requested, precision=other)
            for other in Precision
            if other is not requested.precision
        ],
        device,
    )
    able = (
        ", ".join(
            attempt.precision
            for attempt, outcome in others.items()
            if outcome.ending is TrialEnding.RAN
        )
        or "no other either"
    )
    verb = "serve"
    if requested.half is WorkloadHalf.TRAINING:
        verb = "train"
    if found.ending is TrialEnding.REFUSED:
        raise RequestError(
            f"{requested.workload}: --precision {requested.precision}: there is no code to {verb}"
            f" it so; this machine can {verb} it in {able}"
        )
    raise MissingError(
        f"{requested.workload}: --precision {requested.precision}: {found.why}; this machine can"
        f" {verb} it with {requested.engine} in {able}"
    )

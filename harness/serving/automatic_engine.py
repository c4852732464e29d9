"""Chooses the engine where the user leaves it open (`--engine auto`): of those that are installed
and serve the request, the fastest whose answers to a few samples score as well as the best ones.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from harness.children.process import Abort, run_in_child
from harness.machine.cpus import choose_core_count, measure_busy_share
from harness.missing_modules import BrokenPackageError
from harness.serving.instances.proxy import watch_instances
from harness.serving.loadgen.fitting_batch import open_warm_predictor
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.setup import LOCAL_SITE, ServingSetup, set_up_serving
from harness.serving.sites import ServingSite
from suite import __version__, registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, PodiumError
from suite.files.chosen_engine import (
    ChosenEngine,
    EngineFigures,
    read_chosen_engines,
    write_chosen_engine,
)
from suite.files.scratch import create_temporary_folder
from suite.process.lock import lock_results_folder
from suite.process.signals import raise_signals_in_block
from suite.terms import AUTOMATIC_ENGINE, Precision
from suite.units import MS_PER_S, NS_PER_MS, NS_PER_S
from suite.workload import Predictor, Scores

TRIED_SAMPLES: Final = 64
"""Samples at most that each engine answers for its score."""
ANSWERING_S: Final = 5.0
"""After this time an engine answers no further batch for its score."""
TIMING_S: Final = 0.5
"""At least so long is each size of batch called, and at least once; the fastest call counts."""
LEAST_EQUAL_SHARE: Final = 0.9
"""Of a bare network's answers, that must be those of the framework's own engine."""
ENGINE_SPEED_PREFIXES: Final = ("batching.", "engine.", "sut.")
"""Settings that an engine's speed depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTrialJob:
    """An engine to try."""

    system: LoadedSystem
    truth: Path
    """Folder that gets the files that scoring needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTrial:
    """What an engine did in its trial."""

    figures: EngineFigures
    answers: Mapping[int, bytes]


def set_up_with_engine(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    site: ServingSite = LOCAL_SITE,
) -> ServingSetup:
    """Resolve a request to serve (set_up_serving) whose engine may be `auto`."""
    return set_up_serving(
        workload, settle_engine(workload, options, checkpoint, site), checkpoint, site
    )


def settle_engine(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    site: ServingSite = LOCAL_SITE,
) -> RunOptions:
    """Return options that name an engine: the user's, or the fastest one for this checkpoint.

    A choice is recorded in the results folder, and later commands that ask for the same keep it.
    RequestError and MissingError as for serving, if no engine serves the request.
    """
    if options.engine != AUTOMATIC_ENGINE:
        return options
    candidates = site.list_candidate_engines(workload, options)
    if not candidates:
        return replace(options, engine=options.framework)  # serving says what is missing
    if len(candidates) == 1:
        precision = options.precision or Precision.FP32
        click.echo(f"{workload}: engine {candidates[0]}, the only one here that has {precision}")
        return replace(options, engine=candidates[0])
    trials = try_workload_engines(workload, options, candidates, checkpoint)
    fastest = next(iter(trials))
    click.echo(f"{workload}: engine {format_engine_figures(fastest, trials)}")
    return replace(options, engine=fastest)


def try_workload_engines(
    workload: str, options: RunOptions, candidates: Sequence[str], checkpoint: Path | None
) -> Mapping[str, EngineFigures]:
    """Return the figures of the engines whose answers score well, the fastest first: recorded ones,
    or else those of a trial. PodiumError of the first engine, if none works.
    """
    setups = {
        engine: set_up_serving(workload, replace(options, engine=engine), checkpoint)
        for engine in candidates
    }
    first = next(iter(setups.values()))
    systems = {name: each.system for name, each in setups.items()}
    metrics = tuple(first.checkpoint.record.reference_accuracy)
    share = first.request.round.loadgen.accuracy_share

    def list_accurate(trials: Mapping[str, EngineTrial], truth: Path) -> list[str]:
        score = registry.load_scorer(workload)
        scores = {
            name: score(answers, truth) for name, answers in select_common_answers(trials).items()
        }
        return select_accurate_engines(scores, metrics, share)

    basis = describe_choice_basis(systems, first.checkpoint.record.sha256, options)
    return recall_or_try_engines(workload, options, systems, basis, list_accurate)


def try_network_engines(
    network: str, options: RunOptions, systems: Mapping[str, LoadedSystem], weights: str
) -> Mapping[str, EngineFigures]:
    """Return the figures of the engines that answer alike, as for a workload. A bare network may
    have random weights, and so a few answers may differ from those of the first engine.
    """

    def list_alike(trials: Mapping[str, EngineTrial], _: Path) -> list[str]:
        common = select_common_answers(trials)
        known = next(iter(common.values()))
        return [
            name
            for name, answers in common.items()
            if sum(answers[sample] == answer for sample, answer in known.items())
            >= LEAST_EQUAL_SHARE * len(known)
        ]

    basis = describe_choice_basis(systems, weights, options)
    return recall_or_try_engines(network, options, systems, basis, list_alike)


def describe_choice_basis(
    systems: Mapping[str, LoadedSystem], weights: str, options: RunOptions
) -> dict[str, str]:
    """Describe what a choice among engines depends on."""
    first = next(iter(systems.values()))
    return {
        "podium": __version__,
        "checkpoint": weights,
        "device": first.device,
        "precision": first.run.precision.value,
        "threads": str(options.threads),
        **{name: registry.describe_engine_package(name) for name in systems},
        **{
            key: str(value)
            for key, value in first.run.settings.items()
            if key.startswith(ENGINE_SPEED_PREFIXES)
        },
    }


def recall_or_try_engines(
    subject: str,
    options: RunOptions,
    systems: Mapping[str, LoadedSystem],
    basis: Mapping[str, str],
    list_accurate: Callable[[Mapping[str, EngineTrial], Path], list[str]],
) -> Mapping[str, EngineFigures]:
    """Return the figures recorded for the same basis, or try all engines and record theirs. While
    an engine breaks, nothing is recorded: it may have been killed, or is mended next.
    """
    results = options.results.absolute()
    with raise_signals_in_block(), lock_results_folder(results):
        for recorded in read_chosen_engines(results, subject):
            if recorded.basis != basis or not recorded.trials.keys() <= systems.keys():
                continue
            if not (broken := find_engine_failure(systems[recorded.engine])):
                return recorded.rank_trials()
            print_progress_note(f"{subject}: no longer {recorded.engine}: {broken}")
        print_progress_note(f"{subject}: trying the engines {' and '.join(systems)}")
        threads = options.threads or choose_core_count(measure_busy_share())
        with create_temporary_folder() as folder:
            trials, failures = try_engines(subject, systems, threads, folder)
            accurate = list_accurate(trials, folder) or [next(iter(trials))]
        chosen = ChosenEngine(trials=keep_accurate_engines(subject, trials, accurate), basis=basis)
        if not any(isinstance(error, JudgedError | BrokenPackageError) for error in failures):
            write_chosen_engine(results, subject, chosen)
    return chosen.rank_trials()


def find_engine_failure(system: LoadedSystem) -> PodiumError | None:
    """Return why the engine's own tiny run fails by now: what it needs may have been changed since
    it was chosen. None if it runs, or has none.
    """
    if registry.find_engine_trial(system.engine) is None:
        return None
    try:
        run_in_child(run_tiny_trial, system)
    except PodiumError as error:
        return error
    return None


def run_tiny_trial(system: LoadedSystem, _: Abort) -> None:
    """Have the engine run what it has for this; runs in a child process."""
    trial = registry.find_engine_trial(system.engine)
    if trial is not None:
        device = system.placement[0].device if system.placement else system.run.device
        trial(device, system.run.precision)


def try_engines(
    subject: str, systems: Mapping[str, LoadedSystem], threads: int, truth: Path
) -> tuple[dict[str, EngineTrial], list[PodiumError]]:
    """Try each engine in a process of its own, with the CPU threads that will serve; return what
    they did, and why others did nothing. PodiumError of the first one, if none works.
    """
    trials: dict[str, EngineTrial] = {}
    failures: list[PodiumError] = []
    for name, system in systems.items():
        job = EngineTrialJob(system=system.copy_with_threads(threads), truth=truth)
        try:
            trials[name] = run_in_child(run_engine_trial, job)
        except PodiumError as error:
            failures.append(error)
            print_progress_note(f"{subject}: not {name}: {error}")
    if not trials:
        raise failures[0]
    return trials, failures


def keep_accurate_engines(
    subject: str, trials: Mapping[str, EngineTrial], accurate: Collection[str]
) -> dict[str, EngineFigures]:
    """Return the figures of the accurate engines, and say which are out."""
    for name in trials.keys() - set(accurate):
        print_progress_note(f"{subject}: not {name}: its answers to the first samples are worse")
    return {name: trials[name].figures for name in accurate}


def run_engine_trial(job: EngineTrialJob, abort: Abort) -> EngineTrial:
    """Build the system under test, answer a few samples and time it; runs in a child process.

    The first call of each size warms the engine up, and its answers are scored. Slow engines are
    called once more of each size, and answer one batch.
    """
    inference, _ = job.system.open_inference()
    watch_instances(inference, abort)
    inference.truth(job.truth)
    size = job.system.batching.max_batch
    samples = range(min(TRIED_SAMPLES, inference.sample_count, inference.performance_sample_count))
    inference.load(samples)
    predictor = open_warm_predictor(inference, 0, size)
    began_s = time.perf_counter()
    answers: list[bytes] = []
    for start in range(0, len(samples), size):
        if answers and time.perf_counter() - began_s > ANSWERING_S:
            break
        answers += predictor(samples[start : start + size])
    predictor(samples[:1])
    alone_s = find_fastest_call_s(predictor, samples[:1])
    full = [samples[place % len(samples)] for place in range(size)]
    batch_s = find_fastest_call_s(predictor, full)
    inference.close()
    return EngineTrial(
        figures=EngineFigures(
            latency_ns=NS_PER_S * alone_s,
            samples_per_second=job.system.workers * len(full) / batch_s,
        ),
        answers=dict(enumerate(answers)),
    )


def find_fastest_call_s(predictor: Predictor, batch: Sequence[int]) -> float:
    """Return the seconds of the fastest of the calls in TIMING_S. What other programs do meanwhile
    slows calls down, and some engines more than others, which are tried at another time.
    """
    total_s, fastest_s = 0.0, math.inf
    while total_s < TIMING_S:
        began_s = time.perf_counter()
        predictor(batch)
        call_s = time.perf_counter() - began_s
        total_s, fastest_s = total_s + call_s, min(fastest_s, call_s)
    return fastest_s


def select_common_answers(
    trials: Mapping[str, EngineTrial],
) -> dict[str, dict[int, bytes]]:
    """Return the answers to the samples that all engines answered: slow ones answer fewer."""
    count = min(len(trial.answers) for trial in trials.values())
    return {
        name: {sample: trial.answers[sample] for sample in range(count)}
        for name, trial in trials.items()
    }


def select_accurate_engines(
    scores: Mapping[str, Scores], metrics: Collection[str], share: float
) -> list[str]:
    """Return the engines that reach this share of the best engine's score in each metric."""
    needed = {
        metric: share * max(found.get(metric, 0.0) for found in scores.values())
        for metric in metrics
    }
    return [
        name
        for name, found in scores.items()
        if all(found.get(metric, 0.0) >= least for metric, least in needed.items())
    ]


def format_engine_figures(fastest: str, trials: Mapping[str, EngineFigures]) -> str:
    """Format the figures of the engine that was chosen, and of those that it was chosen from."""
    alone = {name: f"{each.latency_ns / NS_PER_MS:.1f}" for name, each in trials.items()}
    batched = {name: f"{MS_PER_S / each.samples_per_second:.1f}" for name, each in trials.items()}
    others = [f", {name} {alone[name]} and {batched[name]}" for name in trials if name != fastest]
    return (
        f"{fastest}: {alone[fastest]} ms a sample, {batched[fastest]} in batches{''.join(others)}"
    )

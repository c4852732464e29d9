"""A short probe of the system under test before LoadGen's runs: ground truth, speed, and what the
engine built.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.children.process import Abort
from harness.serving.instances.proxy import watch_instances
from harness.serving.loadgen.fitting_batch import open_warm_predictor
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.loadgen.test_settings import ProbedSpeed
from suite.records import CalibrationRecord
from suite.rounds import HyperValue
from suite.units import NS_PER_S
from suite.workload import Inference, Predictor

PROBE_TURNS: Final = 3
"""Repetitions of each kind of call, interleaved; the median counts, because a shared machine is
slow for a while, and then is not.
"""
RATE_PROBE_S: Final = 1.0
"""Seconds of full batches over all repetitions together; at least one batch in each."""
LATENCY_PROBE_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeJob:
    """What to probe."""

    system: LoadedSystem
    query_samples: int
    """Samples per MultiStream query."""
    truth: Path
    """Folder for the files that scoring needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Result of the probe."""

    sample_count: int
    built: Mapping[str, Mapping[str, HyperValue]]
    """Network -> the engine's description of it."""
    calibrated: Mapping[str, CalibrationRecord]
    """Network -> its calibration, if it was quantised."""
    probe: ProbedSpeed


def run_probe_job(job: ProbeJob, abort: Abort) -> ProbeResult:
    """Build the system under test, write its ground truth, time it; runs in a child process."""
    inference, recorder = job.system.open_inference()
    watch_instances(inference, abort)
    inference.truth(job.truth)
    found = measure_probe_speed(inference, job)
    count = inference.sample_count
    inference.close()
    return ProbeResult(
        sample_count=count, built=recorder.built, calibrated=recorder.calibrated, probe=found
    )


def measure_probe_speed(inference: Inference, job: ProbeJob) -> ProbedSpeed:
    """Time full batches, one sample, and one MultiStream query, answered in as many batches as it
    takes, on one worker.
    """
    batching, share = job.system.batching, job.system.probe_share
    predictor = open_warm_predictor(inference, 0, batching.max_batch)
    loaded_samples = range(
        min(
            inference.sample_count,
            inference.performance_sample_count,
            max(batching.max_batch, job.query_samples),
        )
    )
    inference.load(loaded_samples)
    batch, query = (
        [loaded_samples[place % len(loaded_samples)] for place in range(size)]
        for size in (batching.max_batch, job.query_samples)
    )
    parts = [
        query[start : start + batching.max_batch]
        for start in range(0, len(query), batching.max_batch)
    ]
    batch_s, latency_s, *parts_s = measure_median_seconds(
        predictor,
        [
            (batch, share * RATE_PROBE_S),
            (batch[:1], share * LATENCY_PROBE_S),
            *((part, share * LATENCY_PROBE_S) for part in parts),
        ],
    )
    inference.unload(loaded_samples)
    return ProbedSpeed(
        samples_per_second=job.system.workers * len(batch) / batch_s,
        latency_ns=NS_PER_S * latency_s,
        query_latency_ns=NS_PER_S * sum(parts_s),
    )


def measure_median_seconds(
    predictor: Predictor, kinds: Sequence[tuple[Sequence[int], float]]
) -> list[float]:
    """Return each kind of call's median seconds, measured for the given seconds in all; the first
    call of each does not count.
    """
    for batch, _ in kinds:
        predictor(batch)
    turns = [
        [
            measure_seconds_per_call(predictor, batch, in_all_s / PROBE_TURNS)
            for batch, in_all_s in kinds
        ]
        for _ in range(PROBE_TURNS)
    ]
    return [statistics.median(times) for times in zip(*turns, strict=True)]


def measure_seconds_per_call(
    predictor: Callable[[Sequence[int]], Sequence[bytes]], batch: Sequence[int], at_least_s: float
) -> float:
    """Time calls for at least that long; at least one call."""
    start, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - start < at_least_s:
        predictor(batch)
        calls += 1
    return (time.perf_counter() - start) / calls

"""A short look at the system under test before LoadGen's runs: its truth, how fast it is, what the engine built."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.loadgen.child import Abort
from harness.loadgen.schedule import Probe
from harness.loadgen.session import System
from suite.records import CalibrationRecord
from suite.rounds import HyperValue
from suite.workload import Inference, Predictor

RATE_S: Final = 1.0
"""Full batches are answered for this long; at least two of them."""
LATENCY_S: Final = 0.3
NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class LookJob:
    """What to look at."""

    system: System
    query_samples: int
    """Samples of a MultiStream query."""
    truth: Path
    """Folder to write what scoring needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen."""

    sample_count: int
    built: Mapping[str, Mapping[str, HyperValue]]
    """Network -> what the engine says of it."""
    calibrated: Mapping[str, CalibrationRecord]
    """Network -> what its ranges come from, where it was quantised."""
    probe: Probe


def look(job: LookJob, abort: Abort) -> Look:
    """Build the system under test, write its truth, time it; runs in a child process."""
    inference, recorder = job.system.open()
    inference.truth(job.truth)
    found = probe(inference, job)
    count = inference.sample_count
    inference.close()
    return Look(sample_count=count, built=recorder.built, calibrated=recorder.calibrated, probe=found)


def probe(inference: Inference, job: LookJob) -> Probe:
    """Time full batches, one sample, and one MultiStream query, on one worker."""
    batching = job.system.batching
    predictor = inference.open(0, batching.max_batch)
    predictor.warm_up()
    held = range(min(inference.sample_count, inference.performance_sample_count, max(batching.max_batch, job.query_samples)))
    inference.load(held)
    batch = [held[place % len(held)] for place in range(batching.max_batch)]
    batch_s = seconds_per_call(predictor, batch, RATE_S)
    found = Probe(
        samples_per_second=batching.workers * len(batch) / batch_s,
        latency_ns=NS_PER_S * seconds_per_call(predictor, batch[:1], LATENCY_S),
        query_latency_ns=NS_PER_S * query_seconds(predictor, held, job.query_samples, batching.max_batch),
    )
    inference.unload(held)
    return found


def query_seconds(predictor: Predictor, held: Sequence[int], samples: int, max_batch: int) -> float:
    """Time a MultiStream query, which is answered in as many batches as it takes."""
    query = [held[place % len(held)] for place in range(samples)]
    parts = [query[start : start + max_batch] for start in range(0, samples, max_batch)]
    return sum(seconds_per_call(predictor, part, LATENCY_S) for part in parts)


def seconds_per_call(predictor: Callable[[Sequence[int]], Sequence[bytes]], batch: Sequence[int], at_least_s: float) -> float:
    """Time calls for a while, after one that does not count; at least two."""
    predictor(batch)
    start, calls = time.perf_counter(), 0
    while calls < 2 or time.perf_counter() - start < at_least_s:
        predictor(batch)
        calls += 1
    return (time.perf_counter() - start) / calls

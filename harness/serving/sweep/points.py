"""One point of a sweep: a LoadGen MultiStream run, a closed loop of one query of so many samples after another, all of a query in one batch."""

import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from harness.progress import Waiting
from harness.serving.loadgen.batching import Batching
from harness.serving.loadgen.result_files import Facts, read_facts
from harness.serving.loadgen.session import Job, System, held
from harness.serving.loadgen.test_settings import Schedule
from harness.serving.sweep.study import POINT, Identity, Row, identity_in, save
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import DETAIL, QUERIES
from suite.loadgen.advice import LATENCY_SHARE
from suite.loadgen.scenario import Scenario
from suite.rounds import LoadGenRules
from suite.workload import Mode

NS_PER_S: Final = 1_000_000_000
LEAST_QUERIES: Final = 10
LEAST_SLOW: Final = 3
"""Queries, where one takes longer than SLOW_S."""
SLOW_S: Final = 5.0
FIRST_GUESS_NS: Final = 200_000
"""Of a sample's latency, before any was measured: LoadGen prepares as many queries as fit, and a guess that is too high lets it run out of them."""
PERCENTILE: Final = 99.0
PARTS: Final = 10
T_975: Final = 2.262157
"""Student's t, 97.5 %, 9 degrees of freedom."""
P90_QUERIES: Final = 64
P99_QUERIES: Final = 662
"""Fewest queries from which LoadGen estimates the percentile with 99 % confidence. Source: loadgen/early_stopping.cc, MinPassingQueriesFinder."""
KEYS: Final = {"p50_ns": (0, "50.00"), "p90_ns": (P90_QUERIES, "90.00"), "p99_ns": (P99_QUERIES, "99.00")}
"""Field of a row -> fewest queries, and the percentile in LoadGen's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is swept, in one engine and number format."""

    system: System
    """Of any batch size."""
    loadgen: LoadGenRules
    log_seed: int
    identity: Identity
    """Of any batch size."""
    folder: Path
    """Of this engine and number format."""


def of_batch(subject: Subject, batch: int) -> tuple[System, Identity]:
    """Give the system that answers queries of so many samples at once."""
    own = {"batching.max_batch": batch, "batching.workers": 1, "batching.window_us": 0, "batching.only_full": True}
    run = subject.system.run
    system = replace(subject.system, run=replace(run, settings={**run.settings, **own}), batching=Batching(workers=1, max_batch=batch, window_us=0))
    told = subject.identity
    return system, Identity(**{**fields_of(told), "batch": batch, "settings": {**told.settings, **own}})


def fields_of(identity: Identity) -> dict[str, Any]:
    """Give an identity's fields by name."""
    return {name: getattr(identity, name) for name in Identity.__struct_fields__}


def measured(subject: Subject, batch: int, sample_ns: float | None, name: str = "") -> Row:
    """Measure a point, unless it is there already; what this machine cannot do is a row that says so. `sample_ns`: a sample's latency at other batches."""
    system, identity = of_batch(subject, batch)
    folder = subject.folder / (name or f"batch-{batch}")
    if not done(folder, identity):
        try:
            run_point(Job(system=system, schedule=schedule_of(subject, batch, sample_ns), folder=folder), identity)
        except (RequestError, MissingError, JudgedError) as error:
            return Row(engine=identity.engine, precision=identity.precision, batch=batch, folder="", why=str(error))
    return row_of(folder, identity, read_facts(folder))


def done(folder: Path, identity: Identity) -> bool:
    """Tell whether a point is there: the same podium, system, weights, settings and length."""
    kept = identity_in(folder)
    return kept is not None and plain(kept) == plain(identity) and (folder / DETAIL).is_file()


def plain(identity: Identity) -> dict[str, Any]:
    """Give an identity as JSON has it."""
    built: dict[str, Any] = json.loads(json.dumps(fields_of(identity), default=list))
    return built


def run_point(job: Job, identity: Identity) -> None:
    """Do the run, and write its record beside LoadGen's files."""
    title = f"{identity.subject} {identity.engine} {identity.precision}, batch {identity.batch}"
    shutil.rmtree(job.folder, ignore_errors=True)  # a point of another system or length
    with Waiting(title, job.schedule.min_duration_ms / 1000) as shown, held(job, shown.tick) as (folder, _):
        save(folder / POINT, identity)


def schedule_of(subject: Subject, batch: int, sample_ns: float | None) -> Schedule:
    """Plan a point: at least so many seconds and ten queries, or three where one takes long."""
    query_ns = batch * (sample_ns or FIRST_GUESS_NS)
    slow = sample_ns is not None and query_ns > SLOW_S * NS_PER_S
    seeds = subject.loadgen
    return Schedule(
        scenario=Scenario.MULTI_STREAM,
        mode=Mode.PERFORMANCE,
        qsl_rng_seed=seeds.qsl_rng_seed,
        sample_index_rng_seed=seeds.sample_index_rng_seed,
        schedule_rng_seed=seeds.schedule_rng_seed,
        accuracy_log_rng_seed=subject.log_seed,
        sampled_answers=0,
        percentile=PERCENTILE,
        bound_ns=None,
        min_duration_ms=int(subject.identity.seconds * 1000),
        min_queries=LEAST_SLOW if slow else LEAST_QUERIES,
        samples_per_query=batch,
        rate=0.0,
        expected_latency_ns=max(1, int(LATENCY_SHARE * query_ns)),
    )


def row_of(folder: Path, identity: Identity, facts: Facts) -> Row:
    """Read a point from LoadGen's files: the rate of a closed loop is its samples over its mean latency."""
    queries, mean_ns = int(facts.number("result_query_count")), facts.number("result_mean_query_latency_ns")
    low, high = interval(folder, identity.batch)
    return Row(
        engine=identity.engine,
        precision=identity.precision,
        batch=identity.batch,
        folder=f"{folder.parent.name}/{folder.name}",
        queries=queries,
        samples_per_second=identity.batch * NS_PER_S / mean_ns,
        low=low,
        high=high,
        mean_latency_ns=mean_ns,
        **percentiles(facts, queries),
    )


def interval(folder: Path, batch: int) -> tuple[float | None, float | None]:
    """Give the 95 % interval of the rate by batch means: consecutive queries in ten parts, whose means depend on one another less than queries do.

    Source: A. M. Law, Simulation Modeling and Analysis, section 9.5.3, batch means. None where there are fewer than ten queries, or no record of them.
    """
    import numpy

    try:
        rows = numpy.load(folder / QUERIES, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None, None
    if len(rows) < PARTS:
        return None, None
    means_ns = [part.mean() for part in numpy.array_split(rows["done_ns"] - rows["issued_ns"], PARTS)]
    mean_ns, half_ns = fmean(means_ns), T_975 * stdev(means_ns) / math.sqrt(PARTS)
    return batch * NS_PER_S / (mean_ns + half_ns), batch * NS_PER_S / (mean_ns - half_ns) if mean_ns > half_ns else None


def percentiles(facts: Facts, queries: int) -> dict[str, Any]:
    """Give the percentiles that there are enough queries for: the slowest of 71 is no 99th percentile."""
    return {field: facts.number(f"result_{share}_percentile_per_query_latency_ns") for field, (least, share) in KEYS.items() if queries >= least}

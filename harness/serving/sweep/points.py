"""One point of a sweep: a LoadGen MultiStream run, a closed loop of queries of `batch` samples, each answered in one batch."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.machine.power.selection import Chosen
from harness.progress import Waiting
from harness.serving.energy import Measured, energy_of
from harness.serving.loadgen.batching import Batching
from harness.serving.loadgen.result_files import Facts, read_facts
from harness.serving.loadgen.session import Job, System, held
from harness.serving.loadgen.test_settings import Schedule
from harness.serving.sweep.study_files import point_in, save
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import DETAIL, QUERIES
from suite.loadgen.advice import LATENCY_SHARE
from suite.loadgen.scenario import Scenario
from suite.rounds import LoadGenRules
from suite.studies.documents import MEAN, NS_PER_S, POINT, Point, Row, cells, interval, parts_of
from suite.workload import Mode

TRIES: Final = 4
LEAST_QUERIES: Final = 10
LEAST_SLOW: Final = 3
"""Minimum queries if one takes longer than SLOW_S."""
SLOW_S: Final = 5.0
FIRST_GUESS_NS: Final = 200_000
"""Latency per sample before any is measured: LoadGen prepares as many queries as fit, and runs out of them if the guess is too high."""
PERCENTILE: Final = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One subject in one engine and precision."""

    system: System
    """Any batch size; `of_batch` sets it."""
    loadgen: LoadGenRules
    log_seed: int
    identity: Point
    """Any batch size; `of_batch` sets it."""
    folder: Path
    """Folder of this engine and precision."""
    power: Chosen = Chosen()


def of_batch(subject: Subject, batch: int) -> tuple[System, Point]:
    """Return the system and identity for queries of `batch` samples, each answered at once."""
    own = {"batching.max_batch": batch, "batching.workers": 1, "batching.window_us": 0, "batching.only_full": True}
    run = subject.system.run
    system = replace(subject.system, run=replace(run, settings={**run.settings, **own}), batching=Batching(workers=1, max_batch=batch, window_us=0))
    told = subject.identity
    return system, replace(told, batch=batch, settings={**told.settings, **own})


def measured(subject: Subject, batch: int, sample_ns: float | None, name: str = "") -> Row:
    """Measure a point, unless it exists; one that this machine cannot run becomes a row with the reason. `sample_ns`: latency per sample at other batches."""
    system, identity = of_batch(subject, batch)
    folder = subject.folder / (name or f"batch-{batch}")
    if not done(folder, identity, subject.power):
        try:
            run_whole(subject, Job(system=system, schedule=schedule_of(subject, batch, sample_ns), folder=folder, power=subject.power), identity)
        except (RequestError, MissingError, JudgedError) as error:
            return Row(engine=identity.engine, precision=identity.precision, batch=batch, folder="", why=str(error))
    return row_of(folder, identity, read_facts(folder))


def run_whole(subject: Subject, job: Job, identity: Point) -> None:
    """Do a run, and again with what was seen while LoadGen ran out of queries: a first guess may be too slow; JudgedError after several times."""
    for _ in range(TRIES):
        run_point(job, identity)
        facts = read_facts(job.folder)
        if not facts.errors:
            return
        seen_ns = facts.number(MEAN) / identity.batch
        job = replace(job, schedule=schedule_of(subject, identity.batch, seen_ns / 2))
    shutil.rmtree(job.folder, ignore_errors=True)
    raise JudgedError(f"LoadGen: {facts.errors[0]}")


def done(folder: Path, identity: Point, power: Chosen) -> bool:
    """Check whether a point exists: same podium, system, weights, settings and length; with power, if the user named what to read."""
    kept = point_in(folder)
    if kept is None or plain(kept) != plain(identity) or not (folder / DETAIL).is_file():
        return False
    return not power.asked or energy_of(folder, Scenario.MULTI_STREAM, read_facts(folder)) != Measured()


def plain(identity: Point) -> dict[str, Any]:
    """Convert an identity to JSON types."""
    built: dict[str, Any] = json.loads(json.dumps(asdict(identity), default=list))
    return built


def run_point(job: Job, identity: Point) -> None:
    """Run LoadGen, and write the point's record next to LoadGen's files."""
    title = f"{identity.subject} {identity.engine} {identity.precision}, batch {identity.batch}"
    shutil.rmtree(job.folder, ignore_errors=True)  # a point of another system or length
    with Waiting(title, job.schedule.min_duration_ms / 1000) as shown, held(job, shown.tick) as (folder, _):
        save(folder / POINT, identity)


def schedule_of(subject: Subject, batch: int, sample_ns: float | None) -> Schedule:
    """Plan a point: at least the requested seconds and ten queries, or three if one takes long."""
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


def row_of(folder: Path, identity: Point, facts: Facts) -> Row:
    """Read a point from its files."""
    low, high = interval(latency_parts(folder), identity.batch)
    drawn = energy_of(folder, Scenario.MULTI_STREAM, facts)
    return Row(
        engine=identity.engine,
        precision=identity.precision,
        batch=identity.batch,
        folder=f"{folder.parent.name}/{folder.name}",
        low=low,
        high=high,
        energy=drawn.energy,
        no_energy=drawn.reasons,
        **cells(facts.number, identity.batch),
    )


def latency_parts(folder: Path) -> list[float]:
    """Return the mean latencies (ns) of ten parts of the run; an empty list without the record of its queries."""
    import numpy

    try:
        rows = numpy.load(folder / QUERIES, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return []
    return parts_of(rows["done_ns"] - rows["issued_ns"])

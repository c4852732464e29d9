"""One point of a sweep: a LoadGen MultiStream run, a closed loop of queries of `batch` samples,
each answered in one batch.
"""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from harness.machine.power.chosen import ChosenPower
from harness.progress import WaitProgress
from harness.serving.energy import Measured, energy_of
from harness.serving.loadgen.batching import Batching
from harness.serving.loadgen.result_files import Facts, read_facts
from harness.serving.loadgen.session import Job, System, held
from harness.serving.loadgen.test_settings import Schedule
from harness.serving.sweep.study_files import point_in, save
from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.scenario import Scenario
from suite.rounds import LoadGenRules
from suite.studies.documents import (
    MEAN_LATENCY_KEY,
    NS_PER_S,
    POINT_FILE,
    WIDE_INTERVAL_SHARE,
    PointIdentity,
    StudyRow,
    build_batch_settings,
    choose_longer_run,
    compute_part_means,
    compute_rate_interval,
    compute_row_cells,
)
from suite.workload import Mode

NO_MEMORY: Final = "memory does not suffice"
"""harness.engines.outputs: part of an engine's error for a batch that does not fit into memory."""
TRIES: Final = 4
LEAST_QUERIES: Final = 10
LEAST_SLOW: Final = 3
"""Minimum queries if one takes longer than SLOW_S."""
SLOW_S: Final = 5.0
FIRST_GUESS_NS: Final = 200_000
"""Latency per sample before any is measured: LoadGen prepares as many queries as fit, and runs out
of them if the guess is too high.
"""
PERCENTILE: Final = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One subject in one engine and precision."""

    system: System
    """Any batch size; `of_batch` sets it."""
    loadgen: LoadGenRules
    log_seed: int
    identity: PointIdentity
    """Any batch size; `of_batch` sets it."""
    folder: Path
    """Folder of this engine and precision."""
    power: ChosenPower = ChosenPower()


def of_batch(subject: Subject, batch: int) -> tuple[System, PointIdentity]:
    """Return the system and identity for queries of `batch` samples, each answered at once."""
    own = build_batch_settings(batch)
    run = subject.system.run
    system = replace(
        subject.system,
        run=replace(run, settings={**run.settings, **own}),
        batching=Batching(workers=1, max_batch=batch, window_us=0),
    )
    told = subject.identity
    return system, replace(told, batch=batch, settings={**told.settings, **own})


def measured(subject: Subject, batch: int, sample_ns: float | None, name: str = "") -> StudyRow:
    """Measure a point, unless it exists, and longer where its interval is wide; `sample_ns`:
    latency per sample at other batches.

    A batch that memory does not hold, or that fails where another batch was measured, becomes a row
    with the reason; every other error is raised.
    """
    system, identity = of_batch(subject, batch)
    job = Job(
        system=system,
        schedule=schedule_of(subject, batch, sample_ns),
        folder=subject.folder / (name or f"batch-{batch}"),
        power=subject.power,
    )
    try:
        if not done(job.folder, identity, subject.power):
            run_whole(subject, job, identity)
        row = row_in(job.folder, identity)
        while not name and (times := choose_longer_run(row, identity.seconds)):
            click.echo(
                f"  batch {batch}: interval wider than \u00b1{WIDE_INTERVAL_SHARE:.0%}; again, for"
                f" {times * identity.seconds:g} s"
            )
            run_whole(subject, lasting(job, times, row), replace(identity, times=times))
            row = row_in(job.folder, identity)
    except (RequestError, JudgedError) as error:
        if NO_MEMORY not in str(error) and sample_ns is None:
            raise
        shutil.rmtree(job.folder, ignore_errors=True)
        return StudyRow(
            engine=identity.engine,
            precision=identity.precision,
            batch=batch,
            folder="",
            why=str(error),
        )
    return row


def lasting(job: Job, times: int, row: StudyRow) -> Job:
    """Return a point's job at a multiple of its length, with the latency that was seen."""
    plan = job.schedule
    seen_ns = int(EXPECTED_LATENCY_SHARE * (row.mean_latency_ns or 0))
    return replace(
        job,
        schedule=replace(
            plan, min_duration_ms=plan.min_duration_ms * times, expected_latency_ns=max(1, seen_ns)
        ),
    )


def row_in(folder: Path, identity: PointIdentity) -> StudyRow:
    """Read a point that exists; its record says for how long it was measured."""
    kept = point_in(folder)
    return row_of(folder, replace(identity, times=kept.times if kept else 1), read_facts(folder))


def run_whole(subject: Subject, job: Job, identity: PointIdentity) -> None:
    """Do a run, and again with what was seen while LoadGen ran out of queries: a first guess may be
    too slow; JudgedError after several times.
    """
    for _ in range(TRIES):
        run_point(job, identity)
        facts = read_facts(job.folder)
        if not facts.errors:
            return
        seen_ns = facts.number(MEAN_LATENCY_KEY) / identity.batch
        expected_ns = schedule_of(subject, identity.batch, seen_ns / 2).expected_latency_ns
        job = replace(job, schedule=replace(job.schedule, expected_latency_ns=expected_ns))
    shutil.rmtree(job.folder, ignore_errors=True)
    raise JudgedError(f"LoadGen: {facts.errors[0]}")


def done(folder: Path, identity: PointIdentity, power: ChosenPower) -> bool:
    """Check whether a point exists: same podium, system, weights, settings and length; with power,
    if the user named what to read.
    """
    kept = point_in(folder)
    if kept is None or plain(kept) != plain(identity) or not (folder / DETAIL_LOG).is_file():
        return False
    return (
        not power.requested
        or energy_of(folder, Scenario.MULTI_STREAM, read_facts(folder)) != Measured()
    )


def plain(identity: PointIdentity) -> dict[str, Any]:
    """Convert an identity to JSON types, without what is no part of it."""
    built: dict[str, Any] = json.loads(json.dumps(asdict(identity), default=list))
    return {name: value for name, value in built.items() if name not in ("times", "lost")}


def run_point(job: Job, identity: PointIdentity) -> None:
    """Run LoadGen, and write the point's record next to LoadGen's files."""
    title = f"{identity.subject} {identity.engine} {identity.precision}, batch {identity.batch}"
    with (
        WaitProgress(title, job.schedule.min_duration_ms / 1000) as shown,
        held(job, shown.show_elapsed) as (folder, outcome),
    ):
        save(folder / POINT_FILE, replace(identity, lost=outcome.lost))
        shutil.rmtree(job.folder, ignore_errors=True)  # a shorter run, or one without power


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
        expected_latency_ns=max(1, int(EXPECTED_LATENCY_SHARE * query_ns)),
    )


def row_of(folder: Path, identity: PointIdentity, facts: Facts) -> StudyRow:
    """Read a point from its files."""
    low, high = compute_rate_interval(latency_parts(folder), identity.batch)
    drawn = energy_of(folder, Scenario.MULTI_STREAM, facts)
    return StudyRow(
        engine=identity.engine,
        precision=identity.precision,
        batch=identity.batch,
        folder=f"{folder.parent.name}/{folder.name}",
        low=low,
        high=high,
        times=identity.times,
        energy=drawn.energy,
        no_energy=drawn.reasons,
        **compute_row_cells(facts.number, identity.batch),
    )


def latency_parts(folder: Path) -> list[float]:
    """Return the mean latencies (ns) of ten parts of the run; an empty list without the record of
    its queries.
    """
    import numpy

    try:
        rows = numpy.load(folder / QUERY_RECORD_FILE, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return []
    return compute_part_means(rows["done_ns"] - rows["issued_ns"])

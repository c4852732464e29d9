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
from harness.serving.energy import MeasuredEnergy, compute_loadgen_energy
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import LoadGenSchedule
from harness.serving.sweep.study_files import read_sweep_point, write_sweep_document
from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.scenario import Scenario
from suite.measurement.run_energy import count_recorded_tokens
from suite.rounds import LoadGenRules
from suite.studies.documents import (
    MEAN_LATENCY_KEY,
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
from suite.units import NS_PER_S
from suite.workload import Mode

NO_MEMORY_PHRASE: Final = "memory does not suffice"
"""harness.engines.outputs: part of an engine's error for a batch that does not fit into memory."""
MAX_POINT_TRIES: Final = 4
MIN_POINT_QUERIES: Final = 10
MIN_SLOW_QUERIES: Final = 3
"""Minimum queries if one takes longer than SLOW_S."""
SLOW_QUERY_S: Final = 5.0
FIRST_GUESS_SAMPLE_NS: Final = 200_000
"""Latency per sample before any is measured: LoadGen prepares as many queries as fit, and runs out
of them if the guess is too high.
"""
SWEEP_PERCENTILE: Final = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSubject:
    """One subject in one engine and precision."""

    system: LoadedSystem
    """Any batch size; `build_batch_system` sets it."""
    loadgen: LoadGenRules
    log_seed: int
    identity: PointIdentity
    """Any batch size; `build_batch_system` sets it."""
    folder: Path
    """Folder of this engine and precision."""
    power: ChosenPower = ChosenPower()


def build_batch_system(subject: SweepSubject, batch: int) -> tuple[LoadedSystem, PointIdentity]:
    """Return the system and identity for queries of `batch` samples, each answered at once."""
    own = build_batch_settings(batch)
    run = subject.system.run
    system = replace(
        subject.system,
        run=replace(run, settings={**run.settings, **own}),
        batching=BatchingSettings(workers=1, max_batch=batch, window_us=0),
    )
    base_identity = subject.identity
    return system, replace(base_identity, batch=batch, settings={**base_identity.settings, **own})


def measure_sweep_point(
    subject: SweepSubject, batch: int, sample_ns: float | None, name: str = ""
) -> StudyRow:
    """Measure a point, unless it exists, and longer where its interval is wide; `sample_ns`:
    latency per sample at other batches.

    A batch that memory does not hold, or that fails where another batch was measured, becomes a row
    with the reason; every other error is raised.
    """
    system, identity = build_batch_system(subject, batch)
    job = LoadGenJob(
        system=system,
        schedule=build_point_schedule(subject, batch, sample_ns),
        folder=subject.folder / (name or f"batch-{batch}"),
        power=subject.power,
    )
    try:
        if not is_point_measured(job.folder, identity, subject.power):
            run_complete_point(subject, job, identity)
        row = read_measured_point(job.folder, identity)
        while not name and (times := choose_longer_run(row, identity.seconds)):
            click.echo(
                f"  batch {batch}: interval wider than \u00b1{WIDE_INTERVAL_SHARE:.0%}; again, for"
                f" {times * identity.seconds:g} s"
            )
            run_complete_point(
                subject, extend_point_job(job, times, row), replace(identity, times=times)
            )
            row = read_measured_point(job.folder, identity)
    except (RequestError, JudgedError) as error:
        if NO_MEMORY_PHRASE not in str(error) and sample_ns is None:
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


def extend_point_job(job: LoadGenJob, times: int, row: StudyRow) -> LoadGenJob:
    """Return a point's job at a multiple of its length, with the latency that was seen."""
    schedule = job.schedule
    observed_ns = int(EXPECTED_LATENCY_SHARE * (row.mean_latency_ns or 0))
    return replace(
        job,
        schedule=replace(
            schedule,
            min_duration_ms=schedule.min_duration_ms * times,
            expected_latency_ns=max(1, observed_ns),
        ),
    )


def read_measured_point(folder: Path, identity: PointIdentity) -> StudyRow:
    """Read a point that exists; its record says for how long it was measured."""
    saved_point = read_sweep_point(folder)
    return build_point_row(
        folder,
        replace(identity, times=saved_point.times if saved_point else 1),
        read_detail_log(folder),
    )


def run_complete_point(subject: SweepSubject, job: LoadGenJob, identity: PointIdentity) -> None:
    """Do a run, and again with what was seen while LoadGen ran out of queries: a first guess may be
    too slow; JudgedError after several times.
    """
    for _ in range(MAX_POINT_TRIES):
        run_recorded_point(job, identity)
        detail_log = read_detail_log(job.folder)
        if not detail_log.errors:
            return
        observed_ns = detail_log.require_number(MEAN_LATENCY_KEY) / identity.batch
        expected_ns = build_point_schedule(
            subject, identity.batch, observed_ns / 2
        ).expected_latency_ns
        job = replace(job, schedule=replace(job.schedule, expected_latency_ns=expected_ns))
    shutil.rmtree(job.folder, ignore_errors=True)
    raise JudgedError(f"LoadGen: {detail_log.errors[0]}")


def is_point_measured(folder: Path, identity: PointIdentity, power: ChosenPower) -> bool:
    """Check whether a point exists: same podium, system, weights, settings and length; with power,
    if the user named what to read.
    """
    saved_point = read_sweep_point(folder)
    if (
        saved_point is None
        or convert_identity_to_json(saved_point) != convert_identity_to_json(identity)
        or not (folder / DETAIL_LOG).is_file()
    ):
        return False
    return (
        not power.requested
        or compute_loadgen_energy(folder, Scenario.MULTI_STREAM, read_detail_log(folder))
        != MeasuredEnergy()
    )


def convert_identity_to_json(identity: PointIdentity) -> dict[str, Any]:
    """Convert an identity to JSON types, without what is no part of it."""
    built: dict[str, Any] = json.loads(json.dumps(asdict(identity), default=list))
    return {name: value for name, value in built.items() if name not in ("times", "lost")}


def run_recorded_point(job: LoadGenJob, identity: PointIdentity) -> None:
    """Run LoadGen, and write the point's record next to LoadGen's files."""
    title = f"{identity.subject} {identity.engine} {identity.precision}, batch {identity.batch}"
    with (
        WaitProgress(title, job.schedule.min_duration_ms / 1000) as shown,
        run_loadgen_in_child(job, shown.show_elapsed) as (folder, outcome),
    ):
        write_sweep_document(folder / POINT_FILE, replace(identity, lost=outcome.lost))
        shutil.rmtree(job.folder, ignore_errors=True)  # a shorter run, or one without power


def build_point_schedule(
    subject: SweepSubject, batch: int, sample_ns: float | None
) -> LoadGenSchedule:
    """Plan a point: at least the requested seconds and ten queries, or three if one takes long."""
    query_ns = batch * (sample_ns or FIRST_GUESS_SAMPLE_NS)
    slow = sample_ns is not None and query_ns > SLOW_QUERY_S * NS_PER_S
    seeds = subject.loadgen
    return LoadGenSchedule(
        scenario=Scenario.MULTI_STREAM,
        mode=Mode.PERFORMANCE,
        qsl_rng_seed=seeds.qsl_rng_seed,
        sample_index_rng_seed=seeds.sample_index_rng_seed,
        schedule_rng_seed=seeds.schedule_rng_seed,
        accuracy_log_rng_seed=subject.log_seed,
        sampled_answers=0,
        percentile=SWEEP_PERCENTILE,
        bound_ns=None,
        min_duration_ms=int(subject.identity.seconds * 1000),
        min_queries=MIN_SLOW_QUERIES if slow else MIN_POINT_QUERIES,
        samples_per_query=batch,
        rate=0.0,
        expected_latency_ns=max(1, int(EXPECTED_LATENCY_SHARE * query_ns)),
    )


def build_point_row(folder: Path, identity: PointIdentity, detail_log: DetailLog) -> StudyRow:
    """Read a point from its files."""
    low, high = compute_rate_interval(read_latency_parts(folder), identity.batch)
    drawn = compute_loadgen_energy(folder, Scenario.MULTI_STREAM, detail_log)
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
        **compute_row_cells(
            detail_log.require_number, identity.batch, count_recorded_tokens(folder)
        ),
    )


def read_latency_parts(folder: Path) -> list[float]:
    """Return the mean latencies (ns) of ten parts of the run; an empty list without the record of
    its queries.
    """
    try:
        rows = map_npy_array(folder / QUERY_RECORD_FILE)
    except UnreadableError:
        return []
    return compute_part_means(rows["done_ns"] - rows["issued_ns"])

"""One run of optimizer steps: `podium train --time-steps`, as `podium ab --training` starts it."""

import sys
from typing import Final

from harness.distributed import SingleRank
from harness.doctor.dtype_trials import check_training_precision
from harness.engines.null import NullEngine
from harness.machine.power.selection import choose_power_sources
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import LoadGenSchedule
from harness.serving.run_record import build_repeat_settings, store_system_record, summarise_batches
from harness.step_timing.stepping import SteppingWorkload
from harness.thread_count import resolve_thread_count
from harness.training.request import TrainingRequest, resolve_training_request
from harness.training.seeds import generate_random_seed
from suite import __version__
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.layout import RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.process.launcher import read_launcher_variable
from suite.process.signals import raise_signals_in_block
from suite.records import RunRecord, SystemUnderTest, locate_system_folder, write_record
from suite.rounds.settings import GLOBAL_BATCH_SIZE, PERFORMANCE_PREFIXES
from suite.units import MS_PER_S
from suite.workload import Mode

STEP_PERCENTILE: Final = 99.0
"""LoadGen's own of MultiStream: loadgen/test_settings.h."""
EXPECTED_STEP_NS: Final = 1_000_000
"""House rule: LoadGen draws queries ahead for so short a step, and as many as the run takes."""
EXPECTED_SAMPLE_NS: Final = 1_000
"""House rule: no sample takes less time in a step; LoadGen keeps each one that it draws in memory,
those of ten thousand tokens a step, too.
"""


def time_training_steps(
    workload: str, options: RunOptions, *, seconds: float, seed: int | None
) -> None:
    """Take steps of a training for so many seconds, and keep the run under the results folder.

    RequestError for what cannot be timed so, JudgedError if the loss is not a number.
    """
    if read_launcher_variable("WORLD_SIZE", 1) > 1:
        raise RequestError("--time-steps takes one rank; start it without torchrun")
    training = resolve_training_request(workload, options)
    request = training.request
    batch = request.settings.get(GLOBAL_BATCH_SIZE)
    if not isinstance(batch, int):
        raise RequestError(
            f"{workload}: its steps cannot be compared: no {GLOBAL_BATCH_SIZE} says how many"
            " samples each has"
        )
    check_training_precision(request)
    threads = resolve_thread_count(
        options.threads, SingleRank(), large_kernels=request.workload.has_large_kernels
    )
    run = request.build_run(generate_random_seed() if seed is None else seed, request.precision)
    system = LoadedSystem(
        workload=SteppingWorkload(training=training, batch=batch),
        engine=NullEngine(),
        run=run,
        checkpoint=run.cache,
        batching=BatchingSettings(workers=1, max_batch=batch, window_us=0),
    ).copy_with_threads(threads)
    job = LoadGenJob(
        system=system,
        schedule=build_step_schedule(training, seconds, batch),
        folder=training.entry.locate_performance_run(
            request.row.training_name, Scenario.MULTI_STREAM
        ),
        power=choose_power_sources(options.power, options.meter, request.settings),
    )
    keep_timed_steps(training, job, threads)


def build_step_schedule(training: TrainingRequest, seconds: float, batch: int) -> LoadGenSchedule:
    """Build the schedule of one query after another, each of a batch."""
    seeds = training.request.round.loadgen
    return LoadGenSchedule(
        scenario=Scenario.MULTI_STREAM,
        mode=Mode.PERFORMANCE,
        qsl_rng_seed=seeds.qsl_rng_seed,
        sample_index_rng_seed=seeds.sample_index_rng_seed,
        schedule_rng_seed=seeds.schedule_rng_seed,
        accuracy_log_rng_seed=0,
        sampled_answers=0,
        percentile=STEP_PERCENTILE,
        bound_ns=None,
        min_duration_ms=round(seconds * MS_PER_S),
        min_queries=1,
        samples_per_query=batch,
        rate=1.0,
        expected_latency_ns=max(EXPECTED_STEP_NS, EXPECTED_SAMPLE_NS * batch),
    )


def keep_timed_steps(training: TrainingRequest, job: LoadGenJob, threads: int) -> None:
    """Take the steps, and write the records beside LoadGen's files."""
    request, entry = training.request, training.entry
    with (
        raise_signals_in_block(),
        run_loadgen_in_child(job) as (folder, outcome),
    ):
        system = SystemUnderTest(
            workload=request.name,
            round=request.round.name,
            profile=request.profile,
            division=entry.division,
            org=entry.org,
            name=entry.system,
            framework=request.framework,
            engine=request.framework,
            engine_package="",
            input=request.options.input,
            precision=request.precision.value,
            device=job.system.device,
            threads=threads,
            checkpoint_sha256="",
            nonce="",
            settings={
                key: value
                for key, value in request.settings.items()
                if not key.startswith(PERFORMANCE_PREFIXES)
            },
            sample_count=outcome.sample_count,
            version=__version__,
        )
        store_system_record(locate_system_folder(folder), system)
        record = RunRecord(
            system_sha256=system.compute_digest(),
            changed=build_repeat_settings(job.schedule),
            command=tuple(sys.argv),
            ceiling=None,
            batches=summarise_batches(outcome),
            lost=outcome.lost,
        )
        write_record(folder / RUN_RECORD, record)
    write_json(entry.system_file, training.system)
    print_progress_note(f"{request.name}: took {outcome.batches} steps")

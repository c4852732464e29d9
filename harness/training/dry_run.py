"""`podium train --dry-run`: checks all that a training needs, takes some steps and an evaluation,
and estimates how long the training will take. It writes into a temporary folder alone.
"""

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from harness.data_survey import add_survey_results
from harness.distributed import SingleRank
from harness.doctor.dtype_trials import check_training_precision
from harness.failures import report_trial_failure
from harness.machine.memory_watch import MemoryWatch
from harness.machine.power.selection import choose_power_sources
from harness.progress import Heartbeat
from harness.thread_count import resolve_thread_count
from harness.training.reference_accuracy import open_reference_system, split_into_batches
from harness.training.request import TrainingRequest, resolve_training_request
from harness.training.run_context import TrainingJob
from harness.training.seeds import generate_random_seed
from harness.training.step_preparation import prepare_and_report_steps
from harness.training.timed_run import build_checked_training
from suite import events
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.dry_run import BYTES_PER_MB, DryRunEstimate, StageEstimate
from suite.errors import JudgedError, RequestError
from suite.files.scratch import collect_temporary_files
from suite.process import garbage
from suite.process.launcher import read_launcher_variable
from suite.process.signals import raise_signals_in_block
from suite.rounds import HyperValue
from suite.workload import Block, Training

STEPS_S: Final = 6.0
"""Optimizer steps are taken for so long, and at least two."""
UNSAMPLED_S: Final = 90.0
"""After this time of steps without samples, such as self-play, no optimizer step is waited for."""
SCORING_S: Final = 2.0
"""Answers of the exported weights are timed for so long."""
KEPT_CHECKPOINTS: Final = 2
"""A new checkpoint is complete before the earlier one is deleted."""


@dataclass(slots=True, kw_only=True)
class EpochTimes:
    """Times of an epoch's steps, of which the later ones may be missing."""

    unsampled_s: float = 0.0
    """Steps without samples."""
    first_s: float = 0.0
    """The first optimizer step, with the start of data workers."""
    first_samples: int = 0
    later_s: float = 0.0
    """All further ones that were taken."""
    later_samples: int = 0
    steps: int = 0

    def estimate_epoch_s(self, samples: int) -> float:
        """Estimate the seconds of a whole epoch of this many samples."""
        rest = max(0, samples - self.first_samples)
        if self.later_samples:
            pace = self.later_s / self.later_samples
        else:
            pace = self.first_s / self.first_samples
        return self.unsampled_s + self.first_s + rest * pace


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTrial:
    """What a dry run of a training measured, in s and bytes."""

    prepared_s: float
    """From the request to a network that is ready to train."""
    epoch: EpochTimes
    evaluation_s: float
    saving_s: float
    scoring_s: float
    """Of all answers for the reference accuracy."""
    checkpoint_bytes: int
    exported_bytes: int


def try_training(
    workload: str, options: RunOptions, *, seed: int | None = None, runs: int | None = None
) -> DryRunEstimate:
    """Check a request to train, take some steps and an evaluation, and estimate the whole set.

    RequestError and MissingError as for a training; JudgedError if a loss is not a number.
    """
    if read_launcher_variable("WORLD_SIZE", 1) > 1:
        raise RequestError("--dry-run takes one rank; start it without torchrun")
    began_s = time.perf_counter()
    training = resolve_training_request(workload, options)
    name = training.request.name
    with (
        raise_signals_in_block() as signals,
        Heartbeat(),
        MemoryWatch() as memory,
        collect_temporary_files() as folder,
    ):
        print_progress_note(f"{name}: dry run of the training, profile {training.request.profile}")
        check_training_precision(training.request)
        options = training.request.options
        choose_power_sources(options.power, options.meter, training.request.settings)
        job = TrainingJob(
            training=training,
            working_entry=training.entry,
            threads=resolve_thread_count(
                options.threads,
                SingleRank(),
                large_kernels=training.request.workload.has_large_kernels,
            ),
            ranks=SingleRank(),
            watch=None,
            signals=signals,
        )
        with report_trial_failure(name, training.request.settings, folder):
            trial, facts, blocks = measure_training(job, seed, folder, began_s)
        gc.collect()  # a loader is part of a circle, and its workers would outlive the estimate
    return DryRunEstimate(
        workload=name,
        stages=[build_training_estimate(training, trial, facts, blocks, runs or training.row.runs)],
        memory_bytes=memory.peak_bytes,
        free_memory_bytes=memory.free_bytes,
        disk_bytes=KEPT_CHECKPOINTS * trial.checkpoint_bytes
        + (runs or training.row.runs) * trial.exported_bytes,
    )


def measure_training(
    job: TrainingJob, seed: int | None, folder: Path, began_s: float
) -> tuple[TrainingTrial, Mapping[str, HyperValue], Sequence[Block]]:
    """Build the network, train and evaluate a little; return what was measured, the facts of the
    data and the blocks of epochs.
    """
    seed = generate_random_seed() if seed is None else seed
    run = add_survey_results(job.request, job.build_run(seed))
    run = replace(run, settings={**run.settings, **get_untrained_settings(job)})
    training, facts = build_checked_training(job, run)
    prepare_and_report_steps(job, training)  # its steps are timed as those of a run
    garbage.collect_garbage_as_usual()
    prepared_s = time.perf_counter() - began_s
    epoch = measure_first_steps(job, training)
    evaluation_s = measure_seconds(training.evaluate)
    saved, exported = folder / "saved", folder / "exported"
    for made in (saved, exported):
        made.mkdir()
    saving_s = measure_seconds(lambda: training.save(saved))
    training.export(exported)
    trial = TrainingTrial(
        prepared_s=prepared_s,
        epoch=epoch,
        evaluation_s=evaluation_s,
        saving_s=saving_s,
        scoring_s=measure_scoring(job, exported, seed),
        checkpoint_bytes=count_folder_bytes(saved),
        exported_bytes=count_folder_bytes(exported),
    )
    click.echo(
        f"{job.name}: took {epoch.steps} steps, an evaluation in {evaluation_s:.1f} s, and a"
        f" checkpoint of {trial.checkpoint_bytes / BYTES_PER_MB:,.1f} MB in {saving_s:.1f} s"
    )
    return trial, facts, list(training.blocks())


def measure_first_steps(job: TrainingJob, training: Training) -> EpochTimes:
    """Take the first steps of an epoch: of the second one where the first has steps without
    samples, which then are not those of later epochs.
    """
    print_progress_note(f"{job.name}: taking the first steps")
    times = measure_epoch_steps(job, training, 1)
    if times.unsampled_s and times.first_samples and times.unsampled_s < UNSAMPLED_S / 2:
        times = measure_epoch_steps(job, training, 2, to_its_end=True)
    return times


def measure_epoch_steps(
    job: TrainingJob, training: Training, epoch: int, *, to_its_end: bool = False
) -> EpochTimes:
    """Time the steps of an epoch, for STEPS_S or, if there are steps without samples, to its end;
    JudgedError if the loss is not a number.
    """
    times, began_s = EpochTimes(), time.perf_counter()
    last_s = began_s
    with closing(training.train_epoch(epoch)) as steps:
        for samples in steps:
            times.steps += 1
            if samples and not times.first_samples:
                training.loss()  # a device may still be at work
            now_s = time.perf_counter()
            record_step_time(times, samples, now_s - last_s)
            last_s = now_s
            if is_measured_enough(times, now_s - began_s):
                break
    if times.later_samples:
        times.later_s += measure_seconds(training.loss)
    loss = training.loss() if times.first_samples else 0.0
    if not math.isfinite(loss):
        raise JudgedError(f"{job.name}: the loss is {loss} after {times.steps} steps")
    return times


def record_step_time(times: EpochTimes, samples: int, seconds: float) -> None:
    """Add a step's time where it belongs."""
    if not samples:
        times.unsampled_s += seconds
    elif not times.first_samples:
        times.first_s, times.first_samples = seconds, samples
    else:
        times.later_s += seconds
        times.later_samples += samples


def is_measured_enough(times: EpochTimes, seconds: float) -> bool:
    """Return whether an epoch's further steps need not be taken."""
    if times.unsampled_s:
        return not times.first_samples and seconds > UNSAMPLED_S
    return times.later_samples > 0 and seconds > STEPS_S


def measure_seconds(action: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start_s = time.perf_counter()
    action()
    return time.perf_counter() - start_s


def measure_scoring(job: TrainingJob, exported: Path, seed: int) -> float:
    """Estimate the seconds that all answers for the reference accuracy take, from some of them."""
    began_s = time.perf_counter()
    settings = {**job.request.settings, **get_untrained_settings(job)}
    request = replace(job.request, settings=settings)
    with open_reference_system(request, exported, seed) as (system, max_batch):
        predict = system.open(0, max_batch)
        predict.warm_up()
        part = range(min(system.sample_count, system.performance_sample_count))
        system.load(part)
        ready_s, answered = time.perf_counter(), 0
        for batch in split_into_batches(part, max_batch):
            answered += len(predict(batch))
            if time.perf_counter() - ready_s > SCORING_S:
                break
        spent_s = time.perf_counter() - ready_s
        system.unload(part)
        return ready_s - began_s + spent_s * system.sample_count / answered


def get_untrained_settings(job: TrainingJob) -> Mapping[str, HyperValue]:
    """Return the settings with which an untrained network answers at the length of a trained one,
    without those that the user chose.
    """
    row = job.request.row.inference.get(job.request.profile)
    named = row.untrained_settings if row else {}
    return {key: value for key, value in named.items() if key not in job.request.chosen}


def count_folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def build_training_estimate(
    training: TrainingRequest,
    trial: TrainingTrial,
    facts: Mapping[str, HyperValue],
    blocks: Sequence[Block],
    runs: int,
) -> StageEstimate:
    """Compute what a set of runs will take, from one run's parts."""
    name = "training" if runs == 1 else f"training, {runs} runs"
    if not trial.epoch.first_samples:
        return StageEstimate(
            name=name,
            seconds=None,
            basis=f"no optimizer step came within {UNSAMPLED_S:.0f} s of the first epoch",
        )
    expected, source = find_expected_epochs(training)
    most = training.row.max_epochs
    epoch_s = trial.epoch.estimate_epoch_s(int(str(facts[events.TRAIN_SAMPLES])))
    seconds, most_seconds = (
        trial.prepared_s + runs * estimate_training_run_s(trial, epoch_s, blocks, epochs)
        for epochs in (expected or most, most)
    )
    each = f"{epoch_s:.1f} s each and {trial.evaluation_s:.1f} s an evaluation"
    if expected:
        basis = f"{expected:g} epochs to the target ({source}), {each}"
    else:
        basis = f"{most} epochs, the most of a run, since those to the target are not known; {each}"
    return StageEstimate(
        name=name,
        seconds=seconds,
        most_seconds=most_seconds if expected else None,
        basis=basis,
    )


def find_expected_epochs(training: TrainingRequest) -> tuple[float | None, str]:
    """Return the epochs to the target that the row names for its own hyper-parameters, with their
    source; None where the user chose others or the row names none.
    """
    request, expected = training.request, training.row.expected_epochs
    known = request.row.settings
    if expected is None or any(key in known and known[key].log for key in request.chosen):
        return None, ""
    path = f"{request.name}.training.{request.profile}.expected_epochs"
    return expected, request.round.find_source(path)


def estimate_training_run_s(
    trial: TrainingTrial, epoch_s: float, blocks: Sequence[Block], epochs: float
) -> float:
    """Estimate one run: epochs, the evaluations and checkpoints after their blocks, and the
    reference accuracy.
    """
    evaluations = sum(block.start <= math.ceil(epochs) for block in blocks)
    return (
        epochs * epoch_s
        + evaluations * (trial.evaluation_s + trial.saving_s)
        + trial.saving_s
        + trial.scoring_s
    )

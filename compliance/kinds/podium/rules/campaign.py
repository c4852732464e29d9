"""Check the documents of one organisation against one another: when and on what each run took
place, and that none is submitted twice.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from compliance.documents.loadgen import identify_loadgen_run
from compliance.documents.submitted_runs import SubmittedRuns
from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun, parse_power_time
from compliance.kinds.podium.documents.ledger import read_clock_setback_s
from compliance.kinds.podium.documents.submission import Submission
from compliance.kinds.podium.documents.system_description import SystemDescription
from compliance.kinds.podium.documents.training import (
    TrainingLog,
    is_logged_count,
    list_evaluation_times,
)
from compliance.kinds.podium.rules.inference.run_record import build_system_fault
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.untrusted_files import parse_document_count
from suite.loadgen.scenario import Scenario
from suite.process.devices import CUDA, expand_device_name
from suite.process.installation import DISTRIBUTION_NAME
from suite.records import SystemUnderTest
from suite.units import MS_PER_S

EVALUATION_RATE_FACTOR: Final = 1.5
"""In a campaign under changing load, the slowest evaluation reached 0.8 times the rate of Offline,
the fastest 1.1 times.
"""
STEP_PASSES: Final = 3.0
"""Forward passes that a training step costs: the backward pass takes about two."""
OTHER_ENGINE_FACTOR: Final = 1.5
"""House rule: with three passes a step, a framework's forward pass may be 4.5 times as fast as that
of the engine that served. Of the engines here the slowest took 2.2 times as long as the fastest
(benchmarks/results/engines.md).
"""
MIN_BOUND_MS: Final = 5.0
"""A log states whole milliseconds, and a small network evaluates all samples in one batch, which no
harness supplies one by one.
"""
MAX_THREADS_PER_CORE: Final = 8
"""No processor has more hardware threads per core than IBM's POWER; a run with more only slows
itself down.
"""
HOUR_S: Final = 3_600.0
SAME_HOST_CLOCK_ERROR_S: Final = 60.0
"""Maximum difference between two clocks of one machine, or after NTP set one back."""
OTHER_HOST_CLOCK_ERROR_S: Final = 26 * HOUR_S
"""Clocks of two machines, one of which uses local time as UTC: at most 14 hours, plus 12 if it is a
day ahead.
"""
USUAL_SERVING_DELAY_S: Final = 60 * 24 * HOUR_S
"""Two months between training and serving are legal but unusual."""
MAX_CAMPAIGN_S: Final = 366 * 24 * HOUR_S
"""No campaign, whose nonce training and serving share, lasts longer."""
USUAL_RANKS_PER_CORE: Final = 2
"""Hardware threads of a usual core: with more ranks, they wait for one another."""
OWN_ENGINES: Final = frozenset({"torch", "onnxruntime", "tensorflow", "tensorrt"})
"""podium's engines, each of which describes what it built under its own name and version."""


@rule("tree.distinct", Submission, About.SCORE)
def distinct(tree: Submission) -> Iterator[Fault]:
    """No LoadGen run in a tree is submitted twice, under different scenarios, systems or
    organisations. The rule compares times and latencies, also latencies that are all another run's
    multiplied by one factor.

    Source: inference_rules.adoc v0.5, Scenarios and System under test: a run belongs to one
    scenario on one system; house rule for the compared marks.
    Advice: submit each run once, in the folder in which it was made.
    """
    root = tree.organisation_folder.parents[1]
    runs = {
        run.path: run for each in (*tree.earlier, tree) for run in iterate_submission_runs(each)
    }
    own = {run.path for run in iterate_submission_runs(tree)}
    submitted = SubmittedRuns(
        root=root,
        runs=[
            identify_loadgen_run(run, tree.organisation_folder.name, str(run.folder))
            for run in runs.values()
        ],
    )
    for copy in submitted.find_copies():
        if copy.run.file in own:
            found = f"the same {copy.what} as {copy.other.file.parent.relative_to(root)}"
            yield runs[copy.run.file].build_fault(found, "a separate run", "power_begin")


def iterate_submission_runs(tree: Submission) -> Iterator[LoadGenRun]:
    """Yield all LoadGen runs of an organisation."""
    yield from (run for entry in tree.entries for run in entry.runs)


@rule("tree.chronology", Submission, About.SCORE)
def chronology(tree: Submission) -> Iterator[Fault]:
    """A model is served only after its training: no LoadGen run begins before its checkpoint's
    training run has stopped.

    Source: house rule: the checkpoint is exported after run_stop; both times are UTC. If training
    and serving use two machines, their clocks may differ by a day, and that is a warning; more than
    two months between the two are also a warning, and more than a year is an error. So is serving
    before training, unless the steps of the ledger go back in time as well: the clock was set.
    Advice: say when a machine's clock was set; if it was wrong, repeat its runs.
    """
    for entry in tree.entries:
        trained = [
            (stop.event.time_ms / MS_PER_S, log)
            for log in entry.origins
            if (stop := log.find_record(events.RUN_STOP))
        ]
        if not trained:
            continue
        for run in entry.runs:
            begin = parse_power_time(run.find_value("power_begin"))
            if begin is None:
                continue
            stopped, log = min(trained, key=lambda each: each[0])
            waited_s = begin.replace(tzinfo=UTC).timestamp() - stopped
            severity = weigh_serving_delay(waited_s, is_same_host(tree, entry, log))
            if severity is Severity.ERROR and waited_s < 0:
                severity = weigh_early_serving(-waited_s, tree, log)
            if severity:
                found = (
                    f"served at {begin:%Y-%m-%d %H:%M:%S}, trained until"
                    f" {datetime.fromtimestamp(stopped, UTC):%Y-%m-%d %H:%M:%S}"
                )
                yield run.build_fault(
                    found,
                    "serving after training, within two months",
                    "power_begin",
                    severity=severity,
                )


def weigh_serving_delay(waited_s: float, same: bool) -> Severity | None:
    """Return the severity of the time from the end of training to the start of a LoadGen run."""
    if waited_s < -(HOUR_S if same else OTHER_HOST_CLOCK_ERROR_S) or waited_s > MAX_CAMPAIGN_S:
        return Severity.ERROR
    if waited_s < -SAME_HOST_CLOCK_ERROR_S or waited_s > USUAL_SERVING_DELAY_S:
        return Severity.WARNING
    return None


def weigh_early_serving(early_s: float, tree: Submission, log: TrainingLog) -> Severity:
    """Return the severity of serving before training: a warning if the ledger's steps, each written
    behind the one before, go back in time by as much.
    """
    setback_s = read_clock_setback_s(tree.organisation_folder, log.workload or "")
    if early_s <= setback_s + HOUR_S:
        return Severity.WARNING
    return Severity.ERROR


def is_same_host(tree: Submission, entry: InferenceEntry, log: TrainingLog) -> bool:
    """Return whether training and serving ran on one machine, by its description."""
    names = (entry.place.system if entry.place else None, log.place.system if log.place else None)
    found = [find_submitted_description(tree, name) for name in names]
    return names[0] == names[1] or (
        None not in found and identify_described_host(found[0]) == identify_described_host(found[1])
    )


def identify_described_host(description: SystemDescription | None) -> tuple[object, ...]:
    """Return the description's processor and memory."""
    if not description:
        return ()
    return (
        description.host_processor_model_name,
        description.host_processor_core_count,
        description.host_memory_capacity,
    )


def find_submitted_description(tree: Submission, name: str | None) -> SystemDescription | None:
    """Return a system's description."""
    return next((system.description for system in tree.systems if system.path.stem == name), None)


@rule("tree.overlap", Submission, About.SCORE, severity=Severity.WARNING)
def overlap(tree: Submission) -> Iterator[Fault]:
    """The LoadGen runs of a system do not overlap in time. Overlapping runs share the system.

    Source: house rule; 78 of 400 published systems have such runs, on machines with several
    accelerators.
    Advice: explain in the submission how the runs shared the system.
    """
    for name in sorted({entry.place.system or "" for entry in tree.entries if entry.place}):
        runs = (
            run
            for entry in tree.entries
            if entry.place and entry.place.system == name
            for run in entry.runs
        )
        spans = sorted((span, run.folder, run) for run in runs if (span := parse_run_span(run)))
        for (before, _, first), (after, _, run) in zip(spans, spans[1:], strict=False):
            if after[0] < before[1]:
                yield run.build_fault(
                    f"starts before {first.folder.relative_to(tree.organisation_folder)} ends",
                    "runs that do not overlap",
                    "power_begin",
                )


def parse_run_span(run: LoadGenRun) -> tuple[datetime, datetime] | None:
    """Return when a run began and ended; None if it does not state it."""
    begin, end = (
        parse_power_time(run.find_value("power_begin")),
        parse_power_time(run.find_value("power_end")),
    )
    return (begin, end) if begin and end else None


@rule("tree.devices", Submission, About.IDENTITY)
def devices(tree: Submission) -> Iterator[Fault]:
    """The description of a run's system lists the accelerator that the run used.

    Source: submission_rules.adoc, System description: accelerators_per_node; the device that
    system.json and the training log name.
    Advice: describe the system that ran the workload; give each machine its own system name.
    """
    for entry in tree.entries:
        description = find_submitted_description(tree, entry.place.system if entry.place else None)
        if (
            entry.record
            and not entry.record.is_of_foreign_server
            and description
            and not has_described_device(description, entry.record.system.device)
        ):
            yield build_system_fault(
                entry,
                f"device {entry.record.system.device}",
                f"one of the {description.accelerators_per_node} that systems/ describes",
            )
    for log in (log for group in tree.sets for log in group.logs if log.place):
        description, device = (
            find_submitted_description(tree, log.place.system if log.place else None),
            log.find_value(events.DEVICE),
        )
        if (
            description
            and isinstance(device, str)
            and not has_described_device(description, device)
        ):
            yield log.build_fault(
                f"device {device}",
                f"one of the {description.accelerators_per_node} that systems/ describes",
                events.DEVICE,
            )


def has_described_device(description: SystemDescription, device: str) -> bool:
    """Return whether a system has a device; if its accelerators are not described, it may."""
    count = parse_document_count(description.accelerators_per_node)
    return (
        device.partition(":")[0] != CUDA
        or count is None
        or all(
            parse_device_number(each) < count for each in expand_device_name(device) or (device,)
        )
    )


def parse_device_number(device: str) -> int:
    """Return an accelerator's number, 0 if the device has none; loadgen.instances checks malformed
    lists.
    """
    return parse_document_count(device.partition(":")[2]) or 0


@rule("tree.threads", Submission, About.IDENTITY)
def threads(tree: Submission) -> Iterator[Fault]:
    """The described processors and accelerators can run the run's threads and ranks.

    Source: house rule: podium uses no more threads than there are hardware threads, at most eight
    per core, and one accelerator for each rank; more than two ranks per core are a warning.
    Advice: describe the system that ran the workload; give each machine its own system name.
    """
    for entry in tree.entries:
        most = compute_thread_limit(
            find_submitted_description(tree, entry.place.system if entry.place else None)
        )
        if entry.record and most is not None and entry.record.system.threads > most:
            yield build_system_fault(
                entry,
                f"{entry.record.system.threads} threads",
                f"at most {most} on the processors that systems/ describes",
            )
    for log in (log for group in tree.sets for log in group.logs if log.place):
        yield from check_threads_and_ranks(
            log, find_submitted_description(tree, log.place.system if log.place else None)
        )


def compute_thread_limit(description: SystemDescription | None) -> int | None:
    """Return the threads that a node can run; None if its processors are not described."""
    cores = parse_document_count(description.host_processor_core_count) if description else None
    if description and cores:
        return (
            cores
            * (parse_document_count(description.host_processors_per_node) or 1)
            * MAX_THREADS_PER_CORE
        )
    return None


def check_threads_and_ranks(
    log: TrainingLog, description: SystemDescription | None
) -> Iterator[Fault]:
    """Check threads and ranks of a training run."""
    most, used, size = (
        compute_thread_limit(description),
        log.find_value(events.THREADS),
        log.find_value(events.WORLD_SIZE),
    )
    if most is not None and is_logged_count(used) and used > most:
        yield log.build_fault(
            f"{used} threads",
            f"at most {most} on the processors that systems/ describes",
            events.THREADS,
        )
    nodes = accelerators = None
    if description:
        nodes = parse_document_count(description.number_of_nodes)
        accelerators = parse_document_count(description.accelerators_per_node)
    limits: tuple[tuple[int | None, Severity | None], ...] = ((accelerators, None),)
    if not str(log.find_value(events.DEVICE)).startswith(CUDA):
        usual = most and most // MAX_THREADS_PER_CORE * USUAL_RANKS_PER_CORE
        limits = ((most, None), (usual, Severity.WARNING))
    for each, severity in limits:
        if is_logged_count(size) and nodes and each is not None and size > nodes * each:
            required = f"at most {nodes * each} on the {nodes} nodes that systems/ describes"
            yield replace(
                log.build_fault(f"world_size {size}", required, events.WORLD_SIZE),
                severity=severity,
            )
            break


@rule("tree.pace", Submission, About.SCORE, severity=Severity.WARNING)
def pace(tree: Submission) -> Iterator[Fault]:
    """Training and evaluation are not faster than the harness can supply samples. If an answer is
    one forward pass, training is not faster than serving on the same device in the same precision
    either, since a training step costs about three passes. On processors, the evaluations of a run
    are never all 1.5 times as fast as serving.

    If another engine served, the two may be 1.5 and 4.5 times as fast: 4.5 times as many forward
    passes.

    Source: house rule: harness ceiling and Offline result of the same device, in run.json, compared
    with epochs and evaluations of the training log.
    Advice: find out what slowed the machine during the slower of the two, as other programs do.
    """
    for entry in (entry for entry in tree.entries if entry.scenario is Scenario.OFFLINE):
        for log in (log for log in entry.origins if log.find_value(events.WORLD_SIZE) == 1):
            for bound in iterate_rate_bounds(entry, log, tree.organisation_folder):
                yield from check_epoch_rates(log, bound)
                yield from check_evaluation_rates(log, bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBound:
    """What bounds the rates of a training run, in samples/s."""

    epochs: float
    evaluations: float
    """Of each evaluation for the harness ceiling, of the slowest one for a result; infinite on
    other devices than processors, where serving may wait for the harness.
    """
    of_each: bool
    what: str


def iterate_rate_bounds(
    entry: InferenceEntry, log: TrainingLog, organisation_folder: Path
) -> Iterator[RateBound]:
    """Yield upper bounds of a training run's rates on the same device, in the same precision."""
    place = entry.folder.relative_to(organisation_folder)
    for run in entry.performance:
        record, headline = run.record, run.headline
        if record is None:
            continue
        if record.ceiling and record.ceiling > 0:
            what = f"harness ceiling of {place}"
            yield RateBound(
                epochs=record.ceiling, evaluations=record.ceiling, of_each=True, what=what
            )
        is_one_pass = log.row is not None and bool(log.row.reference_within)
        is_alike = (record.system.device, record.system.precision) == tuple(
            log.find_value(key) for key in (events.DEVICE, events.PRECISION)
        )
        if headline is None or headline.value <= 0 or not is_one_pass or not is_alike:
            continue
        epochs, evaluations = compute_rate_factors(log, record.system)
        times = "" if epochs == 1.0 else f" times {epochs:g}"
        if record.system.device != "cpu":
            evaluations = math.inf
        yield RateBound(
            epochs=epochs * headline.value,
            evaluations=evaluations * headline.value,
            of_each=False,
            what=f"result of {place}{times}",
        )


def compute_rate_factors(log: TrainingLog, system: SystemUnderTest) -> tuple[float, float]:
    """Return how many times as fast as serving an epoch and an evaluation may be."""
    epochs, evaluations = 1.0, EVALUATION_RATE_FACTOR
    if system.engine != log.find_value(events.FRAMEWORK):
        epochs, evaluations = OTHER_ENGINE_FACTOR, EVALUATION_RATE_FACTOR * STEP_PASSES
    return epochs, evaluations


def check_epoch_rates(log: TrainingLog, bound: RateBound) -> Iterator[Fault]:
    """Yield the epochs that train at more than a rate."""
    samples = log.find_value(events.TRAIN_SAMPLES)
    if not is_logged_count(samples):
        return
    for epoch, taken_ms in compute_epoch_times(log).items():
        if samples * MS_PER_S > bound.epochs * taken_ms:
            found = f"epoch {epoch} trains {samples * MS_PER_S / max(taken_ms, 1.0):.0f} samples/s"
            yield log.build_fault(
                found, f"less than {bound.epochs:.0f}, the {bound.what}", events.RUN_START
            )


def check_evaluation_rates(log: TrainingLog, bound: RateBound) -> Iterator[Fault]:
    """Yield the fastest evaluation that is faster than a bound of each, or a fault if even the
    slowest one is faster than a bound of all.
    """
    samples, taken_ms = log.find_value(events.EVAL_SAMPLES), list_evaluation_times(log)
    if not is_logged_count(samples) or not taken_ms:
        return
    which, compared_ms = "slowest", max(taken_ms)
    if bound.of_each:
        which, compared_ms = "fastest", min(taken_ms)
    least_ms = samples * MS_PER_S / bound.evaluations
    if least_ms > MIN_BOUND_MS and compared_ms < least_ms:
        rate = samples * MS_PER_S / compared_ms
        yield log.build_fault(
            f"the {which} evaluation takes {rate:.0f} samples/s",
            f"less than {bound.evaluations:.0f}, by the {bound.what}",
            events.EVAL_START,
        )


def compute_epoch_times(log: TrainingLog) -> Mapping[int, float]:
    """Return the duration of each uninterrupted epoch."""
    if log.list_records(events.RESUMED):
        return {}
    starts = {
        record.event.metadata.get(events.EPOCH_NUM): record.event.time_ms
        for record in log.list_records(events.EPOCH_START)
    }
    stops = (
        (record.event.metadata.get(events.EPOCH_NUM), record.event.time_ms)
        for record in log.list_records(events.EPOCH_STOP)
    )
    return {
        epoch: stop - starts[epoch]
        for epoch, stop in stops
        if is_logged_count(epoch) and epoch in starts
    }


@rule("entry.engine", InferenceEntry, About.IDENTITY)
def engine(entry: InferenceEntry) -> Iterator[Fault]:
    """An engine with the name of a podium engine comes from podium's own package, and the engine of
    the record built each network. A record without the package is a warning, because podium's first
    version did not record it. Of servers that are not podium's nobody knows the package.

    Source: house rule: each podium engine describes what it built under its own name and version;
    engine_package of system.json.
    Advice: keep the files that podium infer wrote; rename an engine of another package.
    """
    record, measurements = entry.record, entry.measurements
    if record is None or record.is_of_foreign_server or record.system.engine not in OWN_ENGINES:
        return
    if not record.system.engine_package:
        fault = build_system_fault(
            entry, "no engine_package", f"the package that provides {record.system.engine}"
        )
        yield replace(fault, severity=Severity.WARNING)
    package = record.system.engine_package
    if package and package.partition(" ")[0] != DISTRIBUTION_NAME:
        yield build_system_fault(
            entry,
            f"engine {record.system.engine} of package {package}",
            f"that of {DISTRIBUTION_NAME}",
        )
    if measurements is None:
        return
    for network, description in measurements.engine_description.items():
        if isinstance(description, Mapping) and record.system.engine not in description:
            built = ", ".join(sorted(OWN_ENGINES & description.keys())) or "no engine"
            yield entry.build_fault(
                f"network {network} built by {built}",
                f"{record.system.engine}, as in system.json",
                file=entry.measurements_path,
            )

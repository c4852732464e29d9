"""One LoadGen run in a child process, from its settings to complete result files.

LoadGen writes into `<folder>.partial`; the folder is renamed when the child succeeded and its files
are complete.
"""

import gc
import shutil
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

from harness.children.process import Abort, run_in_child
from harness.machine.placement import Cores, InstancePlacement, pin_process
from harness.machine.power.chosen import ChosenPower
from harness.serving.instances.proxy import InstancePool, watch_instances
from harness.serving.loadgen import query_times
from harness.serving.loadgen.batching import (
    BatchingSettings,
    BatchTally,
    QueryGatherer,
    WorkerThreads,
)
from harness.serving.loadgen.clock_step import (
    ClockSetError,
    describe_clock_step,
    read_clock_offset_ns,
    require_steady_clock,
)
from harness.serving.loadgen.generation import GenerationThread
from harness.serving.loadgen.qsl import SampleLibrary
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    build_log_settings,
    build_test_settings,
    import_loadgen,
)
from suite.engine import Calibration, Engine, Executable, Network, Plan
from suite.errors import JudgedError, RequestError
from suite.files.layout import (
    DETAIL_LOG,
    PARTIAL_SUFFIX,
    START_RECORD_FILE,
    TELEMETRY_FILE,
    sync_to_disk,
)
from suite.loadgen.logprob_record import MAX_KEPT_SAMPLES, SaidAnswer
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.loadgen.server_counters import ServerCounters
from suite.process.devices import format_device_name, name_as_only_gpu
from suite.records import CalibrationRecord
from suite.rounds import HyperValue
from suite.workload import GeneratingInference, Inference, LikelihoodInference, Mode, Run

ABSENT_AUDIT_CONFIG: Final = "no-audit.config"
"""A file that does not exist: otherwise LoadGen would read audit.config from the working directory,
and change the run's settings.
"""


class ServableWorkload(Protocol):
    """The serving half of a workload, all that a session needs."""

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""


STUCK_LOGGER_S: Final = 120.0
"""Once in some thousand runs LoadGen's last flush never ends (logging.cc, Logger::StopLogging);
results of ten million queries take it 80 s.
"""
MAX_SPOILT_TRIES: Final = 3
DETAIL_TAIL_BYTES: Final = 1 << 16
BATCHES_AHEAD: Final = 2
"""Batches that an instance has at a time: one in work and one in its pipe."""
POWER_END_MARKER: Final = b'"key": "power_end"'


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSystem:
    """The system under test as a child of LoadGen builds it: all that it needs."""

    workload: ServableWorkload
    engine: Engine[Any]
    run: Run
    checkpoint: Path
    batching: BatchingSettings
    placement: tuple[InstancePlacement, ...] = ()
    """Where each instance runs; empty for a system in LoadGen's own process."""
    loadgen_cores: Cores = ()
    """The cores that LoadGen's process is pinned to; empty if it is not."""
    driver: "Callable[[LoadGenJob, Abort], LoadGenOutcome] | None" = None
    """Runs LoadGen in place of `run_loadgen`'s own workers: of systems behind a network."""
    probe_share: float = 1.0
    """The part of the usual time for which the system is probed."""

    @property
    def device(self) -> str:
        """Name the device that computes, or all of them."""
        if self.placement:
            return format_device_name([place.device for place in self.placement])
        return self.run.device

    @property
    def workers(self) -> int:
        """Return how many batches are in work at the same time."""
        return len(self.placement) or self.batching.workers

    def copy_with_salt(self, salting: Salting) -> "LoadedSystem":
        """RequestError: only prompts to servers are salted."""
        raise RequestError("only prompts that go to servers (--endpoint) are salted")

    def copy_with_threads(self, threads: int) -> "LoadedSystem":
        """Return a copy that uses this many CPU threads, shared by the workers.

        A pinned instance has no more threads than cores: `sut.loadgen_cores` leaves it fewer.
        """
        own = [len(place.cores) for place in self.placement if place.cores]
        run = replace(self.run, threads=max(1, min([threads // self.workers, *own])))
        return replace(self, run=run)

    def choose_scenario_batching(self, scenario: Scenario) -> BatchingSettings:
        """Return the batching with a worker for each instance; two in Offline, so that its next
        batch lies ready when it has answered one.
        """
        ahead = BATCHES_AHEAD if self.placement and scenario is Scenario.OFFLINE else 1
        return replace(self.batching, workers=ahead * self.workers)

    def open_inference(self) -> tuple[Inference, "EngineRecorder | InstancePool"]:
        """Build the system under test, in as many processes as it has instances."""
        if not self.placement:
            return self.build_inference()
        instances = InstancePool(
            self.placement,
            self.run.threads,
            [self.copy_for_device(place.device).build_inference for place in self.placement],
        )
        if (
            self.loadgen_cores
        ):  # after the instances, which would inherit them; threads that start later do
            pin_process(self.loadgen_cores)
        return instances, instances

    def copy_for_device(self, device: str) -> "LoadedSystem":
        """Return the system of one process, which sees that device alone."""
        return replace(self, placement=(), run=replace(self.run, device=name_as_only_gpu(device)))

    def build_inference(self) -> tuple[Inference, "EngineRecorder"]:
        """Build the system under test in this process."""
        recorder = EngineRecorder(self.engine)
        return (
            self.workload.build_inference(self.run, self.checkpoint, cast("Engine[Any]", recorder)),
            recorder,
        )


class EngineRecorder:
    """An engine that records what it built, for the measurements file."""

    def __init__(self, engine: Engine[Any]) -> None:
        self.engine, self.name, self.accepts = engine, engine.name, engine.accepts
        self.executables: dict[str, Executable[Any]] = {}
        self.calibrated: dict[str, CalibrationRecord] = {}

    def missing(self, device: str, precision: Any) -> str | None:
        """Delegate to the engine."""
        return self.engine.missing(device, precision)

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Compile, and keep what was built."""
        executable = self.engine.compile(network, plan)
        self.executables[network.name] = executable
        if plan.calibration is not None:
            self.calibrated[network.name] = describe_calibration(plan.calibration)
        return executable

    @property
    def built(self) -> dict[str, Mapping[str, HyperValue]]:
        """Describe each network as it is now: opening one may end what it was built for."""
        return {name: executable.describe() for name, executable in self.executables.items()}


def describe_calibration(calibration: Calibration[Any]) -> CalibrationRecord:
    """Describe the source of a calibration's samples."""
    return CalibrationRecord(
        list=calibration.list_name,
        names=calibration.listed,
        samples=calibration.samples,
        sha256=calibration.sha256,
        touched=calibration.touched,
        method=calibration.method,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenJob:
    """One LoadGen run."""

    system: LoadedSystem
    schedule: LoadGenSchedule
    folder: Path
    power: ChosenPower = ChosenPower()
    """Power sources read meanwhile, in performance mode."""
    idle_s: float = 0.0
    """How long they are read before the system under test is loaded."""
    has_starts: bool = False
    """Whether the run records when each prompt began to be answered: a point of a curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTokens:
    """The fields of suite.records.NetworkRecord that are known after a run."""

    connections: int
    streamed: bool
    tokens_logged: int
    tokens_recounted: int
    answers_differing: int
    answers_in_one_read: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    fingerprints: Mapping[str, int]
    salted: Salting


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenOutcome:
    """What the child observed of the run; LoadGen's own verdict is in its files."""

    sample_count: int
    batches: int
    samples: int
    generated: int = 0
    """Tokens of a generator, whose steps are the batches; 0 for systems that give whole answers."""
    slots: int = 0
    """Prompts that a generator answers at the same time, as many as fit into memory; 0 as above."""
    workers: tuple[tuple[int, int], ...] = ()
    """Batches and samples of each worker."""
    built: Mapping[str, Mapping[str, HyperValue]] = field(default_factory=dict)
    by_length: bool = False
    """Offline's batches were sorted by the lengths of their samples."""
    longest: int | None = None
    """The longest of the loaded samples; None if all have the same length."""
    lost: tuple[str, ...] = ()
    """Records of the run that could not be kept, and why: the run counts without them."""
    traffic: tuple[int, int] | None = None
    """Bytes of requests and of answers, if a network was between."""
    answered_tokens: AnsweredTokens | None = None
    """What came of prompts to an OpenAI-compatible API."""
    server_counters: tuple[ServerCounters, ...] = ()
    """What servers counted before and after the run; empty if none publishes counters."""


@contextmanager
def run_loadgen_in_child(
    job: LoadGenJob, tick: Callable[[], None] | None = None
) -> Iterator[tuple[Path, LoadGenOutcome]]:
    """Run LoadGen once; yield the `.partial` folder with complete files, rename it if the block
    succeeds, else delete it.
    """
    from harness.serving.loadgen.result_files import (
        check_loadgen_files,
    )  # late, as others below: the child imports this module for each run

    partial = job.folder.with_name(job.folder.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        outcome = retry_spoilt_run(replace(job, folder=partial), tick)
        check_loadgen_files(partial)
        yield partial, outcome
        move_finished_run(partial, job.folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def retry_spoilt_run(job: LoadGenJob, tick: Callable[[], None] | None) -> LoadGenOutcome:
    """Run LoadGen, and again where its logger never ended or somebody set the machine's clock;
    JudgedError after several times.
    """
    for number in range(1, MAX_SPOILT_TRIES + 1):
        offset_ns = read_clock_offset_ns()
        try:
            outcome = run_with_telemetry(job, LoggerWatch(job.folder, tick))
            require_steady_clock(offset_ns)
            return outcome
        except StuckLoggerError:
            what = "LoadGen's logger did not end after the last query"
        except ClockSetError as error:
            what = f"{describe_clock_step(error.step_ns)}, and LoadGen measures with that clock"
        if number < MAX_SPOILT_TRIES:
            from suite.console.screen import print_progress_note

            print_progress_note(f"{job.schedule.scenario.label}: {what}; running it again")
        shutil.rmtree(job.folder, ignore_errors=True)
        job.folder.mkdir()
    raise JudgedError(f"{what}; {MAX_SPOILT_TRIES} runs in a row ended so, and none of them counts")


class StuckLoggerError(Exception):
    """LoadGen has answered all queries and does not end."""


class LoggerWatch:
    """Called every second of a run: raises StuckError when LoadGen has logged its end and then
    nothing for STUCK_S.
    """

    def __init__(self, folder: Path, tick: Callable[[], None] | None) -> None:
        self.detail, self.tick = folder / DETAIL_LOG, tick
        self.size, self.since_s = -1, time.monotonic()

    def __call__(self) -> None:
        """Check once."""
        if self.tick:
            self.tick()
        size = self.detail.stat().st_size if self.detail.exists() else 0
        if size != self.size:
            self.size, self.since_s = size, time.monotonic()
        elif time.monotonic() - self.since_s > STUCK_LOGGER_S and self.has_logged_power_end():
            raise StuckLoggerError

    def has_logged_power_end(self) -> bool:
        """Return whether the log's last lines end the queries; there is no log while the
        system under test is being built.
        """
        if not self.size:
            return False
        with self.detail.open("rb") as stream:
            stream.seek(max(0, self.size - DETAIL_TAIL_BYTES))
            return POWER_END_MARKER in stream.read()


def run_with_telemetry(job: LoadGenJob, tick: Callable[[], None] | None) -> LoadGenOutcome:
    """Run LoadGen in a child; in performance mode a second process samples host and GPU
    meanwhile.
    """
    if job.schedule.mode is Mode.ACCURACY:
        return run_in_child(run_loadgen, job, tick)
    from harness.machine.telemetry.process import sample_during_block

    with sample_during_block(
        job.folder / TELEMETRY_FILE, job.system.device, job.power.openings
    ) as sampler:
        time.sleep(job.idle_s)
        outcome = run_in_child(run_loadgen, job, tick)
        time.sleep(job.power.linger_s)  # LoadGen's clock has stopped
    return replace(outcome, lost=(*outcome.lost, *sampler.lost))


def move_finished_run(partial: Path, folder: Path) -> None:
    """Sync a finished folder and give it its final name."""
    for path in partial.iterdir():
        sync_to_disk(path)
    sync_to_disk(partial)
    partial.rename(folder)
    sync_to_disk(folder.parent)


def run_loadgen(job: LoadGenJob, abort: Abort) -> LoadGenOutcome:
    """Run LoadGen in this process; it returns when all queries are answered."""
    if job.system.driver is not None:
        return job.system.driver(job, abort)
    lg = import_loadgen()
    inference, recorder = job.system.open_inference()
    watch_instances(inference, abort)
    library = SampleLibrary(inference, abort)
    answering = build_answering_threads(job, lg, inference, library, abort)
    answering.start()
    sut = lg.ConstructFastSUT(answering.issue, ignore_flush)
    count = inference.sample_count
    run_loadgen_test(lg, job, sut, library)
    lg.DestroyFastSUT(sut)
    answering.stop()
    lost = list(filter(None, write_run_records(job, inference, answering)))
    inference.close()
    return LoadGenOutcome(
        sample_count=count,
        batches=sum(tally.batches for tally in answering.tallies),
        samples=sum(tally.samples for tally in answering.tallies),
        generated=sum(tally.generated for tally in answering.tallies),
        slots=sum(tally.slots for tally in answering.tallies),
        workers=tuple((tally.batches, tally.samples) for tally in answering.tallies),
        built=recorder.built,
        by_length=library.sorts,
        longest=library.longest,
        lost=tuple(lost),
    )


def run_loadgen_test(lg: Any, job: LoadGenJob, sut: Any, library: SampleLibrary) -> None:
    """Have LoadGen query a system under test; returns when all queries are answered."""
    gc.freeze()  # the garbage collector skips objects built before the clock
    count = library.inference.sample_count
    qsl = lg.ConstructQSL(
        count, min(count, library.inference.performance_sample_count), library.load, library.unload
    )
    lg.StartTestWithLogSettings(
        sut,
        qsl,
        build_test_settings(job.schedule),
        build_log_settings(lg, job.folder),
        str(job.folder / ABSENT_AUDIT_CONFIG),
    )
    lg.DestroyQSL(qsl)


class AnsweringThreads(Protocol):
    """Threads that answer LoadGen's queries, and what they recorded."""

    @property
    def issue(self) -> Callable[[list[int], list[int]], None]:
        """The function that enqueues one query: response ids and sample indexes."""

    @property
    def issued(self) -> "array[int]":
        """When each query was issued (monotonic ns), in the order of issue."""

    @property
    def tallies(self) -> list[BatchTally]:
        """Batches and samples of each thread."""

    @property
    def completions(self) -> list[query_times.WorkerCompletions]:
        """Completions of each thread."""

    @property
    def token_rows(self) -> "array[int] | None":
        """Rows of the token record, in the order of completion; None if tokens are not measured."""

    @property
    def starts(self) -> "array[int] | None":
        """When each answer's prompt began, in the same order; None if tokens are not measured."""

    def start(self) -> None:
        """Start the threads and wait until they are warmed up."""

    def stop(self) -> None:
        """End the threads when all issued queries are answered."""


def build_answering_threads(
    job: LoadGenJob, lg: Any, inference: Inference, library: SampleLibrary, abort: Abort
) -> AnsweringThreads:
    """Build what answers the queries: a generator's thread if answers are generated token by token,
    else workers that take batches.
    """
    is_accuracy = job.schedule.mode is Mode.ACCURACY
    if isinstance(inference, GeneratingInference):
        return GenerationThread(
            lg, inference, lambda: library.sort_key, abort, keeps_likelihoods=is_accuracy
        )
    if is_accuracy and isinstance(inference, LikelihoodInference):
        inference.keep_log_probabilities(MAX_KEPT_SAMPLES)
    return WorkerThreads(
        lg,
        inference,
        job.system.choose_scenario_batching(job.schedule.scenario),
        QueryGatherer(job.system.batching, lambda: library.sort_key),
        abort,
    )


def write_run_records(
    job: LoadGenJob, inference: Inference, answering: AnsweringThreads
) -> Iterator[str]:
    """Write what a run leaves beside LoadGen's files; yield why a file is lost, "" for one that is
    written.
    """
    if job.schedule.mode is Mode.PERFORMANCE:
        yield from write_performance_times(job, answering)
    elif kept := collect_likelihoods(inference, answering):
        yield query_times.write_log_probabilities(job.folder, kept)


def collect_likelihoods(
    inference: Inference, answering: AnsweringThreads
) -> Mapping[int, SaidAnswer]:
    """Return how likely an accuracy run's answers are, by sample; empty if nobody tells."""
    if isinstance(answering, GenerationThread):
        return answering.kept_answers or {}
    if not isinstance(inference, LikelihoodInference):
        return {}
    found = inference.collect_log_probabilities()
    return {sample: SaidAnswer(values=values) for sample, values in found.items()}


def write_performance_times(job: LoadGenJob, answering: AnsweringThreads) -> Iterator[str]:
    """Write the issue and completion times of a performance run's queries, and of the tokens of
    generated answers; yield why a file is lost, "" for one that is written.
    """
    yield query_times.write_query_times(
        job.folder, job.schedule.scenario, answering.issued, answering.completions
    )
    if answering.token_rows is not None:
        yield query_times.write_token_times(
            job.folder, answering.issued, answering.completions, answering.token_rows
        )
    if job.has_starts and answering.starts is not None:
        yield query_times.write_prompt_times(
            job.folder / START_RECORD_FILE,
            answering.issued,
            answering.completions,
            answering.starts,
        )


def ignore_flush() -> None:
    """Do nothing: batches never wait for a flush."""

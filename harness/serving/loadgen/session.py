"""One LoadGen run in a child process, from its settings to complete result files.

LoadGen writes into `<folder>.partial`; the folder gets its name when the child ended well and its files are whole.
"""

import gc
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

from harness.child_process import Abort, in_child
from harness.machine.telemetry.process import sampling
from harness.serving.loadgen import query_times
from harness.serving.loadgen.batching import Batching, Gatherer, Workers
from harness.serving.loadgen.qsl import Library
from harness.serving.loadgen.result_files import check_whole
from harness.serving.loadgen.test_settings import Schedule, loadgen, loadgen_settings
from suite.engine import Calibration, Engine, Executable, Network, Plan
from suite.files.layout import PARTIAL, TELEMETRY, sync
from suite.records import CalibrationRecord
from suite.rounds import HyperValue
from suite.workload import Inference, Mode, Run

NO_AUDIT: Final = "no-audit.config"
"""No such file: LoadGen would take an audit.config of the folder that the user happens to stand in, and change the run's settings by it."""


class Servable(Protocol):
    """The serving half of a workload, which is all that a session needs."""

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What is served, and how: all that a child needs to build it."""

    workload: Servable
    engine: Engine[Any]
    run: Run
    checkpoint: Path
    batching: Batching

    def open(self) -> tuple[Inference, "Recorder"]:
        """Build the system under test."""
        recorder = Recorder(self.engine)
        return self.workload.inference(self.run, self.checkpoint, cast("Engine[Any]", recorder)), recorder


class Recorder:
    """An engine that remembers what it built, for the measurements file."""

    def __init__(self, engine: Engine[Any]) -> None:
        self.engine, self.name, self.accepts = engine, engine.name, engine.accepts
        self.built: dict[str, Mapping[str, HyperValue]] = {}
        self.calibrated: dict[str, CalibrationRecord] = {}

    def missing(self, device: str, precision: Any) -> str | None:
        """Ask the engine."""
        return self.engine.missing(device, precision)

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Build, and note what was built."""
        executable = self.engine.compile(network, plan)
        self.built[network.name] = executable.describe()
        if plan.calibration is not None:
            self.calibrated[network.name] = record_of(plan.calibration)
        return executable


def record_of(calibration: Calibration[Any]) -> CalibrationRecord:
    """Tell where a calibration's samples come from."""
    return CalibrationRecord(
        list=calibration.list_name,
        names=calibration.listed,
        samples=calibration.samples,
        sha256=calibration.sha256,
        touched=calibration.touched,
        method=calibration.method,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One LoadGen run."""

    system: System
    schedule: Schedule
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the child saw of the run; LoadGen's own verdict is in its files."""

    sample_count: int
    batches: int
    samples: int
    built: Mapping[str, Mapping[str, HyperValue]] = field(default_factory=dict)
    by_length: bool = False
    """Offline's batches came in the order of their samples' lengths."""
    lost: tuple[str, ...] = ()
    """Records of the run that could not be kept, and why: the run counts without them."""


@contextmanager
def held(job: Job, tick: Callable[[], None] | None = None) -> Iterator[tuple[Path, Outcome]]:
    """Do one LoadGen run; give the `.partial` folder with whole files, and name it when the block ends well; else it goes."""
    partial = job.folder.with_name(job.folder.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        outcome = observed(replace(job, folder=partial), tick)
        check_whole(partial)
        yield partial, outcome
        keep(partial, job.folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def observed(job: Job, tick: Callable[[], None] | None) -> Outcome:
    """Run LoadGen in a child; in performance mode a second process samples host and GPU meanwhile."""
    if job.schedule.mode is Mode.ACCURACY:
        return in_child(run_loadgen, job, tick)
    with sampling(job.folder / TELEMETRY, job.system.run.device) as sampler:
        outcome = in_child(run_loadgen, job, tick)
    return replace(outcome, lost=(*outcome.lost, *sampler.lost))


def keep(partial: Path, folder: Path) -> None:
    """Bring a finished folder to the disk and give it its name."""
    for path in partial.iterdir():
        sync(path)
    sync(partial)
    partial.rename(folder)
    sync(folder.parent)


def run_loadgen(job: Job, abort: Abort) -> Outcome:
    """Run LoadGen in this process; it ends by itself when all queries are answered."""
    lg = loadgen()
    inference, recorder = job.system.open()
    library = Library(inference, abort)
    gatherer = Gatherer(job.system.batching, lambda: library.sort_key)
    workers = Workers(lg, inference, job.system.batching, gatherer, abort)
    workers.start()
    gc.freeze()  # what is built by now stays: the collector need not walk through it inside the clock
    count = inference.sample_count
    sut = lg.ConstructFastSUT(gatherer.issue, no_flush)
    qsl = lg.ConstructQSL(count, min(count, inference.performance_sample_count), library.load, library.unload)
    lg.StartTestWithLogSettings(sut, qsl, loadgen_settings(job.schedule), log_settings(lg, job.folder), str(job.folder / NO_AUDIT))
    lg.DestroyQSL(qsl)
    lg.DestroyFastSUT(sut)
    workers.stop()
    inference.close()
    return Outcome(
        sample_count=count,
        batches=sum(tally.batches for tally in workers.tallies),
        samples=sum(tally.samples for tally in workers.tallies),
        built=recorder.built,
        by_length=library.sorts,
        lost=tuple(filter(None, [recorded(job, workers)])),
    )


def recorded(job: Job, workers: Workers) -> str:
    """Write when the queries of a performance run were issued and completed; give why that could not be kept."""
    if job.schedule.mode is Mode.ACCURACY:
        return ""
    return query_times.write(job.folder, job.schedule.scenario, workers.completions)


def no_flush() -> None:
    """Do nothing: batches never wait for a flush."""


def log_settings(lg: Any, folder: Path) -> Any:
    """Send LoadGen's files to the folder, nothing to stdout, no trace."""
    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings = lg.LogSettings()
    settings.log_output = output
    settings.enable_trace = False
    return settings

"""A system under test for LoadGen's own runs: answers are functions of the sample, and it breaks
where it is told to.
"""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from harness.children.process import Abort
from harness.serving.loadgen import session
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, LoadGenOutcome, run_loadgen
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    ProbedSpeed,
    build_loadgen_schedule,
    build_test_settings,
)
from podium_fakes.engine import FakeEngine
from suite import registry
from suite.engine import Engine
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue, Profile, ScenarioRow
from suite.terms import Precision
from suite.workload import Mode, Run

PROBE = ProbedSpeed(samples_per_second=20_000.0, latency_ns=20_000.0, query_latency_ns=40_000.0)
ROW = ScenarioRow(
    percentile=90.0, bound_ns=100_000_000, min_duration_ms=50, min_queries=64, samples_per_query=8
)
SLOW_S = 0.04
LOG_SEED = 2**62 + 12345


def content(sample: int) -> bytes:
    """Give the right answer of a sample: of another length than its neighbour's."""
    return b"%d." % sample * (1 + sample % 3)


@dataclass(frozen=True)
class Served:
    """Implements ServableWorkload."""

    name: ClassVar[str] = "served"
    samples: int = 50
    held: int = 50
    fault: str = ""
    pause_s: float = 0.0
    slow_calls: int = 0
    """So many calls, the first ones, take 40 ms longer."""
    lengths: int = 1

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> "ServedInference":
        """Make the system under test."""
        if self.fault == "request":
            raise RequestError("asked wrongly on purpose")
        with (checkpoint / "processes").open("a") as stream:
            stream.write(f"{run.device} of {os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}\n")
        return ServedInference(self, checkpoint)


@dataclass
class ServedInference:
    """Implements Inference; refuses what is not loaded, and loading twice."""

    facts: Served
    folder: Path
    loaded: set[int] = field(default_factory=set)

    @property
    def sample_count(self) -> int:
        """As told."""
        return self.facts.samples

    @property
    def performance_sample_count(self) -> int:
        """As told."""
        return self.facts.held

    def load(self, samples: Sequence[int]) -> None:
        """Remember."""
        if self.facts.fault == "load":
            raise OSError("disk broken on purpose")
        assert not self.loaded & set(samples) and len(self.loaded) + len(samples) <= self.facts.held
        self.loaded |= set(samples)

    def unload(self, samples: Sequence[int]) -> None:
        """Forget."""
        assert set(samples) <= self.loaded
        self.loaded -= set(samples)

    def length(self, sample: int) -> int:
        """Of several kinds, if told so."""
        return sample % self.facts.lengths

    def open(self, worker: int, max_batch: int) -> "ServedPredictor":
        """Make a predictor."""
        if self.facts.fault == "open":
            raise MemoryError("full on purpose")
        return ServedPredictor(self, worker)

    def truth(self, folder: Path) -> None:
        """Write nothing of interest."""
        (folder / "truth.txt").write_text("true")

    def close(self) -> None:
        """Everything has to be unloaded by now."""
        assert not self.loaded


@dataclass
class ServedPredictor:
    """Answers, and notes the batches that it gets in `<checkpoint>/batches`."""

    owner: ServedInference
    worker: int
    warm: bool = False
    calls: int = 0

    def warm_up(self) -> None:
        """Note it."""
        self.warm = True

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer."""
        assert self.warm and set(samples) <= self.owner.loaded
        facts, self.calls = self.owner.facts, self.calls + 1
        time.sleep(facts.pause_s + (SLOW_S if self.calls <= facts.slow_calls else 0.0))
        with (self.owner.folder / "batches").open("a") as stream:
            stream.write(f"{self.worker}:{' '.join(map(str, samples))}\n")
        if self.calls == 3:
            self.misbehave(facts.fault)
        answers = [content(sample) for sample in samples]
        return answers[:-1] if facts.fault == "count" else answers

    def misbehave(self, fault: str) -> None:
        """Go wrong at the third call."""
        if fault == "predict":
            raise ZeroDivisionError("broken on purpose")
        if fault == "exit":
            os._exit(7)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def system(
    folder: Path,
    facts: Served | None = None,
    workers: int = 1,
    max_batch: int = 4,
    window_us: int = 0,
) -> LoadedSystem:
    """Say how it is served; `folder` gets its notes."""
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(
        round=registry.load_round(),
        profile=Profile.SMOKE,
        seed=0,
        data=None,
        cache=folder,
        framework="fake",
        input="default",
        device="cpu",
        precision=Precision.FP32,
        threads=1,
        settings={},
    )
    batching = BatchingSettings(workers=workers, max_batch=max_batch, window_us=window_us)
    return LoadedSystem(
        workload=facts or Served(),
        engine=FakeEngine(),
        run=run,
        checkpoint=folder,
        batching=batching,
    )


def schedule(
    scenario: Scenario,
    mode: Mode = Mode.PERFORMANCE,
    row: ScenarioRow = ROW,
    probe: ProbedSpeed = PROBE,
    **settings: HyperValue,
) -> LoadGenSchedule:
    """Plan a short run."""
    return build_loadgen_schedule(
        registry.load_round(), row, scenario, mode, settings, probe, LOG_SEED
    )


def job(
    folder: Path,
    scenario: Scenario,
    mode: Mode = Mode.PERFORMANCE,
    facts: Served | None = None,
    **more: Any,
) -> LoadGenJob:
    """Put together one LoadGen run, in `folder/run`."""
    return LoadGenJob(
        system=system(folder / "sut", facts, **more),
        schedule=schedule(scenario, mode),
        folder=folder / "run",
    )


def run_with_errors(job: LoadGenJob, abort: Abort) -> LoadGenOutcome:
    """Ask LoadGen for a Server run of a negative rate that may have one query: two errors in its
    own words.
    """
    settings = build_test_settings(job.schedule)
    (
        settings.server_target_qps,
        settings.max_query_count,
        settings.min_duration_ms,
        settings.min_query_count,
    ) = (-1.0, 1, 0, 1)
    session.build_test_settings = lambda schedule: settings  # in this child process alone
    return run_loadgen(job, abort)


def batches(folder: Path) -> list[list[int]]:
    """Read the batches that the workers got."""
    return [
        [int(word) for word in line.partition(":")[2].split()]
        for line in (folder / "sut" / "batches").read_text().splitlines()
    ]

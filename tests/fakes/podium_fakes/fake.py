"""The fake workload: one weight climbs towards 1 with noise from Python's generator; the weight is
the share of right answers.
"""

import hashlib
import json
import os
import random
import signal
import struct
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.machine import cpus
from podium_fakes import EVALUATION_S, STEP_MS
from suite.engine import Engine, Network, Plan
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.terms import Precision
from suite.workload import Block, Run, Scores

CLASSES = 10
SAMPLES = 100
WEIGHTS = "model.json"
BRIEF = bool(os.environ.get("PODIUM_FAKE_BRIEF"))
"""In tests: what answers at once or after a moment need not be probed for a second, nor the host be
looked at for so long.
"""
PROBE_S = 0.1
LOOK_S = 0.05

if BRIEF:
    cpus.CPU_PROBE_S = LOOK_S


def probe_briefly() -> None:
    """Shorten the probe in the process that serves, in tests."""
    if BRIEF:
        from harness.serving.loadgen import probe

        probe.RATE_PROBE_S = probe.LATENCY_PROBE_S = PROBE_S


def label(sample: int) -> int:
    """Give the right answer of a sample."""
    return sample * 7 % CLASSES


def answer(weight: float, sample: int) -> int:
    """Answer right for the first `weight` of the samples, wrong for the rest."""
    return label(sample) if (sample + 0.5) / SAMPLES < weight else (label(sample) + 1) % CLASSES


def work(size: int) -> None:
    """Keep a core busy for a time that depends on nothing but the machine."""
    hashlib.sha256(bytes(size)).digest()


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Count right answers; int32 little-endian each."""
    labels = [int(line) for line in (truth / "labels.txt").read_text().split()]
    return {
        "top1": (
            sum(struct.unpack("<i", data)[0] == labels[sample] for sample, data in answers.items())
            / len(labels)
        )
    }


class FakeTraining:
    """Implements suite.workload.Training."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps = int(str(run.settings["fake.steps"]))
        self.batch = int(str(run.settings["global_batch_size"]))
        self.weight = 0.3 + random.random() / 10
        self.noise = 0.0
        self.epoch = -1  # a run that goes on at an evaluation takes no step before it
        self._fault(0, "setup")
        if run.settings["fake.fault"] == "refused":
            raise RequestError("--data: refused on purpose")

    def _fault(self, epoch: int, place: str) -> None:
        settings = self.run.settings
        if (
            settings["fake.fault"] == place
            and settings["fake.fault_rank"] == self.run.rank
            and epoch in (0, settings["fake.fault_epoch"])
        ):
            raise ValueError(f"broken on purpose in {place}")
        if settings["fake.fault"] == "kernel" and place == "epoch":
            raise RuntimeError(KERNEL)

    def _is_nan(self, epoch: int, place: str) -> bool:
        return (
            self.run.settings["fake.fault"] == place
            and epoch == self.run.settings["fake.fault_epoch"]
        )

    def facts(self) -> Mapping[str, HyperValue]:
        """Give sizes."""
        return {
            "train_samples": self.steps * self.batch,
            "eval_samples": SAMPLES,
            "metric_signature": "top1",
        }

    def blocks(self) -> Iterator[Block]:
        """Evaluate as the row says."""
        row = self.run.round.benchmark("fake").training[self.run.profile]
        for first in range(1, row.max_epochs + 1, row.evaluate_every_epochs):
            yield range(first, min(first + row.evaluate_every_epochs, row.max_epochs + 1))

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Climb."""
        self.epoch = epoch
        for step in range(first_step, self.steps):
            time.sleep(
                max(
                    float(str(self.run.settings["fake.step_ms"])), float(os.environ.get(STEP_MS, 0))
                )
                / 1000
            )
            if step == self.steps // 2:
                self._fault(epoch, "epoch")
            self.noise = random.random()
            lame = (
                self.run.settings["data.shuffle_labels"]
                or self.run.settings["fake.lame_seed"] == self.run.seed
            )
            gain = 0.0 if lame else float(str(self.run.settings["fake.gain"]))
            self.weight += (1 - self.weight) * gain * (0.5 + self.noise)
            yield self.batch

    def loss(self) -> float:
        """Give the distance."""
        return float("nan") if self._is_nan(self.epoch, "nan_loss") else 1 - self.weight

    def evaluate(self) -> Scores:
        """Answer every sample."""
        self._fault(self.epoch, "evaluate")
        time.sleep(
            max(
                float(str(self.run.settings["fake.evaluate_s"])),
                float(os.environ.get(EVALUATION_S, 0)),
            )
        )
        right = sum(answer(self.weight, sample) == label(sample) for sample in range(SAMPLES))
        return {"top1": float("nan") if self._is_nan(self.epoch, "nan_score") else right / SAMPLES}

    def save(self, folder: Path) -> None:
        """Keep weight and generator."""
        (folder / f"state-{self.run.rank}.json").write_text(
            json.dumps([self.weight, self.noise, random.getstate()])
        )

    def restore(self, folder: Path) -> None:
        """Take them back."""
        self.weight, self.noise, (version, numbers, gauss) = json.loads(
            (folder / f"state-{self.run.rank}.json").read_text()
        )
        random.setstate((version, tuple(numbers), gauss))

    def export(self, folder: Path) -> None:
        """Write the weight alone."""
        (folder / WEIGHTS).write_text(json.dumps({"workload": "fake", "weight": self.weight}))


class FakeInference:
    """Implements suite.workload.Inference."""

    sample_count = SAMPLES
    performance_sample_count = 32

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        probe_briefly()
        weights = json.loads((checkpoint / WEIGHTS).read_text())
        if weights["workload"] != "fake":
            raise RequestError(f"{checkpoint} is a checkpoint of {weights['workload']}")
        if run.settings["fake.fault"] == "inference":
            raise ValueError("broken on purpose in inference")
        if run.settings["fake.fault"] == "kernel":
            raise RuntimeError(KERNEL)
        size = int(str(run.settings["fake.work_kib"])) * 1024
        network: Network[Any] = Network(
            name="fake",
            module=lambda sample: (work(size), answer(weights["weight"], sample))[1],
            framework="fake",
            inputs=(0,),
            input_names=("sample",),
            output_names=("answer",),
        )
        plan: Plan[Any] = Plan(
            device=run.device,
            precision=run.precision,
            threads=run.threads,
            max_batch=8,
            cache=run.cache,
        )
        self._executable = engine.compile(network, plan)
        self.sleep_s = float(str(run.settings["fake.sleep_ms"])) / 1000
        self.loaded: set[int] = set()

    def load(self, samples: Sequence[int]) -> None:
        """Remember."""
        self.loaded |= set(samples)

    def unload(self, samples: Sequence[int]) -> None:
        """Forget."""
        self.loaded -= set(samples)

    def payload(self, sample: int) -> bytes:
        """Send the number, where it is loaded."""
        assert sample in self.loaded, "asked for a sample that is not loaded"
        return struct.pack("<i", sample)

    def length(self, sample: int) -> int:
        """All alike."""
        return 1

    def open(self, worker: int, max_batch: int) -> "FakePredictor":
        """Make a predictor."""
        return FakePredictor(self, self._executable.open())

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        (folder / "labels.txt").write_text(
            "".join(f"{label(sample)}\n" for sample in range(SAMPLES))
        )

    def close(self) -> None:
        """Hold nothing."""


class FakePredictor:
    """Implements suite.workload.Predictor; refuses what was not loaded."""

    def __init__(self, owner: FakeInference, call: Any) -> None:
        self._owner, self._call = owner, call

    def warm_up(self) -> None:
        """Need nothing."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer."""
        assert set(samples) <= self._owner.loaded, "asked for samples that are not loaded"
        if self._owner.sleep_s:
            time.sleep(self._owner.sleep_s)
        return [struct.pack("<i", self._call(sample)) for sample in samples]

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer what came over a network; PODIUM_FAKE_REMOTE says what goes wrong, and by which
        file: `empty /tmp/now`.
        """
        what, _, flag = os.environ.get("PODIUM_FAKE_REMOTE", "").partition(" ")
        if what and Path(flag).exists():
            return broken_remotely(what, len(payloads))
        if self._owner.sleep_s:
            time.sleep(self._owner.sleep_s)
        return [
            struct.pack("<i", self._call(*struct.unpack("<i", payload))) for payload in payloads
        ]


def broken_remotely(what: str, count: int) -> Sequence[bytes]:
    """Go wrong on the server's side."""
    if what == "raise":
        raise ValueError("broken on purpose")
    return [b""] * (count if what == "empty" else count - 1)


KERNEL = (
    "could not create a primitive descriptor for the LSTM forward propagation primitive. Run"
    " workload with ..."
)
"""What oneDNN says of an LSTM in bf16 where the processor has no instructions for it."""


class FakeTrial:
    """Implements suite.workload.Trial; PODIUM_FAKE_TRIAL is the number format that goes wrong, and
    how: `bf16 raise`, `bf16 SIGILL`, `bf16 hang`.
    """

    networks: Sequence[Network[Any]] = (
        Network(
            name="trial",
            module=lambda _: 0,
            framework="fake",
            inputs=((0,),),
            input_names=("sample",),
            output_names=("answer",),
        ),
    )

    def step(self, precision: Precision) -> None:
        """Know three formats, and go wrong where it is told to."""
        if precision not in (Precision.FP32, Precision.BF16, Precision.FP16):
            raise RequestError(f"training knows no {precision}")
        wrong, _, fault = os.environ.get("PODIUM_FAKE_TRIAL", "").partition(" ")
        if wrong == precision and fault == "raise":
            raise RuntimeError(KERNEL)
        if wrong == precision:
            os.kill(os.getpid(), signal.SIGSTOP if fault == "hang" else signal.Signals[fault])


def build_training(run: Run) -> FakeTraining:
    """Make the training half."""
    if run.settings["fake.torch"]:
        from podium_fakes.tiny import TinyTraining

        return TinyTraining(run)
    return FakeTraining(run)


def build_trial(device: str) -> FakeTrial:
    """Make something to try."""
    return FakeTrial()

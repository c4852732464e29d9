"""The workload contract: the Protocols that the harness drives, and the description of one run.

Protocols, not base classes: a plugin imports types only, and a fake in a test is ten lines.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from suite.engine import Engine, Network, Precision
from suite.rounds import HyperValue, Profile, Round

__all__ = [
    "Block",
    "ExampleTraining",
    "HyperValue",
    "Inference",
    "Mode",
    "PayloadInference",
    "PayloadPredictor",
    "Precision",
    "Predictor",
    "Profile",
    "Run",
    "Scores",
    "Training",
    "Trial",
    "Workload",
]

Scores: TypeAlias = Mapping[str, float]
"""Metric name -> value in the round's unit: top-1, AP and BLEU on 0-1, as in v0.7 logs."""

Block: TypeAlias = range
"""Epochs, counted from 1, trained between two evaluations."""


class Mode(StrEnum):
    """Purpose of a LoadGen run."""

    ACCURACY = "accuracy"
    PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that a workload receives; nothing is read from globals. Picklable, since LoadGen
    runs in a child process.
    """

    round: Round
    profile: Profile
    seed: int
    data: Path | None
    """The user's `--data`; None: the embedded data, generated below `cache`."""
    cache: Path
    framework: str
    input: str
    device: str
    precision: Precision
    threads: int
    settings: Mapping[str, HyperValue]
    """Every setting of the workload and of the round, from defaults, the profile, --config and
    --set.
    """
    found: Mapping[str, Any] | None = None
    """Findings of the data set's survey (suite.dataset.Survey.found); None: the workload inspects
    the data itself when constructed.
    """
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


class Training(Protocol):
    """The maths of one run. The harness owns clock, log, seeds, target, checkpoints and the
    decision to stop.

    Given `Run.found`, it opens no data before the first `train_epoch` or `evaluate`: the clock
    starts first.
    """

    def facts(self) -> Mapping[str, HyperValue]:
        """Facts logged before run_start: train_samples, eval_samples, metric_signature;
        corpus_samples if samples are filtered by length.
        """

    def blocks(self) -> Iterator[Block]:
        """Yield the epochs trained between two evaluations, to the last one allowed."""

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """All ranks: yield the samples of the global batch after each optimizer step, with all
        state up to date.

        Every rank yields equally often; yields nothing if nothing is left to do. The harness closes
        it, possibly early.
        """

    def loss(self) -> float:
        """Rank 0: the loss of the last step. No collectives; called rarely, may synchronise the
        device.
        """

    def evaluate(self) -> Scores:
        """All ranks; rank 0's result counts."""

    def save(self, folder: Path) -> None:
        """All ranks: model, optimizer, schedule and scaler once; torch, CUDA, numpy and Python RNG
        states per rank.
        """

    def restore(self, folder: Path) -> None:
        """All ranks: the inverse of `save`."""

    def export(self, folder: Path) -> None:
        """Rank 0: the weights only (safetensors, canonical names without module. or _orig_mod.)."""


@runtime_checkable
class ExampleTraining(Protocol):
    """What a Training adds to show in a report what its evaluations look at."""

    def example(self) -> Mapping[str, Any]:
        """Rank 0: something of the last evaluation, as JSON has it, chosen without regard to how it
        went; logged, and drawn by `podium.episodes`.
        """


class Predictor(Protocol):
    """Runs in one worker thread; enters inference mode and autocast there."""

    def warm_up(self) -> None:
        """Run before any load, on its own inputs, with every batch size or bucket up to the
        maximum.
        """

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer within LoadGen's timing; raw bytes, as the accuracy log stores them, in the order
        of `samples`.
        """


class Inference(Protocol):
    """One system under test, built from one checkpoint."""

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""

    @property
    def performance_sample_count(self) -> int:
        """Samples that a performance run may keep in memory at once."""

    def load(self, samples: Sequence[int]) -> None:
        """Load preprocessed samples into memory; runs on LoadGen's thread, untimed."""

    def unload(self, samples: Sequence[int]) -> None:
        """Unload samples; runs on LoadGen's thread."""

    def length(self, sample: int) -> int:
        """Key by which batches are sorted; constant if all samples are alike."""

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker thread, untimed."""

    def truth(self, folder: Path) -> None:
        """Write the ground truth for scoring (labels, COCO JSON, references)."""

    def close(self) -> None:
        """Release all resources."""


@runtime_checkable
class PayloadInference(Protocol):
    """What an Inference adds to be served over a network."""

    def payload(self, sample: int) -> bytes:
        """Return all that a loaded sample's answer needs, its number too if the answer holds it;
        runs on LoadGen's thread, untimed.
        """


@runtime_checkable
class PayloadPredictor(Protocol):
    """What a Predictor adds to be served over a network."""

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer payloads as `__call__` answers their samples, byte for byte; ValueError for bytes
        that are no payload.
        """


class Trial(Protocol):
    """Tiny networks of a workload's kind with random weights: a device that runs them supports the
    workload's kernels.
    """

    @property
    def networks(self) -> Sequence[Network[Any]]:
        """Return the networks for an engine to compile; new ones on each call, since engines modify
        modules in place.
        """

    def step(self, precision: Precision) -> None:
        """Run one training step, forward and backward, in a number format; RequestError if the
        workload's training does not support it.
        """


class Workload(Protocol):
    """One benchmark, both halves. Registered as an entry point of the group `podium.workloads`.

    A class may list the frameworks of its networks as `frameworks: ClassVar[frozenset[str]]`;
    doctor then skips other engines.
    It may list the modules that serve its networks, `served_by: ClassVar[Mapping[str, tuple[str,
    ...]]]`, by framework. They are imported once, in a process
    that LoadGen's are forked from, and not in each of those. A module that starts threads or asks
    for GPUs when it is imported does not belong there: a fork
    of a process that has counted GPUs cannot use any, and LoadGen's processes are then new
    interpreters.
    One whose training kernels are large may say `trains_large_kernels: ClassVar[bool] = True`:
    beside other programs it then trains on all cores.
    It may have a method `trial(self, framework: str, device: str) -> Trial`: doctor then tries each
    number format before reporting it ready.
    Its Inference and Predictor may be a PayloadInference and a PayloadPredictor too: podium serve
    and podium infer --endpoint then put a network between.
    It may have a method `data_set(self, run: Run) -> DataSet` (suite.dataset): the data are then
    surveyed once, before any clock starts, and
    each run receives the findings as `Run.found`.
    Its Training may be an ExampleTraining too: its logs then hold what a report draws of an
    evaluation.
    """

    name: ClassVar[str]

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyper-parameters under their log names, without importing a framework; checked
        by `check --config`.
        """

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer; RequestError if the data cannot be used."""

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test; RequestError if the checkpoint is another workload's."""

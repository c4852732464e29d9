"""The workload contract: the Protocols that the harness drives, and the record of one run.

Protocols, not base classes: a plugin imports types only, and a fake in a test is ten lines.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from suite.engine import Engine, Network, Precision
from suite.rounds import HyperValue, Profile, Round

__all__ = ["Block", "HyperValue", "Inference", "Mode", "Precision", "Predictor", "Profile", "Run", "Scores", "Training", "Trial", "Workload"]

Scores: TypeAlias = Mapping[str, float]
"""Metric name -> value in the unit of the round: top-1, AP and BLEU on 0-1, as v0.7 logs have them."""

Block: TypeAlias = range
"""Epochs, counted from 1, trained between two evaluations."""


class Mode(StrEnum):
    """What a LoadGen run is for."""

    ACCURACY = "accuracy"
    PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a workload is told; nothing is read from globals. Pickles, since LoadGen runs in a child process."""

    round: Round
    profile: Profile
    seed: int
    data: Path | None
    """The user's `--data`; None means the embedded data, generated below `cache`."""
    cache: Path
    framework: str
    input: str
    device: str
    precision: Precision
    threads: int
    settings: Mapping[str, HyperValue]
    """Every setting of the workload and of the round, defaults filled in; from the profile, --config and --set."""
    found: Mapping[str, Any] | None = None
    """What the look over the data set found (suite.dataset.Survey.found); None: the workload looks itself when it is made."""
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


class Training(Protocol):
    """The maths of one run. Clock, log, seeds, target, checkpoints and the decision to stop belong to the harness.

    A run that is told what was found in its data opens nothing of them before the first `train_epoch` or `evaluate`: the clock starts first.
    """

    def facts(self) -> Mapping[str, HyperValue]:
        """Facts logged before run_start: train_samples, eval_samples, metric_signature; where samples are left out for their length, corpus_samples."""

    def blocks(self) -> Iterator[Block]:
        """Yield the epochs trained between two evaluations, to the last one allowed."""

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """All ranks: yield the samples of the global batch after each optimizer step, all state settled.

        The same number of yields on every rank; nothing left to do = yields nothing. The harness closes it, also early.
        """

    def loss(self) -> float:
        """Rank 0: the loss of the last step. No collective; asked rarely, may synchronise the device."""

    def evaluate(self) -> Scores:
        """All ranks; rank 0's answer counts."""

    def save(self, folder: Path) -> None:
        """All ranks: model, optimizer, schedule, scaler once; torch, CUDA, numpy and Python RNG per rank."""

    def restore(self, folder: Path) -> None:
        """All ranks: the inverse of `save`."""

    def export(self, folder: Path) -> None:
        """Rank 0: the weights alone (safetensors, canonical names without module. or _orig_mod.)."""


class Predictor(Protocol):
    """Lives in one worker thread; enters its own inference mode and autocast there."""

    def warm_up(self) -> None:
        """Run before any load, on inputs of its own, every batch size or bucket up to the maximum."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer inside LoadGen's clock; raw bytes, as the accuracy log stores them, in the order of `samples`."""


class Inference(Protocol):
    """One system under test, from one checkpoint."""

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""

    @property
    def performance_sample_count(self) -> int:
        """Samples that a performance run may hold in memory at once."""

    def load(self, samples: Sequence[int]) -> None:
        """Bring samples into memory, preprocessed; runs on LoadGen's thread, outside the clock."""

    def unload(self, samples: Sequence[int]) -> None:
        """Forget samples; runs on LoadGen's thread."""

    def length(self, sample: int) -> int:
        """What batches are sorted by; constant where all are alike."""

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Make the predictor of one worker thread, before the clock."""

    def truth(self, folder: Path) -> None:
        """Write what scoring needs (labels, COCO JSON, references)."""

    def close(self) -> None:
        """Return back what is held."""


class Trial(Protocol):
    """Networks of a workload's kind, tiny and with random weights: what runs them runs the workload, as far as kernels go."""

    @property
    def networks(self) -> Sequence[Network[Any]]:
        """Return what an engine is to compile; each time anew, since engines change modules in place."""

    def step(self, precision: Precision) -> None:
        """Do a training step, forward and backward, in a number format; RequestError for one that the workload's training does not know."""


class Workload(Protocol):
    """One benchmark, both halves. Registered as an entry point of the group `podium.workloads`.

    A class may name the frameworks that it has networks of as `frameworks: ClassVar[frozenset[str]]`; doctor then passes over other engines.
    It may have a method `trial(self, framework: str, device: str) -> Trial`: doctor then tries each number format before it calls it ready.
    It may have a method `data_set(self, run: Run) -> DataSet` (suite.dataset): the data are then looked over once, before any clock, and
    each run is told in `Run.found` what was found.
    """

    name: ClassVar[str]

    def hyperparameters(self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]) -> Mapping[str, HyperValue]:
        """Name the hyper-parameters as the log has them, without importing a framework; judged by `check --config`."""

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer; RequestError if the data cannot be used."""

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test; RequestError if the checkpoint is another workload's."""

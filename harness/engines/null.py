"""The null engine, a system under test that does nothing: it measures the harness ceiling."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.engine import Engine, Executable, Network, Plan, Precision
from suite.errors import MissingError
from suite.workload import Predictor, Run

NULL_ANSWER: Final = b"\0\0\0\0"
"""As long as a class number, the smallest answer of any workload."""


class NullEngine:
    """Refuses networks; exists only because a workload receives an engine."""

    name: ClassVar[str] = "null"
    accepts: ClassVar[frozenset[str]] = frozenset()

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return None: nothing is ever missing."""
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Refuse."""
        raise MissingError("the null engine runs no networks")


class NullPredictor:
    """Answers at once."""

    def warm_up(self) -> None:
        """Do nothing."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Return the same four bytes for each sample."""
        return [NULL_ANSWER] * len(samples)

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Return the same four bytes for each payload."""
        return [NULL_ANSWER] * len(payloads)


@dataclass(frozen=True, slots=True)
class NullInference:
    """Samples that consist only of their number."""

    sample_count: int = 1024
    performance_sample_count: int = 1024

    def load(self, samples: Sequence[int]) -> None:
        """Do nothing."""

    def unload(self, samples: Sequence[int]) -> None:
        """Do nothing."""

    def payload(self, sample: int) -> bytes:
        """Return nothing: the answer needs nothing."""
        return b""

    def length(self, sample: int) -> int:
        """Return the same length for all samples."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Build a predictor that does nothing."""
        return NullPredictor()

    def truth(self, folder: Path) -> None:
        """Do nothing: there is no ground truth."""

    def close(self) -> None:
        """Do nothing."""


class NullWorkload:
    """The serving half that the harness ceiling is measured with."""

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> NullInference:
        """Return the system under test that does nothing."""
        return NullInference()

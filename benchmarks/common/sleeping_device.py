"""A system under test whose device only waits, for several benchmarks; each defines how long a
batch takes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engines.null import NullInference, NullPredictor
from suite.engine import Engine
from suite.workload import Run


@dataclass(frozen=True, kw_only=True)
class SleepingInference(NullInference):
    """Samples that consist only of their number."""

    device: Callable[[], NullPredictor]

    def open(self, worker: int, max_batch: int) -> NullPredictor:
        """Open the device."""
        return self.device()


@dataclass(frozen=True)
class SleepingWorkload:
    """The serving half that a session needs."""

    device: Callable[[], NullPredictor]
    """The predictor's class; it must be at module level, since processes import it by name."""

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> SleepingInference:
        """Build the device."""
        return SleepingInference(device=self.device)

"""The contract of bare networks: networks without training, data and score, whose speed `podium sweep` measures.

Registered as an entry point of the group `podium.networks`: a callable without arguments that makes the object.
"""

from pathlib import Path
from typing import Any, Protocol

from suite.engine import Engine
from suite.workload import Inference, Run


class BareNetwork(Protocol):
    """One network; pickles, since LoadGen runs in a child process."""

    framework: str
    """Whose tensors it takes: "torch", "tensorflow"."""

    def inference(self, run: Run, weights: Path | None, engine: Engine[Any]) -> Inference:
        """Build the system under test from a file of weights, or with random ones by `run.seed`; RequestError where the weights are another network's.

        Batches hold exactly `batching.max_batch` samples, so that `warm_up` needs no other size.
        """

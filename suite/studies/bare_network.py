"""The bare-network contract: networks without training, whose speed `podium sweep` measures, and
whose score where labelled data is named.

An entry point of the group `podium.networks` names its record.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

from suite.contracts import PartFunction
from suite.engine import Engine
from suite.workload import Inference, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class BareNetworkRecord:
    """What an entry point of the group `podium.networks` names; imports no framework, since the
    judge reads it to score a study.
    """

    network: Annotated[str, PartFunction((), is_light=False)]
    """`module:attribute`, imported on use: a callable without arguments that returns the
    BareNetwork.
    """
    score: Annotated[str | None, PartFunction(("answers", "truth"))] = None
    """`module:attribute` of its scorer, which imports no framework either; None for a network that
    cannot be scored (Labelled).
    """


class BareNetwork(Protocol):
    """One network; picklable, since LoadGen runs in a child process."""

    @property
    def framework(self) -> str:
        """Framework of its network: "torch", "tensorflow", "onnx"."""

    def inference(self, run: Run, weights: Path | None, engine: Engine[Any]) -> Inference:
        """Build the system under test from a file of weights, or with random ones seeded by
        `run.seed`; RequestError if the weights do not fit.

        Batches hold exactly `batching.max_batch` samples, so that `warm_up` needs no other size.
        """


@runtime_checkable
class ChecksWeights(Protocol):
    """Optional for a bare network: it tells the weights of another network without building
    anything.
    """

    def check_weights(self, weights: Path) -> None:
        """RequestError if the file cannot be read, or its tensors are not the network's."""


@runtime_checkable
class Labelled(Protocol):
    """Optional for a bare network: it can be scored, by the scorer of its record."""

    def listing(self, data: Path) -> str:
        """Return a line for each labelled sample of a folder, in order: name, tab, bytes;
        RequestError if the network has other classes.
        """

    def over_data(self, run: Run, data: Path, weights: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test over these samples; it answers as the scorer reads, in
        batches of at most `batching.max_batch`.
        """

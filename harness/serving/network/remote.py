"""A system under test behind a network, as LoadGen's side sees it: samples are prepared here, and
everything else happens on the servers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from harness.serving.network.wire import Endpoint, ServerDescription
from suite.engine import Executable, Network, Plan, Precision
from suite.errors import JudgedError, RequestError
from suite.workload import Predictor


class ElsewhereEngine:
    """Compiles nothing: the networks run on the servers."""

    name: ClassVar[str] = "elsewhere"
    accepts: ClassVar[frozenset[str]] = frozenset()

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return None: nothing is needed here."""
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Return an executable that is never opened."""
        return cast("Executable[Any]", SimpleNamespace(open=refuse_local_execution, facts={}))


def refuse_local_execution() -> Any:
    """Raise: a workload tried to compute on LoadGen's side."""
    raise JudgedError("a network was run on LoadGen's side, and belongs to the servers")


class RequestInference(ABC):
    """Samples as requests that are ready to send: the half of an Inference that stays on LoadGen's
    side.
    """

    def __init__(self) -> None:
        self.requests: dict[int, bytes] = {}

    @property
    @abstractmethod
    def sample_count(self) -> int:
        """Samples of the accuracy set."""

    @property
    @abstractmethod
    def performance_sample_count(self) -> int:
        """Samples that a performance run keeps in memory at once."""

    def load(self, samples: Sequence[int]) -> None:
        """Prepare requests, outside the clock."""
        self.prepare_requests(samples)

    def unload(self, samples: Sequence[int]) -> None:
        """Release requests."""
        for sample in samples:
            self.requests.pop(sample, None)

    def length(self, sample: int) -> int:
        """Return the sample's own length."""
        return self.measure_length(sample)

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Build what sends requests before any run."""
        return self.connect_predictor()

    def truth(self, folder: Path) -> None:
        """Write the ground truth."""
        self.write_truth(folder)

    def close(self) -> None:
        """Release everything."""
        self.requests.clear()
        self.release_source()

    @abstractmethod
    def prepare_requests(self, samples: Sequence[int]) -> None:
        """Add requests of samples."""

    @abstractmethod
    def measure_length(self, sample: int) -> int:
        """Return the length of a prepared sample."""

    @abstractmethod
    def connect_predictor(self) -> Predictor:
        """Build what sends requests before any run."""

    @abstractmethod
    def write_truth(self, folder: Path) -> None:
        """Write the ground truth."""

    @abstractmethod
    def release_source(self) -> None:
        """Release what samples come from."""


def check_servers_agree(
    endpoints: Sequence[Endpoint], descriptions: Sequence[ServerDescription]
) -> None:
    """RequestError if two servers do not serve the same system."""
    keys = (
        "checkpoint_sha256",
        "engine",
        "engine_package",
        "precision",
        "framework",
        "threads",
        "version",
    )
    for endpoint, each in zip(endpoints[1:], descriptions[1:], strict=True):
        for key in keys:
            if getattr(each, key) != getattr(descriptions[0], key):
                first = f"{endpoints[0].url} {getattr(descriptions[0], key)}"
                raise RequestError(
                    f"the endpoints are not one system: {key} is {getattr(each, key)} at"
                    f" {endpoint.url}, {first}"
                )


def list_unlike_settings(
    settings: Mapping[str, Any], description: ServerDescription, ignored: tuple[str, ...]
) -> list[str]:
    """List the settings that differ between client and server, except those with an ignored
    prefix.
    """
    keys = sorted(settings.keys() | description.settings.keys())
    return [
        key
        for key in keys
        if not key.startswith(ignored) and settings.get(key) != description.settings.get(key)
    ]

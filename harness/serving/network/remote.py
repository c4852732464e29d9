"""A system under test behind a network, as LoadGen's side sees it: samples are prepared here, and
everything else happens on the servers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final, cast

from harness.serving.loadgen.session import EngineRecorder, LoadedSystem
from harness.serving.network.access import ClientCredentials
from harness.serving.network.connection import ServerConnection
from harness.serving.network.forms import RequestForm
from harness.serving.network.wire import Endpoint, ServerDescription
from suite.engine import Engine, Executable, Network, Plan, Precision
from suite.errors import JudgedError, RequestError
from suite.records import NetworkRecord
from suite.workload import Inference, PayloadInference, Predictor

PROBE_ANSWER_TIMEOUT_S: Final = 60.0
"""For each answer of the probe: as long as Offline may go without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServers:
    """The servers of one system under test."""

    endpoints: tuple[Endpoint, ...]
    access: ClientCredentials
    form: RequestForm
    descriptions: tuple[ServerDescription, ...]
    """What each server says of itself."""
    in_flight: int
    """Requests without an answer, at most; of each server."""
    timeout_ms: int | None
    """Longest time without any answer; None: from the latency bound."""
    record: NetworkRecord

    @property
    def description(self) -> ServerDescription:
        """Return what is the same of all servers."""
        return self.descriptions[0]

    def open_connections(self) -> list[ServerConnection]:
        """Open a connection to each server."""
        return [ServerConnection(endpoint, self.access) for endpoint in self.endpoints]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSystem(LoadedSystem):
    """A System whose predictors are elsewhere."""

    remote: RemoteServers

    def copy_with_threads(self, threads: int) -> LoadedSystem:
        """Return the system: the servers keep their threads."""
        return self

    def open_inference(self) -> tuple[Inference, EngineRecorder]:
        """Build LoadGen's side: the samples; no network is compiled."""
        inference = self.workload.build_inference(
            self.run, self.checkpoint, cast("Engine[Any]", ElsewhereEngine())
        )
        facts = self.remote.description
        recorder = cast(
            EngineRecorder, SimpleNamespace(built=facts.built, calibrated=facts.calibrated)
        )
        return RemoteInference(inference, self.remote), recorder


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


class RemoteInference(RequestInference):
    """Samples as finished requests, and predictors that send them."""

    def __init__(self, inference: Inference, remote: RemoteServers) -> None:
        super().__init__()
        if not isinstance(inference, PayloadInference):
            raise RequestError(
                f"{type(inference).__name__} has no method `payload`: it cannot be served over a"
                " network (podium help your-workload)"
            )
        self.inference, self.remote = inference, remote
        self.lengths: dict[int, int] = {}

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""
        return self.inference.sample_count

    @property
    def performance_sample_count(self) -> int:
        """Samples that a performance run keeps in memory at once."""
        return self.inference.performance_sample_count

    def prepare_requests(self, samples: Sequence[int]) -> None:
        """Prepare samples and their requests; the samples themselves are released again."""
        self.inference.load(samples)
        source = cast(PayloadInference, self.inference)
        self.requests |= {
            sample: self.remote.form.build_request(source.payload(sample)) for sample in samples
        }
        self.lengths |= {sample: self.inference.length(sample) for sample in samples}
        self.inference.unload(samples)

    def measure_length(self, sample: int) -> int:
        """Return the sample's own length."""
        return self.lengths[sample]

    def connect_predictor(self) -> Predictor:
        """Connect to the servers."""
        return RemotePredictor(self)

    def write_truth(self, folder: Path) -> None:
        """Write the ground truth."""
        self.inference.truth(folder)

    def release_source(self) -> None:
        """Release the samples."""
        self.inference.close()


class RemotePredictor:
    """Sends samples to the servers in turns and waits for all answers: for the probe, before any
    run.
    """

    def __init__(self, owner: RemoteInference) -> None:
        self.owner, self.form = owner, owner.remote.form
        self.connections = owner.remote.open_connections()

    def warm_up(self) -> None:
        """Check the servers; they are warm before they listen."""
        for connection in self.connections:
            connection.check_server()

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer samples, one request each, all at once."""
        count = len(self.connections)
        calls = [
            (self.connections[place % count], self.owner.requests[sample])
            for place, sample in enumerate(samples)
        ]
        waiting = [
            (connection, connection.send_with_timeout(request, PROBE_ANSWER_TIMEOUT_S))
            for connection, request in calls
        ]
        return [
            self.form.parse_answer(connection, connection.wait_for_reply(future))
            for connection, future in waiting
        ]


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

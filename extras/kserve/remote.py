"""A system under test behind gRPC, as LoadGen's side sees it: samples are prepared here, and
everything else happens on the servers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from extras.kserve.connection import ServerConnection
from extras.kserve.forms import RequestForm
from harness.serving.loadgen.session import EngineRecorder, LoadedSystem
from harness.serving.network.access import ClientCredentials
from harness.serving.network.remote import ElsewhereEngine, RequestInference
from harness.serving.network.wire import Endpoint, ServerDescription
from suite.engine import Engine
from suite.errors import RequestError
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

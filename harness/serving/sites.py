"""Where a system under test is: the contracts of its site, which `set_up_serving` asks, and of what
answers there, which runs ask.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from harness.engine_choice import ServingRequest
from harness.machine.power.chosen import ChosenPower
from harness.request import RunRequest
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.loadgen.session import LoadedSystem
from suite.cli import RunOptions
from suite.files.layout import ResultsEntry
from suite.records import NetworkRecord
from suite.served_identity import ServedIdentity

if TYPE_CHECKING:
    from harness.serving.setup import ServingSetup


class SystemHost(Protocol):
    """What answers LoadGen's queries: processes of this machine, or servers."""

    @property
    def network(self) -> NetworkRecord | None:
        """Return the network in front of it; None if it is in LoadGen's process."""
        ...

    def identify_served(self, request: RunRequest, system: LoadedSystem) -> ServedIdentity:
        """Return engine, precision, device and weights, and who states them."""
        ...

    def name_framework(self, request: RunRequest) -> str:
        """Return the framework of the network that runs there, as records have it."""
        ...

    def describe_engine_package(self, engine: str) -> str:
        """Return the distribution of the engine, as records have it."""
        ...

    def describe_system(self, setup: "ServingSetup") -> Mapping[str, Any]:
        """Return the content of systems/<system>.json; RequestError for an invalid
        --system-file.
        """
        ...

    def check_precision(self, setup: "ServingSetup") -> None:
        """Refuse a precision that it lacks, before any clock."""
        ...

    def choose_threads(self, setup: "ServingSetup", earlier: int) -> int:
        """Return the CPU threads of the system; `earlier`: those of a run that this one continues,
        or 0.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSystem:
    """What a site found: who answers, and the settings that count there."""

    request: RunRequest
    checkpoint: ExportedCheckpoint
    system: LoadedSystem
    host: SystemHost
    entry: ResultsEntry
    """The place of the results."""
    threads: int
    """Total of all workers."""
    power: ChosenPower
    """Power sources read during performance runs."""


class ServingSite(Protocol):
    """Where a system under test is: who serves it, whose settings count, how LoadGen reaches it and
    where its results go.
    """

    @property
    def is_remote(self) -> bool:
        """Return whether servers behind a network answer."""
        ...

    def list_candidate_engines(self, workload: str, options: RunOptions) -> list[str]:
        """Return the engines among which `--engine auto` chooses; none where servers have
        theirs.
        """
        ...

    def stream_tokens(self, study: str, options: RunOptions) -> RunOptions:
        """Return the options with which answers come token by token, as a study needs them;
        RequestError if they cannot.
        """
        ...

    def resolve_request(self, workload: str, options: RunOptions) -> ServingRequest:
        """Resolve a request to serve there; RequestError for what is invalid."""
        ...

    def bind_system(
        self, asked: ServingRequest, choose: Callable[[], ExportedCheckpoint]
    ) -> BoundSystem:
        """Look for what serves, then for the weights, and bind the two. RequestError for what does
        not match, MissingError for what is not there.
        """
        ...

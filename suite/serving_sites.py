"""The contracts of kinds of servers: what `--endpoint` names is an entry point of `podium.sites`,
which is called as the scheme of its servers' addresses (grpc, http); what `podium serve` starts is
one of `podium.servers`, which is called as the API (`--api`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from suite.loadgen.scenario import Scenario

OWN_SERVER: Final = "builtin"
"""podium's own program among those that speak an API (`--server`)."""
DEFAULT_QUEUE: Final = 4096
"""Requests that wait for a slot, at most (`--queue`)."""


class SiteBuilder(Protocol):
    """Builds the site of servers that are to be measured."""

    def __call__(self, endpoints: Sequence[Any], access: Any, scenarios: Sequence[Scenario]) -> Any:
        """Return a ServingSite (harness/serving/sites.py) of `Endpoint`s that are asked with
        `ClientCredentials`, in these scenarios; RequestError if they are not one system.
        """


class ServerStarter(Protocol):
    """Serves a workload to other machines."""

    def __call__(
        self,
        workload: str,
        options: Any,
        *,
        checkpoint: Path | None,
        listen: str,
        files: tuple[Path | None, Path | None, Path | None],
    ) -> None:
        """Serve a checkpoint, with the `RunOptions` of a command, until a signal ends it. `files`:
        TLS certificate, its key, token.
        """

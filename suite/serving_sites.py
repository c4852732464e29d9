"""The contract of what `--endpoint` names: an entry point of `podium.sites`, which is called as the
scheme of its servers' addresses (grpc, http).
"""

from collections.abc import Sequence
from typing import Any, Protocol

from suite.loadgen.scenario import Scenario


class SiteBuilder(Protocol):
    """Builds the site of servers that are to be measured."""

    def __call__(self, endpoints: Sequence[Any], access: Any, scenarios: Sequence[Scenario]) -> Any:
        """Return a ServingSite (harness/serving/sites.py) of `Endpoint`s that are asked with
        `ClientCredentials`, in these scenarios; RequestError if they are not one system.
        """

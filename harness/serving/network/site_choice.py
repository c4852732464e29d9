"""Which kind of servers `--endpoint` names."""

from collections.abc import Sequence
from pathlib import Path

from harness.serving.network.access import read_client_credentials
from harness.serving.network.setup import parse_distinct_endpoints
from harness.serving.sites import ServingSite
from suite import registry
from suite.loadgen.scenario import Scenario


def choose_remote_site(
    urls: Sequence[str],
    scenarios: Sequence[Scenario],
    *,
    ca: Path | None = None,
    token_file: Path | None = None,
) -> ServingSite:
    """Return the site of servers by the protocol that their addresses name; RequestError for
    servers that are not one system, and for unreadable files.
    """
    endpoints = parse_distinct_endpoints(urls)
    access = read_client_credentials(endpoints, ca, token_file)
    site: ServingSite = registry.load_site_builder(endpoints[0].scheme)(
        endpoints, access, tuple(scenarios)
    )
    return site

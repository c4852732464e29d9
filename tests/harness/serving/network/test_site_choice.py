"""Servers that another package measures: their addresses are read, and its site is built."""

from pathlib import Path

import pytest
from offered_packages import offer_package

from harness.serving.network.site_choice import choose_remote_site
from harness.serving.network.wire import parse_endpoint
from suite import registry
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario

SITE = "def build(endpoints, access, scenarios):\n    return [each.url for each in endpoints]\n"
POINTS = [(registry.SITE_GROUP, "carrier", "podium_carrier:build")]


def test_no_package_takes_the_place_of_tls(tmp_path: Path) -> None:
    """A kind of servers called https would be asked without TLS."""
    points = [(registry.SITE_GROUP, "https", "podium_carrier:build")]
    with offer_package(tmp_path, "podium_carrier", {"__init__.py": SITE}, points):
        endpoint = parse_endpoint("https://one:7")
    assert endpoint.tls and endpoint.scheme == "http"


def test_the_addresses_of_another_package_s_servers_reach_its_site(tmp_path: Path) -> None:
    """They were refused as neither gRPC nor HTTP, whatever was installed."""
    urls = ["carrier://one:7", "carriers://two:7"]
    with offer_package(tmp_path, "podium_carrier", {"__init__.py": SITE}, POINTS):
        assert choose_remote_site(urls, [Scenario.OFFLINE]) == urls
        with pytest.raises(RequestError, match="carrier:// and grpc:// are not one system"):
            choose_remote_site([urls[0], "grpc://two:7"], [Scenario.OFFLINE])


@pytest.mark.parametrize("url", ["carrier://one:7", "carrier://one", "http://a,b:80", "://one:7"])
def test_an_address_that_nothing_speaks_is_refused(url: str) -> None:
    with pytest.raises(RequestError, match="write grpc://HOST:PORT"):
        choose_remote_site([url], [Scenario.OFFLINE])

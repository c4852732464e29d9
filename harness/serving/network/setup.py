"""Set-up of `podium infer --endpoint`: what the servers serve, and whether that is what the
checkpoint and the settings here say.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Final

from harness.engine_choice import ServingRequest
from harness.machine.placement import INSTANCES_SETTING, resolve_instance_count
from harness.machine.power.selection import choose_power_sources
from harness.machine.system_description import (
    SERVED_TABLE,
    describe_system,
    read_system_file,
)
from harness.request import RunRequest
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.network.remote import (
    list_unlike_settings,
)
from harness.serving.network.wire import (
    HTTP_SCHEME,
    Endpoint,
    ServerDescription,
    parse_endpoint,
)
from harness.serving.setup import ServingSetup
from harness.serving.sites import BoundSystem
from suite import __version__
from suite.errors import RequestError
from suite.files.layout import ResultsEntry, convert_to_slug
from suite.records import PROMPTS_FORM, NetworkRecord
from suite.rounds import Division, InferenceRow
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.served_identity import NOT_STATED, ServedIdentity, Speaker, state_all
from suite.terms import NETWORK_FIELDS, Precision

CLIENT_SETTING_PREFIXES: Final = (*PERFORMANCE_PREFIXES, "endpoint.", "power.")
"""Prefixes of settings that are LoadGen's side's own."""
SERVER_SETTING_PREFIXES: Final = ("batching.", "engine.")
"""Prefixes of settings that are the server's own."""
DEFAULT_IN_FLIGHT: Final = 1024
MEASURED_ROUND_TRIPS: Final = 100
UNKNOWN_SOFTWARE: Final = "unknown"
OWN_SOURCE: Final = "podium serve"
GRPC_SETTINGS: Final = ("endpoint.input", "endpoint.output")
HTTP_SETTINGS: Final = (
    "endpoint.api",
    "endpoint.tokenizer",
    "endpoint.stream",
    "endpoint.usage",
    "endpoint.logprobs",
    "endpoint.max_tokens_field",
    "endpoint.temperature",
    "endpoint.reuse",
    "endpoint.header.",
)
"""Settings, or prefixes of such, of one of the two protocols."""
GRPC_PACKAGES: Final = ("grpcio", "tritonclient")
HTTP_PACKAGES: Final = ("httptools",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHost:
    """Servers behind a network answer."""

    description: ServerDescription
    """What they say of themselves."""
    network: NetworkRecord
    identity: ServedIdentity
    """What serves, and who says so."""

    def identify_served(self, request: RunRequest, system: LoadedSystem) -> ServedIdentity:
        """Return what serves, by the servers' and the user's word."""
        return self.identity

    def name_framework(self, request: RunRequest) -> str:
        """Return the framework of the servers' network, if they are podium's."""
        return self.description.framework

    def describe_engine_package(self, engine: str) -> str:
        """Return the distribution of the servers' engine."""
        return self.description.engine_package

    def describe_system(self, setup: ServingSetup) -> Mapping[str, Any]:
        """Describe the servers, then the network with MLCommons' 13 fields; what nobody knows is
        null, and --system-file tells it.
        """
        request = setup.request
        local = describe_system(setup.entry, replace(request.described, system_file=None))
        hardware = {
            key: self.description.description.get(key)
            for key in local
            if key not in ("submitter", "division", "status", "system_name", "podium")
        }
        found: dict[str, Any] = {
            **local,
            **hardware,
            "number_of_nodes": len(self.network.endpoints),
            **build_network_fields(self.network, self.description),
        }
        return {**found, **read_system_file(request.options.system_file, found, SERVED_TABLE)}

    def check_precision(self, setup: ServingSetup) -> None:
        """Do nothing: the servers have answered in it."""

    def choose_threads(self, setup: ServingSetup, earlier: int) -> int:
        """Return the servers' threads."""
        return self.description.threads


def parse_distinct_endpoints(texts: Sequence[str]) -> tuple[Endpoint, ...]:
    """Read the servers of one system; RequestError if two are the same, or speak differently."""
    endpoints = tuple(parse_endpoint(text) for text in texts)
    if len(set(endpoints)) < len(endpoints):
        raise RequestError("--endpoint: the same server is named twice")
    schemes = sorted({endpoint.scheme for endpoint in endpoints})
    if len(schemes) > 1:
        spoken = " and ".join(f"{each}://" for each in schemes)
        raise RequestError(f"--endpoint: servers over {spoken} are not one system")
    return endpoints


def check_protocol_settings(request: RunRequest, scheme: str) -> None:
    """RequestError for a setting of the other protocol."""
    other = GRPC_SETTINGS if scheme == HTTP_SCHEME else HTTP_SETTINGS
    for key in request.chosen:
        if key.startswith(other):
            raise RequestError(f"setting {key}: endpoints with {scheme}:// do not have it")


def get_positive_setting(request: RunRequest, key: str, otherwise: Any) -> Any:
    """Return a setting that counts something, or its default; RequestError below 1."""
    value = request.settings.get(key, otherwise)
    if isinstance(value, int) and value < 1:
        raise RequestError(f"setting {key}: {value} is below 1")
    return value


def check_server_matches(
    request: RunRequest,
    chosen: ExportedCheckpoint,
    endpoint: Endpoint,
    description: ServerDescription,
) -> None:
    """RequestError if a server serves something else than what is to be measured."""
    wanted = {
        "workload": request.name,
        "round": request.round.name,
        "profile": request.profile.value,
    }
    for key, value in wanted.items():
        if getattr(description, key) != value:
            raise RequestError(
                f"{endpoint.url} serves {key} {getattr(description, key)}, and {value} is asked for"
            )
    if description.checkpoint_sha256 != chosen.record.sha256:
        raise RequestError(
            f"{endpoint.url} serves checkpoint {description.checkpoint_sha256[:16]}, and here"
            f" {chosen.record.sha256[:16]} is measured"
        )
    if description.version != __version__:
        raise RequestError(
            f"{endpoint.url} runs podium {description.version}, and this is {__version__}"
        )
    settings = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in request.settings.items()
    }
    if strange := [key for key in request.chosen if key.startswith(SERVER_SETTING_PREFIXES)]:
        raise RequestError(f"setting {strange[0]}: it is the server's; give it to podium serve")
    if different := list_unlike_settings(
        settings, description, (*CLIENT_SETTING_PREFIXES, *SERVER_SETTING_PREFIXES)
    ):
        there = ", ".join(f"{key} is {description.settings.get(key)!r}" for key in different)
        raise RequestError(
            f"{endpoint.url} has other settings: {there}; give podium serve and podium infer the"
            " same"
        )


def describe_foreign_server(
    request: RunRequest, chosen: ExportedCheckpoint, endpoint: Endpoint, name: str
) -> ServerDescription:
    """Describe another server, of which podium invents nothing: the checkpoint is the user's word.
    `name`: what it calls itself.
    """
    return ServerDescription(
        workload=request.name,
        round=request.round.name,
        profile=request.profile.value,
        checkpoint_sha256=chosen.record.sha256,
        engine=NOT_STATED,
        engine_package="",
        precision=NOT_STATED,
        framework=NOT_STATED,
        device=NOT_STATED,
        threads=0,
        settings={
            key: list(value) if isinstance(value, tuple) else value
            for key, value in request.settings.items()
        },
        system=convert_to_slug(request.options.system or f"network-{endpoint.host}"),
        description={},
        machine="",
        node=endpoint.host,
        server=name,
        software=UNKNOWN_SOFTWARE,
        version=__version__,
    )


def choose_network_division(row: InferenceRow, record: NetworkRecord) -> Division:
    """Return the division: network only where the row is closed, all machines are known to be
    others, and the servers say what they serve.
    """
    closed = row.division is Division.CLOSED
    if closed and record.is_on_other_machines and record.states_what_it_serves:
        return Division.NETWORK
    return Division.OPEN


def adopt_remote_settings(request: RunRequest, description: ServerDescription) -> RunRequest:
    """Return the request with what is the servers' to decide: engine, precision and batching;
    RequestError for what a system behind a network cannot have.
    """
    if resolve_instance_count(request.settings):
        raise RequestError(
            f"setting {INSTANCES_SETTING}: a system behind --endpoint has its instances elsewhere"
        )
    return adopt_server_settings(request, description)


def bind_to_servers(
    asked: ServingRequest, chosen: ExportedCheckpoint, system: LoadedSystem, host: ServerHost
) -> BoundSystem:
    """Bind LoadGen's side to its servers."""
    request, options = asked.request, asked.request.options
    entry = ResultsEntry(
        results=options.results.absolute(),
        division=choose_network_division(asked.row, host.network),
        org=options.org,
        system=convert_to_slug(options.system or f"{host.description.system}-network"),
    )
    return BoundSystem(
        request=request,
        checkpoint=chosen,
        system=system,
        host=host,
        entry=entry,
        threads=host.description.threads,
        power=choose_power_sources(
            "off", None, request.settings
        ),  # this machine's watts are not the system's
    )


def adopt_server_settings(request: RunRequest, description: ServerDescription) -> RunRequest:
    """Return the request with the settings of its servers and, of podium's, their engine and
    precision. Of others the request keeps its own, by which the workload makes its samples here.
    """
    served = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in description.settings.items()
        if key.startswith(SERVER_SETTING_PREFIXES)
    }
    own = {
        key: value
        for key, value in request.settings.items()
        if not key.startswith(SERVER_SETTING_PREFIXES)
    }
    request = replace(request, settings=own | served)
    if not description.is_of_podium:
        return request
    return replace(
        request,
        engine=description.engine,
        framework=description.framework,
        precision=Precision(description.precision),
    )


def find_described_version(description: ServerDescription) -> str:
    """Return the version of the engine's package, as a server of podium's describes itself; "" if
    it does not list it.
    """
    own = description.description.get("podium")
    packages = own.get("packages") if isinstance(own, dict) else None
    return str(packages.get(description.engine, "")) if isinstance(packages, dict) else ""


def identify_own_server(description: ServerDescription) -> ServedIdentity:
    """Return what one of podium's servers states of what serves."""
    return state_all(
        Speaker.SERVER,
        OWN_SOURCE,
        engine=description.engine,
        version=find_described_version(description),
        precision=description.precision,
        device=description.device,
        weights=description.checkpoint_sha256,
    )


def build_network_fields(record: NetworkRecord, facts: ServerDescription) -> Mapping[str, Any]:
    """Return MLCommons' fields of a networked system."""
    over_http = record.form == PROMPTS_FORM
    has_tls = record.endpoints[0].partition("://")[0].endswith("s")
    layers = ["OpenAI API", "HTTP/1.1"] if over_http else ["KServe v2", "gRPC", "HTTP/2"]
    packages = HTTP_PACKAGES if over_http else GRPC_PACKAGES
    software = [
        *(f"{package} {version(package)}" for package in packages),
        f"{platform.system()} {platform.release()}",
    ]
    connections = record.in_flight if over_http else len(record.endpoints)
    known = {
        "is_network": "true",
        "net_software_stack_loadgen": ", ".join(software),
        "net_software_stack_sut": facts.software,
        "network_protocol": ", ".join([*layers, *(["TLS"] if has_tls else []), "TCP"]),
        "number_connections": str(connections),
    }
    return {field: known.get(field) for field in NETWORK_FIELDS}

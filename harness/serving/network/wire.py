"""Addresses of servers, and what a server reports about itself."""

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from suite import registry
from suite.errors import RequestError
from suite.records import CalibrationRecord

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""One per running kernel: containers and network namespaces of one host share it, unlike
/etc/machine-id.
"""
GRPC_SCHEME: Final = "grpc"
HTTP_SCHEME: Final = "http"
ENDPOINT_PATTERN: Final = re.compile(
    r"(?P<scheme>(?!https?:)[a-z][a-z0-9+.-]*)://"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:\[\]@\s]+):(?P<port>\d{1,5})/?"
)
HTTP_ENDPOINT_PATTERN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:\[\]@?#,\s]+)(:(?P<port>\d{1,5}))?"
    r"(?P<base>(/[A-Za-z0-9._~%!$&'()*+;=:@-]+)*)/?"
)
"""RFC 3986, section 3.3: the characters of a path."""
ROUTE_PREFIX: Final = "/v1"
PROMPT_ROUTES: Final = tuple(
    f"{ROUTE_PREFIX}/{name}" for name in ("chat/completions", "completions", "models", "responses")
)
"""Routes of OpenAI's API that addresses are copied with."""
HTTP_PORTS: Final = {"http": 80, "https": 443}
LISTEN_PATTERN: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:\[\]@\s]+):(?P<port>\d{1,5})")
MAX_TCP_PORT: Final = 65_535


class ServerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of the system under test."""

    workload: str
    round: str
    profile: str
    checkpoint_sha256: str
    engine: str
    engine_package: str
    precision: str
    framework: str
    device: str
    threads: int
    settings: dict[str, bool | int | float | str | list[float]]
    built: dict[str, dict[str, bool | int | float | str | list[float]]] = {}
    calibrated: dict[str, CalibrationRecord] = {}
    system: str
    """Name of the system, as results have it."""
    description: dict[str, Any]
    """MLCommons' system description of the server."""
    machine: str
    """`compute_machine_id()` of the server."""
    node: str
    """Its host name."""
    server: str
    """builtin or triton."""
    software: str
    version: str
    """Of podium."""

    @property
    def is_of_podium(self) -> bool:
        """Return whether it is one of podium's servers: they name the package of their engine."""
        return bool(self.engine_package)


SERVER_DESCRIPTION_DECODER: Final = msgspec.json.Decoder(ServerDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server listens."""

    tls: bool
    host: str
    """Without brackets."""
    port: int
    scheme: str = GRPC_SCHEME
    """grpc, http or another package's, without the s that stands for TLS."""
    base: str = ""
    """Beginning of the paths of an HTTP server's routes, such as /openai; "" or without an end
    slash.
    """

    @property
    def target(self) -> str:
        """Return host:port as gRPC and messages have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the endpoint as a user writes it."""
        return f"{self.scheme}{'s' if self.tls else ''}://{self.address}"

    @property
    def address(self) -> str:
        """Return the endpoint without its scheme."""
        return f"{self.target}{self.base}"


def parse_endpoint(text: str, option: str = "--endpoint") -> Endpoint:
    """Read grpc[s]://HOST:PORT, http[s]://HOST[:PORT][/BASE], or SCHEME[s]://HOST:PORT of another
    package's kind of servers; RequestError otherwise, with the name of the option.
    """
    scheme, mark, rest = text.partition("://")
    text = f"{scheme.lower()}{mark}{rest}"  # RFC 3986, section 3.1: case does not matter
    match = ENDPOINT_PATTERN.fullmatch(text) or HTTP_ENDPOINT_PATTERN.fullmatch(text)
    port = int(match["port"] or HTTP_PORTS[match["scheme"]]) if match else 0
    protocol = find_protocol(match["scheme"]) if match else None
    if match is None or protocol is None or not 0 < port <= MAX_TCP_PORT:
        raise RequestError(f"{option} {hide_user(text)}: {describe_address_fault(text, port)}")
    base = match.groupdict().get("base") or ""
    for route in PROMPT_ROUTES:
        if base.endswith(route):
            raise RequestError(
                f"{option} {text}: {route} is a route of the API, and podium adds it: write"
                f" {text.rstrip('/').removesuffix(route)}{ROUTE_PREFIX}"
            )
    return Endpoint(
        tls=match["scheme"] != protocol,
        host=match["host"].strip("[]"),
        port=port,
        scheme=protocol,
        base=base,
    )


def find_protocol(scheme: str) -> str | None:
    """Return a scheme without the s that stands for TLS; None if no kind of servers has it."""
    known = {GRPC_SCHEME, HTTP_SCHEME, *registry.map_entry_points(registry.SITE_GROUP)}
    return next((each for each in (scheme.removesuffix("s"), scheme) if each in known), None)


def hide_user(text: str) -> str:
    """Return an address without the user and password that may stand in it."""
    scheme, mark, rest = text.partition("://")
    return f"{scheme}{mark}...@{rest.rpartition('@')[2]}" if "@" in rest else text


def describe_address_fault(text: str, port: int) -> str:
    """Return why an endpoint's address is none, or how one is written."""
    if port > MAX_TCP_PORT:
        return f"no port is above {MAX_TCP_PORT:,}"
    if "@" in text:
        return "a user or a password belongs into --token-file or endpoint.header.NAME"
    if "?" in text:
        return "no query (?) can be sent: put its value into a header with endpoint.header.NAME"
    if "#" in text:
        return "a fragment (#) is not for servers"
    if any(part.isspace() for part in text):
        return "there is a space in it"
    if not text.isascii():
        return "write the path in ASCII, with %XX"
    return (
        "write grpc://HOST:PORT for a server of podium serve or Triton, http://HOST:PORT for one"
        " behind an OpenAI-compatible API; grpcs and https for TLS"
    )


def parse_listen_address(text: str, tls: bool) -> Endpoint:
    """Read HOST:PORT; port 0 takes a free one. RequestError otherwise."""
    match = LISTEN_PATTERN.fullmatch(text)
    if not match or int(match["port"]) > MAX_TCP_PORT:
        raise RequestError(f"--listen {text}: write HOST:PORT, as in 0.0.0.0:8001")
    return Endpoint(tls=tls, host=match["host"].strip("[]"), port=int(match["port"]))


def is_loopback_host(host: str) -> bool:
    """Return whether an address never leaves this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def compute_machine_id() -> str:
    """Return a name of this running kernel that tells nothing else of it; empty where it has
    none.
    """
    try:
        return hashlib.sha256(b"podium " + BOOT_ID_FILE.read_bytes().strip()).hexdigest()[:32]
    except OSError:
        return ""


def convert_settings_to_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert all values to JSON's own types: engines describe themselves with subclasses of str,
    too.
    """
    return dict(json.loads(json.dumps(dict(settings), allow_nan=False)))

"""The servers that `--server` names: addresses, and programs that podium starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.serving.network.wire import HTTP_SCHEME, Endpoint, parse_endpoint
from harness.serving.started_servers.programs import (
    OWN_PROGRAM,
    check_server_precision,
    find_executable,
    require_server_program,
)
from suite.errors import RequestError
from suite.files.layout import convert_to_slug
from suite.studies.kind import ADDRESS_MARK
from suite.studies.precision_rows import ComparedSystem
from suite.terms import Precision

SERVER_OPTION = "--server"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server of a comparison."""

    name: str
    """As the user names it; of an address as podium writes it."""
    program: str = ""
    """What podium starts; empty of an address."""
    environment: Path | None = None
    """Virtual environment that has the program; None: this one, or PATH."""
    endpoint: Endpoint | None = None
    """Of a server that runs already."""

    def describe_system(self, precision: Precision) -> ComparedSystem:
        """Return the system that its row is about: podium asks no address for a number format."""
        asked = precision.value if self.endpoint is None else ""
        return ComparedSystem(engine="", precision=asked, server=self.name)


def parse_servers(texts: Sequence[str], precision: Precision) -> tuple[NamedServer, ...]:
    """Read the servers of a command. RequestError for what is none, and for two of one name,
    MissingError for a program that is not installed.
    """
    servers = tuple(parse_server(text, precision) for text in texts)
    slugs = [convert_to_slug(each.name) for each in servers]
    for slug, server in zip(slugs, servers, strict=True):
        if slugs.count(slug) > 1:
            raise RequestError(f"{SERVER_OPTION} {server.name}: it is named twice")
    return servers


def parse_server(text: str, precision: Precision) -> NamedServer:
    """Read NAME, NAME=VENV or http[s]://HOST:PORT."""
    if ADDRESS_MARK in text:
        endpoint = parse_endpoint(text, SERVER_OPTION)
        if endpoint.scheme != HTTP_SCHEME:
            raise RequestError(
                f"{SERVER_OPTION} {text}: servers of an OpenAI-compatible API are compared: write"
                " http://HOST:PORT"
            )
        return NamedServer(name=endpoint.url, endpoint=endpoint)
    program, mark, place = text.partition("=")
    if program == OWN_PROGRAM:
        if mark:
            raise RequestError(
                f"{SERVER_OPTION} {text}: podium starts the server of this installation: write"
                f" {SERVER_OPTION} {OWN_PROGRAM}"
            )
        return NamedServer(name=text, program=program)
    require_server_program(program)
    if mark and not place:
        raise RequestError(f"{SERVER_OPTION} {text}: a folder is wanted behind =")
    check_server_precision(program, precision)
    environment = Path(place).expanduser() if place else None
    find_executable(program, environment)
    return NamedServer(name=text, program=program, environment=environment)

"""What is asked of a server before a run: whether it is there, what it serves, and whether it is
podium's. Each question is asked once.
"""

import http.client
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.api_names import FACTS_ROUTE, MODELS_ROUTE
from harness.serving.network.openai.prompt_requests import build_route_path
from harness.serving.network.openai.refusal_text import (
    PLAIN_CODINGS,
    describe_refusal,
    shorten_text,
)
from harness.serving.network.reachability import CONNECT_TIMEOUT_S, check_server_reachable
from harness.serving.network.statements import server_words as words
from harness.serving.network.tls import build_client_context
from harness.serving.network.wire import (
    ROUTE_PREFIX,
    SERVER_DESCRIPTION_DECODER,
    Endpoint,
    ServerDescription,
)
from suite.errors import JudgedError, MissingError, RequestError

MAX_REPLY_BYTES: Final = 1 << 22
"""House rule: a list of ten thousand models has some 2 MB."""
MAX_SHOWN_BYTES: Final = 1 << 10
"""Of a reply that is none, before it is shortened."""
HTTP_1_1: Final = 11
"""As http.client writes it."""
UNAUTHORISED: Final = frozenset({401, 403})
LACKING: Final = frozenset({404, 405, 501})
"""Statuses of a server that has no such route."""
OK_STATUS: Final = 200
REDIRECTS: Final = range(300, 400)


class ListedModel(msgspec.Struct):
    """A model of a server; what podium quotes alone may have any form."""

    id: str
    owned_by: Any = None
    root: Any = None
    max_model_len: Any = None
    meta: Any = None


class ModelList(msgspec.Struct):
    """The answer of /v1/models."""

    data: list[ListedModel]


MODEL_LIST_DECODER: Final = msgspec.json.Decoder(ModelList)


class VersionPage(msgspec.Struct):
    """The answer of /version."""

    version: str


VERSION_DECODER: Final = msgspec.json.Decoder(VersionPage)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """What a server answers to GET."""

    status: int
    body: bytes
    server: str
    """The header `Server`."""
    location: str
    coding: str
    """How the body is compressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedServer:
    """What a server says of itself."""

    description: ServerDescription | None
    """None of servers that are not podium's."""
    name: str
    words: Mapping[str, str]
    """Of servers that are not podium's: what they say, by where it was read."""


def check_prompt_server(
    endpoint: Endpoint, access: ClientCredentials, headers: Mapping[str, str], model: str
) -> CheckedServer:
    """Ask a server what it serves; MissingError if there is none, RequestError if it does not serve
    the model, JudgedError if it does not answer as HTTP/1.1 demands.
    """
    check_server_reachable(endpoint, access)
    reply = request_page(endpoint, access, headers, MODELS_ROUTE)
    if reply.status in REDIRECTS:
        raise JudgedError(
            f"{endpoint.url} redirects with {reply.status} to"
            f" {shorten_text(reply.location) or 'nowhere'}; name the server itself with --endpoint"
        )
    if reply.status in UNAUTHORISED:
        if access.token:
            why = "the token of --token-file is not the server's"
        else:
            why = "the server wants a token: --token-file"
        raise MissingError(f"{endpoint.url}: {why}")
    listed: ListedModel | None = None
    if reply.status == OK_STATUS:
        listed = find_served_model(endpoint, reply, model)
    elif reply.status not in LACKING:
        raise JudgedError(
            f"{endpoint.url} answers {reply.status} to GET {MODELS_ROUTE}"
            f"{describe_refusal(reply.body, reply.coding)}"
        )
    description = request_podium_description(endpoint, access, headers)
    if description:
        return CheckedServer(description=description, name=description.server, words={})
    version = request_stated_version(endpoint, access, headers)
    return CheckedServer(
        description=None,
        name=shorten_text(reply.server) or "unknown",
        words=collect_server_words(listed, version, reply.server),
    )


def collect_server_words(
    listed: ListedModel | None, version: str, header: str
) -> Mapping[str, str]:
    """Collect what a server says of itself, in lines of limited length; what it does not say is
    left out.
    """
    meta = listed.meta if listed and isinstance(listed.meta, dict) else {}
    said = {
        words.OWNER: listed and listed.owned_by,
        words.MODEL: listed and listed.id,
        words.ROOT: listed and listed.root,
        words.CONTEXT: listed and listed.max_model_len,
        words.FORMAT: meta.get("ftype"),
        words.VERSION_PAGE: version,
        words.SERVER_HEADER: header,
    }
    quoted = {name: quote_value(value) for name, value in said.items()}
    return {name: value for name, value in quoted.items() if value}


def quote_value(value: object) -> str:
    """Return a server's word as one line; "" for what is neither text nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return shorten_text(f"{value}")


def request_stated_version(
    endpoint: Endpoint, access: ClientCredentials, headers: Mapping[str, str]
) -> str:
    """Return the version on a server's page of it; "" of a server without one."""
    page = replace(endpoint, base=endpoint.base.removesuffix(ROUTE_PREFIX))
    try:
        reply = request_page(page, access, headers, words.VERSION_PAGE)
        if reply.status == OK_STATUS:
            return VERSION_DECODER.decode(reply.body).version
    except (JudgedError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # a word less: the server need not say it
    return ""


def find_served_model(endpoint: Endpoint, reply: HttpReply, model: str) -> ListedModel | None:
    """Return the model that is asked for, from a list of models; RequestError if it is not in the
    list, JudgedError if that is none. None for an empty list, which says nothing: transformers'
    server lists what its cache has, not what it serves.
    """
    served = read_model_list(endpoint, reply)
    if served and model not in served:
        raise RequestError(
            f"{endpoint.url} does not serve the model {model!r}; it serves"
            f" {shorten_text(', '.join(served))}: --set endpoint.model=NAME"
        )
    return served.get(model)


def find_only_model(
    endpoint: Endpoint, access: ClientCredentials, headers: Mapping[str, str]
) -> str:
    """Return the one model that a server lists; RequestError if it lists another number of them, or
    has no list.
    """
    check_server_reachable(endpoint, access)
    reply = request_page(endpoint, access, headers, MODELS_ROUTE)
    if reply.status != OK_STATUS:
        raise RequestError(
            f"{endpoint.url} answers {reply.status} to GET {MODELS_ROUTE}, so its model is not"
            f" known{describe_refusal(reply.body, reply.coding)}: name it with --model"
        )
    served = read_model_list(endpoint, reply)
    if len(served) != 1:
        raise RequestError(
            f"{endpoint.url} serves {shorten_text(', '.join(served)) or 'no model'}: name one with"
            " --model"
        )
    return next(iter(served))


def read_model_list(endpoint: Endpoint, reply: HttpReply) -> dict[str, ListedModel]:
    """Return a server's models by their names; JudgedError for what is no list of them."""
    if reply.coding not in PLAIN_CODINGS:
        raise JudgedError(
            f"{endpoint.url} sent a compressed list of models ({shorten_text(reply.coding)}): turn"
            " that off at the proxy"
        )
    try:
        return {each.id: each for each in MODEL_LIST_DECODER.decode(reply.body).data}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        shown = shorten_text(reply.body[:MAX_SHOWN_BYTES].decode("utf-8", "replace"))
        raise JudgedError(
            f"{endpoint.url} answers GET {build_route_path(endpoint, MODELS_ROUTE)} with {shown!r},"
            " which is no list of models: is that the API's address?"
        ) from error


def request_podium_description(
    endpoint: Endpoint, access: ClientCredentials, headers: Mapping[str, str]
) -> ServerDescription | None:
    """Return what one of podium's servers serves; None of another server."""
    reply = request_page(endpoint, access, headers, FACTS_ROUTE)
    if reply.status != OK_STATUS:
        return None
    try:
        return SERVER_DESCRIPTION_DECODER.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def request_page(
    endpoint: Endpoint,
    access: ClientCredentials,
    headers: Mapping[str, str],
    route: str,
    sent: bytes | None = None,
) -> HttpReply:
    """Request one of a server's pages, on a connection of its own, or `sent` it a document."""
    path = build_route_path(endpoint, route) if route == MODELS_ROUTE else f"{endpoint.base}{route}"
    method = "GET" if sent is None else "POST"
    connection: http.client.HTTPConnection
    if endpoint.tls:
        connection = http.client.HTTPSConnection(
            endpoint.host,
            endpoint.port,
            timeout=CONNECT_TIMEOUT_S,
            context=build_client_context(access),
        )
    else:
        connection = http.client.HTTPConnection(
            endpoint.host, endpoint.port, timeout=CONNECT_TIMEOUT_S
        )
    try:
        connection.request(method, path, sent, headers={"Connection": "close", **headers})
        response = connection.getresponse()
        body = response.read(MAX_REPLY_BYTES + 1)
    except TimeoutError as error:
        raise JudgedError(
            f"{endpoint.url} does not answer {method} {path} within {CONNECT_TIMEOUT_S:g} s"
        ) from error
    except (http.client.HTTPException, ssl.SSLError, OSError) as error:
        raise JudgedError(
            f"{endpoint.url} does not answer {method} {path} by HTTP/1.1:"
            f" {shorten_text(f'{error}') or type(error).__name__}"
        ) from error
    finally:
        connection.close()
    if len(body) > MAX_REPLY_BYTES:
        raise JudgedError(
            f"{endpoint.url} answers {method} {path} with more than {MAX_REPLY_BYTES:,} bytes"
        )
    if response.version != HTTP_1_1:
        raise JudgedError(
            f"{endpoint.url} speaks HTTP/1.0; HTTP/1.1 is needed, whose connections stay open"
        )
    return HttpReply(
        status=response.status,
        body=body,
        server=response.getheader("Server", ""),
        location=response.getheader("Location", ""),
        coding=response.getheader("Content-Encoding", "").strip().lower(),
    )


def measure_openings_ns(
    endpoint: Endpoint, access: ClientCredentials, count: int, most_s: float
) -> list[int]:
    """Time openings of connections, one after another: so many, or as many as fit into the time; at
    least one. By TCP that is one round trip, by TLS at least two.
    """
    found, end = list[int](), time.monotonic() + most_s
    while not found or (len(found) < count and time.monotonic() < end):
        start = time.perf_counter_ns()
        check_server_reachable(endpoint, access)
        found.append(time.perf_counter_ns() - start)
    return found

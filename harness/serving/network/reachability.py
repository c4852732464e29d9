"""Whether a server can be reached, and if not, why: said before any run."""

import socket
import ssl
from typing import Final

from harness.serving.network.access import ClientCredentials
from harness.serving.network.tls import build_client_context
from harness.serving.network.wire import GRPC_SCHEME, HTTP_SCHEME, Endpoint
from suite.errors import MissingError

CONNECT_TIMEOUT_S: Final = 10.0
"""For each step before a run: house rule, many times the round trip around the world."""
ALPN_PROTOCOLS: Final = {GRPC_SCHEME: "h2", HTTP_SCHEME: "http/1.1"}
"""By scheme. Source: RFC 7301 and IANA's registry of protocol ids."""


def check_server_reachable(endpoint: Endpoint, access: ClientCredentials) -> None:
    """Connect once by TCP, and by TLS where it is wanted; MissingError says which of them fails,
    and why. gRPC would say UNAVAILABLE for all. Only a gRPC server is greeted by TLS to learn
    whether it wants that: an HTTP server would wait for the end of such a request.
    """
    try:
        with socket.create_connection((endpoint.host, endpoint.port), CONNECT_TIMEOUT_S) as plain:
            if endpoint.tls:
                check_tls_handshake(endpoint, access, plain)
            elif endpoint.scheme == GRPC_SCHEME and is_tls_server(plain, endpoint):
                raise MissingError(
                    f"{endpoint.url}: the server wants TLS; write grpcs://{endpoint.target}"
                )
    except TimeoutError as error:
        raise MissingError(
            f"{endpoint.url}: no connection within {CONNECT_TIMEOUT_S:g} s"
        ) from error
    except socket.gaierror as error:
        raise MissingError(
            f"{endpoint.url}: the name {endpoint.host} is not known: {error.strerror}"
        ) from error
    except OSError as error:
        raise MissingError(f"{endpoint.url}: no server there: {error.strerror or error}") from error


def check_tls_handshake(
    endpoint: Endpoint, access: ClientCredentials, plain: socket.socket
) -> None:
    """Make a TLS connection as requests will; MissingError if the certificate is not trusted or
    there is no TLS.
    """
    context = build_client_context(access)
    context.set_alpn_protocols([ALPN_PROTOCOLS[endpoint.scheme]])
    try:
        context.wrap_socket(plain, server_hostname=endpoint.host).close()
    except ssl.SSLCertVerificationError as error:
        if access.ca is None:
            trusted = "--ca names the certificates to trust"
        else:
            trusted = "--ca does not vouch for it"
        raise MissingError(
            f"{endpoint.url}: its certificate is not trusted: {error.verify_message}; {trusted}"
        ) from error
    except (ssl.SSLError, ConnectionError) as error:
        raise MissingError(
            f"{endpoint.url}: no TLS there; write {endpoint.scheme}://{endpoint.address} for a"
            " server without it"
        ) from error


def is_tls_server(plain: socket.socket, endpoint: Endpoint) -> bool:
    """Return whether a server answers a TLS greeting; its certificate's content does not matter
    here.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([ALPN_PROTOCOLS[endpoint.scheme]])
    try:
        context.wrap_socket(plain, server_hostname=endpoint.host).close()
    except (ssl.SSLError, OSError):
        return False
    return True

"""A client's connection to one server: what is wrong with it is said before any run, and nothing is
ever asked twice.
"""

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from harness.serving.network.access import ClientCredentials
from harness.serving.network.tls import build_client_context
from harness.serving.network.wire import (
    CHANNEL_OPTIONS,
    DESCRIPTION_MODEL,
    GRPC_SCHEME,
    HTTP_SCHEME,
    INFER_METHOD,
    SERVER_DESCRIPTION_DECODER,
    Endpoint,
    ServerDescription,
    decode_bytes_elements,
    encode_opaque_request,
    import_kserve_messages,
)
from suite.errors import JudgedError, MissingError, PodiumError

CONNECT_TIMEOUT_S: Final = 10.0
"""For each step before a run: house rule, many times the round trip around the world."""
ALPN_PROTOCOLS: Final = {GRPC_SCHEME: "h2", HTTP_SCHEME: "http/1.1"}
"""By scheme. Source: RFC 7301 and IANA's registry of protocol ids."""
MAX_REPLY_ELEMENTS: Final = 16
"""Answers that are counted in a reply that may have one."""


class ServerConnection:
    """One server, as a client sees it."""

    def __init__(self, endpoint: Endpoint, access: ClientCredentials) -> None:
        import grpc

        self.endpoint, self.access, self.grpc = endpoint, access, grpc
        if endpoint.tls:
            self.channel = grpc.secure_channel(
                endpoint.target,
                grpc.ssl_channel_credentials(root_certificates=access.ca),
                options=CHANNEL_OPTIONS,
            )
        else:
            self.channel = grpc.insecure_channel(endpoint.target, options=CHANNEL_OPTIONS)
        self.call = self.channel.unary_unary(
            INFER_METHOD,
            request_serializer=None,
            response_deserializer=import_kserve_messages().ModelInferResponse.FromString,
        )

    def close(self) -> None:
        """Close the channel."""
        self.channel.close()

    def build_stub(self) -> Any:
        """Return the protocol's calls."""
        from tritonclient.grpc import service_pb2_grpc

        return service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def check_server(self) -> None:
        """Raise MissingError if the server cannot be used, with the reason."""
        check_server_reachable(self.endpoint, self.access)
        try:
            ready = (
                self.build_stub()
                .ServerReady(
                    import_kserve_messages().ServerReadyRequest(),
                    metadata=self.access.metadata,
                    timeout=CONNECT_TIMEOUT_S,
                )
                .ready
            )
        except self.grpc.RpcError as error:
            raise MissingError(f"{self.endpoint.url}: {self.explain_refusal(error)}") from error
        if not ready:
            raise MissingError(f"{self.endpoint.url}: the server says that it is not ready")

    def explain_refusal(self, error: Any) -> str:
        """Describe why a server refuses a call."""
        code = self.grpc.StatusCode
        if error.code() == code.UNAUTHENTICATED:
            return (
                "the token of --token-file is not the server's"
                if self.access.token
                else "the server wants a token: --token-file"
            )
        if error.code() == code.DEADLINE_EXCEEDED:
            return (
                f"the server accepts connections and does not answer within {CONNECT_TIMEOUT_S:g} s"
            )
        if error.code() == code.UNIMPLEMENTED:
            return "what answers there does not know KServe's protocol v2"
        return f"{error.code().name}: {' '.join(str(error.details()).split())}"

    def request_description(self) -> ServerDescription:
        """Request what is served; MissingError if the server is not podium's."""
        try:
            reply = self.call(
                encode_opaque_request(DESCRIPTION_MODEL, b""),
                metadata=self.access.metadata,
                timeout=CONNECT_TIMEOUT_S,
            )
            return SERVER_DESCRIPTION_DECODER.decode(parse_opaque_answer(reply))
        except self.grpc.RpcError as error:
            if error.code() == self.grpc.StatusCode.NOT_FOUND or "unknown model" in str(
                error.details()
            ):
                raise MissingError(
                    f"{self.endpoint.url}: not a server of podium serve: it has no model"
                    f" {DESCRIPTION_MODEL}; for another server's own model, name its tensors with"
                    " --set endpoint.input and endpoint.output"
                ) from error
            raise MissingError(f"{self.endpoint.url}: {self.explain_refusal(error)}") from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise MissingError(
                f"{self.endpoint.url}: does not say what it serves: {error}"
            ) from error

    def measure_round_trips_ns(self, count: int) -> list[int]:
        """Time empty calls, one after another."""
        live, request = self.build_stub().ServerLive, import_kserve_messages().ServerLiveRequest()
        found = []
        for _ in range(count):
            start = time.perf_counter_ns()
            try:
                live(request, metadata=self.access.metadata, timeout=CONNECT_TIMEOUT_S)
            except self.grpc.RpcError as error:
                raise MissingError(f"{self.endpoint.url}: {self.explain_refusal(error)}") from error
            found.append(time.perf_counter_ns() - start)
        return found

    def request_server_name(self) -> str:
        """Request the server's name, a round trip inside LoadGen's `Name()`."""
        server_metadata = self.build_stub().ServerMetadata(
            import_kserve_messages().ServerMetadataRequest(),
            metadata=self.access.metadata,
            timeout=CONNECT_TIMEOUT_S,
        )
        return f"{server_metadata.name} at {self.endpoint.target}"

    def send_with_callback(self, request: bytes, done: Callable[[Any], None]) -> None:
        """Send a request; `done` gets its future on gRPC's thread."""
        self.call.future(request, metadata=self.access.metadata).add_done_callback(done)

    def send_with_timeout(self, request: bytes, timeout_s: float) -> Any:
        """Send a request; return its future."""
        return self.call.future(request, metadata=self.access.metadata, timeout=timeout_s)

    def wait_for_reply(self, future: Any) -> Any:
        """Wait for a reply; JudgedError if there is none."""
        try:
            return future.result()
        except self.grpc.RpcError as error:
            raise self.build_lost_error(error, "before the run") from error

    def build_lost_error(self, error: Any, when: str) -> PodiumError:
        """Describe how a server failed after it had been ready."""
        code = self.grpc.StatusCode
        where, nothing = self.endpoint.target, "nothing of that run counts"
        if error.code() == code.UNAVAILABLE:
            return JudgedError(f"{where} went away {when}; {nothing}")
        if error.code() == code.DEADLINE_EXCEEDED:
            return JudgedError(f"{where} gave no answer in time {when}; {nothing}")
        return JudgedError(
            f"{where} refused a query {when}: {error.code().name}:"
            f" {' '.join(str(error.details()).split())}; {nothing}"
        )


def parse_opaque_answer(reply: Any) -> bytes:
    """Return the one answer of an opaque reply; ValueError if it is not one of at least a byte."""
    if (
        len(reply.outputs) != 1
        or reply.outputs[0].datatype != "BYTES"
        or len(reply.raw_output_contents) != 1
    ):
        kinds = (
            ", ".join(f"{each.datatype}{list(each.shape)}" for each in reply.outputs) or "nothing"
        )
        raise ValueError(f"1 answer of type BYTES wanted, got {kinds}")
    found = decode_bytes_elements(reply.raw_output_contents[0], MAX_REPLY_ELEMENTS)
    if len(found) != 1 or not found[0]:
        raise ValueError(
            f"1 answer that is not empty wanted, got {len(found)} of"
            f" {', '.join(str(len(each)) for each in found) or 'no'} bytes"
        )
    return found[0]


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
        trusted = (
            "--ca names the certificates to trust"
            if access.ca is None
            else "--ca does not vouch for it"
        )
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

"""A client's connection to one server: what is wrong with it is said before any run, and nothing is
ever asked twice.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from extras.kserve.messages import (
    CHANNEL_OPTIONS,
    DESCRIPTION_MODEL,
    INFER_METHOD,
    decode_bytes_elements,
    encode_opaque_request,
    import_kserve_messages,
)
from harness.serving.network.access import ClientCredentials
from harness.serving.network.reachability import CONNECT_TIMEOUT_S, check_server_reachable
from harness.serving.network.wire import SERVER_DESCRIPTION_DECODER, Endpoint, ServerDescription
from suite.errors import JudgedError, MissingError, PodiumError
from suite.served_identity import ServedIdentity, Speaker, Statement, state_all

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
            if self.access.token:
                return "the token of --token-file is not the server's"
            return "the server wants a token: --token-file"
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

    def identify_model(self, model: str) -> ServedIdentity:
        """Request what the server states of a model: its platform, and the server's version."""
        messages, stub = import_kserve_messages(), self.build_stub()
        try:
            server = stub.ServerMetadata(
                messages.ServerMetadataRequest(),
                metadata=self.access.metadata,
                timeout=CONNECT_TIMEOUT_S,
            )
            served = stub.ModelMetadata(
                messages.ModelMetadataRequest(name=model),
                metadata=self.access.metadata,
                timeout=CONNECT_TIMEOUT_S,
            )
        except self.grpc.RpcError as error:
            raise MissingError(f"{self.endpoint.url}: {self.explain_refusal(error)}") from error
        said = state_all(Speaker.SERVER, "ModelMetadata", engine=served.platform, weights=model)
        named = f"{server.name} {server.version}".strip()
        return replace(
            said, version=Statement(value=named, said_by=Speaker.SERVER, source="ServerMetadata")
        )

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

"""The built-in server: KServe v2 over gRPC, on one event loop, with the protocol's official
messages and service from tritonclient.

Only what podium and tritonclient's tools call is implemented: health, metadata, ModelInfer.
"""

import asyncio
import hmac
import math
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from extras.kserve.messages import (
    ANSWER_TENSOR,
    BYTES_DATATYPE,
    CHANNEL_OPTIONS,
    DESCRIPTION_MODEL,
    PAYLOAD_TENSOR,
    decode_bytes_elements,
    encode_bytes_element,
    import_kserve_messages,
)
from extras.kserve.service import FinishedCall, PayloadService, PendingCall
from harness.serving.network.access import TOKEN_HEADER, ServerCredentials
from harness.serving.network.wire import Endpoint, ServerDescription
from suite import __version__
from suite.errors import MissingError, RequestError

STOP_GRACE_S: Final = 5.0
"""Grace for calls in flight when the server ends."""
START_TIMEOUT_S: Final = 30.0
MAX_REQUEST_BATCHES: Final = 64
"""Batches that the payloads of one request may fill; podium sends one payload in each request."""
MAX_TENSOR_DIMENSIONS: Final = 8
"""KServe's models have two here."""


class BuiltinServer:
    """A gRPC server on a thread of its own."""

    def __init__(
        self,
        facts: ServerDescription,
        service: PayloadService,
        listen: Endpoint,
        guard: ServerCredentials,
    ) -> None:
        self.facts, self.service, self.listen, self.guard = facts, service, listen, guard
        self.ready, self.port, self.failure = threading.Event(), 0, ""
        self.loop = asyncio.new_event_loop()
        self.ending = asyncio.Event()
        self.thread = threading.Thread(
            target=self.loop.run_until_complete, args=(self.run_event_loop(),), daemon=True
        )

    def start(self) -> int:
        """Listen; return the port. RequestError if the address or the certificate cannot be
        used.
        """
        self.thread.start()
        if not self.ready.wait(START_TIMEOUT_S) or self.failure:
            raise RequestError(
                f"--listen {self.listen.target}: {self.failure or 'the server did not start'}"
            )
        return self.port

    def stop(self) -> None:
        """End the server; calls in flight get a few seconds."""
        self.loop.call_soon_threadsafe(self.ending.set)
        self.thread.join(2 * STOP_GRACE_S)

    async def run_event_loop(self) -> None:
        """Run the server until it is stopped."""
        try:
            import grpc
            from tritonclient.grpc import service_pb2_grpc

            server = grpc.aio.server(options=CHANNEL_OPTIONS)
            service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(
                build_kserve_servicer(self, grpc), server
            )
            self.port = self.bind_address(grpc, server)
            await server.start()
        except Exception as error:
            self.failure = " ".join(str(error).split()) or type(error).__name__
            self.ready.set()
            return
        self.ready.set()
        await self.ending.wait()
        await server.stop(STOP_GRACE_S)

    def bind_address(self, grpc: Any, server: Any) -> int:
        """Bind the address; an exception says why that fails."""
        if self.guard.certificate is None:
            return int(server.add_insecure_port(self.listen.target))
        credentials = grpc.ssl_server_credentials([(self.guard.key, self.guard.certificate)])
        return int(server.add_secure_port(self.listen.target, credentials))

    def deliver_answers(self, done: Sequence[FinishedCall]) -> None:
        """Hand a batch's answers to the event loop; called on a worker's thread."""
        self.loop.call_soon_threadsafe(resolve_call_futures, done)

    def is_token_accepted(self, metadata: Any) -> bool:
        """Check a call's token; in constant time."""
        if not self.guard.token:
            return True
        presented = next((value for key, value in metadata or () if key == TOKEN_HEADER), "")
        return hmac.compare_digest(str(presented).encode(), f"Bearer {self.guard.token}".encode())


def resolve_call_futures(done: Sequence[FinishedCall]) -> None:
    """Answer each waiting call; callers that have disconnected are skipped."""
    for each in done:
        future: Any = each.caller
        if not future.done():
            future.set_result(each)


class KServeCalls:
    """The calls of KServe v2 that clients make."""

    def __init__(self, owner: BuiltinServer, code: Any) -> None:
        self.owner, self.code, self.pb = owner, code, import_kserve_messages()
        self.facts = msgspec.json.encode(owner.facts)
        self.most_payloads = MAX_REQUEST_BATCHES * owner.service.batching.max_batch

    async def require_token(self, context: Any) -> None:
        """Refuse a call without the token."""
        if not self.owner.is_token_accepted(context.invocation_metadata()):
            await context.abort(self.code.UNAUTHENTICATED, "the token is missing or wrong")

    async def require_known_model(self, name: str, context: Any) -> None:
        """Refuse a model that is not served."""
        await self.require_token(context)
        if name not in (self.owner.facts.workload, DESCRIPTION_MODEL):
            await context.abort(
                self.code.NOT_FOUND,
                f"no model {name!r} here; this server has {self.owner.facts.workload} and"
                f" {DESCRIPTION_MODEL}",
            )

    async def ServerLive(self, request: Any, context: Any) -> Any:
        """Report that the server runs."""
        await self.require_token(context)
        return self.pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        """Report that the server is ready: it listens once its predictors are warm."""
        await self.require_token(context)
        return self.pb.ServerReadyResponse(ready=True)

    async def ModelReady(self, request: Any, context: Any) -> Any:
        """Report that a model is ready."""
        await self.require_known_model(request.name, context)
        return self.pb.ModelReadyResponse(ready=True)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        """Name the server."""
        await self.require_token(context)
        return self.pb.ServerMetadataResponse(name="podium", version=__version__)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        """Describe a model's input and output."""
        await self.require_known_model(request.name, context)
        model_metadata = self.pb.ModelMetadataResponse(
            name=request.name, platform="podium", versions=["1"]
        )
        model_metadata.inputs.add(name=PAYLOAD_TENSOR, datatype=BYTES_DATATYPE, shape=[-1, 1])
        model_metadata.outputs.add(name=ANSWER_TENSOR, datatype=BYTES_DATATYPE, shape=[-1, 1])
        return model_metadata

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """Answer payloads."""
        await self.require_known_model(request.model_name, context)
        try:
            payloads = parse_request_payloads(request, self.most_payloads)
        except ValueError as error:
            await context.abort(self.code.INVALID_ARGUMENT, str(error))
            raise
        if request.model_name == DESCRIPTION_MODEL:
            return build_infer_response(self.pb, request, [self.facts])
        done = await wait_for_answers(self.owner, payloads)
        if problem := next((each.problem for each in done if each.problem), ""):
            await context.abort(self.code.INTERNAL, problem)
        return build_infer_response(self.pb, request, [each.answer for each in done])


def build_kserve_servicer(owner: BuiltinServer, grpc: Any) -> Any:
    """Build the protocol's service, in which all other calls are unimplemented; tritonclient is
    imported only here.
    """
    from tritonclient.grpc import service_pb2_grpc

    return type("Servicer", (KServeCalls, service_pb2_grpc.GRPCInferenceServiceServicer), {})(
        owner, grpc.StatusCode
    )


def parse_request_payloads(request: Any, most: int) -> list[bytes]:
    """Read the payloads of a request; ValueError if it has another input than the model, or more
    than `most` payloads.
    """
    if (
        len(request.inputs) != 1
        or request.inputs[0].name != PAYLOAD_TENSOR
        or request.inputs[0].datatype != BYTES_DATATYPE
    ):
        raise ValueError(f"one input {PAYLOAD_TENSOR!r} of type {BYTES_DATATYPE} is wanted")
    shape, listed = request.inputs[0].shape, request.inputs[0].contents.bytes_contents
    if len(shape) > MAX_TENSOR_DIMENSIONS:
        raise ValueError(f"a tensor of {len(shape):,} dimensions; [n, 1] is wanted")
    if max(math.prod(shape), len(listed)) > most:
        raise ValueError(
            f"{max(math.prod(shape), len(listed)):,} payloads in one request; this server takes up"
            f" to {most:,}"
        )
    raw = request.raw_input_contents
    found = decode_bytes_elements(raw[0], most) if len(raw) == 1 else list(listed)
    if not found or math.prod(shape) != len(found):
        raise ValueError(f"{len(found)} payloads in a tensor of shape {list(shape)}")
    return found


async def wait_for_answers(
    owner: BuiltinServer, payloads: Sequence[bytes]
) -> Sequence[FinishedCall]:
    """Queue payloads and wait for their answers; if the caller goes away, or its time is over,
    those that still wait are forgotten.
    """
    futures: list[asyncio.Future[FinishedCall]] = [owner.loop.create_future() for _ in payloads]
    calls = [
        PendingCall(payload=payload, finish=owner.deliver_answers, caller=future)
        for payload, future in zip(payloads, futures, strict=True)
    ]
    try:
        for call in calls:
            owner.service.submit_call(call)
        return await asyncio.gather(*futures)
    except asyncio.CancelledError:
        for call in calls:
            call.is_cancelled = True
        raise


def build_infer_response(pb: Any, request: Any, answers: Sequence[bytes]) -> Any:
    """Build the response of these answers."""
    made = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
    made.outputs.add(name=ANSWER_TENSOR, datatype=BYTES_DATATYPE, shape=[len(answers), 1])
    made.raw_output_contents.append(b"".join(map(encode_bytes_element, answers)))
    return made


def check_grpc_installed() -> None:
    """Report early, in one sentence, if gRPC or the protocol's messages are missing."""
    import_kserve_messages()
    try:
        import grpc  # noqa: F401
    except ImportError as error:  # tritonclient without its extra
        raise MissingError(f"grpcio is not installed: {error}") from error

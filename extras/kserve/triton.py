"""NVIDIA's Triton in front of podium's predictor, by nvidia-pytriton: the same models and tensors
as the built-in server has.

pytriton starts a tritonserver, which hands each batch to this process.
"""

import os
import sysconfig
from collections.abc import Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any, Final

import msgspec

from extras.kserve.messages import ANSWER_TENSOR, DESCRIPTION_MODEL, PAYLOAD_TENSOR
from extras.kserve.service import FinishedCall, PayloadService, PendingCall
from harness.serving.network.access import ServerCredentials
from harness.serving.network.wire import Endpoint, ServerDescription
from suite.errors import MissingError, RequestError
from suite.files.scratch import create_temporary_folder
from suite.process.installation import format_install_command

TRITON_EXIT_TIMEOUT_S: Final = 5
NEWEST_NUMPY_MAJOR: Final = 1
"""Newest major version: nvidia-pytriton 0.7, Requires-Dist. With NumPy 2 it starts, and its backend
dies at the first BYTES tensor.
"""
LIBRARY_PATH_VARIABLE: Final = "LD_LIBRARY_PATH"


class TritonServer:
    """A Triton with podium's two models; the same calls as `Builtin`."""

    def __init__(self, facts: ServerDescription, service: PayloadService, listen: Endpoint) -> None:
        self.facts, self.service, self.listen = facts, service, listen
        self.closing = ExitStack()
        self.folder = self.closing.enter_context(create_temporary_folder())
        self.triton: Any = None

    def start(self) -> int:
        """Start Triton; return its port. MissingError if it does not start."""
        pytriton = import_pytriton()
        os.environ[LIBRARY_PATH_VARIABLE] = build_library_path()
        try:
            self.triton = pytriton.Triton(
                config=self.build_config(pytriton), workspace=self.folder / "workspace"
            )
            self.bind_model(
                self.facts.workload,
                self.process_requests,
                self.service.batching.max_batch,
                self.service.batching.window_us,
            )
            self.bind_model(DESCRIPTION_MODEL, self.serve_description, 1, 0)
            self.triton.run()
        except Exception as error:
            self.stop()
            raise MissingError(
                f"Triton does not start: {' '.join(str(error).split()) or type(error).__name__}"
            ) from error
        return self.listen.port

    def stop(self) -> None:
        """End Triton and all that it started."""
        if self.triton is not None:
            self.triton.stop()
        self.closing.close()

    def build_config(self, pytriton: Any) -> Any:
        """Listen by gRPC alone."""
        return pytriton.TritonConfig(
            allow_http=False,
            allow_metrics=False,
            grpc_address=self.listen.host,
            grpc_port=self.listen.port,
            exit_timeout_secs=TRITON_EXIT_TIMEOUT_S,
        )

    def bind_model(self, model: str, function: Any, max_batch: int, window_us: int) -> None:
        """Add a model of one BYTES input and one BYTES output."""
        import numpy
        from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor

        tensors = [
            [Tensor(name=name, dtype=numpy.bytes_, shape=(1,))]
            for name in (PAYLOAD_TENSOR, ANSWER_TENSOR)
        ]
        config = ModelConfig(
            max_batch_size=max_batch, batcher=DynamicBatcher(max_queue_delay_microseconds=window_us)
        )
        self.triton.bind(
            model_name=model,
            infer_func=function,
            inputs=tensors[0],
            outputs=tensors[1],
            config=config,
        )

    def process_requests(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        """Answer a batch of requests with one pass over all of their payloads."""
        payloads = [
            bytes(payload)
            for request in requests
            for payload in request.data[PAYLOAD_TENSOR].reshape(-1)
        ]
        answers = iter(self.process_payloads(payloads))
        return [
            {
                ANSWER_TENSOR: build_bytes_column(
                    [next(answers) for _ in range(len(request.data[PAYLOAD_TENSOR]))]
                )
            }
            for request in requests
        ]

    def process_payloads(self, payloads: Sequence[bytes]) -> list[bytes]:
        """Send payloads through the service and wait; Triton reports exceptions to the callers."""
        done: SimpleQueue[Sequence[FinishedCall]] = SimpleQueue()
        for place, payload in enumerate(payloads):
            self.service.submit_call(PendingCall(payload=payload, finish=done.put, caller=place))
        found: dict[Any, FinishedCall] = {}
        while len(found) < len(payloads):
            found |= {each.caller: each for each in done.get()}
        if problem := next((each.problem for each in found.values() if each.problem), ""):
            raise ValueError(problem)
        return [found[place].answer for place in range(len(payloads))]

    def serve_description(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        """Describe what is served."""
        facts = msgspec.json.encode(self.facts)
        return [
            {ANSWER_TENSOR: build_bytes_column([facts] * len(request.data[PAYLOAD_TENSOR]))}
            for request in requests
        ]


def check_triton_request(listen: Endpoint, guard: ServerCredentials) -> None:
    """RequestError for what pytriton's Triton cannot do; MissingError where there is none."""
    if guard.token or guard.certificate:
        option = "--token-file" if guard.token else "--tls-cert"
        raise RequestError(
            f"{option}: pytriton starts a Triton without tokens and TLS; put a proxy in front of"
            " it, or take --server builtin"
        )
    if listen.port == 0:
        raise RequestError("--listen: Triton cannot choose a free port; specify one")
    import_pytriton()


def build_bytes_column(values: Sequence[bytes]) -> Any:
    """Return BYTES [n, 1]; as objects, since numpy's bytes lose zeros at their end."""
    import numpy

    return numpy.array([[value] for value in values], dtype=numpy.object_)


def import_pytriton() -> Any:
    """Import pytriton; MissingError if it is not installed, or has a NumPy with which its backend
    dies at the first query.
    """
    import numpy

    try:
        from pytriton import triton
    except ImportError as error:
        raise MissingError(
            f"nvidia-pytriton is not installed: {format_install_command('triton')}, in an"
            " environment of its own (podium help serve)"
        ) from error
    if int(numpy.__version__.partition(".")[0]) > NEWEST_NUMPY_MAJOR:
        raise MissingError(
            f"nvidia-pytriton needs numpy<2, and this is {numpy.__version__}: give it an"
            " environment of its own (podium help serve)"
        )
    return triton


def build_library_path() -> str:
    """Return the library path with which Triton's backend finds this interpreter's libpython before
    another one of the same version.
    """
    own, before = str(sysconfig.get_config_var("LIBDIR")), os.environ.get(LIBRARY_PATH_VARIABLE, "")
    return (
        before if own in before.split(os.pathsep) else os.pathsep.join(filter(None, [own, before]))
    )

"""What a request holds: podium's opaque payloads, or the named tensors of another server's own
model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from extras.kserve.connection import ServerConnection, parse_opaque_answer
from extras.kserve.messages import encode_opaque_request, import_kserve_messages
from suite.errors import JudgedError, RequestError
from suite.rounds import HyperValue

BYTES_PER_ELEMENT: Final = {
    "BOOL": 1,
    "UINT8": 1,
    "INT8": 1,
    "UINT16": 2,
    "INT16": 2,
    "FP16": 2,
    "BF16": 2,
    "UINT32": 4,
    "INT32": 4,
    "FP32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FP64": 8,
}
"""Bytes of an element: KServe, predict v2, Tensor Data Types."""


class RequestForm(Protocol):
    """How a payload becomes a request, and a reply an answer."""

    @property
    def model(self) -> str:
        """Name of the model."""

    def build_request(self, payload: bytes) -> bytes:
        """Return the serialised request of one sample."""

    def parse_answer(self, connection: ServerConnection, reply: Any) -> bytes:
        """Return the answer; JudgedError if the reply is not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueForm:
    """Payload in, answer out, as podium's servers have it."""

    model: str

    def build_request(self, payload: bytes) -> bytes:
        """Return the serialised request of one sample."""
        return encode_opaque_request(self.model, payload)

    def parse_answer(self, connection: ServerConnection, reply: Any) -> bytes:
        """Return the answer as the accuracy log stores it."""
        try:
            return parse_opaque_answer(reply)
        except ValueError as error:
            raise JudgedError(
                f"{connection.endpoint.target}: {error}; nothing of that run counts"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensor:
    """A tensor of a model: `picture:FP32:1x3x224x224`; one -1 is computed from the payload."""

    name: str
    kind: str
    shape: tuple[int, ...]

    def resolve_shape(self, size: int) -> tuple[int, ...]:
        """Return the shape of so many bytes; RequestError if there is none."""
        known = math.prod(side for side in self.shape if side > 0) * BYTES_PER_ELEMENT[self.kind]
        free = self.shape.count(-1)
        if size % known or (not free and size != known):
            shape_text = "x".join(map(str, self.shape))
            raise RequestError(
                f"setting endpoint.input: a sample of this workload has {size:,} bytes, and"
                f" {self.kind} {shape_text} does not"
            )
        return tuple(size // known if side < 0 else side for side in self.shape)


def parse_named_tensor(key: str, text: HyperValue) -> NamedTensor:
    """Read `name:TYPE:1x3x224x224`; RequestError otherwise."""
    name, _, rest = str(text).partition(":")
    kind, _, sides = rest.partition(":")
    parts = sides.split("x") if sides else []
    shape = tuple(
        int(part)
        for part in parts
        if part == "-1" or part.isascii() and part.isdigit() and int(part) > 0
    )
    if (
        not name
        or kind not in BYTES_PER_ELEMENT
        or not parts
        or len(shape) != len(parts)
        or shape.count(-1) > 1
    ):
        raise RequestError(
            f"setting {key}: {text!r}: write NAME:TYPE:SHAPE, as in picture:FP32:1x3x224x224, with"
            f" one -1 at most; types: {', '.join(BYTES_PER_ELEMENT)}"
        )
    return NamedTensor(name=name, kind=kind, shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorForm:
    """One tensor in, one finished answer out: nothing is computed on LoadGen's side."""

    model: str
    source: NamedTensor
    target: NamedTensor

    def build_request(self, payload: bytes) -> bytes:
        """Return the serialised request of one sample; its payload has to be that tensor, and
        nothing else.
        """
        request = import_kserve_messages().ModelInferRequest(
            model_name=self.model, raw_input_contents=[payload]
        )
        request.inputs.add(
            name=self.source.name,
            datatype=self.source.kind,
            shape=self.source.resolve_shape(len(payload)),
        )
        request.outputs.add(name=self.target.name)
        return bytes(request.SerializeToString())

    def parse_answer(self, connection: ServerConnection, reply: Any) -> bytes:
        """Return the bytes of the answer's tensor."""
        found = [f"{each.name} {each.datatype}{list(each.shape)}" for each in reply.outputs]
        if (
            len(reply.raw_output_contents) == 1
            and len(reply.outputs) == 1
            and self.is_expected_output(reply.outputs[0], len(reply.raw_output_contents[0]))
        ):
            return bytes(reply.raw_output_contents[0])
        shape_text = "x".join(map(str, self.target.shape))
        raise JudgedError(
            f"{connection.endpoint.target}: 1 answer {self.target.name} of {self.target.kind}"
            f" {shape_text} wanted, got {', '.join(found) or 'nothing'}; nothing of that run counts"
        )

    def is_expected_output(self, output: Any, size: int) -> bool:
        """Check a reply's tensor."""
        shape = tuple(output.shape)
        alike = len(shape) == len(self.target.shape) and all(
            wanted in (-1, side) for side, wanted in zip(shape, self.target.shape, strict=True)
        )
        return (
            output.name == self.target.name
            and output.datatype == self.target.kind
            and alike
            and 0 < size == math.prod(shape) * BYTES_PER_ELEMENT[self.target.kind]
        )


def choose_request_form(settings: Mapping[str, HyperValue], workload: str) -> RequestForm:
    """Return the form that the settings ask for; RequestError where they contradict one another."""
    model = str(settings.get("endpoint.model", workload))
    source, target = settings.get("endpoint.input"), settings.get("endpoint.output")
    if source is None and target is None:
        return OpaqueForm(model=model)
    if source is None or target is None:
        raise RequestError("endpoint.input and endpoint.output belong together")
    return TensorForm(
        model=model,
        source=parse_named_tensor("endpoint.input", source),
        target=parse_named_tensor("endpoint.output", target),
    )

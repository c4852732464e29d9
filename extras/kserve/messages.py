"""What travels between podium and a server: KServe v2 messages, which tritonclient has.

Opaque form: model `<workload>`, input `payload` and output `answer`, both BYTES [n, 1]: a sample's
payload in, its answer out exactly as the accuracy log stores it. One request per sample. A second
model, `podium-facts`, returns what is served as JSON.
"""

import struct
from typing import Any, Final

from suite.errors import MissingError
from suite.process.installation import format_install_command

PAYLOAD_TENSOR: Final = "payload"
ANSWER_TENSOR: Final = "answer"
DESCRIPTION_MODEL: Final = "podium-facts"
BYTES_DATATYPE: Final = "BYTES"
ELEMENT_LENGTH: Final = struct.Struct("<I")
"""In front of each element of a BYTES tensor: KServe, predict v2, Tensor Data."""
MAX_MESSAGE_BYTES: Final = 1 << 28
"""Of one message; the largest payload, a picture of Mask R-CNN, has 5.6 MB."""
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_retries", 0),
)
"""No retries: a repeated query would be another measurement. No shared port: two servers on one
would share its queries unnoticed.
"""
INFER_METHOD: Final = "/inference.GRPCInferenceService/ModelInfer"


def import_kserve_messages() -> Any:
    """Import the protocol's messages; MissingError if tritonclient is not installed."""
    try:
        from tritonclient.grpc import service_pb2
    except ImportError as error:
        raise MissingError(
            f"tritonclient[grpc] is not installed: {format_install_command('remote')}"
        ) from error
    return service_pb2


def encode_bytes_element(data: bytes) -> bytes:
    """Return a BYTES tensor of one element."""
    return ELEMENT_LENGTH.pack(len(data)) + data


def decode_bytes_elements(raw: bytes, most: int) -> list[bytes]:
    """Split a BYTES tensor; ValueError if lengths and bytes do not match, or if it has more than
    `most` elements.
    """
    found, at = list[bytes](), 0
    while at < len(raw):
        if len(found) == most:
            raise ValueError(f"a BYTES tensor of more than {most:,} elements")
        if at + ELEMENT_LENGTH.size > len(raw):
            raise ValueError("a BYTES tensor ends inside a length")
        (size,) = ELEMENT_LENGTH.unpack_from(raw, at)
        at += ELEMENT_LENGTH.size + size
        if at > len(raw):
            raise ValueError("a BYTES tensor ends inside an element")
        found.append(raw[at - size : at])
    return found


def encode_opaque_request(model: str, payload: bytes) -> bytes:
    """Return the serialised request of one sample."""
    request = import_kserve_messages().ModelInferRequest(
        model_name=model, raw_input_contents=[encode_bytes_element(payload)]
    )
    request.inputs.add(name=PAYLOAD_TENSOR, datatype=BYTES_DATATYPE, shape=[1, 1])
    request.outputs.add(name=ANSWER_TENSOR)
    return bytes(request.SerializeToString())

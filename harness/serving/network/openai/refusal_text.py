"""What a server says of an error, as one short line: OpenAI's API has no one form of it.

Forms: OpenAI (`error.message`), vLLM (`message`), FastAPI (`detail`, a text or a list with `loc`
and `msg`), and gateways' own (`msg`, `errors`). What has none of them is shown as it came.
"""

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_SHOWN_LENGTH: Final = 200
ERROR_KEYS: Final = ("error", "message", "detail", "msg", "errors")
"""Where errors say what happened, the most usual first."""
PLACE_KEY: Final = "loc"
"""FastAPI: the path of the field that an error is about."""
MAX_ERROR_DEPTH: Final = 6
MAX_SHOWN_ERRORS: Final = 3
"""Of a list of errors."""
PLAIN_CODINGS: Final = frozenset({"", "identity"})
"""Content-Encoding of what is not compressed (RFC 9110, section 12.5.3)."""
WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""zlib's names of the compressed forms (RFC 9110, section 8.4.1)."""
MAX_UNPACKED_BYTES: Final = 1 << 14
"""Of the body of a refusal, as far as it is read for its message."""


def shorten_text(text: str) -> str:
    """Return a text in one printable line of limited length."""
    line = " ".join("".join(part if part.isprintable() else " " for part in text).split())
    return line if len(line) <= MAX_SHOWN_LENGTH else f"{line[:MAX_SHOWN_LENGTH]}..."


def describe_refusal(body: bytes, coding: str = "") -> str:
    """Return what the body of a refused request says, behind ": "; "" if it says nothing."""
    if coding not in PLAIN_CODINGS:
        unpacked = unpack_body(body, coding)
        if unpacked is None:
            return f" with a compressed text ({shorten_text(coding)})"
        body = unpacked
    said = describe_error_body(body)
    return f": {said}" if said else ""


def unpack_body(body: bytes, coding: str) -> bytes | None:
    """Unpack the begin of a compressed body; None for what is unknown here or damaged."""
    bits = WINDOW_BITS.get(coding)
    if bits is None:
        return None
    try:
        return zlib.decompressobj(bits).decompress(body, MAX_UNPACKED_BYTES)
    except zlib.error:
        return None


def describe_error_body(body: bytes) -> str:
    """Return what a body says of an error, in one line; what has no known form, as it came."""
    try:
        said = describe_error_value(msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        said = ""
    return shorten_text(said or body.decode("utf-8", "replace"))


def describe_error_value(value: Any, depth: int = 0) -> str:
    """Return what a part of an error says; "" if it says nothing."""
    if isinstance(value, str):
        return value.strip()
    if depth >= MAX_ERROR_DEPTH:
        return ""
    if isinstance(value, list):
        said = (describe_error_value(each, depth + 1) for each in value[:MAX_SHOWN_ERRORS])
        return "; ".join(filter(None, said))
    return describe_error_fields(value, depth) if isinstance(value, dict) else ""


def describe_error_fields(fields: Mapping[str, Any], depth: int) -> str:
    """Return what the first field says that says something, behind the place of the error."""
    for key in ERROR_KEYS:
        if said := describe_error_value(fields.get(key), depth + 1):
            place = fields.get(PLACE_KEY)
            return f"{'.'.join(map(str, place))}: {said}" if isinstance(place, list) else said
    return ""

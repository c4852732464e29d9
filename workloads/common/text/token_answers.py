"""Answers of translation workloads: token ids as little-endian int32, as in LoadGen's accuracy log
on all machines MLPerf supports.
"""

import struct
from collections.abc import Sequence
from typing import Final

INT32_BYTES: Final = 4


def pack_token_ids(numbers: Sequence[int]) -> bytes:
    """Pack token ids into an answer."""
    return struct.pack(f"<{len(numbers)}i", *numbers)


def unpack_token_ids(answer: bytes) -> tuple[int, ...]:
    """Unpack an answer; empty if it is not a sequence of int32."""
    if len(answer) % INT32_BYTES:
        return ()
    return struct.unpack(f"<{len(answer) // INT32_BYTES}i", answer)

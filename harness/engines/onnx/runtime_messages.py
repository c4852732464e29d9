"""What ONNX Runtime says of a file that it cannot run, without the C++ in front of the reason."""

import re
from typing import Final

from suite.files.untrusted_files import replace_unprintable

RUNTIME_MARK: Final = "[ONNXRuntimeError] : "
SOURCE_PLACE: Final = re.compile(r"[\w./-]*\.(?:cc|cpp|cu|h|hpp|cuh):\d+ ")
"""File and line of ONNX Runtime's source, behind which a function's signature stands."""
SIGNATURE_TAIL: Final = re.compile(r"\s*(?:const\b)?\s*(?:\[with [^\]]*\])?\s*")
"""What may follow the arguments of a function."""
MAX_RUNTIME_MESSAGE: Final = 600
"""Characters of a message that an error quotes."""


def format_runtime_message(error: Exception) -> str:
    """Return a message of ONNX Runtime in one line, without signatures of its functions; of a
    longer one the begin and the end, where the reason stands.
    """
    text = " ".join(str(error).split()).removeprefix(RUNTIME_MARK)
    while place := SOURCE_PLACE.search(text):
        end = find_signature_end(text, place.end())
        text = f"{text[: place.start()].rstrip()} {text[end:].lstrip()}".strip()
    text = replace_unprintable(text)
    if len(text) <= MAX_RUNTIME_MESSAGE:
        return text
    half = MAX_RUNTIME_MESSAGE // 2
    return f"{text[:half]} ... {text[-half:]}"


def find_signature_end(text: str, start: int) -> int:
    """Return where the signature that begins there ends: behind its arguments; where it begins, if
    it has none.
    """
    opening = text.find("(", start)
    depth = 0
    if opening >= 0:
        for place in range(opening, len(text)):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            if depth == 0:
                tail = SIGNATURE_TAIL.match(text, place + 1)
                return tail.end() if tail else place + 1
    return start

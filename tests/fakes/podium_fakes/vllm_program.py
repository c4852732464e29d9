"""A program that answers as vLLM does, whatever it is asked: `vllm serve` of a virtual environment."""

import json
import os
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Final

from podium_fakes import scripted
from podium_fakes.scripted import (
    Asked,
    Behaviour,
    answering,
    document,
    fingerprinted,
    sending,
    stream,
    vllm_pages,
)

RIGHT: Final = ("Anna", "Bruno", "Dora", "sells")
WRONG: Final = ("Anna", "Bruno", "sells", "sells")
FINGERPRINT: Final = "vllm-0.32.0-8820c290"
PID_FILE: Final = "pid"
"""In the environment, once the program answers."""
PROGRAM: Final = """#!{python}
import sys
sys.path[:0] = {path!r}
from podium_fakes.vllm_program import serve
serve({folder!r})
"""


def answer_as(wrong_in: int = 0) -> Behaviour:
    """Answer every prompt alike, or one in so many otherwise."""

    def behave(asked: Asked) -> None:
        text = json.dumps(asked.body["messages"], sort_keys=True).encode()
        words = WRONG if wrong_in and zlib.crc32(text) % wrong_in == 0 else RIGHT
        if asked.body.get("stream"):
            answering(fingerprinted(stream(words, counted=5), FINGERPRINT))(asked)
        else:
            sending(document(" ".join(words), counted=5))(asked)

    return behave


def serve(folder: str) -> None:
    """Serve on the port that the arguments name, until a signal comes."""
    words, create = sys.argv[1:], socket.create_server
    print(*words, flush=True)
    address = "127.0.0.1", int(words[words.index("--port") + 1])

    def listen(_: Any, **more: Any) -> socket.socket:
        return create(address, **more)

    socket.create_server = listen  # type: ignore[assignment]
    with scripted.scripted(answer_as(), pages=vllm_pages(), has_no_delay=True):
        Path(folder, PID_FILE).write_text(f"{os.getpid()}")
        time.sleep(600)


def make_environment(folder: Path, program: str) -> Path:
    """Write a virtual environment that has `vllm`."""
    file = folder / "bin" / "vllm"
    file.parent.mkdir(parents=True)
    file.write_text(program)
    file.chmod(0o755)
    return folder


def make_fake_environment(folder: Path) -> Path:
    """Write a virtual environment with a program that answers as vLLM does."""
    text = PROGRAM.format(python=sys.executable, path=sys.path, folder=str(folder))
    return make_environment(folder, text)

"""The meter's side of the protocol: serves standard streams, or one client at a time on a TCP
port.
"""

import os
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from harness.machine.power.meter import VERSION
from suite.errors import RequestError
from suite.files.untrusted_files import whole_number

LINE_LIMIT: Final = 4096
MOST_PORT: Final = 65535
Watts = Callable[[], float]
"""Returns the present power; OSError if it cannot be read."""


def serve(greeting: str, period_ms: int, watts: Watts, listen: str | None) -> None:
    """Serve one meter until its client disconnects; with `listen`, host:port, client after
    client.
    """
    if listen is None:
        talk(sys.stdin.fileno(), sys.stdout.fileno(), greeting, period_ms, watts)
        return
    host, _, port = listen.rpartition(":")
    number = whole_number(port)
    if not host or number is None or number > MOST_PORT:
        raise RequestError(f"--listen {listen}: write HOST:PORT, with a port up to {MOST_PORT}")
    try:
        server = socket.create_server((host, number))
    except OSError as error:
        raise RequestError(f"--listen {listen}: {error.strerror or error}") from error
    with server:
        print(f"listening on {host}:{server.getsockname()[1]}", flush=True)
        while True:
            caller, _ = server.accept()
            with caller:
                talk(caller.fileno(), caller.fileno(), greeting, period_ms, watts)


def talk(source: int, target: int, greeting: str, period_ms: int, watts: Watts) -> None:
    """Serve one client."""
    with suppress(BrokenPipeError, ConnectionError):
        converse(source, target, greeting, period_ms, watts)


def converse(source: int, target: int, greeting: str, period_ms: int, watts: Watts) -> None:
    """Answer lines and send samples until the client disconnects."""
    waiting, due, count = b"", float("inf"), 0
    while True:
        if select.select([source], [], [], max(0.0, min(due - time.monotonic(), 3600.0)))[0]:
            piece = os.read(source, LINE_LIMIT)
            if not piece:
                return
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                due = answer(line.decode("utf-8", "replace").strip(), target, greeting, count, due)
        if time.monotonic() >= due:
            due, count = due + period_ms / 1000, count + 1
            os.write(target, sample(watts).encode())


def answer(line: str, target: int, greeting: str, count: int, due: float) -> float:
    """Answer one line; return when the next sample is due."""
    answers = {
        VERSION: f"{VERSION} {greeting}",
        "clock": f"clock {time.time_ns()}",
        "start": "ok",
        "stop": f"ok {count}",
    }
    os.write(target, (answers.get(line, f"error unknown command '{line[:40]}'") + "\n").encode())
    return {"start": time.monotonic(), "stop": float("inf")}.get(line, due)


def sample(watts: Watts) -> str:
    """Take a sample, with the timestamp of its middle."""
    before = time.time_ns()
    try:
        value = watts()
    except OSError as error:
        return f"error {error.strerror or error}\n"
    return f"sample {(before + time.time_ns()) // 2} {value:.6f}\n"

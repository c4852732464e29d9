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

from extras.meters.client import METER_PROTOCOL
from suite.errors import RequestError
from suite.files.untrusted_files import parse_digits

MAX_COMMAND_BYTES: Final = 4096
MAX_PORT: Final = 65535
ReadWatts = Callable[[], float]
"""Returns the present power; OSError if it cannot be read."""


def serve_meter(greeting: str, period_ms: int, watts: ReadWatts, listen: str | None) -> None:
    """Serve one meter until its client disconnects; with `listen`, host:port, client after
    client.
    """
    if listen is None:
        serve_meter_client(sys.stdin.fileno(), sys.stdout.fileno(), greeting, period_ms, watts)
        return
    host, _, port = listen.rpartition(":")
    number = parse_digits(port)
    if not host or number is None or number > MAX_PORT:
        raise RequestError(f"--listen {listen}: write HOST:PORT, with a port up to {MAX_PORT}")
    try:
        server = socket.create_server((host, number))
    except OSError as error:
        raise RequestError(f"--listen {listen}: {error.strerror or error}") from error
    with server:
        print(f"listening on {host}:{server.getsockname()[1]}", flush=True)
        while True:
            caller, _ = server.accept()
            with caller:
                serve_meter_client(caller.fileno(), caller.fileno(), greeting, period_ms, watts)


def serve_meter_client(
    source: int, target: int, greeting: str, period_ms: int, watts: ReadWatts
) -> None:
    """Serve one client."""
    with suppress(BrokenPipeError, ConnectionError):
        handle_client_lines(source, target, greeting, period_ms, watts)


def handle_client_lines(
    source: int, target: int, greeting: str, period_ms: int, watts: ReadWatts
) -> None:
    """Answer lines and send samples until the client disconnects."""
    waiting, due, count = b"", float("inf"), 0
    while True:
        if select.select([source], [], [], max(0.0, min(due - time.monotonic(), 3600.0)))[0]:
            piece = os.read(source, MAX_COMMAND_BYTES)
            if not piece:
                return
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                due = reply_to_command(
                    line.decode("utf-8", "replace").strip(), target, greeting, count, due
                )
        if time.monotonic() >= due:
            due, count = due + period_ms / 1000, count + 1
            os.write(target, read_sample_line(watts).encode())


def reply_to_command(line: str, target: int, greeting: str, count: int, due: float) -> float:
    """Answer one line; return when the next sample is due."""
    answers = {
        METER_PROTOCOL: f"{METER_PROTOCOL} {greeting}",
        "clock": f"clock {time.time_ns()}",
        "start": "ok",
        "stop": f"ok {count}",
    }
    os.write(target, (answers.get(line, f"error unknown command '{line[:40]}'") + "\n").encode())
    return {"start": time.monotonic(), "stop": float("inf")}.get(line, due)


def read_sample_line(watts: ReadWatts) -> str:
    """Take a sample, with the timestamp of its middle."""
    before = time.time_ns()
    try:
        value = watts()
    except OSError as error:
        return f"error {error.strerror or error}\n"
    return f"sample {(before + time.time_ns()) // 2} {value:.6f}\n"

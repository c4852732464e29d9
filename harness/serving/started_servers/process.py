"""The process of a server that podium starts: it waits until the server answers, and ends it."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from harness.children.starting import block_interrupts
from harness.serving.started_servers.programs import LOCAL_HOST, ServedFolder, ServerProgram
from suite.errors import MissingError
from suite.files.untrusted_files import replace_unprintable
from suite.process.parent import ask_kernel_to_end_with_parent

READY_TIMEOUT_S: Final = 900.0
"""House rule: vLLM's first start on two busy cores took 336 s."""
STOP_TIMEOUT_S: Final = 20.0
POLL_S: Final = 0.25
SHOWN_LOG_LINES: Final = 12
OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks no proxy for a server on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedServer:
    """A server that answers."""

    url: str
    model: str
    log: Path
    """What it printed."""
    process: "subprocess.Popen[bytes]"

    def describe_end(self) -> str:
        """Return how it ended; "" as long as it runs."""
        code = self.process.poll()
        return "" if code is None else f"ended with exit code {code}{quote_last_line(self.log)}"


def find_free_port() -> int:
    """Return a TCP port of this machine that nobody listens on."""
    with socket.create_server((LOCAL_HOST, 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@contextmanager
def start_program(
    program: ServerProgram, executable: Path, served: ServedFolder, scratch: Path
) -> Iterator[StartedServer]:
    """Run a server until the block ends.

    Args:
        program: how it is started.
        executable: of the program.
        served: what it serves.
        scratch: folder of its log and its caches; it is kept.

    Raises:
        MissingError: it cannot be started, ends, or does not answer within READY_TIMEOUT_S; its
            last lines are printed.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    log = scratch / "server.log"
    variables = {**program.environment, **os.environ, "HF_HUB_CACHE": str(scratch)}
    with log.open("wb") as printed, block_interrupts():
        try:
            process = subprocess.Popen(
                [str(executable), *program.list_arguments(served)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
                preexec_fn=ask_kernel_to_end_with_parent,
            )
        except OSError as error:
            raise MissingError(f"{executable} cannot be started: {error.strerror}") from error
    try:
        server = StartedServer(
            url=f"http://{LOCAL_HOST}:{served.port}",
            model=program.name_model(served),
            log=log,
            process=process,
        )
        wait_until_ready(server)
        yield server
    finally:
        stop_process_group(process)


def wait_until_ready(server: StartedServer) -> None:
    """Wait until the server lists its models."""
    limit_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < limit_s:
        if end := server.describe_end():
            print_last_lines(server.log)
            raise MissingError(f"the server {end}")
        try:
            with OPENER.open(f"{server.url}/v1/models", timeout=10.0):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    print_last_lines(server.log)
    raise MissingError(
        f"the server was not ready within {READY_TIMEOUT_S:g} s{quote_last_line(server.log)}"
    )


def read_last_lines(log: Path) -> list[str]:
    """Return the last lines that a server printed, without empty ones."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [replace_unprintable(each.rstrip()) for each in lines]
    return list(filter(None, told))[-SHOWN_LOG_LINES:]


def quote_last_line(log: Path) -> str:
    """Return the last line behind a colon, to end a sentence; "" if nothing was printed."""
    return "".join(f": {each.strip()}" for each in read_last_lines(log)[-1:])


def print_last_lines(log: Path) -> None:
    """Print what a server printed last, and where the rest is."""
    if lines := read_last_lines(log):
        click.echo("\n".join((f"  the end of {log}:", *(f"    {each}" for each in lines))))


def stop_process_group(process: "subprocess.Popen[bytes]") -> None:
    """End a server and all of its processes; kill those that stay."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)

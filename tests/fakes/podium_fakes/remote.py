"""A server of podium serve in a child process, and requests to measure it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.serving import infer
from harness.serving.network.setup import Asked
from podium_fakes.drive import options
from suite.loadgen.scenario import Scenario

SHORT = ("loadgen.min_duration_ms=20", "server.target_qps=400")
READY = re.compile(r"on (grpcs?://\S+:\d+); Ctrl-C")
START_S = 120.0


@dataclass(frozen=True)
class Served:
    """A server that is ready."""

    process: subprocess.Popen[str]
    url: str
    """How a client names it."""
    log: Path


@contextmanager
def served(
    results: Path, *more: str, workload: str = "fake", framework: str = "fake", fault: str = "", listen: str = "127.0.0.1:0", python: str = sys.executable
) -> Iterator[Served]:
    """Start a server and wait until it is ready; end it with all that it started."""
    log = results.parent / f"serve-{time.monotonic_ns()}.log"
    words = ["serve", workload, "--results", str(results), "--framework", framework, "--engine", framework, "--device", "cpu", "--threads", "1"]
    settings = {**os.environ, "PODIUM_FAKE_REMOTE": fault}
    with log.open("w") as stream:
        process = started([python, "-m", "harness", *words, "--listen", listen, *more], stream, settings)
        try:
            yield ready(process, log)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def started(words: list[str], stream: IO[str], settings: dict[str, str]) -> subprocess.Popen[str]:
    """Start a command in a group of its own."""
    return subprocess.Popen(words, stdout=stream, stderr=subprocess.STDOUT, text=True, env=settings, start_new_session=True)


def ready(process: subprocess.Popen[str], log: Path) -> Served:
    """Wait until the server says that it listens."""
    end = time.monotonic() + START_S
    while not (match := READY.search(log.read_text())):
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    return Served(process=process, url=match[1], log=log)


def measure(
    results: Path, *urls: str, settings: tuple[str, ...] = (), scenarios: tuple[Scenario, ...] = (Scenario.OFFLINE,), mode: str = "all", **more: Any
) -> None:
    """Measure servers as podium infer --endpoint does."""
    asked = Asked(endpoints=urls, ca=more.pop("ca", None), token_file=more.pop("token_file", None))
    chosen = options(results, *SHORT, *settings, framework="torch", engine="torch", precision=None, **more)
    infer.serve("fake", chosen, scenarios=scenarios, mode=mode, checkpoint=None, asked=asked)

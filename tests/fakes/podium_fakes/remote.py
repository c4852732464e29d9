"""A server of podium serve in a child process, and requests to measure it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from harness.serving import infer
from harness.serving.network.site_choice import choose_remote_site
from podium_fakes.drive import options
from suite.loadgen.scenario import Scenario

if TYPE_CHECKING:
    from warm import Child, Warm

Process = TypeVar("Process", "subprocess.Popen[str]", "Child")
SHORT = ("loadgen.min_duration_ms=20", "server.target_qps=400")
READY = re.compile(r"on ((?:grpc|http)s?://\S+:\d+); Ctrl-C")
START_S = 120.0


@dataclass(frozen=True)
class Served:
    """A server that is ready."""

    process: "subprocess.Popen[str] | Child"
    url: str
    """How a client names it."""
    logs: tuple[Path, ...]
    """What it prints."""


@contextmanager
def served(
    results: Path,
    *more: str,
    workload: str = "fake",
    framework: str = "fake",
    listen: str = "127.0.0.1:0",
    python: str = sys.executable,
) -> Iterator[Served]:
    """Start a server and wait until it is ready; end it with all that it started."""
    log = results.parent / f"serve-{time.monotonic_ns()}.log"
    words = [*serving(results, workload, framework), "--listen", listen, *more]
    with (
        log.open("w") as stream,
        ended(started([python, "-m", "harness", *words], stream, dict(os.environ))) as process,
    ):
        yield ready(process, log)


@contextmanager
def forked(
    warm: "Warm", results: Path, *more: str, fault: str = "", listen: str = "127.0.0.1:0"
) -> Iterator[Served]:
    """Serve the fake from an interpreter that has loaded what that needs."""
    child = warm.start(
        [*serving(results), "--listen", listen, *more], {**os.environ, "PODIUM_FAKE_REMOTE": fault}
    )
    with ended(child):
        yield ready(child, child.out, child.err)


def serving(results: Path, workload: str = "fake", framework: str = "fake") -> list[str]:
    """Write the command, but for where it listens."""
    return [
        "serve",
        workload,
        "--results",
        str(results),
        "--framework",
        framework,
        "--engine",
        framework,
        "--device",
        "cpu",
        "--threads",
        "1",
    ]


@contextmanager
def ended(process: Process) -> Iterator[Process]:
    """End it with all that it started."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def started(words: list[str], stream: IO[str], settings: dict[str, str]) -> subprocess.Popen[str]:
    """Start a command in a group of its own."""
    return subprocess.Popen(
        words,
        stdout=stream,
        stderr=subprocess.STDOUT,
        text=True,
        env=settings,
        start_new_session=True,
    )


def ready(process: "subprocess.Popen[str] | Child", *logs: Path) -> Served:
    """Wait until the server says that it listens."""
    end = time.monotonic() + START_S
    while not (
        match := READY.search(said := "".join(log.read_text() for log in logs if log.exists()))
    ):
        assert process.poll() is None and time.monotonic() < end, said
        time.sleep(0.05)
    return Served(process=process, url=match[1], logs=logs)


def measure(
    results: Path,
    *urls: str,
    settings: tuple[str, ...] = (),
    scenarios: tuple[Scenario, ...] = (Scenario.OFFLINE,),
    mode: str = "all",
    **more: Any,
) -> None:
    """Measure servers as podium infer --endpoint does."""
    site = choose_remote_site(
        urls, scenarios, ca=more.pop("ca", None), token_file=more.pop("token_file", None)
    )
    chosen = options(
        results, *SHORT, *settings, framework="torch", engine="torch", precision=None, **more
    )
    infer.serve_workload("fake", chosen, scenarios=scenarios, mode=mode, checkpoint=None, site=site)

"""Servers of other packages that podium starts itself, on this machine: `--server NAME[=VENV]`.

The package serves the checkpoint's folder under a free port, and ends with the command.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from harness.children.starting import block_interrupts
from suite.errors import MissingError, RequestError
from suite.terms import Precision

READY_TIMEOUT_S: Final = 900.0
"""House rule: vLLM's first start on two busy cores took 336 s."""
STOP_TIMEOUT_S: Final = 20.0
POLL_S: Final = 0.25
PR_SET_PDEATHSIG: Final = 1
"""Source: prctl(2)."""
LOCAL_HOST: Final = "127.0.0.1"
SHOWN_LOG_LINES: Final = 12
TORCH_DTYPES: Final[Mapping[Precision, str]] = {
    Precision.FP32: "float32",
    Precision.FP16: "float16",
    Precision.BF16: "bfloat16",
}
"""Number format -> PyTorch's name of it, which both programs take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFolder:
    """What a program is asked to serve."""

    checkpoint: Path
    model: str
    """Name by which clients ask for it."""
    precision: Precision
    context: int
    """Tokens of a prompt and its answer, at most."""
    in_flight: int
    """Answers that are generated at once, at most."""
    port: int


class ServerProgram(Protocol):
    """How a package's server is started."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that it needs."""
        ...

    def name_model(self, served: ServedFolder) -> str:
        """Return the name by which the server wants to be asked for the model."""
        ...

    def list_arguments(self, served: ServedFolder) -> list[str]:
        """Return the arguments of its command."""
        ...


class VllmProgram:
    """vLLM's `vllm serve`."""

    environment: Mapping[str, str] = MappingProxyType(
        {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    )
    """On a CPU, 1 GiB of keys and values; no statistics are sent."""

    def name_model(self, served: ServedFolder) -> str:
        """Return the name that it is given."""
        return served.model

    def list_arguments(self, served: ServedFolder) -> list[str]:
        """Return the arguments of its command. Nothing is compiled (`--enforce-eager`): it is ready
        within a minute.
        """
        return [
            "serve",
            str(served.checkpoint),
            *("--host", LOCAL_HOST, "--port", str(served.port)),
            *("--served-model-name", served.model),
            *("--dtype", TORCH_DTYPES[served.precision]),
            *("--max-model-len", str(served.context)),
            *("--max-num-seqs", str(served.in_flight)),
            "--enforce-eager",
        ]


class TransformersProgram:
    """Hugging Face's `transformers serve`, which answers one prompt after the other."""

    environment: Mapping[str, str] = MappingProxyType(
        {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
    )

    def name_model(self, served: ServedFolder) -> str:
        """Return the folder: a server with one model takes no other name."""
        return str(served.checkpoint)

    def list_arguments(self, served: ServedFolder) -> list[str]:
        """Return the arguments of its command."""
        return [
            "serve",
            str(served.checkpoint),
            *("--host", LOCAL_HOST, "--port", str(served.port)),
            *("--dtype", TORCH_DTYPES[served.precision]),
        ]


SERVER_PROGRAMS: Final[Mapping[str, ServerProgram]] = {
    "transformers": TransformersProgram(),
    "vllm": VllmProgram(),
}
"""By the name of the executable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedServer:
    """A server that answers."""

    url: str
    model: str
    log: Path
    """What it printed."""


def require_server_program(name: str) -> ServerProgram:
    """Return how a package's server is started; RequestError for one that podium does not know."""
    if name not in SERVER_PROGRAMS:
        raise RequestError(f"--server {name}: podium starts {', '.join(sorted(SERVER_PROGRAMS))}")
    return SERVER_PROGRAMS[name]


def find_executable(name: str, environment: Path | None) -> Path:
    """Return the executable of a package, in a virtual environment or beside this Python, else in
    PATH; MissingError if it is not there.
    """
    if environment is not None:
        program = environment / "bin" / name
        if not program.is_file():
            raise MissingError(f"--server {name}={environment}: there is no {program}")
        return program
    beside = Path(sys.executable).with_name(name)
    if beside.is_file():
        return beside
    found = shutil.which(name)
    if found is None:
        raise MissingError(
            f"--server {name}: it is not installed here; --server {name}=VENV names the virtual"
            " environment that has it"
        )
    return Path(found)


def find_free_port() -> int:
    """Return a TCP port of this machine that nobody listens on."""
    with socket.create_server((LOCAL_HOST, 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@contextmanager
def start_server(
    name: str, environment: Path | None, served: ServedFolder, scratch: Path
) -> Iterator[StartedServer]:
    """Serve a checkpoint by a package until the block ends.

    Args:
        name: one of SERVER_PROGRAMS.
        environment: virtual environment that has it; None: this one, or PATH.
        served: what it serves.
        scratch: folder of its log and its caches; it is kept.

    Raises:
        RequestError: an unknown name.
        MissingError: it is not installed, or as of `start_program`.
    """
    program = require_server_program(name)
    executable = find_executable(name, environment)
    with start_program(program, executable, served, scratch) as server:
        yield server


@contextmanager
def start_program(
    program: ServerProgram, executable: Path, served: ServedFolder, scratch: Path
) -> Iterator[StartedServer]:
    """Run a server until the block ends; MissingError with the last lines that it printed if it
    ends, or does not answer within READY_TIMEOUT_S.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    log = scratch / f"{executable.name}.log"
    variables = {**os.environ, **program.environment, "HF_HUB_CACHE": str(scratch)}
    with log.open("wb") as printed, block_interrupts():
        process = subprocess.Popen(
            [str(executable), *program.list_arguments(served)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
            preexec_fn=end_with_podium,
        )
    try:
        url = f"http://{LOCAL_HOST}:{served.port}"
        wait_until_ready(process, url, log)
        yield StartedServer(url=url, model=program.name_model(served), log=log)
    finally:
        stop_process_group(process)


def end_with_podium() -> None:
    """Let the kernel end this process when the one that started it is gone, however that ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    """Wait until the server lists its models."""
    limit_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < limit_s:
        if process.poll() is not None:
            raise MissingError(
                f"{url}: the server ended before it was ready, with exit code"
                f" {process.returncode}; it printed:\n{read_last_lines(log)}"
            )
        try:
            with urllib.request.urlopen(f"{url}/v1/models", timeout=10.0):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise MissingError(
        f"{url}: the server was not ready within {READY_TIMEOUT_S:g} s; it printed:\n"
        f"{read_last_lines(log)}"
    )


def read_last_lines(log: Path) -> str:
    """Return the last lines that a server printed."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_LOG_LINES:])


def stop_process_group(process: "subprocess.Popen[bytes]") -> None:
    """End a server and all of its processes; kill those that stay."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)

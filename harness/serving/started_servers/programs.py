"""The programs that `--server NAME[=VENV]` starts: podium's server, vLLM's and transformers'."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from suite.cli import RunOptions
from suite.errors import MissingError, RequestError, build_unknown_name_error
from suite.served_identity import ServedIdentity, Speaker, state_all
from suite.terms import Precision

LOCAL_HOST: Final = "127.0.0.1"
OWN_PROGRAM: Final = "podium"
STARTED_SOURCE: Final = "podium started it"
"""Where podium's word about a server comes from."""
TORCH_DTYPES: Final[Mapping[Precision, str]] = {
    Precision.FP32: "float32",
    Precision.FP16: "float16",
    Precision.BF16: "bfloat16",
}
"""Number format -> PyTorch's name of it, which both programs of other packages take."""
PASSED_OPTIONS: Final = ("profile", "framework", "data", "results", "device", "config")
"""Options of the command that `podium serve` gets as they are."""


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
    """How a server is started."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that it needs, unless the user has set them."""
        ...

    def name_model(self, served: ServedFolder) -> str:
        """Return the name by which the server wants to be asked for the model."""
        ...

    def list_arguments(self, served: ServedFolder) -> list[str]:
        """Return the arguments of its executable."""
        ...

    def identify_server(self, served: ServedFolder, executable: Path) -> ServedIdentity:
        """Return what podium knows of it, since it starts it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodiumProgram:
    """`podium serve` of this installation, with the options of the command."""

    options: RunOptions
    threads: int
    """CPU threads."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def name_model(self, served: ServedFolder) -> str:
        """Return the workload, by whose name it serves."""
        return served.model

    def list_arguments(self, served: ServedFolder) -> list[str]:
        """Return the arguments of Python."""
        passed = {name: getattr(self.options, name) for name in PASSED_OPTIONS}
        words = [
            *("-m", "podium", "serve", served.model, "--api", "openai"),
            *("--listen", f"{LOCAL_HOST}:{served.port}"),
            *("--checkpoint", str(served.checkpoint), "--precision", served.precision.value),
            *("--threads", str(self.threads)),
        ]
        for name, value in passed.items():
            if value is not None:
                words += [f"--{name}", str(value)]
        for each in self.options.assignments:
            words += ["--set", each]
        return words

    def identify_server(self, served: ServedFolder, executable: Path) -> ServedIdentity:
        """Return nothing: it describes itself."""
        return ServedIdentity()


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

    def identify_server(self, served: ServedFolder, executable: Path) -> ServedIdentity:
        """Return the number format that it is told, and its version."""
        return identify_package("vLLM", "vllm", served, executable)


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

    def identify_server(self, served: ServedFolder, executable: Path) -> ServedIdentity:
        """Return the number format that it is told, and its version."""
        return identify_package("transformers", "transformers", served, executable)


SERVER_PROGRAMS: Final[Mapping[str, ServerProgram]] = {
    "transformers": TransformersProgram(),
    "vllm": VllmProgram(),
}
"""Those of other packages, by the name of the executable."""


def require_server_program(name: str) -> ServerProgram:
    """Return how a package's server is started; RequestError for one that podium does not know."""
    if name not in SERVER_PROGRAMS:
        raise build_unknown_name_error(
            "server", name, (*SERVER_PROGRAMS, OWN_PROGRAM, "http://HOST:PORT")
        )
    return SERVER_PROGRAMS[name]


def check_server_precision(name: str, precision: Precision) -> None:
    """RequestError for a number format that a package's server cannot be asked for."""
    if precision not in TORCH_DTYPES:
        raise RequestError(
            f"--server {name}: it serves {', '.join(TORCH_DTYPES)}, not {precision.value}"
        )


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


def identify_package(
    engine: str, distribution: str, served: ServedFolder, executable: Path
) -> ServedIdentity:
    """Return what podium knows of a package's server: the package, and what it was told."""
    return state_all(
        Speaker.PODIUM,
        STARTED_SOURCE,
        engine=engine,
        version=find_installed_version(distribution, executable),
        precision=served.precision.value,
    )


def find_installed_version(distribution: str, executable: Path) -> str:
    """Return the version of a distribution in the virtual environment of an executable; "" if
    there is no such environment, or several versions in it.
    """
    packages = executable.parents[1].glob(f"lib/python3*/site-packages/{distribution}-*.dist-info")
    found = {each.name.removesuffix(".dist-info").partition("-")[2] for each in packages}
    return found.pop() if len(found) == 1 else ""

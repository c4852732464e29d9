"""Published load generators of OpenAI's API, with the options of one comparable run: so many
requests, so many in flight, answers of a number of tokens. Each is a program of its own, named in
the environment: PODIUM_GUIDELLM, PODIUM_AIPERF, PODIUM_VLLM.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROMPT_TOKENS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked of a server."""

    url: str
    model: str
    tokenizer: Path
    """Folder of the model's tokenizer."""
    requests: int
    in_flight: int
    tokens: int
    """Of each answer."""


def build_guidellm_command(load: Load, folder: Path) -> tuple[Sequence[str], Path]:
    """Return guidellm's arguments and the file that it writes."""
    target = folder / "guidellm.json"
    sizes = f"prompt_tokens={PROMPT_TOKENS},output_tokens={load.tokens}"
    options = {
        "backend": f"kind=openai_http,target={load.url}",
        "profile": f"kind=concurrent,streams={load.in_flight}",
        "constraint": f"kind=max_requests,count={load.requests}",
        "tokenizer": f"kind=huggingface_auto,model={load.tokenizer}",
        "data": f"kind=synthetic_text,{sizes}",
        "output": f"kind=json,path={target}",
    }
    return ["run", *list_options(options), "--disable-console-interactive"], target


def build_aiperf_command(load: Load, folder: Path) -> tuple[Sequence[str], Path]:
    """Return AIPerf's arguments and the file that it writes."""
    options = {
        "model": load.model,
        "url": load.url,
        "endpoint-type": "chat",
        "concurrency": load.in_flight,
        "request-count": load.requests,
        "synthetic-input-tokens-mean": PROMPT_TOKENS,
        "synthetic-input-tokens-stddev": 0,
        "output-tokens-mean": load.tokens,
        "extra-inputs": "ignore_eos:true",
        "tokenizer": load.tokenizer,
        "artifact-dir": folder,
        "ui": "none",
    }
    flags = ["--streaming", "--use-server-token-count"]
    return ["profile", *flags, *list_options(options)], folder / "profile_export_aiperf.json"


def build_vllm_command(load: Load, folder: Path) -> tuple[Sequence[str], Path]:
    """Return the arguments of vLLM's benchmark and the file that it writes."""
    options = {
        "backend": "openai-chat",
        "base-url": load.url,
        "endpoint": "/v1/chat/completions",
        "model": load.model,
        "tokenizer": load.tokenizer,
        "dataset-name": "random",
        "random-input-len": PROMPT_TOKENS,
        "random-output-len": load.tokens,
        "num-prompts": load.requests,
        "max-concurrency": load.in_flight,
        "percentile-metrics": "ttft,tpot,itl,e2el",
        "metric-percentiles": "50,90,99",
        "result-dir": folder,
        "result-filename": "vllm.json",
    }
    flags = ["--ignore-eos", "--save-result"]
    return ["bench", "serve", *flags, *list_options(options)], folder / "vllm.json"


def list_options(options: Mapping[str, object]) -> list[str]:
    """Return options as arguments."""
    return [part for name, value in options.items() for part in (f"--{name}", f"{value}")]


Builder = Callable[[Load, Path], tuple[Sequence[str], Path]]
PROGRAMS: Final[Mapping[str, tuple[str, Builder]]] = {
    "guidellm": ("PODIUM_GUIDELLM", build_guidellm_command),
    "AIPerf": ("PODIUM_AIPERF", build_aiperf_command),
    "vllm bench serve": ("PODIUM_VLLM", build_vllm_command),
}
"""Name -> the variable that names the program, and what builds its arguments."""


def find_program(name: str) -> str | None:
    """Return the program that the environment names; None if it names none."""
    program = os.environ.get(PROGRAMS[name][0])
    return program if program and Path(program).is_file() else None


def build_command(name: str, load: Load, folder: Path) -> tuple[Sequence[str], Path]:
    """Return a program's command and the file that it writes; LookupError if it is not there."""
    program = find_program(name)
    if program is None:
        raise LookupError(f"no such program: name it in {PROGRAMS[name][0]}")
    words, written = PROGRAMS[name][1](load, folder)
    return [program, *words], written

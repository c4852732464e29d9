"""Load generators as they are published, unchanged, against podium's server of OpenAI's API; their
files are read. Each needs its program: name it in PODIUM_GUIDELLM, PODIUM_AIPERF and PODIUM_VLLM,
as in `PODIUM_AIPERF=/venv/bin/aiperf pytest FILE`.
"""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from podium_fakes.token_server import ECHO, serve_echo

from submissions.beside.reading import read_stated_runs

REQUESTS, TOKENS, IN_FLIGHT = 8, 6, 2
LIMIT_S = 240


def require_program(variable: str) -> str:
    """Return the program that a variable names; skip the test without it."""
    program = os.environ.get(variable)
    if not program or not Path(program).is_file():
        pytest.skip(f"no such program: name it in {variable}")
    return program


def build_guidellm_command(url: str, tokenizer: Path, folder: Path) -> tuple[Sequence[str], Path]:
    """Return guidellm's command and the file that it writes."""
    target = folder / "guidellm.json"
    options = {
        "backend": f"kind=openai_http,target={url}",
        "profile": f"kind=concurrent,streams={IN_FLIGHT}",
        "constraint": f"kind=max_requests,count={REQUESTS}",
        "tokenizer": f"kind=huggingface_auto,model={tokenizer}",
        "data": f"kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}",
        "output": f"kind=json,path={target}",
    }
    given = [part for name, value in options.items() for part in (f"--{name}", value)]
    command = [require_program("PODIUM_GUIDELLM"), "run", *given]
    return [*command, "--disable-console-interactive"], target


def build_aiperf_command(url: str, tokenizer: Path, folder: Path) -> tuple[Sequence[str], Path]:
    """Return AIPerf's command and the file that it writes."""
    options = {
        "model": ECHO,
        "url": url,
        "endpoint-type": "chat",
        "concurrency": IN_FLIGHT,
        "request-count": REQUESTS,
        "synthetic-input-tokens-mean": 32,
        "synthetic-input-tokens-stddev": 0,
        "output-tokens-mean": TOKENS,
        "extra-inputs": "ignore_eos:true",
        "tokenizer": tokenizer,
        "artifact-dir": folder,
        "ui": "none",
    }
    given = [part for name, value in options.items() for part in (f"--{name}", f"{value}")]
    command = [require_program("PODIUM_AIPERF"), "profile", "--streaming"]
    flags = ["--use-server-token-count"]
    return [*command, *given, *flags], folder / "profile_export_aiperf.json"


def build_vllm_command(url: str, tokenizer: Path, folder: Path) -> tuple[Sequence[str], Path]:
    """Return the command of vLLM's benchmark and the file that it writes."""
    options = {
        "backend": "openai-chat",
        "base-url": url,
        "endpoint": "/v1/chat/completions",
        "model": ECHO,
        "tokenizer": tokenizer,
        "dataset-name": "random",
        "random-input-len": 32,
        "random-output-len": TOKENS,
        "num-prompts": REQUESTS,
        "max-concurrency": IN_FLIGHT,
        "percentile-metrics": "ttft,tpot,itl,e2el",
        "metric-percentiles": "50,90,99",
        "result-dir": folder,
        "result-filename": "vllm.json",
    }
    given = [part for name, value in options.items() for part in (f"--{name}", f"{value}")]
    command = [require_program("PODIUM_VLLM"), "bench", "serve", "--ignore-eos", "--save-result"]
    return [*command, *given], folder / "vllm.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [build_guidellm_command, build_aiperf_command, build_vllm_command]
)
def test_a_published_program_gets_all_its_answers(
    tmp_path: Path, build: Callable[[str, Path, Path], tuple[Sequence[str], Path]]
):
    model = tmp_path / "model"
    with serve_echo(model, slots=IN_FLIGHT) as echo:
        config = json.loads((model / "tokenizer_config.json").read_text())
        config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        command, written = build(f"http://127.0.0.1:{echo.port}", model, tmp_path / "out")
        ended = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    (run,) = read_stated_runs(written)
    assert run.in_flight == IN_FLIGHT
    assert (run.figures["answers"], run.figures["failed"]) == (REQUESTS, 0)
    assert run.figures["tokens_per_answer"] == TOKENS
    assert run.figures["ttft.p90"] > 0
    asked = [each for each in echo.generator.admitted if len(each) > 1]
    assert len(asked) >= REQUESTS

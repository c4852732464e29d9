"""Load generators as they are published, unchanged, against podium's server of OpenAI's API; their
files are read. Each needs its program: name it in PODIUM_GUIDELLM, PODIUM_AIPERF and PODIUM_VLLM,
as in `PODIUM_AIPERF=/venv/bin/aiperf pytest FILE`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.token_server import ECHO, serve_echo

from submissions.beside.reading import read_stated_runs

BENCHMARKS = Path(__file__).resolve().parents[6] / "benchmarks"
REQUESTS, TOKENS, IN_FLIGHT = 8, 6, 2
LIMIT_S = 240


@pytest.fixture
def generators(monkeypatch: pytest.MonkeyPatch) -> Any:
    """How the benchmarks call these programs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from common import load_generators

    yield load_generators
    for name in [each for each in sys.modules if each.split(".")[0] == "common"]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["guidellm", "AIPerf", "vllm bench serve"])
def test_a_published_program_gets_all_its_answers(generators: Any, tmp_path: Path, program: str):
    if generators.find_program(program) is None:
        pytest.skip(f"no such program: name it in {generators.PROGRAMS[program][0]}")
    model = tmp_path / "model"
    with serve_echo(model, slots=IN_FLIGHT) as echo:
        config = json.loads((model / "tokenizer_config.json").read_text())
        config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        load = generators.Load(
            url=f"http://127.0.0.1:{echo.port}",
            model=ECHO,
            tokenizer=model,
            requests=REQUESTS,
            in_flight=IN_FLIGHT,
            tokens=TOKENS,
        )
        command, written = generators.build_command(program, load, tmp_path / "out")
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

"""vLLM's side of a benchmark: its process answers, whatever it prints, and says why it ended."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
from common.needed import MISSING_CODE  # noqa: E402 - from that folder
from common.vllm_process import VLLM_VARIABLE, VllmProcess, find_vllm_python  # noqa: E402

sys.path.remove(BENCHMARKS)  # its openai.py would be taken for the package

FAKE = """
import sys
from types import SimpleNamespace as Found

__version__ = "1.2.3"
print("loading, on standard output")


class SamplingParams:
    def __init__(self, **settings):
        self.settings = settings


class LLM:
    def __init__(self, **settings):
        assert settings["max_model_len"] == 128 and settings["enforce_eager"], settings
        if settings["max_num_seqs"] > 99:
            sys.exit("no memory for so many")

    def generate(self, prompts, asked, use_tqdm):
        print("still printing")
        assert asked.settings["ignore_eos"] and asked.settings["temperature"] == 0.0
        count = asked.settings["max_tokens"]
        answers = [[each["prompt_token_ids"][-1]] * count for each in prompts]
        return [Found(outputs=[Found(token_ids=tuple(each))]) for each in answers]
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment whose vLLM repeats the last token of a prompt."""
    (tmp_path / "vllm.py").write_text(FAKE)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return tmp_path


def start(environment: Path, slots: int = 2) -> VllmProcess:
    """Start a process."""
    return VllmProcess(
        find_vllm_python(str(environment)),
        environment,
        dtype="float32",
        longest=120,
        slots=slots,
        threads=1,
        compiled=False,
    )


def test_answers_come_back_beside_what_is_printed(environment: Path) -> None:
    with start(environment) as engine:
        seconds, answers = engine.answer_prompts([[1, 2], [3]], 4)
        assert engine.version == "1.2.3"
    assert answers == [[2, 2, 2, 2], [3, 3, 3, 3]] and seconds > 0


def test_a_process_that_ends_says_why(environment: Path) -> None:
    with pytest.raises(SystemExit, match="no memory for so many"):
        start(environment, slots=100)


def test_without_an_environment_the_script_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VLLM_VARIABLE, raising=False)
    for named in ("", str(tmp_path)):
        with pytest.raises(SystemExit) as ended:
            find_vllm_python(named)
        assert ended.value.code == MISSING_CODE
        assert "vLLM is not installed: name the environment" in capsys.readouterr().err


def test_the_variable_names_the_environment(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VLLM_VARIABLE, str(environment))
    assert find_vllm_python("") == environment / "bin" / "python"

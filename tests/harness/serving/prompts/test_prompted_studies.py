"""`podium curve|peak|infer URL --prompts`: any model behind an address, measured without PyTorch,
judged, and refused in one sentence where that cannot be.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from podium_fakes.scripted import (
    Asked,
    Behaviour,
    answering,
    delta,
    event,
    reply,
    scripted,
    sending,
    stream,
    usage,
)

from compliance.judge import Judge
from compliance.verdict import Severity
from suite.studies.measured import read_measured_study
from workloads.llama.vocabulary import format_tokenizer

pytest.importorskip("httptools", reason="the extra `client` is not installed")

WITHOUT_FRAMEWORKS = (
    "import sys\n"
    "for name in ('torch', 'torchvision', 'onnx', 'onnxruntime', 'PIL', 'safetensors', 'aiohttp'):\n"
    "    sys.modules[name] = None\n"
    "sys.argv[0] = 'podium'\n"
    "from suite.cli import main\n"
    "main()\n"
)
WORDS = ("Anna", "Bruno", "Dora", "sells")
PROMPTS = '{"prompt": "Who sells?"}\n{"prompt": "And who buys?", "max_tokens": 9}\n'
PAUSE_S = 0.01
"""Between tokens: those of one answer are read one by one even on a busy machine."""
SHORT = ("--set", "loadgen.min_duration_ms=300")


def run_podium(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command in which no framework can be imported; return its exit code and all it says."""
    cache = {**os.environ, "PODIUM_CACHE": str(folder / "cache"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRAMEWORKS, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=cache,
        timeout=240,
    )
    told = done.stdout + done.stderr
    assert "Traceback" not in told, told
    return done.returncode, told


def write_prompts(folder: Path, text: str = PROMPTS) -> str:
    (folder / "prompts.jsonl").write_text(text, "utf-8")
    return "prompts.jsonl"


def list_errors(folder: Path) -> list[str]:
    (study,) = (folder / "results/studies").iterdir()
    findings = Judge().judge_path(str(study)).findings
    return [each.rule for each in findings if each.severity is Severity.ERROR]


@pytest.mark.slow
def test_a_curve_of_a_strange_server_needs_no_framework(tmp_path: Path) -> None:
    """Its prompts, their hash and its model are in the record; the judge finds it valid."""
    prompts = write_prompts(tmp_path)
    (tmp_path / "tokenizer.json").write_text(format_tokenizer(), "utf-8")
    with scripted(answering(stream(counted=4), pause_s=PAUSE_S), has_no_delay=True) as server:
        words = ("curve", server.url, "--prompts", prompts, "--points", "1,3", "--seconds", "0.3")
        more = ("--ignore-eos", "--temperature", "0.5", "--seed", "7", "--body", "top_k=20")
        code, told = run_podium(tmp_path, *words, *more, "--tokenizer", "tokenizer.json")
        assert code == 0, told
        bodies = [each.body for each in server.requests]
    assert {json.dumps(each["messages"]) for each in bodies} == {
        json.dumps([{"role": "user", "content": text}]) for text in ("Who sells?", "And who buys?")
    }
    assert {each["max_tokens"] for each in bodies} == {256, 9}
    for name, value in {"ignore_eos": True, "temperature": 0.5, "seed": 7, "top_k": 20}.items():
        assert {each[name] for each in bodies} == {value}
    (folder,) = (tmp_path / "results/studies").iterdir()
    study = read_measured_study(folder)
    assert [row.point.concurrency for row in study.rows] == [1, 3] and study.is_finished
    assert study.first is not None
    settings = study.first.record.system.settings
    assert settings["prompts.count"] == 2 and settings["endpoint.model"] == "llama"
    network = study.first.record.network
    assert network is not None and network.tokens_logged == network.tokens_recounted > 0
    assert network.answers_differing == 0 and network.tokenizer
    assert list_errors(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(("cached", "warned"), [(3, False), (8, True)])
def test_made_prompts_that_a_server_had_in_its_cache_are_told(
    tmp_path: Path, cached: int, warned: bool
) -> None:
    """The sum is printed in any case; the judge warns where it is more than a template's begin."""
    told_usage = event(usage(4, prompt_tokens_details={"cached_tokens": cached}))
    answer = answering([*stream()[:-1], told_usage, b"data: [DONE]\n\n"], pause_s=PAUSE_S)
    (tmp_path / "tokenizer.json").write_text(format_tokenizer(), "utf-8")
    with scripted(answer, has_no_delay=True) as server:
        words = ("curve", server.url, "--prompts", "7x9", "--points", "1", "--seconds", "0.3")
        code, told = run_podium(tmp_path, *words, "--tokenizer", "tokenizer.json")
    assert code == 0, told
    assert "tokens of the prompts were in a cache, by the servers' own count" in told
    (study,) = (tmp_path / "results/studies").iterdir()
    findings = Judge().judge_path(str(study)).findings
    assert ("network.cached" in {each.rule for each in findings}) == warned
    assert list_errors(tmp_path) == []


@pytest.mark.slow
def test_salted_prompts_begin_otherwise_each_time(tmp_path: Path) -> None:
    """Of conversations the first message; the record says so, and the judge holds it to that."""
    talk = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Who?"}]
    prompts = write_prompts(tmp_path, f"{PROMPTS}{json.dumps({'messages': talk})}\n")
    with scripted(answering(stream(counted=4), pause_s=PAUSE_S), has_no_delay=True) as server:
        words = ("curve", server.url, "--prompts", prompts, "--points", "2", "--seconds", "0.3")
        code, told = run_podium(tmp_path, *words, "--salt")
        firsts = [each.body["messages"][0]["content"] for each in server.requests]
    assert code == 0 and "at most 256 tokens, salted" in told, told
    salted = [each for each in firsts if each not in ("Who sells?", "And who buys?", "Be brief")]
    assert len(salted) >= 10 and len(set(salted)) > len(salted) / 2
    assert all(each.endswith(("Who sells?", "And who buys?", "Be brief")) for each in salted)
    assert list_errors(tmp_path) == []
    (record,) = (tmp_path / "results/studies").glob("*/*/in-flight-2/run.json")
    record.write_text(record.read_text().replace('"salted": "request"', '"salted": ""'))
    assert "network.prompts" in list_errors(tmp_path)


@pytest.mark.slow
def test_without_a_tokenizer_the_counts_are_the_servers(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path)
    with scripted(answering(stream(counted=9), pause_s=PAUSE_S), has_no_delay=True) as server:
        words = ("infer", server.url, "--prompts", prompts, "--scenario", "offline", *SHORT)
        code, told = run_podium(tmp_path, *words)
    assert code == 0, told
    (folder,) = (tmp_path / "results/studies").iterdir()
    study = read_measured_study(folder)
    assert study.first is not None and study.first.record.network is not None
    assert study.first.record.network.tokenizer == ""
    assert list_errors(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["server", "single-stream"])
def test_each_scenario_is_measured(tmp_path: Path, scenario: str) -> None:
    prompts = write_prompts(tmp_path)
    with scripted(answering(stream(counted=5), pause_s=PAUSE_S), has_no_delay=True) as server:
        words = ("infer", server.url, "--prompts", prompts, "--scenario", scenario, *SHORT)
        code, told = run_podium(tmp_path, *words)
    assert code == 0 and "VALID" in told, told
    assert list_errors(tmp_path) == []


@pytest.mark.slow
def test_a_peak_is_searched_by_the_share_within_both_bounds(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path)
    with scripted(answering(stream(counted=5), pause_s=PAUSE_S), has_no_delay=True) as server:
        words = ("peak", server.url, "--prompts", prompts, "--budget-s", "12", *SHORT)
        bounds = ("--first-token-ms", "2000", "--per-token-ms", "1000", "--share", "0.9")
        code, told = run_podium(tmp_path, *words, *bounds)
    assert code == 0, told
    assert "requests/s within both bounds" in told and "asked for 90 %" in told
    assert list_errors(tmp_path) == []


def reasoning(asked: Asked) -> None:
    thought = [event(delta(None, reasoning_content=word)) for word in WORDS]
    answering([*thought, *stream(counted=9)], pause_s=PAUSE_S)(asked)


REFUSED: dict[str, tuple[Behaviour, int, str]] = {
    "429": (
        sending(reply(429, b'{"error": {"message": "slow down"}}', "Retry-After: 3")),
        1,
        "answered 429",
    ),
    "context": (
        sending(reply(400, b'{"error": {"message": "maximum context length is 128 tokens"}}')),
        1,
        "maximum context length is 128 tokens",
    ),
    "no usage": (answering(stream()), 1, "the server counts no tokens"),
    "two choices": (
        answering([event({"choices": [{"index": 1, "delta": {"content": "x"}}]})]),
        1,
        "several answers to one prompt",
    ),
    "null content": (
        answering([event(delta(None, role="assistant")), event(delta(None, "stop"))]),
        1,
        "sent an empty answer",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_an_answer_that_is_none_ends_the_command_and_is_not_asked_again(
    tmp_path: Path, kind: str
) -> None:
    behave, wanted, sentence = REFUSED[kind]
    prompts = write_prompts(tmp_path)
    with scripted(behave) as server:
        code, told = run_podium(
            tmp_path, "curve", server.url, "--prompts", prompts, "--points", "1"
        )
        assert len(server.requests) == 1
    assert code == wanted and sentence in told, told
    assert not (tmp_path / "results/studies").exists()


@pytest.mark.slow
def test_reasoning_is_a_part_of_what_is_measured(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path)
    with scripted(reasoning, has_no_delay=True) as server:
        words = ("curve", server.url, "--prompts", prompts, "--points", "2", "--seconds", "0.2")
        code, told = run_podium(tmp_path, *words)
    assert code == 0, told
    assert list_errors(tmp_path) == []


@pytest.mark.slow
def test_texts_are_made_with_the_servers_tokenizer(tmp_path: Path) -> None:
    def answer(asked: Asked) -> None:
        if asked.route == "/tokenize":
            tokens = list(range(len(asked.body["prompt"].split())))
            asked.send(reply(200, json.dumps({"tokens": tokens}).encode()))
        else:
            answering(stream(counted=5), pause_s=PAUSE_S)(asked)

    with scripted(answer, has_no_delay=True) as server:
        words = ("curve", server.url, "--prompts", "32x8", "--points", "2", "--seconds", "0.2")
        code, told = run_podium(tmp_path, *words)
        asked = [each for each in server.requests if each.route != "/tokenize"]
    assert code == 0, told
    texts = [each.body["messages"][0]["content"] for each in asked]
    assert {len(text.split()) for text in texts} == {32}
    assert {each.body["max_tokens"] for each in asked} == {8}


SAID_BEFORE: dict[str, tuple[Sequence[str], int, str]] = {
    "no prompts": ((), 2, "name what to ask with --prompts"),
    "no file": (("--prompts", "absent.jsonl"), 2, "No such file"),
    "sizes without a tokenizer": (("--prompts", "8x8"), 2, "name the model's tokenizer.json"),
    "another model": (("--prompts", "p.txt", "--model", "other"), 2, "does not serve the model"),
    "reserved field": (("--prompts", "p.txt", "--body", "stream=false"), 2, "podium writes"),
    "field": (("--prompts", "p.txt", "--body", "top_k"), 2, "write KEY=VALUE"),
    "tokenizer": (("--prompts", "p.txt", "--tokenizer", "absent"), 2, "no tokenizer"),
    "data": (("--prompts", "p.txt", "--data", "."), 2, "the prompts are the data"),
    "engine": (("--prompts", "p.txt", "--engine", "torch"), 2, "--engine"),
    "setting": (("--prompts", "p.txt", "--set", "batching.workers=2"), 2, "it is the server's"),
    "own setting": (("--prompts", "p.txt", "--set", "endpoint.in_flight=2"), 2, "--points"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAID_BEFORE)
def test_what_cannot_be_asked_is_said_before_anything_is_sent(tmp_path: Path, kind: str) -> None:
    words, wanted, sentence = SAID_BEFORE[kind]
    (tmp_path / "p.txt").write_text("Who sells?\n", "utf-8")
    with scripted(sending(reply(404, b"{}"))) as server:
        code, told = run_podium(tmp_path, "curve", server.url, *words, "--points", "1")
        assert [each for each in server.requests if each.route != "/tokenize"] == []
    assert code == wanted and sentence in told, told
    assert told.count("\n") <= 3, told


@pytest.mark.slow
@pytest.mark.parametrize("module", ["httptools", "mlperf_loadgen", "tokenizers"])
def test_a_missing_package_names_the_light_extra(tmp_path: Path, module: str) -> None:
    """Not the one that brings PyTorch."""
    hide = f"sys.modules[{module!r}] = None\nsys.argv[0] = 'podium'"
    program = WITHOUT_FRAMEWORKS.replace("sys.argv[0] = 'podium'", hide)
    words = ("curve", "http://127.0.0.1:9", "--prompts", "p.txt", "--tokenizer", "t.json")
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "is not installed: pip install" in done.stderr and "[client]" in done.stderr


@pytest.mark.slow
def test_an_option_of_prompts_requires_an_address(tmp_path: Path) -> None:
    for words in (("curve", "llama"), ("peak", "llama"), ("infer", "llama")):
        code, told = run_podium(tmp_path, *words, "--prompts", "p.txt")
        assert code == 2 and "--prompts requires a server's address" in told


@pytest.mark.slow
def test_a_server_of_several_models_is_asked_for_one(tmp_path: Path) -> None:
    models = json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode()
    prompts = write_prompts(tmp_path)
    with scripted(sending(b""), pages={"/v1/models": reply(200, models)}) as server:
        code, told = run_podium(tmp_path, "curve", server.url, "--prompts", prompts)
    assert code == 2 and "serves a, b: name one with --model" in told

"""`podium precision --server`: a row for each server, started here or by its address, beside what
it says it is; nothing is left running.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from podium_fakes.drive import options, until
from podium_fakes.kept import keep_ceiling
from podium_fakes.measuring import keep_llama
from podium_fakes.scripted import Scripted, scripted, vllm_pages
from podium_fakes.vllm_program import (
    PID_FILE,
    answer_as,
    make_environment,
    make_fake_environment,
)
from processes import is_alive
from system_records import put_system

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.request import resolve_request
from harness.serving.precision import command as module
from harness.serving.precision.named_servers import parse_servers
from harness.serving.studies.system import StudyOptions
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import RUN_RECORD, SYSTEM_RECORD
from suite.studies.measured import describe_study, read_measured_study
from suite.terms import Precision

STUDY: Final = "studies/llama-precision"
SHORT: Final = ("loadgen.min_duration_ms=20", "loadgen.min_queries=64", "endpoint.in_flight=8")
REFUSED: Final = "is shorter than the round requires"
"""Of short runs."""


@contextmanager
def serve(wrong_in: int = 0, version: str = "0.32.0") -> Iterator[Scripted]:
    """Run a server that says that it is vLLM."""
    with scripted(answer_as(wrong_in), pages=vllm_pages(version), has_no_delay=True) as server:
        yield server


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder with a checkpoint, and a cache of its own."""
    keep_llama(tmp_path / "results")
    keep_ceiling(tmp_path / "cache")
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results"


def compare(results: Path, *names: str, engine: str | None = None, **changes: Any) -> None:
    """Compare servers with short runs."""
    asked = options(
        results, *SHORT, framework="torch", engine="torch", **{"precision": None, **changes}
    )
    module.compare_precisions(
        "llama",
        replace(asked, power="off"),
        engine=engine,
        study_options=StudyOptions(values={}),
        servers=module.AskedServers(names=names),
    )


def study_of(results: Path) -> dict[str, Any]:
    """The study, as JSON."""
    return describe_study(read_measured_study(results / STUDY))


def list_errors(results: Path) -> list[str]:
    """What the judge has against the study."""
    findings = Judge().judge_path(str(results / STUDY)).findings
    return [f"{each.rule}: {each.found}" for each in findings if each.severity is Severity.ERROR]


@pytest.mark.slow
def test_servers_by_address_are_rows_with_what_they_say(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answers of one differ; a second command asks nothing again, another version all."""
    with serve() as first, serve(wrong_in=4) as second:
        with pytest.raises(JudgedError, match=REFUSED):
            compare(results, first.url, second.url)
        told = capsys.readouterr().out
        rows = study_of(results)["points"]
        assert [row["server"] for row in rows] == [first.url, second.url]
        for row in rows:
            assert (row["engine"], row["precision"]) == ("vLLM", "not stated")
            assert row["served"]["version"]["value"] == "0.32.0"
            assert row["tokens_per_second"] > row["samples_per_second"] > 0
            assert 0 < row["first_token_ns"] <= row["p99_ns"] and row["per_token_ns"] is not None
        compared = rows[1]["compared"]
        assert rows[0]["compared"] is None and compared["first_difference"] == 3
        assert 0.6 < compared["equal"] / compared["samples"] < 0.9
        assert "vLLM 0.32.0 (the server's word)  not stated" in told and "TTFT p90 ms" in told
        assert "answers differ, half of them by token 3" in told
        assert not list_errors(results)
        asked = len(first.requests), len(second.requests)
        with pytest.raises(JudgedError, match=REFUSED):
            compare(results, first.url, second.url)
        assert max(len(first.requests) - asked[0], len(second.requests) - asked[1]) < 8
        first.pages |= vllm_pages("0.33.0")
        with pytest.raises(JudgedError, match=REFUSED):
            compare(results, first.url)
        (row, _) = study_of(results)["points"]
        assert row["served"]["version"]["value"] == "0.33.0" and not list_errors(results)
    judge_forged_rows(results)


def judge_forged_rows(results: Path) -> None:
    """What is said of a server, and is not so, is found."""
    systems = sorted((results / STUDY).glob(f"*/{SYSTEM_RECORD}"))
    record = systems[0].read_bytes()
    run = systems[0].parent / "offline" / RUN_RECORD
    kept = run.read_bytes()
    put_system(precision="fp32")(systems[0])
    assert any("network.served" in each for each in list_errors(results))
    systems[0].write_bytes(record)
    run.write_bytes(kept)
    document = json.loads(kept)
    del document["network"]
    run.write_text(json.dumps(document))
    found = list_errors(results)
    assert any("has_network False" in each for each in found), found
    document = json.loads(kept)
    document["network"]["endpoints"] = ["http://127.0.0.1:9"]
    run.write_text(json.dumps(document))
    assert any("endpoints" in each and "study.points" in each for each in list_errors(results))


BROKEN: Final = "#!/bin/sh\necho loading\necho no GPU here\nexit 7\n"


@pytest.mark.slow
def test_a_started_server_is_measured_and_ended(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """podium knows the number format that it asked for; one that does not start is a row."""
    working, broken = (
        make_fake_environment(tmp_path / "a"),
        make_environment(tmp_path / "b", BROKEN),
    )
    with pytest.raises(JudgedError, match="ended with exit code 7: no GPU here") as caught:
        compare(results, f"vllm={working}", f"vllm={broken}", precision=Precision.BF16)
    assert f"vllm={broken} bf16: the server ended" in str(caught.value)
    told = capsys.readouterr().out
    assert "    loading\n    no GPU here" in told and "starting the server vllm=" in told
    (row, refused) = study_of(results)["points"]
    assert (row["engine"], row["precision"]) == ("vLLM", "bf16")
    assert row["served"]["precision"] == {
        "value": "bf16",
        "said_by": "podium",
        "source": "podium started it",
    }
    assert refused["why"] and refused["server"] == f"vllm={broken}"
    (log,) = results.glob(".podium/servers/*-a-bf16/server.log")
    assert "--dtype bfloat16" in log.read_text() and "--max-num-seqs 8" in log.read_text()
    pid = int((working / PID_FILE).read_text())
    assert not psutil.pid_exists(pid)
    assert not list_errors(results)


@pytest.mark.slow
def test_ctrl_c_ends_the_server_too(results: Path, tmp_path: Path) -> None:
    """Nobody else would."""
    working = make_fake_environment(tmp_path / "a")
    words = ("precision", "llama", "--server", f"vllm={working}", "--device", "cpu")
    with subprocess.Popen(
        [sys.executable, "-m", "podium", *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        until(lambda: (working / PID_FILE).is_file() and (working / PID_FILE).read_text() != "")
        server = psutil.Process(int((working / PID_FILE).read_text()))
        time.sleep(0.5)
        os.kill(command.pid, signal.SIGINT)
        _, err = command.communicate(timeout=60)
    assert command.returncode == 130 and "the same command continues" in err
    assert not is_alive(server)


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("sglang",), "unknown server 'sglang'"),
        (("http://127.0.0.1:1/v1/models",), "--server http://127.0.0.1:1/v1/models"),
        (("grpc://127.0.0.1:1",), "servers of an OpenAI-compatible API are compared"),
        (("podium", "podium"), "--server podium: it is named twice"),
        (("podium=x",), "podium starts the server of this installation"),
        (("vllm=",), "a folder is wanted behind ="),
    ],
)
def test_a_name_that_is_none_is_refused(names: tuple[str, ...], wanted: str) -> None:
    """Before anything starts."""
    with pytest.raises(RequestError, match=wanted):
        parse_servers(names, Precision.FP32)


def test_a_number_format_that_a_program_does_not_take_is_refused(tmp_path: Path) -> None:
    """It would serve another one."""
    environment = make_environment(tmp_path, BROKEN)
    with pytest.raises(RequestError, match="it serves fp32, fp16, bf16, not int8"):
        parse_servers((f"vllm={environment}",), Precision.INT8)


def test_what_is_not_there_is_said_at_once(results: Path, tmp_path: Path) -> None:
    """No program, no server, no such option of a server."""
    with pytest.raises(MissingError, match=f"--server vllm={tmp_path}: there is no"):
        compare(results, f"vllm={tmp_path}")
    with pytest.raises(MissingError, match=r"127\.0\.0\.1:9"):
        compare(results, "podium", "http://127.0.0.1:9")
    with pytest.raises(RequestError, match="--precision: the servers decide it"):
        compare(results, "http://127.0.0.1:9", precision=Precision.BF16)
    assert not list(results.rglob(RUN_RECORD))


def test_a_token_is_for_one_server_alone(results: Path) -> None:
    """It would be sent to all of them."""
    request = resolve_request(options(results, framework="torch", engine="torch"), "llama")
    asked = module.AskedServers(names=("http://a:1", "http://b:1"), token_file=Path("token"))
    with pytest.raises(RequestError, match="--token-file: it is for one server"):
        module.parse_asked_servers(asked, request, None)


def test_a_workload_without_prompts_has_no_servers(tmp_path: Path) -> None:
    """Nobody can ask a server with it."""
    request = resolve_request(options(tmp_path), "fake")
    with pytest.raises(RequestError, match="its Workload names no `prompts`"):
        module.parse_asked_servers(module.AskedServers(names=("podium",)), request, None)

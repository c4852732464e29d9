"""Compliance tests of results that servers gave: on the same servers, with real LoadGen."""

import json
import threading
import time
from pathlib import Path

import pytest
from podium_fakes.drive import options
from podium_fakes.measuring import SHORT, measure
from podium_fakes.scripted import (
    Asked,
    Behaviour,
    answering,
    document,
    scripted,
    stream,
    vllm_pages,
)

from harness.serving.audits.command import audit_workload
from harness.serving.network.site_choice import choose_remote_site
from submissions.compliance_check import judge_path
from suite.errors import JudgedError, RequestError
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.records import read_served_run

TEXT = "Anna Bruno Dora sells"
SLOW_S = 0.02
"""Of an answer that no cache has."""
LONG = ("loadgen.min_duration_ms=300", "offline.expected_qps=400")
"""Eight in flight of 20 ms each: the opening of connections is a small part of it."""
AUDITED_RULES = ("audit.", "tokens.count", "schema", "network.")


def answer_whole(text: str = TEXT) -> Behaviour:
    """Answer as the request asks, streamed or not."""
    streamed, reply = answering(stream(text.split(), counted=len(text.split()) + 1)), document(text)

    def answer(asked: Asked) -> None:
        if asked.body["stream"]:
            streamed(asked)
        else:
            asked.send(reply)

    return answer


class CachingServer:
    """Answers a prompt that it has just seen at once, and any other after a while."""

    def __init__(self) -> None:
        self.last, self.lock, self.answer = "", threading.Lock(), answer_whole()

    def __call__(self, asked: Asked) -> None:
        prompt = json.dumps(asked.body)
        with self.lock:
            is_known, self.last = prompt == self.last, prompt
        if not is_known:
            time.sleep(SLOW_S)
        self.answer(asked)


class RememberingServer:
    """Answers a prompt sooner if it has ever seen it."""

    def __init__(self) -> None:
        self.known, self.answer, self.remembers = set[str](), answer_whole(), False

    def __call__(self, asked: Asked) -> None:
        prompt = json.dumps(asked.body)
        time.sleep(SLOW_S / 5 if prompt in self.known else SLOW_S)
        if self.remembers:
            self.known.add(prompt)
        self.answer(asked)


class ForgetfulServer:
    """Answers otherwise as soon as it is audited."""

    def __init__(self) -> None:
        self.answers = {False: answer_whole(), True: answer_whole("sells Dora Bruno Anna")}
        self.is_audited = False

    def __call__(self, asked: Asked) -> None:
        time.sleep(SLOW_S)
        self.answers[self.is_audited](asked)


def serve_result(results: Path, url: str) -> None:
    with pytest.raises(JudgedError, match="rougeL"):  # a script summarises nothing
        measure(results, url, settings=LONG, scenario=Scenario.OFFLINE, mode="all")


def audit(results: Path, url: str, test: str, **more: object) -> None:
    chosen = options(
        results, *SHORT, *LONG, framework="torch", engine="torch", precision=None, **more
    )
    audit_workload(
        "llama",
        chosen,
        scenarios=(Scenario.OFFLINE,),
        test=test,
        rules="podium-v1",
        checkpoint=None,
        site=choose_remote_site((url,), (Scenario.OFFLINE,)),
    )


def list_findings(results: Path) -> set[str]:
    """The rules that find something about the tests."""
    found = {each.rule for each in judge_path(results)}
    return {rule for rule in found if rule.startswith(AUDITED_RULES)}


@pytest.mark.slow
def test_an_honest_server_passes_and_the_judge_agrees(results: Path):
    def answer(asked: Asked) -> None:
        time.sleep(SLOW_S)
        whole(asked)

    whole = answer_whole()
    with scripted(answer) as server:
        serve_result(results, server.url)
        for test in ("TEST01", "TEST04", "TEST06", "SALTED"):
            audit(results, server.url, test)
    assert len([*results.rglob("audit.json")]) == 4
    assert list_findings(results) == set()


@pytest.mark.slow
def test_a_server_that_caches_answers_fails(results: Path):
    with scripted(CachingServer()) as server:
        serve_result(results, server.url)
        with pytest.raises(JudgedError, match="the audit failed: Offline TEST04"):
            audit(results, server.url, "TEST04")
    (told,) = results.rglob("TEST04/verify_performance.txt")
    assert "TEST FAIL" in told.read_text()


@pytest.mark.slow
def test_a_server_that_knows_old_prompts_fails(results: Path):
    """Each prompt of a run may be another, and all may be known from the run before."""
    behave = RememberingServer()
    with scripted(behave) as server:
        serve_result(results, server.url)
        behave.remembers = True
        with pytest.raises(JudgedError, match="the audit failed: Offline SALTED"):
            audit(results, server.url, "SALTED")
    runs = [read_served_run(each.parent) for each in results.glob("**/SALTED/*/*/run.json")]
    assert {each.network.salted for each in runs if each.network} == {
        Salting.SAMPLE,
        Salting.REQUEST,
    }
    assert list_findings(results) == {"audit.failed", "audit.speed"}


@pytest.mark.slow
def test_a_server_that_answers_otherwise_when_it_is_audited_fails(results: Path):
    behave = ForgetfulServer()
    with scripted(behave) as server:
        serve_result(results, server.url)
        behave.is_audited = True
        with pytest.raises(JudgedError, match="the audit failed: Offline TEST01"):
            audit(results, server.url, "TEST01")


@pytest.mark.slow
def test_only_the_servers_of_the_result_are_audited(results: Path):
    with scripted(answer_whole(), pages=vllm_pages()) as server:
        serve_result(results, server.url)
        server.pages |= vllm_pages("0.33.0")
        with pytest.raises(RequestError, match=r"version was 0\.32\.0 in the result, and is 0\.33"):
            audit(results, server.url, "TEST04")
        with (
            scripted(answer_whole(), pages=vllm_pages()) as other,
            pytest.raises(RequestError, match="audit it on the same"),
        ):
            audit(results, other.url, "TEST04")

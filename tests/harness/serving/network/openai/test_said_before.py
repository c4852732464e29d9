"""What a server, its address or a setting makes impossible is said before anything is prepared or
counts; what comes later ends the run with the same sentence.
"""

from pathlib import Path
from typing import Any

import pytest
from podium_fakes.kept import run_record
from podium_fakes.measuring import find_run, measure, nothing_left
from podium_fakes.scripted import (
    LAST_CHUNK,
    OPENING,
    Asked,
    answering,
    chunk,
    delta,
    event,
    reply,
    scripted,
    stream,
    usage,
)

from harness.serving.network.wire import parse_endpoint
from suite.errors import JudgedError, MissingError, RequestError

THOUGHTS = [event(delta(None, reasoning_content=" opens")) for _ in range(4)]
HIDDEN = {
    "usage": {"completion_tokens": 57, "completion_tokens_details": {"reasoning_tokens": 50}},
    "choices": [],
}
DONE = b"data: [DONE]\n\n"
REASONING = (
    r"answers have reasoning \({} tokens\), which the round's accuracy log cannot hold: turn"
)


def test_the_server_is_looked_for_before_a_checkpoint(tmp_path: Path):
    """Who has none is told that nobody is there, not to train for a quarter of an hour."""
    with pytest.raises(MissingError, match="http://127.0.0.1:9: no server there"):
        measure(tmp_path / "empty", "http://127.0.0.1:9")
    with (
        scripted(answering(stream())) as server,
        pytest.raises(RequestError, match="no checkpoint of llama"),
    ):
        measure(tmp_path / "empty", server.url)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([*THOUGHTS, *stream(counted=9)], REASONING.format("4 of 9")),
        ([*THOUGHTS, *stream(counted=5)], REASONING.format("4 of 9")),
        ([*THOUGHTS, *stream()], REASONING.format("4 of 9")),
        ([*stream()[:-1], event(HIDDEN), DONE], REASONING.format("50 of 57")),
        (
            [*THOUGHTS, *THOUGHTS, event(delta(None, "length")), event(usage(8)), DONE],
            "all 8 tokens of an answer were reasoning, which the round's",
        ),
        (
            stream(["Anna", "<|eot_id|>"]),
            r"the server sends <\|eot_id\|> as text \(skip_special_tok",
        ),
    ],
)
def test_an_answer_that_the_judge_would_not_take(results: Path, events: list[bytes], why: str):
    with scripted(answering(events)) as server:
        with pytest.raises(JudgedError, match=f": {why}.*, in answer to sample 0, before the run"):
            measure(results, server.url)
        assert len(server.requests) == 1
    assert nothing_left(results)


@pytest.mark.slow
def test_reasoning_that_comes_late_ends_the_run(results: Path):
    good, bad = answering(stream()), answering([*THOUGHTS, *stream()])

    def answer(asked: Asked) -> None:
        (bad if len(server.requests) > 2000 else good)(asked)

    settings = ("loadgen.min_duration_ms=60000", "server.target_qps=400")
    with scripted(answer) as server:
        with pytest.raises(JudgedError, match=REASONING.format("4 of 9")) as error:
            measure(results, server.url, settings=settings)
        assert "nothing of that run counts" in str(error.value)
    assert nothing_left(results)


@pytest.mark.slow
def test_a_server_that_closes_behind_its_streams_is_measured(results: Path):
    """As llama.cpp's does, whose head promises that the connection stays open."""

    def answer(asked: Asked) -> None:
        asked.send(OPENING + b"".join(map(chunk, stream())) + LAST_CHUNK)
        asked.close()

    with scripted(answer) as server:
        measure(results, server.url, settings=("loadgen.min_queries=64",))
        assert len({each.connection for each in server.requests}) == len(server.requests) >= 64
        first = [each.headers.get("connection") for each in server.requests][:3]
        assert first == [None, None, "close"]  # the second one asked for log-probabilities
    network = run_record(find_run(results)).network
    assert network is not None and network.connections == 8


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ((), {"max_tokens": 24, "temperature": 0, "stream_options": {"include_usage": True}}),
        (("endpoint.usage=false",), {"max_tokens": 24, "temperature": 0}),
        (
            ("endpoint.usage=false", "endpoint.max_tokens_field=max_completion_tokens"),
            {"max_completion_tokens": 24, "temperature": 0},
        ),
        (("endpoint.usage=false", "endpoint.temperature=absent"), {"max_tokens": 24}),
        (
            ("endpoint.usage=false", "endpoint.temperature=0.001"),
            {"max_tokens": 24, "temperature": 0.001},
        ),
    ],
)
def test_fields_that_a_server_refuses_can_be_left_out(
    results: Path, settings: tuple[str, ...], sent: dict[str, Any]
):
    with scripted(lambda asked: asked.send(reply(500, b"no"))) as server:
        with pytest.raises(JudgedError, match="answered 500: no"):
            measure(results, server.url, settings=settings)
        (asked,) = server.requests
    others = {"model", "messages", "stream"}
    assert {key: value for key, value in asked.body.items() if key not in others} == sent


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("endpoint.temperature=hot", "'hot': give a number from 0 to 2, or absent"),
        ("endpoint.temperature=-1", "'-1': give a number from 0 to 2, or absent"),
        ("endpoint.temperature=nan", "nan is not finite"),
        ("endpoint.temperature=3", "'3': give a number from 0 to 2, or absent"),
        ("endpoint.max_tokens_field=tokens", "unknown value of endpoint.max_tokens_field 'tokens'"),
        ("endpoint.reuse=perhaps", "endpoint.reuse"),
        ("endpoint.header.Accept-Encoding=/x", "no header of this name can be added"),
    ],
)
def test_a_setting_of_a_field_that_is_none(results: Path, setting: str, why: str):
    with pytest.raises(RequestError, match=why):
        measure(results, "http://127.0.0.1:9", settings=(setting,))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://h1/v1/chat/completions", "is a route of the API, and podium adds it: write http"),
        ("http://h1/base/v1/completions/", "podium adds it: write http://h1/base/v1"),
        ("http://h1:8000/v1/models", "podium adds it: write http://h1:8000/v1"),
        ("http://h1/openai/v1?api-version=2026-01", r"no query \(\?\) can be sent"),
        ("http://user:pw@h1:8000", "a user or a password belongs into --token-file"),
        ("http://h1:8000/#x", r"a fragment \(#\) is not for servers"),
        ("http://h1:99999", "no port is above 65,535"),
        ("http://h1:8000 ", "there is a space in it"),
        ("http://h1/ä", "write the path in ASCII"),
    ],
)
def test_an_address_is_refused_with_its_reason(address: str, why: str):
    with pytest.raises(RequestError, match=f"--endpoint http://.*: .*{why}"):
        parse_endpoint(address)


def test_a_password_in_an_address_is_not_shown():
    with pytest.raises(RequestError) as error:
        parse_endpoint("https://user:pw/secret@h1:8000/v1")
    assert "secret" not in str(error.value) and "user" not in str(error.value).split(": ")[0]


def test_the_case_of_a_scheme_does_not_matter():
    assert parse_endpoint("HTTP://h1:8000") == parse_endpoint("http://h1:8000")
    assert parse_endpoint("gRPCs://h1:8001") == parse_endpoint("grpcs://h1:8001")


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (b"<!doctype html><title>Open WebUI</title>", "<!doctype html><title>Open WebUI</title>"),
        (b'[{"id": "llama"}]', r'\[{"id": "llama"}\]'),
        (b'{"models": [{"name": "llama"}]}', '{"models": '),
        (b'{"object": "list", "data": null}', '{"object": "list", "data": null}'),
    ],
)
def test_what_is_no_list_of_models_is_shown(results: Path, page: bytes, why: str):
    pages = {"/v1/models": reply(200, page)}
    with (
        scripted(answering(stream()), pages=pages) as server,
        pytest.raises(JudgedError, match=f"answers GET /v1/models with '{why}.*is that the API's"),
    ):
        measure(results, server.url)


def test_a_compressed_list_of_models_is_named(results: Path):
    pages = {"/v1/models": reply(200, b"\x1f\x8b", "Content-Encoding: gzip")}
    with (
        scripted(answering(stream()), pages=pages) as server,
        pytest.raises(JudgedError, match=r"sent a compressed list of models \(gzip\): turn that"),
    ):
        measure(results, server.url)

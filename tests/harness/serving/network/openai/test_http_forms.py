"""Responses that HTTP allows are read, what cannot be read is named, and connections that a server
closes behind its answers are not used again.
"""

import gzip
import json
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest
from podium_fakes.asking import ask, heard_of
from podium_fakes.scripted import (
    LAST_CHUNK,
    OPENING,
    WORDS,
    Asked,
    Behaviour,
    answering,
    chunk,
    document,
    reply,
    scripted,
    sending,
    silent,
    stream,
)

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.answer_tokens import AnswerTokenizer
from harness.serving.network.openai.first_answer import ask_first_answers
from harness.serving.network.openai.prompt_requests import PromptApi, RequestStyle
from harness.serving.network.openai.prompt_system import PromptServers
from harness.serving.network.openai.server_pool import AnswerTimeout
from harness.serving.network.wire import ServerDescription, parse_endpoint
from suite.errors import JudgedError
from suite.workload import ChatMessage
from workloads.llama.vocabulary import END_ID, format_tokenizer

TEXT = " ".join(WORDS)
SHORTLY = AnswerTimeout(0.5, per_answer=False)
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"
WHOLE_STREAM = b"".join(map(chunk, stream(counted=5))) + LAST_CHUNK
JSON_OPENING = OPENING.replace(b"text/event-stream", b"application/json")


def closing_behind(pause_s: float, opening: bytes = OPENING) -> Behaviour:
    """Answer as llama.cpp's server does: the head promises that the connection stays open."""

    def answer(asked: Asked) -> None:
        if asked.body.get("stream", True):
            asked.send(opening.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=5, max=100\r\n\r\n"))
            asked.send(WHOLE_STREAM)
        else:
            asked.send(document(TEXT, counted=5))
        time.sleep(pause_s)
        asked.close()

    return answer


@pytest.mark.parametrize(
    "interim",
    [
        EARLY_HINTS,
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 3,
        EARLY_HINTS + b"HTTP/1.1 100 Continue\r\nContent-Encoding: gzip\r\n\r\n",
    ],
)
def test_interim_responses_are_passed_over(interim: bytes):
    heard, prompts, connections = heard_of(
        sending(interim, OPENING, WHOLE_STREAM), count=3, in_flight=1
    )
    assert heard.failure is None and heard.texts == [TEXT] * 3
    assert len(prompts) == 3 and connections == 1
    heard, *_ = heard_of(sending(interim, document(TEXT)), streamed=False)
    assert heard.texts == [TEXT]


def test_interim_responses_without_end_are_bounded():
    def answer(asked: Asked) -> None:
        for _ in range(10_000):
            asked.send(EARLY_HINTS)

    heard, *_ = heard_of(answer)
    assert "sent more than 65,536 bytes of headers" in str(heard.failure)


def test_another_protocol_is_no_interim_response():
    heard, *_ = heard_of(sending(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"))
    assert "answered 101" in str(heard.failure)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_compressed_answer_is_named(coding: str, streamed: bool):
    opening = OPENING if streamed else JSON_OPENING
    head = opening.replace(b"\r\n\r\n", f"\r\nContent-Encoding: {coding}\r\n\r\n".encode())
    behave = sending(head, chunk(gzip.compress(b"data: {}\n\n")), LAST_CHUNK)
    heard, *_ = heard_of(behave, streamed=streamed)
    assert f"sent a compressed answer ({coding}): turn that off at the proxy" in str(heard.failure)


def test_identity_is_no_compression():
    head = OPENING.replace(b"\r\n\r\n", b"\r\nContent-Encoding: identity\r\n\r\n")
    heard, *_ = heard_of(sending(head, WHOLE_STREAM))
    assert heard.texts == [TEXT]


def test_a_compressed_refusal_is_unpacked():
    body = gzip.compress(b'{"error_code": "BAD", "message": "stream_options is not supported"}')
    heard, *_ = heard_of(sending(reply(400, body, "Content-Encoding: gzip")))
    assert (
        "answered 400: stream_options is not supported; --set endpoint.usage=false leaves it out,"
    ) in str(heard.failure)


def test_no_compression_is_asked_for():
    with scripted(answering(stream())) as server:
        ask(server.url)
        assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("first", [b"", b": ping\n\n", b"\r\n", b"\xef\xbb\xbf", b"event: m\n"])
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_stream_that_is_labelled_as_a_document(first: bytes, size: int):
    content = first + b"".join(stream(counted=5))
    pieces = [chunk(content[place : place + size]) for place in range(0, len(content), size)]
    heard, *_ = heard_of(sending(JSON_OPENING, *pieces, LAST_CHUNK))
    assert heard.failure is None and heard.texts == [TEXT]


def test_a_document_in_place_of_a_stream_is_named():
    heard, *_ = heard_of(sending(document(TEXT)))
    assert (
        "did not stream its answer, but sent a whole document; --set endpoint.stream=false"
    ) in str(heard.failure)
    heard, *_ = heard_of(sending(reply(200, b'{"detail": "overloaded"}')))
    assert "did not stream its answer: overloaded, in answer" in str(heard.failure)


@pytest.mark.parametrize(
    ("said", "more", "advice"),
    [
        (
            {"detail": [{"loc": ["body", "stream_options"], "msg": "not permitted"}]},
            {},
            "body.stream_options: not permitted; --set endpoint.usage=false leaves it out,",
        ),
        (
            {"error": {"message": "Use 'max_completion_tokens' instead."}},
            {},
            "instead; --set endpoint.max_tokens_field=max_completion_tokens asks so,",
        ),
        (
            {"error": "`temperature` must be strictly positive"},
            {},
            "positive; --set endpoint.temperature=absent leaves it out, 0.001 is nearly greedy,",
        ),
        (
            {"error": "`temperature` must be strictly positive"},
            {"greedy_alone": True},
            "positive; the closed division asks for greedy decoding, which is temperature 0, in",
        ),
        ({"error": "stream_options"}, {"asks_usage": False}, "answered 422: stream_options, in"),
        (
            {"error": "max_completion_tokens"},
            {"max_tokens_field": "max_completion_tokens"},
            "answered 422: max_completion_tokens, in",
        ),
        ({"error": "temperature"}, {"temperature": None}, "answered 422: temperature, in"),
    ],
)
def test_a_refused_field_has_the_setting_that_leaves_it_out(
    said: dict[str, Any], more: dict[str, Any], advice: str
):
    heard, *_ = heard_of(sending(reply(422, json.dumps(said).encode())), **more)
    assert advice in str(heard.failure)


@pytest.mark.parametrize("together", [True, False])
def test_a_second_response_to_one_request_is_named(together: bool):
    def answer(asked: Asked) -> None:
        if together:
            asked.send(OPENING + WHOLE_STREAM + document(TEXT))
        else:
            asked.send(OPENING + WHOLE_STREAM)
            time.sleep(0.2)
            asked.send(document(TEXT))

    heard, prompts, _ = heard_of(answer, in_flight=1, between=lambda: time.sleep(0.5))
    assert "sent a second response to one request" in str(heard.failure) and len(prompts) == 1


def test_answers_whose_responses_stay_open_are_counted():
    def answer(asked: Asked) -> None:
        asked.send(OPENING + b"".join(map(chunk, stream())))
        silent(asked)

    heard, *_ = heard_of(answer, count=32, in_flight=8, timeout=SHORTLY)
    assert "ended 8 answers and kept their responses open for 0.5 s, after 8 of 32 answers" in str(
        heard.failure
    )


@pytest.mark.parametrize("pause_s", [0.0, 0.002, 0.007])
def test_a_server_that_closes_behind_its_answers_is_found_out(pause_s: float):
    """From then on, each request has a connection of its own, and says so."""
    with scripted(closing_behind(pause_s)) as server:
        heard = ask(server.url, turns=5, count=2, in_flight=2, between=lambda: time.sleep(0.05))
        assert heard.failure is None and heard.texts == [TEXT] * 10
        assert len(server.prompts) == 10
        told = [each.headers.get("connection") for each in server.requests]
        assert told == [None] * 2 + ["close"] * 8
        assert len({each.connection for each in server.requests}) == 10


def test_a_connection_that_is_not_to_be_used_again():
    with scripted(closing_behind(0.007)) as server:
        heard = ask(server.url, count=40, in_flight=4, reuses_connections=False)
        assert heard.failure is None and len(heard.answers) == len(server.prompts) == 40
        assert {each.headers.get("connection") for each in server.requests} == {"close"}
        assert len({each.connection for each in server.requests}) == 40
        assert server.connections <= 44


def test_a_connection_that_stays_open_is_closed_by_the_client():
    with scripted(answering(stream())) as server:
        heard = ask(server.url, count=10, in_flight=2, reuses_connections=False)
        assert len(heard.answers) == 10 and heard.failure is None
        assert len({each.connection for each in server.requests}) == 10


def test_at_most_so_many_are_in_flight_on_single_connections():
    most, now, turn = [0], [0], threading.Lock()

    def answer(asked: Asked) -> None:
        with turn:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with turn:
            now[0] -= 1
        closing_behind(0.0)(asked)

    heard, *_ = heard_of(answer, count=30, in_flight=3, reuses_connections=False)
    assert len(heard.answers) == 30 and most[0] == 3


def test_a_request_that_met_the_end_of_its_connection_is_not_repeated():
    """Before anything told of it: the run ends, and names the setting."""
    gate = threading.Event()

    def answer(asked: Asked) -> None:
        if gate.is_set():
            asked.close()
            return
        gate.set()
        asked.send(OPENING + WHOLE_STREAM)

    heard, prompts, _ = heard_of(answer, count=2, in_flight=1)
    assert (
        "closed the connection after the request was sent; if it closes connections behind answers,"
        " --set endpoint.reuse=false, in answer"
    ) in str(heard.failure)
    assert len(prompts) == 2 and len(heard.answers) == 1


class OnePrompt:
    """Prompts of a workload."""

    end_token, max_new_tokens = END_ID, 24

    def build_messages(self, sample: int) -> tuple[ChatMessage, ...]:
        return (ChatMessage(role="user", content=f"Anna {sample}"),)


def find_forms(url: str, folder: Path, reuses: bool = True) -> frozenset[bool]:
    """Ask a server for its first answers, streamed and not."""
    path = folder / "tokenizer.json"
    path.write_text(format_tokenizer())
    style = RequestStyle(
        api=PromptApi.CHAT,
        model="llama",
        streamed=True,
        headers={},
        reuses_connections=reuses,
    )
    servers = PromptServers(
        endpoints=(parse_endpoint(url),),
        access=ClientCredentials(),
        style=style,
        streamed=None,
        tokenizer=path,
        in_flight=1024,
        timeout_ms=500,
        description=cast(ServerDescription, None),
        ends=frozenset({END_ID}),
    )
    tokenizer = AnswerTokenizer(path, END_ID, servers.ends)
    found = ask_first_answers(servers, OnePrompt(), tokenizer, {True, False})  # type: ignore[arg-type]
    return found.closing


def answering_both(events: list[bytes], text: str = TEXT) -> Behaviour:
    """Answer with a stream or a document, as it is asked."""
    streamed = answering(events)

    def answer(asked: Asked) -> None:
        if asked.body["stream"]:
            streamed(asked)
        else:
            asked.send(document(text))

    return answer


def test_the_first_answers_tell_behind_which_a_server_closes(tmp_path: Path):
    def answer(asked: Asked) -> None:
        (closing_behind(0.005) if asked.body["stream"] else answering_both([]))(asked)

    with scripted(answer) as server:
        assert find_forms(server.url, tmp_path) == {True}
        assert len(server.requests) == server.connections == 2
    with scripted(closing_behind(0.0)) as server:
        assert find_forms(server.url, tmp_path) == {True, False}
    with scripted(answering_both(stream())) as server:
        assert find_forms(server.url, tmp_path) == frozenset()
    with scripted(closing_behind(0.0)) as server:
        assert find_forms(server.url, tmp_path, reuses=False) == frozenset()


def test_a_first_response_that_stays_open_is_told_before_the_run(tmp_path: Path):
    def answer(asked: Asked) -> None:
        asked.send(OPENING + b"".join(map(chunk, stream())))
        silent(asked)

    with scripted(answer) as server, pytest.raises(JudgedError) as error:
        find_forms(server.url, tmp_path)
    assert "ended an answer and kept its response open for 0.5 s, before the run" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (
            stream(["Anna", "<|eot_id|>"]),
            ": the server sends <|eot_id|> as text (skip_special_tokens), in answer to sample 0,"
            " before the run",
        ),
        (stream(["Anna<|eot_id|>"], reason="length"), "the server sends <|eot_id|> as text"),
    ],
)
def test_an_end_token_as_text_is_told_before_the_run(tmp_path: Path, events: list[bytes], why: str):
    with scripted(answering_both(events)) as server, pytest.raises(JudgedError) as error:
        find_forms(server.url, tmp_path)
    assert why in str(error.value)

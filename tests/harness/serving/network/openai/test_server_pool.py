"""Servers that answer in every legal way give the same answers; servers that fail end the run with
one sentence, and are never asked twice.
"""

import json
import resource
import socket
import threading
import time
from collections.abc import Sequence

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
    closing,
    delta,
    document,
    event,
    reply,
    scripted,
    sending,
    silent,
    stream,
    usage,
)

from harness.serving.network.openai.server_pool import (
    AnswerTimeout,
)
from suite.errors import JudgedError, MissingError

TEXT = " ".join(WORDS)
QUIET = AnswerTimeout(0.5, per_answer=False)
WHOLE = AnswerTimeout(0.5, per_answer=True)


def byte_by_byte(events: Sequence[bytes]) -> Behaviour:
    """Send every byte of a whole response by itself."""
    content = OPENING + b"".join(map(chunk, events)) + LAST_CHUNK

    def answer(asked: Asked) -> None:
        for place in range(len(content)):
            asked.send(content[place : place + 1])

    return answer


def byte_chunks(events: Sequence[bytes]) -> Behaviour:
    """Make each byte a chunk: UTF-8 is cut everywhere."""
    content = b"".join(events)
    return answering([content[place : place + 1] for place in range(len(content))])


@pytest.mark.parametrize(
    "behave",
    [
        answering(stream(counted=5)),
        answering([event(delta("", role="assistant")), *stream(counted=5)]),
        answering([event(delta(None, role="assistant")), b": ping\n\n", *stream(counted=5)]),
        byte_by_byte(stream(counted=5)),
        byte_chunks(stream(counted=5)),
        answering([b"".join(stream(counted=5))]),
        answering([each.replace(b"\n", b"\r\n") for each in stream(counted=5)]),
        answering([each.replace(b"\n", b"\r") for each in stream(counted=5)]),
        answering(stream(["Anna Bruno", "Dora sells"], counted=5)),
        sending(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
            *stream(counted=5),
            then=closing,
        ),
    ],
    ids=[
        "plain",
        "empty first content",
        "role alone, then a comment",
        "byte by byte",
        "chunks of a byte",
        "one chunk",
        "CRLF",
        "CR",
        "two words an event",
        "until the connection ends",
    ],
)
def test_the_same_answer_in_every_legal_form(behave: Behaviour):
    heard, prompts, _ = heard_of(behave, count=3)
    assert heard.failure is None
    assert heard.texts == [TEXT] * 3
    assert [each.counted for each in heard.answers.values()] == [5] * 3
    assert all(each.ended for each in heard.answers.values())
    for first in heard.first_texts.values():  # what arrived together is one text
        assert first.startswith("Anna") and TEXT.startswith(first)
    assert len(prompts) == 3


def test_a_response_that_ends_behind_the_finish_reason_needs_no_done():
    """As transformers serve streams; what is cut has no last chunk."""
    heard, prompts, connections = heard_of(answering(stream(counted=5)[:-1]), count=3, in_flight=1)
    assert heard.failure is None and len(prompts) == 3 and connections == 1
    assert {answer.counted for answer in heard.answers.values()} == {5}


def test_text_of_several_bytes_a_letter():
    words = ["Ä", "日本", "🦊"]
    heard, _, _ = heard_of(byte_chunks(stream(words)))
    assert heard.texts == ["Ä 日本 🦊"]
    assert heard.answers[0].counted == 0


def test_the_first_token_is_the_first_one_with_content():
    """An empty chunk does not stop the clock; reasoning does."""
    pause_s = 0.5
    resumed_ns: list[int] = []

    def answer(opening: bytes) -> Behaviour:
        def send(asked: Asked) -> None:
            asked.send(OPENING + chunk(opening))
            time.sleep(pause_s)
            resumed_ns.append(time.monotonic_ns())
            for each in stream():
                asked.send(chunk(each))
            asked.send(LAST_CHUNK)

        return send

    def is_first_before_pause(opening: bytes) -> bool:
        heard, _, _ = heard_of(answer(opening))
        return heard.firsts[0] < resumed_ns.pop()

    assert not is_first_before_pause(event(delta("", role="assistant")))
    for key in ("reasoning", "reasoning_content"):
        assert is_first_before_pause(event(delta(None, **{key: "Hm"})))
    assert is_first_before_pause(event(delta(None, tool_calls=[{"index": 0}])))


def test_completions_are_read_too():
    events = [
        event({"choices": [{"index": 0, "text": text, "finish_reason": reason}]})
        for text, reason in (("", None), ("Anna", None), (" Dora", "length"))
    ]
    heard, _, _ = heard_of(answering([*events, event(usage(2)), b"data: [DONE]\n\n"]))
    assert heard.texts == ["Anna Dora"] and heard.first_texts == {0: "Anna"}
    assert not heard.answers[0].ended and heard.answers[0].counted == 2


def test_an_answer_that_is_not_streamed():
    heard, _, _ = heard_of(sending(document(TEXT, counted=5)), streamed=False, count=2)
    assert heard.texts == [TEXT] * 2 and heard.firsts == {}
    assert heard.answers[0].counted == 5


def test_connections_are_opened_before_and_used_again():
    heard, prompts, connections = heard_of(answering(stream()), count=40, in_flight=4)
    assert len(heard.answers) == len(prompts) == 40 and connections == 4


def test_at_most_so_many_requests_are_in_flight():
    most, now, turn = [0], [0], threading.Lock()

    def answer(asked: Asked) -> None:
        with turn:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with turn:
            now[0] -= 1
        answering(stream())(asked)

    heard, _, _ = heard_of(answer, count=30, in_flight=3)
    assert len(heard.answers) == 30 and most[0] == 3


def test_the_least_busy_server_is_asked_first():
    slow, quick = answering(stream(), pause_s=0.05), answering(stream())
    with scripted(slow) as one, scripted(quick) as other:
        heard = ask(one.url, other.url, count=40, in_flight=8)
        assert len(heard.answers) == 40
        assert one.connections == other.connections == 4
        assert len(other.requests) > 2 * len(one.requests) > 0


def test_two_servers_take_turns_while_nothing_is_owed():
    with scripted(answering(stream())) as one, scripted(answering(stream())) as other:
        ask(one.url, other.url, turns=10, in_flight=4)
        assert len(one.requests) == len(other.requests) == 5


def test_connections_that_a_server_closed_while_idle_are_replaced():
    with scripted(answering(stream()), idle_s=0.3) as server:
        heard = ask(server.url, turns=3, count=2, in_flight=2, between=lambda: time.sleep(0.8))
        assert heard.failure is None and len(heard.answers) == 6
        assert len(server.prompts) == 6 and server.connections == 6


def test_a_server_that_closes_after_each_answer():
    def answer(asked: Asked) -> None:
        head = OPENING.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        asked.send(head + b"".join(map(chunk, stream())) + LAST_CHUNK)
        asked.close()

    heard, prompts, connections = heard_of(answer, count=10, in_flight=2)
    assert heard.failure is None and len(prompts) == 10
    assert 10 <= connections <= 12  # the next ones are opened ahead


def test_what_a_server_says_on_an_idle_connection_is_no_answer():
    """Some say that nothing was asked of them for long, and close."""

    def answer(asked: Asked) -> None:
        answering(stream())(asked)
        time.sleep(0.3)
        asked.send(reply(408, b"{}", "Connection: close"))

    heard, prompts, connections = heard_of(
        answer, turns=2, in_flight=1, between=lambda: time.sleep(0.8)
    )
    assert heard.failure is None and len(prompts) == 2 and connections == 2


HALF = [event(delta("Anna")), event(delta(" Bruno"))]
MIB = 1 << 20


def flooding(opening: bytes) -> Behaviour:
    """Send a gigabyte in one line."""

    def send(asked: Asked) -> None:
        asked.send(opening)
        piece = b"x" * MIB
        for _ in range(1024):
            asked.send(piece)

    return send


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (sending(OPENING, *map(chunk, HALF), then=closing), "cut a stream before its end"),
        (answering(HALF), "cut a stream before its end"),
        (answering([*HALF, b"data: [DONE]\n\n"]), "ended an answer without a finish_reason"),
        (
            sending(OPENING, *map(chunk, stream()[:-1]), then=closing),
            "cut a stream before its end",
        ),
        (answering(stream(reason="abort")), "with the finish_reason 'abort'"),
        (answering(stream(())), "sent an empty answer"),
        (
            sending(reply(503, b'{"error": {"message": "over\\nloaded"}}')),
            "answered 503: over loaded",
        ),
        (sending(reply(503, b"")), "answered 503, in"),
        (sending(reply(400, b"x" * MIB)), "answered 400: x"),
        (sending(reply(307, b"", "Location: http://h2/v1")), "redirects with 307 to http://h2/v1"),
        (closing, "closed the connection after the request was sent"),
        (
            answering([*HALF, event({"error": {"message": "no memory"}})]),
            "sent an error: no memory",
        ),
        (answering([event({"object": "error", "message": "bad"})]), "sent an error: bad"),
        (
            answering([b"data: {]\n\n"]),
            "sent what is no answer of this API (JSON is malformed: object keys must be strings"
            " (byte 1)): '{]'",
        ),
        (answering([b'data: {"choices": 3}\n\n']), "sent what is no answer of this API"),
        (sending(b"HTTP/1.0 200 OK\r\n\r\n", *stream(), then=closing), "speaks HTTP/1.0"),
        (sending(b"nothing of the kind\r\n\r\n"), "sent what is no HTTP/1.1 response"),
        (sending(document("Anna")), "did not stream its answer"),
        (silent, "gave no answer for 0.5 s, in answer to sample 0, after 0 of 1 answers"),
        (sending(OPENING, chunk(HALF[0]), then=silent), "gave no answer for 0.5 s"),
        (flooding(OPENING + b"40000000\r\ndata: "), "sent more than 1,048,576 bytes in one event"),
        (flooding(b"HTTP/1.1 200 OK\r\nX: "), "sent more than 65,536 bytes of headers"),
        (flooding(OPENING + b"0\r\nX: "), "sent more than 65,536 bytes of headers"),
        (flooding(b"HTTP/1.1 500 No\r\nContent-Length: 1073741824\r\n\r\n"), "answered 500: xxx"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_server_that_fails_ends_the_run_and_is_not_asked_again(behave: Behaviour, why: str):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    heard, prompts, _ = heard_of(behave, timeout=QUIET)
    assert isinstance(heard.failure, JudgedError)
    assert why in str(heard.failure) and "\n" not in str(heard.failure)
    assert str(heard.failure).endswith("after 0 of 1 answers; nothing of that run counts")
    assert heard.answers == {} and len(prompts) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def repeating(opening: bytes, piece: bytes, times: int = 200) -> Behaviour:
    """Send a piece every 50 ms."""

    def send(asked: Asked) -> None:
        asked.send(opening)
        for _ in range(times):
            asked.send(piece)
            time.sleep(0.05)

    return send


EMPTY_EVENTS = [
    b": ping\n\n",
    event(delta("")),
    event(delta(None, role="assistant")),
    event({"choices": []}),
    event(usage(3)),
]
DOCUMENT_OPENING = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("piece", EMPTY_EVENTS)
def test_what_no_token_made_is_no_progress(piece: bytes, begun: bool):
    opening = OPENING + chunk(HALF[0]) * begun
    heard, prompts, _ = heard_of(repeating(opening, chunk(piece)), timeout=QUIET)
    assert "gave no answer for 0.5 s, in answer to sample 0" in str(heard.failure)
    assert len(prompts) == 1


def test_spaces_before_a_document_are_no_progress():
    behave = repeating(DOCUMENT_OPENING, chunk(b" "))
    heard, _, _ = heard_of(behave, timeout=QUIET, streamed=False)
    assert "gave no answer for 0.5 s, in answer to sample 0" in str(heard.failure)


def test_an_answer_that_stands_still_ends_the_run_beside_others_that_go_on():
    def answer(asked: Asked) -> None:
        if asked.connection == 1:
            asked.send(OPENING + chunk(HALF[0]))
            silent(asked)
        else:
            time.sleep(0.05)
            answering(stream())(asked)

    heard, _, _ = heard_of(answer, count=400, in_flight=2, timeout=QUIET)
    assert "gave no answer for 0.5 s, in answer to sample " in str(heard.failure)
    assert 0 < len(heard.answers) < 100


def test_answers_may_wait_in_a_servers_queue_without_a_bound_on_each():
    """One after the other, each within the time; the last one long after it."""
    turn = threading.Lock()

    def answer(asked: Asked) -> None:
        with turn:
            time.sleep(0.25)
            answering(stream())(asked)

    heard, _, _ = heard_of(answer, count=5, in_flight=5, timeout=QUIET)
    assert heard.failure is None and len(heard.answers) == 5
    heard, _, _ = heard_of(answer, count=5, in_flight=5, timeout=WHOLE)
    assert "did not end an answer within 0.5 s, in answer to sample" in str(heard.failure)


def test_tokens_do_not_prolong_the_time_of_an_answer():
    behave = repeating(OPENING, chunk(HALF[1]), times=24)
    heard, _, _ = heard_of(behave, timeout=WHOLE)
    assert str(heard.failure).endswith(
        "did not end an answer within 0.5 s, in answer to sample 0, after 0 of 1 answers;"
        " nothing of that run counts"
    )


@pytest.mark.parametrize("timeout", [QUIET, WHOLE])
def test_a_response_that_does_not_end_behind_its_answer(timeout: AnswerTimeout):
    """Its connection would be lost to all further requests."""
    behave = repeating(OPENING + b"".join(map(chunk, stream())), chunk(b": ping\n\n"))
    heard, prompts, _ = heard_of(behave, count=2, in_flight=1, timeout=timeout)
    assert "ended an answer and kept its response open for 0.5 s, after 1 of 2 answers" in str(
        heard.failure
    )
    assert len(heard.answers) == len(prompts) == 1


def test_reads_that_brought_tokens_are_counted():
    at_once = OPENING + b"".join(map(chunk, stream())) + LAST_CHUNK
    heard, _, _ = heard_of(sending(at_once))
    assert heard.answers[0].content_reads == 1
    heard, _, _ = heard_of(answering(stream(), pause_s=0.05))
    assert heard.answers[0].content_reads == len(WORDS)


def test_one_failure_of_many_ends_the_run():
    """The others are on their way, and nothing is sent in their place."""

    def answer(asked: Asked) -> None:
        if json.dumps(asked.body) and asked.connection == 2:
            time.sleep(0.2)
            asked.send(reply(503, b"{}"))
        else:
            time.sleep(0.4)
            answering(stream())(asked)

    heard, prompts, _ = heard_of(answer, count=50, in_flight=4)
    assert isinstance(heard.failure, JudgedError) and "answered 503" in str(heard.failure)
    assert 1 <= len(prompts) <= 4


def test_a_server_that_takes_no_connections():
    with socket.socket() as deaf:  # a free port could connect to itself
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        with pytest.raises(MissingError, match="0 of 4 connections could be opened: .*refused"):
            ask(f"http://127.0.0.1:{port}")


def test_the_request_is_what_the_api_asks_for():
    with scripted(answering(stream())) as server:
        ask(server.url)
        (asked,) = server.requests
    assert asked.route == "/v1/chat/completions" and asked.headers["x-a"] == "b"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["host"] == server.url.removeprefix("http://")

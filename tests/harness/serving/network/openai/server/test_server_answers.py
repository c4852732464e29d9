"""What the server of OpenAI's API answers, over raw sockets: streams, documents, and refusals."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")

from podium_fakes.token_server import (
    CONTEXT,
    LONGEST,
    EchoServer,
    chat_fields,
    format_request,
    serve_echo,
    text_fields,
)

from harness.serving.network.openai.server.answer_events import AnswerHead
from harness.serving.network.openai.server.answers import WholeAnswer
from harness.serving.network.openai.server.token_service import NO_TOKEN, TokenCall, TokenEvent

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EchoServer]:
    """One server for all tests."""
    with serve_echo(tmp_path_factory.mktemp("echo")) as ready:
        yield ready


def test_a_stream_has_one_event_per_token_and_the_role_with_the_first(echo: EchoServer):
    """An event without text before the first token would stop clients' clocks too early."""
    response = echo.ask(CHAT, chat_fields("one", stream=True))
    assert response.status == 200 and "content-type: text/event-stream" in response.head
    *events, end = response.events
    assert end == "[DONE]"
    choices = [event["choices"][0] for event in events]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": "o"},
        {"content": "n"},
        {"content": "e"},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert len({event["id"] for event in events}) == 1


def test_the_stream_tells_the_numbers_of_tokens_where_asked(echo: EchoServer):
    """They come behind the last choice, in an event without one; nobody else sees it."""
    fields = chat_fields("one", stream=True, stream_options={"include_usage": True})
    *events, usage, _ = echo.ask(CHAT, fields).events
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert not any("usage" in event for event in events)


def test_a_letter_of_several_tokens_waits_for_its_last_one(echo: EchoServer):
    """No event without text, none with half a letter; the first event is that of the first
    letter.
    """
    *events, _ = echo.ask(CHAT, chat_fields("ärger €", stream=True)).events
    texts = [event["choices"][0]["delta"].get("content") for event in events]
    assert texts == ["ä", "r", "g", "e", "r", " ", "€", None]


@pytest.mark.parametrize("text", ["plain", "ä€𝄞", "a\x00b\n", 'quo"te\\', "<end>"])
@pytest.mark.parametrize("stop", [None, 2, 3, 5])
def test_a_stream_has_the_text_of_a_whole_answer(echo: EchoServer, text: str, stop: int | None):
    """Letters that are cut included."""
    fields = chat_fields(text, max_tokens=stop)
    whole = echo.ask(CHAT, fields).document
    *events, _ = echo.ask(CHAT, fields | {"stream": True}).events
    parts = [event["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(parts) == whole["choices"][0]["message"]["content"]
    assert events[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]


def test_a_whole_answer_has_what_clients_read(echo: EchoServer):
    """The Endpoints client refuses a document without `refusal` and `system_fingerprint`."""
    document = echo.ask(CHAT, chat_fields("one")).document
    assert document["object"] == "chat.completion" and document["model"] == "echo"
    assert document["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "one", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert document["usage"]["completion_tokens"] == 4 and document["system_fingerprint"] is None


@pytest.mark.parametrize("prompt", ["one", [111, 110, 101], ["one"], [[111, 110, 101]]])
def test_a_text_is_continued_from_text_and_from_token_ids(echo: EchoServer, prompt: Any):
    document = echo.ask(TEXT, text_fields(prompt, max_tokens=2)).document
    assert document["object"] == "text_completion"
    assert document["choices"][0]["text"] == "on"
    assert document["choices"][0]["finish_reason"] == "length"
    assert document["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    *events, _ = echo.ask(TEXT, text_fields(prompt, max_tokens=2, stream=True)).events
    assert [event["choices"][0]["text"] for event in events] == ["o", "n"]
    assert events[-1]["choices"][0]["finish_reason"] == "length"


def test_an_answer_without_text_has_its_end_alone(echo: EchoServer):
    """The generator ends at once: no event could have text."""
    fields = {"model": "echo", "messages": [{"role": "user", "content": "<end>"}], "stream": True}
    *events, _ = echo.ask(CHAT, fields).events
    assert [event["choices"][0]["finish_reason"] for event in events][-1] == "stop"


def test_an_answer_is_as_long_as_asked_for_and_ends_with_the_context(echo: EchoServer):
    """128 to 1,024 tokens are what tools ask for, whatever the server's own limit."""
    long, room = "x" * (CONTEXT - 5), 5
    asked = [(chat_fields(long, max_tokens=1024, ignore_eos=True), room)]
    asked += [(text_fields(long, max_tokens=tokens), tokens) for tokens in (4, 5)]
    for fields, tokens in asked:
        path = CHAT if "messages" in fields else TEXT
        document = echo.ask(path, fields).document
        assert document["usage"]["completion_tokens"] == tokens
        assert document["choices"][0]["finish_reason"] == "length"
    longer = echo.ask(CHAT, chat_fields("y" * LONGEST, max_tokens=LONGEST + 1)).document
    assert longer["usage"]["completion_tokens"] == LONGEST + 1
    assert longer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("more", [{}, {"min_tokens": 9}])
def test_ends_are_ignored_where_a_client_asks_for_that(echo: EchoServer, more: dict[str, Any]):
    """guidellm and `vllm bench serve` do: answers of a number of tokens, whatever they are. Each
    token has an event, those without text, too.
    """
    fields = chat_fields("one", max_completion_tokens=9, ignore_eos=True, **more)
    document = echo.ask(CHAT, fields).document
    assert document["choices"][0]["message"]["content"] == "oneoneo"
    assert document["usage"]["completion_tokens"] == 9
    assert document["choices"][0]["finish_reason"] == "length"
    *events, _ = echo.ask(CHAT, fields | {"stream": True}).events
    assert len(events) == 9
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * 8 + ["length"]


def test_each_event_tells_the_numbers_of_tokens_where_a_client_asks_for_that(echo: EchoServer):
    told = {"include_usage": True, "continuous_usage_stats": True}
    fields = chat_fields("one", stream=True, stream_options=told)
    *events, _ = echo.ask(CHAT, fields).events
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == [1, 2, 3, 4, 4]
    assert all(event["usage"]["prompt_tokens"] == 3 for event in events)
    assert events[-1]["choices"] == []
    told["include_usage"] = False  # as in vLLM
    *events, _ = echo.ask(CHAT, fields).events
    assert not any("usage" in event for event in events)


def test_a_chat_tells_how_likely_its_tokens_are(echo: EchoServer):
    """Each token has its logarithm, the one that ends the answer, too; streamed with the text."""
    document = echo.ask(CHAT, chat_fields("one", logprobs=True)).document
    told = document["choices"][0]["logprobs"]["content"]
    assert "".join(each["token"] for each in told[:-1]) == "one"
    assert [each["bytes"] for each in told[:-1]] == [[ord(each)] for each in "one"]
    values = [each["logprob"] for each in told]
    assert len(values) == document["usage"]["completion_tokens"] == 4
    assert all(value < 0 for value in values) and len(set(values)) > 1
    *events, _ = echo.ask(CHAT, chat_fields("one", logprobs=True, stream=True)).events
    parts = [each["choices"][0]["logprobs"]["content"] for each in events if each["choices"]]
    assert sum(parts, []) == told
    silent = echo.ask(CHAT, chat_fields("one")).document
    assert silent["choices"][0]["logprobs"] is None


def test_a_completion_tells_how_likely_its_tokens_are(echo: EchoServer):
    """In the older form, whose number is that of the likeliest tokens beside the chosen one."""
    asked = text_fields("one", logprobs=1)
    told = echo.ask(TEXT, asked).document["choices"][0]["logprobs"]
    assert len(told["token_logprobs"]) == len(told["tokens"]) == len(told["text_offset"]) == 4
    assert told["text_offset"] == [0, 1, 2, 3]
    response = echo.ask(TEXT, asked | {"logprobs": 5})
    assert response.status == 400 and response.message.startswith("logprobs: 0 or 1")


NEUTRAL = [
    {"temperature": 0},
    {"temperature": 0.0, "top_p": 0.9, "top_k": 5, "seed": 7},
    {"top_k": -1, "top_p": 1},
    {"n": 1, "stop": None, "presence_penalty": 0, "frequency_penalty": 0.0},
    {"repetition_penalty": 1.0, "logit_bias": {}, "user": "somebody", "tools": []},
    {"logprobs": False, "top_logprobs": 0, "response_format": {"type": "text"}},
    {"min_tokens": 0, "ignore_eos": False, "skip_special_tokens": True, "min_p": 0},
    {"max_completion_tokens": 9, "max_tokens": 9},
    {"max_tokens": 1024},
    {"ignore_eos": None, "min_tokens": None},
    {"an_unknown_field": None},
]


@pytest.mark.parametrize("more", NEUTRAL)
def test_what_changes_nothing_is_accepted(echo: EchoServer, more: dict[str, Any]):
    """Endpoints' client and others send fields at their neutral values."""
    document = echo.ask(CHAT, chat_fields("one", **more)).document
    assert document["choices"][0]["message"]["content"] == "one"


UNSUPPORTED = [
    ({"temperature": 0.7}, "temperature: 0.7"),
    ({"temperature": 1}, "temperature: 1"),
    ({"n": 2}, "n: 2"),
    ({"n": True}, "n: true"),
    ({"stop": ["."]}, "stop: "),
    ({"presence_penalty": 1.0}, "presence_penalty: 1.0"),
    ({"repetition_penalty": 1.1}, "repetition_penalty: 1.1"),
    ({"repetition_penalty": 0}, "repetition_penalty: 0"),
    ({"logprobs": True, "top_logprobs": 5}, "top_logprobs: 5"),
    ({"logit_bias": {"5": 1}}, "logit_bias: "),
    ({"tools": [{"type": "function"}]}, "tools: "),
    ({"response_format": {"type": "json_object"}}, "response_format: "),
    ({"min_tokens": 5}, "min_tokens: 5"),
    ({"min_tokens": 1}, "min_tokens: 1"),  # an answer may begin with the token that ends it
    ({"skip_special_tokens": False}, "skip_special_tokens: false"),
    ({"add_special_tokens": True}, "add_special_tokens: true"),
    ({"an_unknown_field": 1}, "an_unknown_field: 1"),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.inc"),
]


@pytest.mark.parametrize("more, told", UNSUPPORTED)
def test_what_would_change_the_answer_is_refused(echo: EchoServer, more: Any, told: str):
    """A sampling parameter that is dropped in silence forges a result."""
    admitted = len(echo.generator.admitted)
    response = echo.ask(CHAT, chat_fields("one", **more))
    assert response.status == 400 and response.message.startswith(told)
    assert set(response.document["error"]) == {"message", "type", "param", "code"}
    assert len(echo.generator.admitted) == admitted


WRONG = [
    (b"", 400, "no JSON object"),
    (b"{", 400, "no JSON object"),
    (b"[]", 400, "no JSON object"),
    (b'{"model": NaN}', 400, "no JSON object"),
    (b'{"a":' + b"[" * 100_000, 400, "no JSON object"),
    (b'{"model": "\xff"}', 400, "no JSON object"),
    ({"messages": []}, 400, "model: a name is needed"),
    ({"model": 5, "messages": []}, 400, "model: a name is needed"),
    ({"model": "other", "messages": []}, 404, "no model 'other' here; this server has echo"),
    ({"model": "echo"}, 400, "messages: a list"),
    ({"model": "echo", "messages": []}, 400, "messages: a list"),
    ({"model": "echo", "messages": ["x"]}, 400, "messages[0]: an object"),
    ({"model": "echo", "messages": [{"content": "x"}]}, 400, "messages[0].role"),
    ({"model": "echo", "messages": [{"role": "user"}]}, 400, "messages[0].content"),
    ({"model": "echo", "messages": [{"role": "User", "content": "x"}]}, 400, "messages[0].role: one of"),
    ({"model": "echo", "messages": [{"role": ["user"], "content": "x"}]}, 400, "messages[0].role: one of"),
    ({"model": "echo", "messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role: one of"),
    (b'{"model":"other","model":"echo","messages":[{"role":"user","content":"x"}]}', 400, "'model' twice"),
    (b'{"model":"echo","messages":[{"role":"user","content":"a:b","content":"x"}]}', 400, "'content' twice"),
    (b'{"model":"echo","messages":[{"role":"user","content":"\\u003a","content":"x"}]}', 400, "'content' twice"),
    (b'{"model":"echo","mod\\u0065l":"echo","messages":[{"role":"user","content":"x"}]}', 400, "'model' twice"),
    ({"model": "echo", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages[0].content"),
    ({"model": "echo", "messages": [{"role": "user", "content": "x", "tool_calls": [1]}]}, 400, "messages[0].tool_calls"),
    ({"model": "echo", "messages": [{"role": "user", "content": ""}]}, 400, "the prompt has no tokens"),
    ({"model": "echo", "prompt": "x", "messages": [{"role": "user", "content": "x"}]}, 400, "prompt: this is not the route"),
    (chat_fields("x", max_tokens=0), 400, "max_tokens: an integer from 1"),
    (chat_fields("x", max_tokens=1.5), 400, "max_tokens: an integer from 1"),
    (chat_fields("x", max_tokens=True), 400, "max_tokens: an integer from 1"),
    (chat_fields("x", max_tokens=1, max_completion_tokens=2), 400, "max_tokens and max_"),
    (chat_fields("x", ignore_eos=1), 400, "ignore_eos: true or false"),
    (chat_fields("x", min_tokens=-1), 400, "min_tokens: an integer from 0"),
    (chat_fields("x", min_tokens=5, max_tokens=4, ignore_eos=True), 400, "min_tokens: 5 is more than max_tokens, 4"),
    (chat_fields("x", stream="yes"), 400, "stream: true or false"),
    (chat_fields("x", stream_options={"include_usage": True}), 400, "stream_options: only with"),
    (chat_fields("x", stream=True, stream_options=[]), 400, "stream_options: an object"),
    (chat_fields("x", temperature="0"), 400, "temperature: a number"),
    (chat_fields("x", temperature=False), 400, "temperature: a number"),
    (chat_fields("x", top_p=0), 400, "top_p: 0 is not above 0"),
    (chat_fields("x", top_k=1.5), 400, "top_k: an integer"),
    (chat_fields("x" * CONTEXT), 400, "the prompt has 2,048 tokens; this server takes up to 2,047"),
    (chat_fields("refuse"), 400, "echo: not this prompt"),
]  # fmt: skip


@pytest.mark.parametrize("fields, status, told", WRONG)
def test_what_is_no_request_gets_one_sentence(
    echo: EchoServer, fields: Any, status: int, told: str
):
    response = echo.ask(CHAT, fields)
    assert (response.status, told in response.message) == (status, True), response.body
    assert "\n" not in response.message
    assert echo.ask(CHAT, chat_fields("one")).status == 200


@pytest.mark.parametrize("text", ["a:b", '"k":1,"k":2', "\ud83d\ude00:", "9" * 900 + ":"])
@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_texts_with_colons_are_no_keys(echo: EchoServer, text: str, role: str):
    fields = {"model": "echo", "messages": [{"role": role, "content": text}]}
    document = echo.ask(CHAT, fields).document
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert document["choices"][0]["message"]["content"] == whole


def test_a_long_number_beside_a_colon_is_no_failure(echo: EchoServer):
    """Python refuses to convert integers of more than 4,300 digits."""
    fields = chat_fields("a:b").__repr__().replace("'", '"').encode()
    body = fields.removesuffix(b"}") + b',"logit_bias":{"1":' + b"9" * 5000 + b"}}"
    assert echo.ask(CHAT, body).status == 400


@pytest.mark.parametrize(
    "prompt, told",
    [
        (None, "prompt: a text"),
        ("", "the prompt has no tokens"),
        ([], "prompt: a text"),
        ([1, True], "prompt: a text"),
        (["a", "b"], "prompt: a text"),
        ([300], "tokens outside 0 to 256"),
        ([-1], "tokens outside 0 to 256"),
        ([10**30], "tokens outside 0 to 256"),
    ],
)
def test_prompts_that_cannot_be_read_are_refused(echo: EchoServer, prompt: Any, told: str):
    response = echo.ask(TEXT, text_fields(prompt))
    assert response.status == 400 and told in response.message


def test_parts_of_a_message_that_are_text_are_joined(echo: EchoServer):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    fields = {"model": "echo", "messages": [{"role": "user", "content": parts}]}
    assert echo.ask(CHAT, fields).document["choices"][0]["message"]["content"] == "a\nb"


def test_the_other_routes(echo: EchoServer):
    assert echo.ask("/health").document == {"status": "ok"}
    (model,) = echo.ask("/v1/models?limit=5").document["data"]
    assert (model["id"], model["object"]) == ("echo", "model")
    assert echo.ask("/v1/models/echo?x=1").document == model
    other = echo.ask("/v1/models/other%2Fone")
    assert other.status == 404 and other.message == "no model 'other/one'; this server has echo"
    assert echo.ask("/v1/models/echo", {}).status == 405
    assert echo.ask("/podium/facts").document == {"workload": "echo"}
    unknown = echo.ask("/v1/embeddings", {"model": "echo"})
    assert unknown.status == 404 and "no route '/v1/embeddings'" in unknown.message
    wrong = echo.ask(CHAT)
    assert wrong.status == 405 and "allow: post" in wrong.head


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_a_compressed_body_is_named(echo: EchoServer, coding: str):
    response = echo.ask(CHAT, b"\x1f\x8b", Content_Encoding=coding)
    assert response.status == 415 and "accept-encoding: identity" in response.head
    assert response.message == f"the body is compressed ({coding}): send it plain"
    assert echo.ask(CHAT, chat_fields("one"), Content_Encoding="identity").status == 200


def test_a_salt_for_caches_changes_no_answer(echo: EchoServer):
    salted = echo.ask(CHAT, chat_fields("one", cache_salt="a", priority=0)).document
    assert salted["choices"] == echo.ask(CHAT, chat_fields("one")).document["choices"]


def test_a_failed_step_ends_its_answers_alone(echo: EchoServer, capfd: pytest.CaptureFixture[str]):
    """A stream that has begun ends with an error, and without an end that a client could take for
    an answer's.
    """
    client = echo.connect()
    client.send(format_request(CHAT, chat_fields("fail", stream=True)))
    status, _ = client.read_head()
    rest = client.read_rest()
    assert status == 200 and b'"code":"generation_failed"' in rest
    assert b"ValueError: a broken step" in rest and b"[DONE]" not in rest
    whole = echo.ask(CHAT, chat_fields("fail"))
    assert whole.status == 500 and whole.document["error"]["type"] == "server_error"
    assert echo.ask(CHAT, chat_fields("one")).status == 200
    assert "a step with 1 answers failed" in capfd.readouterr().err


def test_an_answer_that_fails_when_its_client_is_gone_is_not_told():
    """Nobody reads the future's exception then, and asyncio would print it."""
    told = list[Any]()

    async def fail() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        text: Any = None
        answer = WholeAnswer(AnswerHead("1", "echo", True), text, text)
        call = TokenCall(prompt=(), max_tokens=1, caller=answer)
        answer.add_event(TokenEvent(call, NO_TOKEN, None, ValueError("a broken step")))
        del answer, call
        gc.collect()

    asyncio.run(fail())
    assert told == []


def test_before_the_model_is_warm_everything_is_refused(tmp_path: Path):
    with serve_echo(tmp_path, ready=False) as cold:
        for path, fields in (("/health", None), ("/v1/models", None), (CHAT, chat_fields("x"))):
            response = cold.ask(path, fields)
            assert response.status == 503 and "being prepared" in response.message

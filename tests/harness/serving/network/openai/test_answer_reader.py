"""Answers whose fields have other forms than OpenAI's are read where that is possible, and named
by the field at fault where it is not.
"""

import json
from typing import Any

import pytest
from podium_fakes.scripted import delta, event, stream, usage

from harness.serving.network.openai.answer_reader import (
    AnswerReader,
    BrokenAnswerError,
    ReadAnswer,
)

END = event(delta(None, "stop"))
DONE = b"data: [DONE]\n\n"
TEXT = "Anna Bruno Dora sells"
NO_ANSWER = "I cannot help."


def read_stream(*events: bytes) -> ReadAnswer:
    """Read a whole stream."""
    reader = AnswerReader(True)
    reader.read_piece(b"".join(events))
    reader.finish_reading()
    return reader.answer


def read_counted(**told: Any) -> ReadAnswer:
    """Read a stream whose usage says so."""
    return read_stream(*stream()[:-1], event({"choices": [], "usage": told}), DONE)


def raw(text: str) -> bytes:
    """Write an event as it is."""
    return f"data: {text}\n\n".encode()


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        ({}, 0),
        ({"completion_tokens": None}, 0),
        ({"completion_tokens": 7.0}, 7),
        ({"completion_tokens": 7, "completion_tokens_details": None}, 7),
        ({"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": None}}, 7),
        ({"completion_tokens": 7, "completion_tokens_details": [1]}, 7),
    ],
)
def test_a_count_of_another_form_is_read_or_left(told: dict[str, Any], counted: int):
    answer = read_counted(**told)
    assert (answer.counted, answer.reasoning, answer.text) == (counted, 0, TEXT)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"completion_tokens": "7"}, 'usage.completion_tokens is "7"'),
        ({"completion_tokens": 7.5}, "usage.completion_tokens is 7.5"),
        ({"completion_tokens": True}, "usage.completion_tokens is true"),
        (
            {"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": "4"}},
            'usage.completion_tokens_details.reasoning_tokens is "4"',
        ),
    ],
)
def test_a_count_that_is_none_is_named(told: dict[str, Any], why: str):
    with pytest.raises(BrokenAnswerError) as error:
        read_counted(**told)
    assert str(error.value) == f"sent what is no answer of this API ({why})"


@pytest.mark.parametrize(
    ("told", "prompt", "cached"),
    [
        ({}, -1, -1),
        ({"prompt_tokens": 9}, 9, -1),
        ({"prompt_tokens": 9.0, "prompt_tokens_details": {"cached_tokens": 0}}, 9, 0),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}, 9, 8),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}, 9, -1),
        ({"prompt_tokens": "9", "prompt_tokens_details": [8]}, -1, -1),
        ({"prompt_tokens": -9, "prompt_tokens_details": {"cached_tokens": 10**30}}, -1, -1),
    ],
)
def test_counts_of_prompts_are_taken_where_they_are_counts(
    told: dict[str, Any], prompt: int, cached: int
):
    answer = read_counted(**told)
    assert (answer.prompt_tokens, answer.cached_tokens, answer.text) == (prompt, cached, TEXT)


def likely(told: Any) -> bytes:
    """Write an event with a letter, and what it tells of its tokens."""
    return event({"choices": [{"delta": {"content": "a"}, "logprobs": told}]})


def test_how_likely_tokens_are_is_collected():
    """NaN stands for what is no number: the places of the others stay."""
    sooner = likely({"content": [{"token": "a", "logprob": -0.5}, {"token": 5, "logprob": -1}]})
    answer = read_stream(sooner, likely({"content": [{"logprob": None}, 7]}), END, DONE)
    first, second, *others = answer.log_probabilities
    assert (first, second) == (-0.5, -1.0)
    assert len(others) == 2 and all(value != value for value in others)
    assert answer.likely_texts == ["a", "", "", ""]


@pytest.mark.parametrize("told", [None, 5, [], {"content": 5}, {"token_logprobs": {}}])
def test_likelihoods_of_another_form_are_left_out(told: Any):
    """They are no part of the answer."""
    answer = read_stream(likely(told), END, DONE)
    assert answer.text == "a" and not answer.log_probabilities


def test_the_last_count_of_a_prompt_is_taken():
    """vLLM sends a count in each event, where it is asked to; the cached ones only at the end."""
    early = event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
    told = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}
    late = event({"choices": [], "usage": {**told, "completion_tokens": 4}})
    answer = read_stream(early, *stream()[:-1], late, early, DONE)
    assert (answer.prompt_tokens, answer.cached_tokens) == (9, 8)


@pytest.mark.parametrize(
    "changed",
    [
        {"object": None},
        {"error": None},
        {"error": {}},
        {"message": None, "detail": None},
        {"model": None, "id": 7},
    ],
)
def test_null_in_a_field_that_is_not_needed(changed: dict[str, Any]):
    answer = read_stream(event(delta("Anna") | changed), event(delta(None, "stop") | changed), DONE)
    assert answer.text == "Anna"


def test_choices_may_be_null_where_the_count_comes():
    answer = read_stream(*stream()[:-1], event(usage(5) | {"choices": None}), DONE)
    assert (answer.text, answer.counted) == (TEXT, 5)


def test_a_content_in_parts_is_joined():
    parts = [{"type": "text", "text": "Anna"}, " Bruno", {"text": " Dora"}]
    answer = read_stream(event(delta(parts)), END, DONE)
    assert (answer.text, answer.hidden, answer.pieces) == ("Anna Bruno Dora", [], 1)


@pytest.mark.parametrize(
    "more",
    [
        {"reasoning": "Hm"},
        {"reasoning_content": "Hm"},
        {"reasoning": "Hm", "reasoning_content": "Hm"},
        {"reasoning": {"text": "Hm"}},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm"}]},
        {"thinking": "Hm"},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]},
    ],
)
def test_reasoning_in_every_form_is_no_content(more: dict[str, Any]):
    fields = {"content": None} | more
    answer = read_stream(event(delta(fields.pop("content"), **fields)), *stream())
    assert (answer.hidden, answer.text, answer.pieces) == (["Hm"], TEXT, 5)


def test_a_document_with_parts():
    reader = AnswerReader(False)
    message = {"content": [{"type": "text", "text": TEXT}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    reader.read_piece(json.dumps({"choices": [choice], "usage": None}).encode())
    reader.finish_reading()
    assert (reader.answer.text, reader.answer.counted) == (TEXT, 0)


@pytest.mark.parametrize("number", ["-Infinity", "NaN", "Infinity"])
def test_numbers_that_json_has_not_are_passed_over(number: str):
    events = [
        raw(
            '{"choices": [{"index": 0, "delta": {"content": "Anna"},'
            f' "logprobs": {{"content": [{{"logprob": {number}}}]}}}}]}}'
        ),
        END,
        DONE,
    ]
    assert read_stream(*events).text == "Anna"


def test_a_letter_that_comes_in_two_halves_is_whole():
    halves = [
        raw(json.dumps({"choices": [{"index": 0, "delta": {"content": half}}]}))
        for half in ("\ud83e", "\udd8a")
    ]
    assert read_stream(*halves, END, DONE).text == "🦊"
    assert read_stream(halves[0], END, DONE).text == "\ufffd"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (raw('{"choices": 3}'), "(Expected `array | null`, got `int` - at `$.choices`): '{"),
        (raw('[{"choices": []}]'), "(Expected `object`, got `array`): '[{"),
        (
            event(delta(7)),
            "(Expected `str | array | null`, got `int` - at `$.choices[0].delta.content`)",
        ),
        (raw("{]"), "(JSON is malformed: object keys must be strings (byte 1)): '{]'"),
        (raw("{" + '"a":[' * 20_000), "sent what is no answer of this API ("),
        (b"data: \xff\xfe\n\n", "sent what is no answer of this API ("),
    ],
)
def test_a_field_of_another_form_is_named_in_the_decoders_words(broken: bytes, why: str):
    with pytest.raises(BrokenAnswerError) as error:
        read_stream(broken)
    assert str(error.value).startswith("sent what is no answer of this API (")
    assert why in str(error.value) and len(str(error.value)) < 600


def test_several_choices_are_not_taken_for_one():
    second = delta("Bruno")
    second["choices"][0]["index"] = 1
    with pytest.raises(BrokenAnswerError, match="several answers to one prompt: a choice of index"):
        read_stream(event(delta("Anna")), event(second))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"detail": "Too many requests"}, "Too many requests"),
        ({"error": "context window exceeded", "error_type": "generation"}, "context window exceed"),
        ({"object": "error", "message": "engine is dead"}, "engine is dead"),
        ({"message": {"detail": "no memory"}}, "no memory"),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
        ({"msg": "busy", "code": 20012}, "busy"),
    ],
)
def test_an_error_in_a_stream_is_told_in_its_words(told: dict[str, Any], said: str):
    with pytest.raises(BrokenAnswerError, match=f"sent an error: {said}"):
        read_stream(event(delta("Anna")), event(told))


def test_what_is_no_stream_is_shown():
    with pytest.raises(BrokenAnswerError, match="sent no stream of events, but '{\"a\": 1}'"):
        read_stream(b'{"a": 1}\n{"a": 2}\n'[:8])


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (
            {"message": {"content": TEXT}, "finish_reason": None},
            "sent an empty answer: its events have `message`, where `delta` is wanted",
        ),
        ({"delta": {"refusal": NO_ANSWER}}, f"refused to answer: {NO_ANSWER!r}"),
        (
            {"delta": {"content": None, "refusal": [{"type": "text", "text": NO_ANSWER}]}},
            f"refused to answer: {NO_ANSWER!r}",
        ),
        (
            {"delta": {"content": "", "tool_calls": [{"index": 0}]}},
            "called a tool in the place of an answer",
        ),
        ({"delta": {"content": ""}}, "sent an empty answer"),
    ],
)
def test_an_empty_stream_says_what_came_instead(choice: dict[str, Any], why: str):
    """A stream with `message` or `refusal` was "an empty answer"."""
    with pytest.raises(BrokenAnswerError) as error:
        read_stream(event({"choices": [choice]}), END, DONE)
    assert str(error.value) == why


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"delta": {"content": TEXT}}, "sent an empty answer: it has `delta`, where `message` is"),
        ({"message": {"content": None, "refusal": NO_ANSWER}}, "refused to answer: "),
    ],
)
def test_an_empty_document_says_what_came_instead(choice: dict[str, Any], why: str):
    reader = AnswerReader(False)
    reader.read_piece(json.dumps({"choices": [choice | {"finish_reason": "stop"}]}).encode())
    with pytest.raises(BrokenAnswerError, match=why):
        reader.finish_reading()


def test_a_message_beside_deltas_is_left():
    """Some servers repeat the whole answer in their last event."""
    whole = {"message": {"content": TEXT}, "finish_reason": None}
    assert read_stream(*stream()[:-1], event({"choices": [whole]}), DONE).text == TEXT

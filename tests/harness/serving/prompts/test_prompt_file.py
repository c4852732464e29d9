"""Files of prompts: every usual form is read, and what is none is named with its line."""

import hashlib
from pathlib import Path

import pytest

from harness.serving.network.openai.prompt_requests import PromptApi
from harness.serving.prompts.prompt_file import MAX_PROMPT_FILE_BYTES, read_prompt_file
from harness.serving.prompts.source import DEFAULT_MAX_TOKENS, AskedPrompts, UserPrompts
from suite.errors import JudgedError, RequestError

FORMS = {
    '{"prompt": "Hello"}': ("Hello", None),
    '{"text": "Hello", "max_tokens": 7}': ("Hello", 7),
    '{"prompt": "Hello", "output_tokens": 9}': ("Hello", 9),  # vllm bench serve, custom
    '{"prompt": "Hello", "prompt_tokens_count": 3, "output_tokens_count": 5}': ("Hello", 5),
    '{"text_input": "Hello", "ref_output": "Hi"}': ("Hello", None),  # MLCommons endpoints
    '"Hello"': ("Hello", None),
    '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": null}': ("Hello", None),
    '{"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]}': (
        "Hello",
        None,
    ),
}
FAULTS = {
    b"": "no prompt in it",
    b"\n \n": "no prompt in it",
    b"\xef\xbb\xbf": "no prompt in it",
    b'{"prompt": "a"}\n{"prompt": ""}\n': r"line 2: prompt: an empty prompt",
    b'{"prompt": "a"}\n{"prompt": "b"\n': "line 2: no JSON",
    b'{"prompt": "a"}\n[1, 2]\n': "line 2: a prompt or an object is wanted",
    b'{"prompt": 3}\n': "line 1: prompt: a text is wanted, not int",
    b'{"prompt": null}\n': "line 1: prompt: a text is wanted, not NoneType",
    b'{"prompt": "\xff"}\n': "line 1: not UTF-8 at its byte 13",
    b'{"prompt": "\\ud800"}\n': "line 1: no JSON",
    b'{"id": 1}\n': "line 1: no prompt among its fields 'id'",
    b'{"prompt": "a", "max_tokens": 0}\n': "line 1: max_tokens is 0: a number from 1",
    b'{"prompt": "a", "max_tokens": true}\n': "line 1: max_tokens is True",
    b'{"messages": []}\n': "messages: no message that asks",
    b'{"messages": [{"role": "assistant", "content": "x"}]}\n': "no message that asks",
    b'{"messages": [{"content": "x"}]}\n': "a message without a role",
    b'{"messages": [{"role": "user", "content": null}]}\n': "a text is wanted, not NoneType",
    b'{"messages": ["x"]}\n': "a message is an object",
    b"[" * 100_000: "line 1: no JSON",
}


@pytest.mark.parametrize("line", FORMS)
def test_each_usual_form_is_a_prompt(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(f"\n{line}\r\n", "utf-8")
    found = read_prompt_file(path)
    text, most = FORMS[line]
    (prompt,) = found.prompts
    assert prompt.list_messages() == [{"role": "user", "content": text}]
    assert prompt.max_tokens == most
    assert found.source == "prompts.jsonl"
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_text_file_has_a_prompt_a_line(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_bytes(b'\xef\xbb\xbfHello\n\n{"a": 1}\r\n  two words  ')
    assert [each.text for each in read_prompt_file(path).prompts] == [
        "Hello",
        '{"a": 1}',
        "two words",
    ]


@pytest.mark.parametrize("content", FAULTS)
def test_what_is_no_prompt_is_named_with_its_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=FAULTS[content]) as told:
        read_prompt_file(path)
    assert len(str(told.value)) < 500 + len(str(path))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        read_prompt_file(tmp_path / "absent.jsonl")
    with pytest.raises(RequestError, match="not a plain file"):
        read_prompt_file(tmp_path)
    large = tmp_path / "large.txt"
    with large.open("wb") as stream:
        stream.truncate(MAX_PROMPT_FILE_BYTES + 1)
    with pytest.raises(RequestError, match="larger than"):
        read_prompt_file(large)


def test_a_request_has_the_prompt_its_limit_and_the_further_fields(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"prompt": "a", "max_tokens": 7}\n{"messages": [{"role": "user", "content": "b"}]}'
    )
    prompts = read_prompt_file(path)
    own = UserPrompts(AskedPrompts(prompts=prompts, fields={"ignore_eos": True}))
    assert own.build_fields(0, PromptApi.COMPLETIONS) == {"prompt": "a", "ignore_eos": True}
    assert own.build_fields(1, PromptApi.CHAT) == {
        "messages": [{"role": "user", "content": "b"}],
        "ignore_eos": True,
    }
    assert (own.limit_answer(0), own.limit_answer(1)) == (7, DEFAULT_MAX_TOKENS)
    assert own.max_new_tokens == DEFAULT_MAX_TOKENS
    with pytest.raises(JudgedError, match="prompt 2 is a conversation"):
        own.build_fields(1, PromptApi.COMPLETIONS)
    cut = UserPrompts(AskedPrompts(prompts=prompts, max_tokens=3))
    assert (cut.limit_answer(0), cut.limit_answer(1), cut.max_new_tokens) == (3, 3, 3)

"""Reads a file of prompts: JSON lines, or a text file with one prompt a line.

Field names: vLLM, `vllm bench serve --dataset-name custom` (prompt, output_tokens); guidellm, its
default columns (prompt, text, ..., output_tokens_count); MLCommons endpoints, dataset formats
(prompt, text_input, messages); OpenAI, API reference, "Chat" (messages, max_tokens,
max_completion_tokens).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.serving.prompts.prompt_set import MAX_PROMPTS, Prompt, PromptSet
from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.workload import ChatMessage

MAX_PROMPT_FILE_BYTES: Final = 256 << 20
"""House rule: all prompts are in memory, in podium's process and in LoadGen's."""
JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
MESSAGES_KEYS: Final = ("messages", "conversation", "conversations")
TEXT_KEYS: Final = (
    "prompt",
    "text",
    "text_input",
    "content",
    "question",
    "instruction",
    "input",
)
"""The first one that a line has is its prompt."""
LENGTH_KEYS: Final = (
    "max_tokens",
    "max_completion_tokens",
    "output_tokens",
    "output_tokens_count",
    "max_output_tokens",
)
ROLES: Final = {"human": "user", "gpt": "assistant"}
"""Names of ShareGPT."""
SHOWN_CHARACTERS: Final = 40


def read_prompt_file(path: Path) -> PromptSet:
    """Read prompts; RequestError for a file that cannot be read, for a line that is no prompt, and
    for a file without any.
    """
    try:
        content = read_untrusted_file(path, bytes, MAX_PROMPT_FILE_BYTES)
    except UnreadableError as error:
        raise RequestError(f"--prompts {path}: {error.reason}") from error
    is_json = path.suffix.lower() in JSON_SUFFIXES
    read_line = read_json_line if is_json else read_text_line
    prompts = tuple(
        read_line(f"--prompts {path}: line {number}", line)
        for number, line in iterate_lines(content)
    )
    if not prompts:
        raise RequestError(f"--prompts {path}: no prompt in it")
    if len(prompts) > MAX_PROMPTS:
        raise RequestError(f"--prompts {path}: {len(prompts):,} prompts, at most {MAX_PROMPTS:,}")
    return PromptSet(prompts=prompts, source=path.name, sha256=hashlib.sha256(content).hexdigest())


def iterate_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with something in them, each with its number; a byte order mark is none of
    the text.
    """
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield number, line.strip()


def decode_line(place: str, line: bytes) -> str:
    """Decode a line; RequestError if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{place}: not UTF-8 at its byte {error.start + 1}") from error


def read_text_line(place: str, line: bytes) -> Prompt:
    """Read a line that is a prompt."""
    return Prompt(text=decode_line(place, line))


def read_json_line(place: str, line: bytes) -> Prompt:
    """Read a line of JSON: a prompt, or an object with one."""
    text = decode_line(place, line)
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestError(f"{place}: no JSON ({error}): {text[:SHOWN_CHARACTERS]!r}") from error
    if isinstance(found, str):
        return Prompt(text=require_text(place, found))
    if not isinstance(found, dict):
        raise RequestError(f"{place}: a prompt or an object is wanted, not {line[:1].decode()}...")
    return build_prompt(place, found)


def build_prompt(place: str, fields: Mapping[str, Any]) -> Prompt:
    """Build the prompt of an object; RequestError if it has none, or an empty one."""
    most = read_length(place, fields)
    for key in MESSAGES_KEYS:
        if isinstance(fields.get(key), list):
            return Prompt(messages=read_messages(f"{place}: {key}", fields[key]), max_tokens=most)
    for key in TEXT_KEYS:
        if key in fields:
            return Prompt(text=require_text(f"{place}: {key}", fields[key]), max_tokens=most)
    known = ", ".join((MESSAGES_KEYS[0], *TEXT_KEYS))
    raise RequestError(
        f"{place}: no prompt among its fields {', '.join(map(repr, fields)) or '(none)'}; one of"
        f" {known} is wanted"
    )


def read_length(place: str, fields: Mapping[str, Any]) -> int | None:
    """Read a prompt's own limit of answer tokens; None without one, or where it is null."""
    for key in LENGTH_KEYS:
        value = fields.get(key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise RequestError(f"{place}: {key} is {value!r}: a number from 1 is wanted")
        return value
    return None


def read_messages(place: str, messages: Sequence[Any]) -> tuple[ChatMessage, ...]:
    """Read a conversation; one of ShareGPT ends with its last question, since answers are the
    server's.
    """
    found = [read_message(place, each) for each in messages]
    while found and found[-1].role == "assistant":
        found.pop()
    if not found:
        raise RequestError(f"{place}: no message that asks for an answer")
    return tuple(found)


def read_message(place: str, message: Any) -> ChatMessage:
    """Read a message by OpenAI's names, or ShareGPT's."""
    if not isinstance(message, dict):
        raise RequestError(f"{place}: a message is an object with role and content")
    role = message.get("role", message.get("from"))
    content = message.get("content", message.get("value"))
    if not isinstance(role, str):
        raise RequestError(f"{place}: a message without a role")
    return ChatMessage(role=ROLES.get(role, role), content=require_text(place, content))


def require_text(place: str, text: Any) -> str:
    """Return a text; RequestError for an empty one, and for what is none."""
    if not isinstance(text, str):
        raise RequestError(f"{place}: a text is wanted, not {type(text).__name__}")
    if not text.strip():
        raise RequestError(f"{place}: an empty prompt")
    return text

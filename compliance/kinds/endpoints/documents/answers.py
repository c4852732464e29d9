"""Read the answers in the events of the Endpoints client, and count their tokens.

Source: mlcommons/endpoints, core/types.py and metrics_aggregator: an answer is
["TextModelOutput", text or [first chunk, rest], reasoning, tool calls].
"""

from array import array
from dataclasses import dataclass, field
from typing import Final

import msgspec

from compliance.token_counter import TokenCounter

MAX_WAITING_TEXTS: Final = 1024
"""Texts that are tokenized at a time."""
NO_VALUE: Final = (b"null", b'""', b"[]")


class ClientAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The data of a completed sample."""

    kind: str
    output: str | tuple[str, ...] | None = None
    """Text, or the first chunk of a stream and what came after it."""
    reasoning: str | tuple[str, ...] | None = None
    """What came before; only it is then kept in chunks."""
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def chunks(self) -> tuple[str, ...]:
        """The text in the chunks that the client keeps apart."""
        if self.output is None:
            return ()
        if isinstance(self.output, str):
            return (self.output,)
        return self.output

    @property
    def first_chunk(self) -> str | None:
        """What a stream began with, which is reasoning where there is some; None for an answer of
        one piece, and for calls of tools, which are not kept in chunks.
        """
        lead = self.reasoning or self.output
        if not isinstance(lead, tuple) or self.calls_tools:
            return None
        if len(lead) > 1 or (self.reasoning and self.output):
            return lead[0]
        return None

    @property
    def calls_tools(self) -> bool:
        """Return whether the answer calls tools."""
        return bytes(self.tool_calls) not in NO_VALUE

    @property
    def is_plain(self) -> bool:
        """Return whether the answer is text alone, without reasoning and calls of tools."""
        return not self.reasoning and not self.calls_tools


class ClientPrompt(msgspec.Struct, array_like=True, frozen=True):
    """The data of an issued sample; older builds of the client leave its values out."""

    kind: str
    text: msgspec.Raw = msgspec.Raw(b"null")
    token_ids: msgspec.Raw = msgspec.Raw(b"null")
    messages: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_known(self) -> bool:
        """Return whether the events say what was asked."""
        return any(
            bytes(each) not in NO_VALUE for each in (self.text, self.token_ids, self.messages)
        )


ANSWER_DECODER: Final = msgspec.json.Decoder(ClientAnswer)
PROMPT_DECODER: Final = msgspec.json.Decoder(ClientPrompt)


def parse_answer(data: msgspec.Raw) -> ClientAnswer | None:
    """Return an answer; None for data of another shape, as of failed samples."""
    try:
        return ANSWER_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_known_prompt(data: msgspec.Raw) -> bool:
    """Return whether the data of an issued sample says what was asked."""
    try:
        return PROMPT_DECODER.decode(data).is_known
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


@dataclass(slots=True)
class TokenCount:
    """Tokens of the answers that are text alone; of the others the client counts what its chat
    template makes of them.
    """

    counter: TokenCounter
    lengths: "array[int]" = field(default_factory=lambda: array("q"))
    token_times_ns: "array[float]" = field(default_factory=lambda: array("d"))
    """Time per token after the first chunk, of each streamed answer that has some."""
    uncounted: int = 0
    texts: list[str] = field(default_factory=list)
    rests: list[str] = field(default_factory=list)
    elapsed_ns: list[int] = field(default_factory=list)

    def add_answer(self, answer: ClientAnswer, elapsed_ns: int | None) -> None:
        """Remember an answer, and the time from its first chunk to its end."""
        if not answer.is_plain:
            self.uncounted += 1
            return
        if text := "".join(answer.chunks):
            self.texts.append(text)
        if elapsed_ns is not None and (rest := "".join(answer.chunks[1:])):
            self.rests.append(rest)
            self.elapsed_ns.append(elapsed_ns)
        if len(self.texts) >= MAX_WAITING_TEXTS:
            self.count_waiting_texts()

    def count_waiting_texts(self) -> None:
        """Tokenize what is remembered."""
        self.lengths.extend(self.counter(self.texts))
        for tokens, elapsed in zip(self.counter(self.rests), self.elapsed_ns, strict=True):
            if tokens:
                self.token_times_ns.append(elapsed / tokens)
        for each in (self.texts, self.rests, self.elapsed_ns):
            each.clear()

"""The first answer of each server, asked before anything is prepared or counts: whether it can be
read and judged, and whether the server closes the connection behind it.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from harness.serving.network.openai.answer_checks import encode_fit_answer
from harness.serving.network.openai.answer_reader import BrokenAnswerError, ReadAnswer
from harness.serving.network.openai.answer_tokens import AnswerCounter
from harness.serving.network.openai.prompt_requests import RequestStyle
from harness.serving.network.openai.prompt_system import PromptServers
from harness.serving.network.openai.server_pool import PooledServer, SentRequest
from harness.serving.network.wire import Endpoint
from suite.errors import PodiumError
from suite.workload import PromptSource

FIRST_SAMPLE: Final = 0
SETTLING_S: Final = 0.1
"""How long a server may take to close a connection behind its answer: llama.cpp takes 7 ms."""
SETTLING_STEP_S: Final = 0.01


@dataclass(slots=True)
class FirstFindings:
    """What the first answers show of servers."""

    closing: frozenset[bool] = frozenset()
    """Behind which answers a server closes connections: streamed ones (True), others (False)."""
    fingerprints: dict[Endpoint, str] = field(default_factory=dict)
    """What each server says of its system in an answer; servers that say nothing are left out."""
    has_log_probabilities: bool = False
    """Each server tells how likely its tokens are, if it is asked."""


class FirstAnswer:
    """Takes one answer, and checks it."""

    def __init__(self, tokenizer: AnswerCounter, speed_alone: bool) -> None:
        self.tokenizer, self.speed_alone = tokenizer, speed_alone
        self.failure: Exception | None = None
        self.fingerprint = ""
        self.has_log_probabilities = False

    def handle_first_token(self, request: SentRequest, answer: ReadAnswer, now_ns: int) -> None:
        """Do nothing: nothing is timed."""

    def handle_answer(self, request: SentRequest, answer: ReadAnswer) -> None:
        """Check the answer."""
        encode_fit_answer(self.tokenizer, answer, self.speed_alone)
        self.fingerprint = answer.fingerprint
        self.has_log_probabilities = bool(answer.log_probabilities)

    def handle_failure(self, error: Exception) -> None:
        """Keep it for the caller, who raises it."""
        self.failure = error


def ask_first_answers(
    servers: PromptServers,
    source: PromptSource,
    tokenizer: AnswerCounter,
    forms: Collection[bool],
    *,
    asks_log_probabilities: bool = False,
) -> FirstFindings:
    """Ask each server for an answer in each of `forms`, streamed (True) or not, and once how likely
    its tokens are; return what the answers show. JudgedError for an answer that is none, or that
    the judge would not take.
    """
    found = FirstFindings()
    for streamed in sorted(forms, reverse=True):
        style = replace(servers.style, streamed=streamed)
        if asyncio.run(ask_first_prompts(servers, style, source, tokenizer, found)):
            found.closing |= {streamed}
    if asks_log_probabilities and not servers.speed_alone:
        style = replace(servers.style, streamed=max(forms), asks_log_probabilities=True)
        with suppress(PodiumError, BrokenAnswerError):  # it refuses the question
            asyncio.run(ask_first_prompts(servers, style, source, tokenizer, found))
    return found


async def ask_first_prompts(
    servers: PromptServers,
    style: RequestStyle,
    source: PromptSource,
    tokenizer: AnswerCounter,
    found: FirstFindings,
) -> bool:
    """Ask each server one prompt; return whether one of them closes the connection behind it. What
    a server says of its system goes to `found`.
    """
    closes, told = False, list[bool]()
    for endpoint in servers.endpoints:
        handler = FirstAnswer(tokenizer, servers.speed_alone)
        alone = replace(servers, endpoints=(endpoint,), in_flight=1)
        pool = alone.open_pool(asyncio.get_running_loop(), style, servers.choose_timeout(), handler)
        pool.is_rehearsing = True
        await pool.open_connections()
        try:
            body = style.build_body(source, FIRST_SAMPLE)
            pool.submit_requests([SentRequest(FIRST_SAMPLE, FIRST_SAMPLE, 0, body)])
            await wait_for_response(pool.servers[0], handler)
            closes |= style.reuses_connections and await watch_for_close(pool.servers[0])
            told.append(handler.has_log_probabilities)
            if handler.fingerprint:
                found.fingerprints[endpoint] = handler.fingerprint
        finally:
            await pool.close_connections()
    found.has_log_probabilities = all(told)
    return closes


async def wait_for_response(server: PooledServer, handler: FirstAnswer) -> None:
    """Wait until a response has ended; raise what went wrong with it."""
    while server.busy and handler.failure is None:
        await asyncio.sleep(SETTLING_STEP_S)
    if handler.failure is not None:
        raise handler.failure


async def watch_for_close(server: PooledServer) -> bool:
    """Return whether a server closes the connection soon behind its answer."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLING_S
    while server.is_reusing and loop.time() < end:
        await asyncio.sleep(SETTLING_STEP_S)
    return not server.is_reusing

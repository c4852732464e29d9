"""The connections to all servers of a system: opened before the run, and given to requests, the
least busy server first.

No request is ever sent twice: whatever happens to one that was sent ends the run. A connection that
a server closed while nothing was asked of it is replaced when it is needed. A server that closes a
connection behind an answer without a word gets a connection for each request from then on: the next
request on one could meet its end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic_ns
from typing import Any, Final, Protocol

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.answer_checks import NOTHING_COUNTS
from harness.serving.network.openai.answer_reader import ReadAnswer
from harness.serving.network.openai.client_connection import ClientConnection
from harness.serving.network.openai.prompt_requests import RequestStyle, join_request
from harness.serving.network.tls import build_client_context
from harness.serving.network.wire import Endpoint
from suite.errors import JudgedError, MissingError, PodiumError
from suite.process.installation import format_install_command
from suite.units import NS_PER_S

OPENING_TIMEOUT_S: Final = 10.0
"""For each connection: house rule, many times the round trip around the world."""
OPENED_AT_ONCE: Final = 64
"""A listening socket has a queue of limited length: Linux, listen(2), often 128."""
TIMEOUT_CHECK_S: Final = 0.1
SILENT_CLOSE_NS: Final = 100_000_000
"""House rule: a connection that ends so soon behind an answer was not closed for being idle."""


def import_http_parser(extra: str = "openai") -> Any:
    """Import the parser of responses; MissingError, which names the extra, if httptools is not
    installed.
    """
    try:
        from httptools import HttpResponseParser
    except ImportError as error:
        raise MissingError(
            f"httptools is not installed: {format_install_command(extra)}"
        ) from error
    return HttpResponseParser


def create_event_loop() -> asyncio.AbstractEventLoop:
    """Create a loop: uvloop's where it is installed, which halves the client's work."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@dataclass(slots=True)
class SentRequest:
    """A request that waits for a connection or for its answer."""

    identity: int
    """LoadGen's, or a number of the caller's."""
    sample: int
    query: int
    """Number of its query, from 0."""
    body: bytes
    content: bytes = b""
    """The whole request, once its server is chosen."""
    first_token: bytes = b""
    """Of the answer, as int32; empty before it has come."""
    first_count: int = 0
    """Tokens that came with it; 0 if they are not known."""
    room_ns: int = 0
    """When a response had ended whose place it takes."""
    sent_ns: int = 0
    first_ns: int = 0


@dataclass(frozen=True, slots=True)
class AnswerTimeout:
    """How long an answer is waited for."""

    seconds: float
    per_answer: bool
    """From sending its request to its end; otherwise as long as no tokens come: of that answer
    once it has begun, of any answer of the server before, since answers may wait in its queue.
    """

    def describe_overrun(self, kept_open: int = 0) -> str:
        """Say what a server did that outlasted it. `kept_open`: answers that have ended, and their
        responses not.
        """
        if kept_open:
            if kept_open == 1:
                answers, responses = ("an answer", "its response")
            else:
                answers, responses = (f"{kept_open:,} answers", "their responses")
            return f"ended {answers} and kept {responses} open for {self.seconds:g} s"
        if self.per_answer:
            return f"did not end an answer within {self.seconds:g} s"
        return f"gave no answer for {self.seconds:g} s"


class AnswerHandler(Protocol):
    """What is done with answers, on the pool's loop."""

    def handle_first_token(self, request: SentRequest, answer: ReadAnswer, now_ns: int) -> None:
        """Take note of the begin of an answer."""

    def handle_answer(self, request: SentRequest, answer: ReadAnswer) -> None:
        """Take a whole answer."""

    def handle_failure(self, error: Exception) -> None:
        """End everything."""


@dataclass(slots=True)
class PooledServer:
    """One server and its connections."""

    pool: "ServerPool"
    endpoint: Endpoint
    head: bytes
    share: int
    """Connections that it has at most."""
    handler: AnswerHandler
    idle: list[ClientConnection] = field(default_factory=list)
    """The one that was used last is taken first: servers close those that are idle for long."""
    live: set[ClientConnection] = field(default_factory=set)
    """All that are open."""
    open_count: int = 0
    """Connections that are open or being opened."""
    busy: int = 0
    """Requests that are owed an answer."""
    content_ns: int = 0
    """When tokens of an answer came last, or an answer's end."""
    answered: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    is_reusing: bool = True
    """Whether a connection serves several requests."""

    @property
    def has_room(self) -> bool:
        """Whether another request can be sent now."""
        return self.busy < self.share

    def start_request(self, request: SentRequest) -> None:
        """Send a request on an idle connection, or on a new one in place of a closed one."""
        request.room_ns = monotonic_ns()
        request.content = join_request(self.head, request.body)
        self.busy += 1
        while self.idle:
            connection = self.idle.pop()
            if self.can_send_on(connection):
                self.send_on(connection, request)
                return
            self.drop_connection(connection)
        self.pool.start_task(partial(self.send_on_new, request))

    def can_send_on(self, connection: ClientConnection) -> bool:
        """Return whether an idle connection is open, as far as is known now."""
        is_fit = self.is_reusing or not connection.answers
        return is_fit and not connection.is_closed and not connection.has_unread_bytes()

    def drop_connection(self, connection: ClientConnection) -> None:
        """Close an idle connection on which nothing can be sent."""
        if not connection.is_closed:
            connection.close_transport()
            self.open_count -= 1
            self.note_close(connection)

    def note_close(self, connection: ClientConnection) -> None:
        """Stop reusing connections if the server has closed one behind an answer."""
        if connection.answers and monotonic_ns() - connection.content_ns < SILENT_CLOSE_NS:
            self.stop_reusing()

    def stop_reusing(self) -> None:
        """Take a connection for each request from now on, and say so in each."""
        if self.is_reusing:
            self.is_reusing = False
            style = replace(self.pool.style, reuses_connections=False)
            self.head = style.build_head(self.endpoint)

    def send_on(self, connection: ClientConnection, request: SentRequest) -> None:
        """Send a request on an open connection."""
        self.bytes_out += len(request.content)
        connection.send_request(request, self.pool.style.streamed)

    async def send_on_new(self, request: SentRequest) -> None:
        """Open a connection, and send a request on it."""
        self.send_on(await self.open_connection(), request)

    async def open_connection(self) -> ClientConnection:
        """Open a connection; MissingError or JudgedError says why that fails."""
        pool, self.open_count = self.pool, self.open_count + 1
        factory = lambda: ClientConnection(self, pool.parser_class)  # noqa: E731
        try:
            async with asyncio.timeout(OPENING_TIMEOUT_S):
                _, connection = await pool.loop.create_connection(
                    factory,
                    self.endpoint.host,
                    self.endpoint.port,
                    ssl=pool.tls if self.endpoint.tls else None,
                    server_hostname=self.endpoint.host if self.endpoint.tls else None,
                )
        except (OSError, TimeoutError) as error:
            self.open_count -= 1
            raise self.build_opening_error(error) from error
        return connection

    def build_opening_error(self, error: Exception) -> PodiumError:
        """Describe why a connection cannot be opened."""
        if isinstance(error, TimeoutError):
            reason = f"no connection within {OPENING_TIMEOUT_S:g} s"
        else:
            reason = f"{getattr(error, 'strerror', None) or error}"
        if self.pool.is_running:
            return JudgedError(
                f"{self.endpoint.target} takes no more connections {self.pool.format_progress()}:"
                f" {reason}; {NOTHING_COUNTS}"
            )
        return MissingError(
            f"{self.endpoint.url}: {len(self.live):,} of {self.share:,} connections could be opened"
            f": {reason}; --set endpoint.in_flight=N opens fewer"
        )

    def take_back_connection(self, connection: ClientConnection, keeps: bool) -> None:
        """Take back a connection whose answer has been read."""
        self.busy -= 1
        if keeps and self.is_reusing:
            self.idle.append(connection)
        else:
            connection.close_transport()
            self.open_count -= 1
            self.open_ahead()
        self.pool.send_waiting()

    def open_ahead(self) -> None:
        """Open a connection in place of a closed one, unless a request waits, which opens one."""
        pool = self.pool
        if pool.is_running and not pool.waiting and self.open_count < self.share:
            pool.start_task(self.add_idle_connection)

    async def add_idle_connection(self) -> None:
        """Open a connection for a later request, which will say why none can be."""
        with suppress(PodiumError):
            self.idle.append(await self.open_connection())

    def forget_connection(self, connection: ClientConnection) -> None:
        """Note that the server closed a connection on which it owed nothing."""
        self.open_count -= 1
        self.note_close(connection)
        if connection in self.idle:
            self.idle.remove(connection)
        else:  # between an answer's last event and its end
            self.busy -= 1
            self.pool.send_waiting()

    def count_kept_open(self) -> int:
        """Return how many answers have ended whose responses have not."""
        return sum(each.is_owed and each.request is None for each in self.live)

    def fail_request(self, connection: ClientConnection, what: str, joint: str = " ") -> None:
        """End the run: a request was sent, and its answer is none. `joint`: between the server's
        name and what it did.
        """
        request = connection.request
        connection.close_transport()
        sample = f" to sample {request.sample}" if request is not None else ""
        self.pool.fail_run(
            JudgedError(
                f"{self.endpoint.target}{joint}{what}{sample and f', in answer{sample}'},"
                f" {self.pool.describe_loss()}"
            )
        )


class ServerPool:
    """All servers of a system. Build it and call its methods on its loop.

    Args:
        loop: runs everything.
        endpoints: one for each server.
        style: of the requests.
        access: who the servers are to be, and the token.
        in_flight: connections over all servers, which have equal shares.
        timeout: how long an answer is waited for.
        handler: takes the answers.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoints: Sequence[Endpoint],
        style: RequestStyle,
        access: ClientCredentials,
        in_flight: int,
        timeout: AnswerTimeout,
        handler: AnswerHandler,
    ) -> None:
        self.loop, self.style, self.timeout, self.handler = loop, style, timeout, handler
        self.parser_class = import_http_parser()
        self.tls = build_client_context(access) if any(each.tls for each in endpoints) else None
        shares = [
            in_flight // len(endpoints) + (place < in_flight % len(endpoints))
            for place in range(len(endpoints))
        ]
        self.servers = [
            PooledServer(
                self,
                endpoint,
                style.build_head(endpoint),
                share,
                handler,
                is_reusing=style.reuses_connections,
            )
            for endpoint, share in zip(endpoints, shares, strict=True)
        ]
        self.waiting: deque[SentRequest] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self.asked = self.turn = self.connections = 0
        self.is_running = self.has_failed = False
        self.is_rehearsing = False
        """Nothing is measured yet."""

    async def open_connections(self) -> None:
        """Open all connections; MissingError says why one cannot be."""
        for server in self.servers:
            while server.open_count < server.share:
                count = min(OPENED_AT_ONCE, server.share - server.open_count)
                opened = await asyncio.gather(*(server.open_connection() for _ in range(count)))
                server.idle += opened
        self.connections = sum(server.open_count for server in self.servers)
        self.is_running = True
        self.start_task(self.watch_timeouts)

    def submit_requests(self, requests: Sequence[SentRequest]) -> None:
        """Send requests, as far as there are connections; the others wait for one."""
        self.asked += len(requests)
        self.waiting.extend(requests)
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send what waits."""
        while self.waiting and not self.has_failed:
            server = self.choose_server()
            if server is None:
                return
            server.start_request(self.waiting.popleft())

    def choose_server(self) -> PooledServer | None:
        """Return the least busy server, in turns where several are; None if all are full."""
        count = len(self.servers)
        if count == 1:
            server = self.servers[0]
            return server if server.has_room else None
        self.turn = (self.turn + 1) % count
        in_turn = (*self.servers[self.turn :], *self.servers[: self.turn])
        free = [server for server in in_turn if server.has_room]
        return min(free, key=lambda server: server.busy, default=None)

    def start_task(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a coroutine function; its error ends the run."""
        task = self.loop.create_task(self.run_guarded(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run_guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a coroutine function, and report its error. A task that is cancelled before it begins
        leaves no coroutine behind.
        """
        try:
            await work()
        except Exception as error:
            self.fail_run(error)

    async def watch_timeouts(self) -> None:
        """End the run if an answer is waited for too long."""
        limit_ns, per_answer = self.timeout.seconds * NS_PER_S, self.timeout.per_answer
        while not self.has_failed:
            await asyncio.sleep(TIMEOUT_CHECK_S)
            now = monotonic_ns()
            late = [
                connection
                for server in self.servers
                for connection in server.live
                if connection.measure_wait_ns(now, per_answer) > limit_ns
            ]
            if late:
                first = min(late, key=lambda connection: connection.sent_ns)
                kept_open = first.server.count_kept_open() if first.request is None else 0
                first.server.fail_request(first, self.timeout.describe_overrun(kept_open))

    def fail_run(self, error: Exception) -> None:
        """Report the first failure; nothing is sent after it."""
        if not self.has_failed:
            self.has_failed = True
            self.handler.handle_failure(error)

    def describe_loss(self) -> str:
        """Say what a failure ends."""
        if self.is_rehearsing:
            return "before the run"
        return f"{self.format_progress()}; {NOTHING_COUNTS}"

    def format_progress(self) -> str:
        """Report the run's progress."""
        answered = sum(server.answered for server in self.servers)
        return f"after {answered:,} of {self.asked:,} answers"

    async def close_connections(self) -> None:
        """End all tasks, and close all connections."""
        self.is_running = False
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for server in self.servers:
            for connection in tuple(server.live):
                connection.close_transport()
        await asyncio.sleep(0)  # transports close in the loop's next turn

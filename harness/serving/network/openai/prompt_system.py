"""A system under test behind an OpenAI-compatible API, as LoadGen's side sees it: its samples are
requests that are ready to send.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import monotonic_ns
from types import SimpleNamespace
from typing import Final, Protocol, cast

from harness.serving.loadgen.session import EngineRecorder, LoadedSystem
from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.answer_checks import encode_fit_answer
from harness.serving.network.openai.answer_reader import ReadAnswer
from harness.serving.network.openai.answer_tokens import open_answer_counter
from harness.serving.network.openai.open_files import allow_open_files
from harness.serving.network.openai.prompt_requests import RequestStyle
from harness.serving.network.openai.server_pool import (
    AnswerHandler,
    AnswerTimeout,
    SentRequest,
    ServerPool,
    create_event_loop,
)
from harness.serving.network.remote import RequestInference
from harness.serving.network.salts import SaltedBody, mark_prompts, salt_sample
from harness.serving.network.silence import OFFLINE_SILENCE_LIMIT_S
from harness.serving.network.wire import Endpoint, ServerDescription
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.units import MS_PER_S
from suite.workload import Inference, Predictor, PromptSource, Run

PROBE_SHARE: Final = 0.3
"""House rule: a server is warm, and takes many prompts at once; LoadGen's first query should follow
the command within some seconds.
"""


class PromptedWorkload(Protocol):
    """The part of a workload that a session with servers needs: its prompts."""

    def build_prompts(self, run: Run, checkpoint: Path) -> PromptSource:
        """Return the samples as prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptServers:
    """The servers of one system under test."""

    endpoints: tuple[Endpoint, ...]
    access: ClientCredentials
    style: RequestStyle
    """Of the probe; a run's scenario decides whether its answers are streamed."""
    streamed: bool | None
    """The user's choice; None: all but Offline."""
    tokenizer: Path | None
    """None: the servers' counts are all there is."""
    in_flight: int
    timeout_ms: int | None
    """Longest time from a request to its answer's end; None: from the latency bound."""
    description: ServerDescription
    ends: frozenset[int]
    """Tokens that end an answer, as the judge knows them."""
    speed_alone: bool = False
    """Answers are neither scored nor compared, and may have reasoning."""
    has_log_probabilities: bool = False
    """Each server tells how likely its tokens are."""
    salting: Salting = Salting.NONE
    """What begins each prompt before its own text."""
    closing: frozenset[bool] = frozenset()
    """Behind which answers a server closes the connection: streamed ones (True), others (False)."""

    def is_streamed_in(self, scenario: Scenario) -> bool:
        """Return whether a scenario's answers are streamed."""
        return scenario is not Scenario.OFFLINE if self.streamed is None else self.streamed

    def choose_timeout(self, bound_s: float | None = None) -> AnswerTimeout:
        """Return how long an answer is waited for: what the user says, else a bound on each answer,
        else as long as Offline may go without tokens of any.
        """
        if self.timeout_ms is not None:
            return AnswerTimeout(self.timeout_ms / MS_PER_S, True)
        if bound_s is not None:
            return AnswerTimeout(bound_s, True)
        return AnswerTimeout(OFFLINE_SILENCE_LIMIT_S, False)

    def open_pool(
        self,
        loop: asyncio.AbstractEventLoop,
        style: RequestStyle,
        timeout: AnswerTimeout,
        handler: AnswerHandler,
    ) -> ServerPool:
        """Build the pool of connections, which opens none yet."""
        return ServerPool(
            loop, self.endpoints, style, self.access, self.in_flight, timeout, handler
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSystem(LoadedSystem):
    """A System that answers prompts elsewhere."""

    servers: PromptServers
    probe_share: float = PROBE_SHARE

    def copy_with_threads(self, threads: int) -> LoadedSystem:
        """Return the system: the servers keep their threads."""
        return self

    def copy_with_salt(self, salting: Salting) -> LoadedSystem:
        """Return a copy whose prompts are salted."""
        return replace(self, servers=replace(self.servers, salting=salting))

    def open_inference(self) -> tuple[Inference, EngineRecorder]:
        """Build LoadGen's side: the samples; no network is compiled."""
        source = cast(PromptedWorkload, self.workload).build_prompts(self.run, self.checkpoint)
        facts = self.servers.description
        recorder = cast(
            EngineRecorder, SimpleNamespace(built=facts.built, calibrated=facts.calibrated)
        )
        return PromptInference(source, self.servers), recorder


class PromptInference(RequestInference):
    """Samples as bodies of requests, and predictors that send them."""

    def __init__(self, source: PromptSource, servers: PromptServers) -> None:
        super().__init__()
        self.source, self.servers, self.style = source, servers, servers.style
        self.tokenizer = open_answer_counter(servers.tokenizer, source.end_token, servers.ends)
        self.salted: dict[int, SaltedBody] = {}
        """Bodies whose prompts are salted when they are sent."""
        self.random = Random()  # noqa: S311 - no secret
        self.choose_streaming(self.style.streamed)

    def choose_streaming(self, streamed: bool) -> None:
        """Choose whether answers are streamed, before samples are loaded."""
        reuses = self.servers.style.reuses_connections and streamed not in self.servers.closing
        self.style = replace(self.servers.style, streamed=streamed, reuses_connections=reuses)

    def ask_log_probabilities(self) -> None:
        """Ask servers that take the question how likely tokens are, before samples are loaded."""
        asks = self.servers.has_log_probabilities
        self.style = replace(self.style, asks_log_probabilities=asks)

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""
        return self.source.sample_count

    @property
    def performance_sample_count(self) -> int:
        """Samples that a performance run keeps in memory at once."""
        return self.source.performance_sample_count

    def prepare_requests(self, samples: Sequence[int]) -> None:
        """Prepare the bodies of requests."""
        salting = self.servers.salting
        if salting is Salting.NONE:
            self.requests |= {each: self.style.build_body(self.source, each) for each in samples}
            return
        marked = mark_prompts(self.source)
        for sample in samples:
            body = self.style.build_body(cast(PromptSource, marked), sample)
            salted = marked.split_body(body, sample)
            self.requests[sample] = salt_sample(salted, sample)
            if salting is Salting.REQUEST:
                self.salted[sample] = salted

    def take_body(self, sample: int) -> bytes:
        """Return the body of a request that is sent now."""
        salted = self.salted.get(sample)
        return salted.fill_in(self.random) if salted else self.requests[sample]

    def measure_length(self, sample: int) -> int:
        """Return the tokens of a prompt."""
        return len(self.source.tokenize_prompt(sample))

    def connect_predictor(self) -> Predictor:
        """Build what sends requests."""
        return PromptPredictor(self)

    def write_truth(self, folder: Path) -> None:
        """Write the ground truth."""
        self.source.write_truth(folder)

    def release_source(self) -> None:
        """Do nothing: prompts hold nothing open."""


class PoolThread:
    """A thread that runs a pool's loop."""

    def __init__(
        self, inference: PromptInference, timeout: AnswerTimeout, handler: AnswerHandler
    ) -> None:
        self.loop = create_event_loop()
        self.pool = inference.servers.open_pool(self.loop, inference.style, timeout, handler)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def start_loop(self) -> None:
        """Open all connections; MissingError says why one cannot be."""
        allow_open_files(sum(server.share for server in self.pool.servers))
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.pool.open_connections(), self.loop).result()

    def call_on_loop(self, work: Callable[[], object]) -> None:
        """Run something on the loop, soon."""
        self.loop.call_soon_threadsafe(work)

    def stop_loop(self) -> None:
        """Close all connections, and end the thread."""
        asyncio.run_coroutine_threadsafe(self.pool.close_connections(), self.loop).result()
        self.call_on_loop(self.loop.stop)
        self.thread.join()
        self.loop.close()


class PromptPredictor:
    """Sends samples to the servers and waits for all answers: for the probe, before any run."""

    def __init__(self, owner: PromptInference) -> None:
        self.owner = owner
        self.thread = PoolThread(owner, owner.servers.choose_timeout(), self)
        self.answers: dict[int, bytes] = {}
        self.latencies_ns: list[int] = []
        """Of the last call's answers."""
        self.wanted = 0
        self.failure: Exception | None = None
        self.over = threading.Event()

    def warm_up(self) -> None:
        """Connect; a server is warm before it is measured."""
        self.thread.start_loop()

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer samples, one request each, all at once."""
        self.answers, self.latencies_ns, self.wanted = {}, [], len(samples)
        self.over.clear()
        requests = [
            SentRequest(place, sample, 0, self.owner.requests[sample])
            for place, sample in enumerate(samples)
        ]
        self.thread.call_on_loop(lambda: self.thread.pool.submit_requests(requests))
        self.over.wait()
        if self.failure is not None:
            raise self.failure
        return [self.answers[place] for place in range(len(samples))]

    def handle_first_token(self, request: SentRequest, answer: ReadAnswer, now_ns: int) -> None:
        """Do nothing: the probe times whole answers."""

    def handle_answer(self, request: SentRequest, answer: ReadAnswer) -> None:
        """Keep an answer."""
        owner = self.owner
        tokens = encode_fit_answer(owner.tokenizer, answer, owner.servers.speed_alone)
        self.answers[request.identity] = tokens.tobytes()
        self.latencies_ns.append(monotonic_ns() - request.sent_ns)
        if len(self.answers) == self.wanted:
            self.over.set()

    def handle_failure(self, error: Exception) -> None:
        """Let the caller raise it."""
        self.failure = error
        self.over.set()

"""LoadGen in front of servers of the OpenAI-compatible API: its QDL sends each sample as one
request, without batching, padding or caching.

LoadGen's thread appends queries to a queue; all else happens on the pool's loop, whose clock stamps
all tokens. LoadGen is told the server's own count of tokens, or podium's if a server sends none;
every answer is counted by podium as well, since LoadGen's log has its token ids.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from time import monotonic_ns
from typing import Any

from harness.children.process import Abort
from harness.serving.loadgen import query_times
from harness.serving.loadgen.qsl import SampleLibrary
from harness.serving.loadgen.query_times import WorkerCompletions
from harness.serving.loadgen.session import (
    AnsweredTokens,
    LoadGenJob,
    LoadGenOutcome,
    ignore_flush,
    run_loadgen_test,
)
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    import_loadgen,
)
from harness.serving.network.openai.answer_checks import (
    AnswerTotals,
    build_said_answer,
    check_counted_tokens,
    compare_logged_counts,
    encode_fit_answer,
)
from harness.serving.network.openai.answer_reader import ReadAnswer
from harness.serving.network.openai.prompt_system import (
    PoolThread,
    PromptInference,
    PromptServers,
    PromptSystem,
)
from harness.serving.network.openai.server_pool import AnswerTimeout, SentRequest
from harness.serving.network.silence import (
    MIN_SILENCE_LIMIT_S,
    SILENCE_LATENCY_BOUNDS,
    SUT_NAME_PREFIX,
)
from harness.serving.network.statements.metrics import CounterReader
from suite.files.layout import ROOM_RECORD_FILE, START_RECORD_FILE
from suite.loadgen.logged_answers import read_logged_tokens
from suite.loadgen.logprob_record import MAX_KEPT_SAMPLES, SaidAnswer
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import (
    TOKEN_BYTES,
    TOKEN_RECORD_FIELDS,
)
from suite.units import NS_PER_S
from suite.workload import Mode


class PromptDispatcher:
    """From LoadGen's queries to requests, and from answers to LoadGen's responses."""

    def __init__(
        self,
        lg: Any,
        inference: PromptInference,
        abort: Abort,
        timeout: AnswerTimeout,
        *,
        keeps_arrivals: bool,
        keeps_likelihoods: bool = False,
    ) -> None:
        self.kept_answers: dict[int, SaidAnswer] | None = {} if keeps_likelihoods else None
        """Log-probabilities of the tokens of each answer, by sample; None: they are not kept."""
        self.first_token_complete, self.complete = lg.FirstTokenComplete, lg.QuerySamplesComplete
        self.response = lg.QuerySampleResponse
        self.inference, self.abort, self.keeps_arrivals = inference, abort, keeps_arrivals
        self.tokenizer = inference.tokenizer
        self.recounts = inference.tokenizer.recounts
        self.speed_alone = inference.servers.speed_alone
        self.thread = PoolThread(inference, timeout, self)
        self.pool = self.thread.pool
        self.inbox: deque[Sequence[Any]] = deque()
        self.issued = array("q")
        """When each query was issued (monotonic ns)."""
        self.taken = self.answered = 0
        self.completions = WorkerCompletions()
        self.token_rows = array("q")
        """TOKEN_RECORD_FIELDS of each answer, in the order of completion."""
        self.usage_rows = array("q")
        """USAGE_RECORD_FIELDS, in the same order."""
        self.starts = array("q")
        """When each answer's request was sent, in the same order ..."""
        self.rooms = array("q")
        """... and when there was room for it: a response had ended."""
        self.arrival_rows = array("q")
        """ARRIVAL_RECORD_FIELDS of each answer, in the same order ..."""
        self.gaps = array("q")
        """... and the times between arrivals."""
        self.totals = AnswerTotals()

    def open_connections(self) -> None:
        """Open all connections; MissingError if one cannot be."""
        self.thread.start_loop()

    def close_connections(self) -> None:
        """Close all connections."""
        self.thread.stop_loop()

    def enqueue_query(self, query: Sequence[Any]) -> None:
        """Enqueue one query; called on LoadGen's thread, inside its clock."""
        self.issued.append(monotonic_ns())
        self.inbox.append(query)
        self.thread.call_on_loop(self.send_queries)

    def send_queries(self) -> None:
        """Send the samples of all queries that have been issued."""
        take_body, requests = self.inference.take_body, list[SentRequest]()
        while self.inbox:
            query = self.inbox.popleft()
            requests += [
                SentRequest(sample.id, sample.index, self.taken, take_body(sample.index))
                for sample in query
            ]
            self.taken += 1
        if requests:
            self.pool.submit_requests(requests)

    def handle_first_token(self, request: SentRequest, answer: ReadAnswer, now_ns: int) -> None:
        """Tell LoadGen that an answer begins."""
        begin = self.tokenizer.encode_begin(answer.begin)
        request.first_count, token = len(begin), begin[:1]
        address, count = token.buffer_info()
        request.first_token, request.first_ns = token.tobytes(), now_ns
        self.first_token_complete([self.response(request.identity, address, count * TOKEN_BYTES)])

    def handle_answer(self, request: SentRequest, answer: ReadAnswer) -> None:
        """Tell LoadGen a whole answer and its number of tokens."""
        tokens = encode_fit_answer(self.tokenizer, answer, self.speed_alone)
        counted = answer.counted or len(tokens)
        recounted = len(tokens) if self.recounts else counted
        totals = self.totals
        totals.logged += counted
        totals.recounted += recounted
        totals.in_one_read += counted > 1 and answer.content_reads == 1
        totals.add_usage(answer)
        totals.add_fingerprint(answer.fingerprint)
        self.keep_likelihoods(request.sample, answer, tokens)
        begins = tokens.tobytes()[: len(request.first_token)] == request.first_token
        totals.differing += not (self.recounts and counted == recounted and begins)
        address, count = tokens.buffer_info()
        now = monotonic_ns()  # LoadGen reads its own clock as soon as it is called
        self.completions.add_completion(now, self.answered, request.query, 1, 1)
        self.answered += 1
        if len(self.token_rows) < len(TOKEN_RECORD_FIELDS) * MAX_QUERY_RECORD_ROWS:
            self.token_rows.extend((request.sample, request.first_ns, now, counted))
            self.usage_rows.extend((answer.prompt_tokens, answer.cached_tokens))
            self.starts.append(request.sent_ns)
            self.rooms.append(request.room_ns)
            self.add_arrivals(request, answer.arrivals_ns)
        # last: after the last answer LoadGen returns, and the record is written
        self.complete([self.response(request.identity, address, count * TOKEN_BYTES, counted)])

    def keep_likelihoods(self, sample: int, answer: ReadAnswer, tokens: "array[int]") -> None:
        """Keep how likely the tokens of one of the first samples are, where that is kept."""
        if self.kept_answers is None or sample >= MAX_KEPT_SAMPLES:
            return
        said = build_said_answer(self.tokenizer, answer, tokens)
        if said is not None:
            self.kept_answers[sample] = said

    def add_arrivals(self, request: SentRequest, arrivals_ns: Sequence[int]) -> None:
        """Record what arrived of an answer, where that is kept."""
        if not self.keeps_arrivals:
            return
        gaps = [later - sooner for sooner, later in pairwise(arrivals_ns)]
        self.arrival_rows.extend((request.first_count, len(gaps)))
        if len(self.gaps) <= MAX_QUERY_RECORD_ROWS:
            self.gaps.extend(gaps)

    def handle_failure(self, error: Exception) -> None:
        """End the process: LoadGen would wait for ever."""
        self.abort(error)

    def build_sut_name(self) -> str:
        """Name the system under test."""
        names = [f"{server.endpoint.address}" for server in self.pool.servers]
        model = self.inference.style.model
        return f"{SUT_NAME_PREFIX}: {', '.join(f'{model} at {name}' for name in names)}"


def choose_answer_timeout(
    schedule: LoadGenSchedule, servers: PromptServers, most_tokens: int
) -> AnswerTimeout:
    """Return how long an answer is waited for: without the user's word, ten times the bounds of a
    whole answer, at least ten seconds; without bounds, a minute without any tokens.
    """
    first_ns, token_ns = schedule.first_token_ns, schedule.per_token_ns
    bounded = schedule.scenario is Scenario.SERVER and schedule.mode is Mode.PERFORMANCE
    if not bounded or first_ns is None or token_ns is None:
        return servers.choose_timeout()
    bound_s = (first_ns + token_ns * most_tokens) / NS_PER_S
    return servers.choose_timeout(max(MIN_SILENCE_LIMIT_S, SILENCE_LATENCY_BOUNDS * bound_s))


def run_loadgen_over_http(job: LoadGenJob, abort: Abort) -> LoadGenOutcome:
    """Run LoadGen in this process over the servers; it returns when all queries are answered."""
    lg = import_loadgen()
    assert isinstance(job.system, PromptSystem)
    inference, recorder = job.system.open_inference()
    assert isinstance(inference, PromptInference)
    servers = job.system.servers
    streamed = servers.is_streamed_in(job.schedule.scenario)
    is_accuracy = job.schedule.mode is Mode.ACCURACY
    inference.choose_streaming(streamed)
    if is_accuracy:
        inference.ask_log_probabilities()
    library = SampleLibrary(inference, abort)
    timeout = choose_answer_timeout(job.schedule, servers, inference.source.max_new_tokens)
    dispatcher = PromptDispatcher(
        lg,
        inference,
        abort,
        timeout,
        keeps_arrivals=job.has_starts,
        keeps_likelihoods=is_accuracy,
    )
    dispatcher.open_connections()
    sut = lg.ConstructQDL(dispatcher.enqueue_query, ignore_flush, dispatcher.build_sut_name)
    count = inference.sample_count
    counters = CounterReader(
        endpoints=servers.endpoints,
        access=servers.access,
        headers=servers.style.headers,
        model=servers.style.model,
    )
    counters.read_before()
    run_loadgen_test(lg, job, sut, library)
    lg.DestroyQDL(sut)
    counted = counters.read_after()
    dispatcher.close_connections()
    inference.close()
    check_counted_tokens(dispatcher.totals, dispatcher.answered)
    if dispatcher.recounts:
        compare_logged_counts(read_logged_tokens(job.folder))
    return LoadGenOutcome(
        sample_count=count,
        batches=dispatcher.answered,
        samples=dispatcher.answered,
        built=recorder.built,
        longest=library.longest,
        lost=tuple(filter(None, (*write_answer_times(job, dispatcher), counters.problem))),
        server_counters=counted,
        traffic=(
            sum(server.bytes_out for server in dispatcher.pool.servers),
            sum(server.bytes_in for server in dispatcher.pool.servers),
        ),
        answered_tokens=AnsweredTokens(
            connections=dispatcher.pool.connections,
            streamed=streamed,
            tokens_logged=dispatcher.totals.logged,
            tokens_recounted=dispatcher.totals.recounted,
            answers_differing=dispatcher.totals.differing,
            answers_in_one_read=dispatcher.totals.in_one_read if streamed else None,
            prompt_tokens=dispatcher.totals.prompt_tokens,
            cached_tokens=dispatcher.totals.cached_tokens,
            fingerprints=dict(dispatcher.totals.fingerprints),
            salted=servers.salting,
        ),
    )


def write_answer_times(job: LoadGenJob, dispatcher: PromptDispatcher) -> Iterator[str]:
    """Write the records of a performance run's queries and tokens, or how likely an accuracy run's
    answers were; yield why one is lost, "" for each that is written.
    """
    if job.schedule.mode is Mode.ACCURACY:
        if dispatcher.kept_answers:
            yield query_times.write_log_probabilities(job.folder, dispatcher.kept_answers)
        return
    completions = [dispatcher.completions]
    yield query_times.write_query_times(
        job.folder, job.schedule.scenario, dispatcher.issued, completions
    )
    yield query_times.write_token_times(
        job.folder, dispatcher.issued, completions, dispatcher.token_rows
    )
    if dispatcher.totals.has_usage:
        yield query_times.write_prompt_usage(
            job.folder, dispatcher.issued, completions, dispatcher.usage_rows
        )
    if job.has_starts:
        for name, times in (
            (START_RECORD_FILE, dispatcher.starts),
            (ROOM_RECORD_FILE, dispatcher.rooms),
        ):
            yield query_times.write_prompt_times(
                job.folder / name, dispatcher.issued, completions, times
            )
        yield from query_times.write_arrivals(
            job.folder,
            dispatcher.issued,
            completions,
            dispatcher.arrival_rows,
            dispatcher.gaps,
        )

"""LoadGen over a network: its QDL sends each sample as one request, without batching, padding or
caching, and hands each answer on.

inference_rules.adoc, Network Division: the QDL is a proxy. A request that fails ends the run; none
is repeated.
"""

import threading
from array import array
from collections.abc import Sequence
from queue import SimpleQueue
from time import monotonic_ns
from typing import Any, Final

from extras.kserve.connection import ServerConnection
from extras.kserve.remote import RemoteInference, RemoteSystem
from harness.children.process import Abort
from harness.serving.loadgen import query_times
from harness.serving.loadgen.batching import ResponseEnvelope
from harness.serving.loadgen.qsl import SampleLibrary
from harness.serving.loadgen.query_times import WorkerCompletions
from harness.serving.loadgen.session import (
    LoadGenJob,
    LoadGenOutcome,
    ignore_flush,
    run_loadgen_test,
)
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    import_loadgen,
)
from harness.serving.network.silence import (
    MIN_SILENCE_LIMIT_S,
    OFFLINE_SILENCE_LIMIT_S,
    SILENCE_LATENCY_BOUNDS,
    SUT_NAME_PREFIX,
)
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario
from suite.units import MS_PER_S, NS_PER_S
from suite.workload import Mode

SILENCE_CHECK_INTERVAL_S: Final = 0.1


def choose_silence_limit_s(schedule: LoadGenSchedule, wanted_ms: int | None) -> float:
    """Return how long no answer may come: what the user says, else ten latency bounds, at least ten
    seconds; in Offline a minute.
    """
    if wanted_ms is not None:
        return wanted_ms / MS_PER_S
    if (
        schedule.scenario is not Scenario.SERVER
        or schedule.bound_ns is None
        or schedule.mode is Mode.ACCURACY
    ):
        return OFFLINE_SILENCE_LIMIT_S
    return max(MIN_SILENCE_LIMIT_S, SILENCE_LATENCY_BOUNDS * schedule.bound_ns / NS_PER_S)


class ServerLine:
    """One server and what it owes."""

    def __init__(self, connection: ServerConnection, in_flight: int) -> None:
        self.connection, self.free = connection, threading.Semaphore(in_flight)
        self.sent = self.answered = 0
        self.since_ns = monotonic_ns()
        """Time of its last answer, or of the first request that waits."""

    def count_sent(self) -> None:
        """Note a request."""
        if self.sent == self.answered:
            self.since_ns = monotonic_ns()
        self.sent += 1

    def count_answered(self) -> None:
        """Note an answer."""
        self.answered += 1
        self.since_ns = monotonic_ns()
        self.free.release()

    def compute_silence_s(self) -> float:
        """Return for how long an answer has been owed."""
        return (monotonic_ns() - self.since_ns) / NS_PER_S if self.sent > self.answered else 0.0


class QueryDispatcher:
    """From LoadGen's queries to requests, and from replies to LoadGen's responses."""

    def __init__(self, lg: Any, inference: RemoteInference, abort: Abort, silence_s: float) -> None:
        remote = inference.remote
        self.respond, self.envelope = (
            lg.QuerySamplesComplete,
            ResponseEnvelope(lg.QuerySampleResponse),
        )
        self.inference, self.abort, self.form, self.silence_s = (
            inference,
            abort,
            remote.form,
            silence_s,
        )
        self.lines = [
            ServerLine(connection, remote.in_flight) for connection in remote.open_connections()
        ]
        self.queue: SimpleQueue[Sequence[Any] | None] = SimpleQueue()
        self.issued = array("q")
        """When each query was issued (monotonic ns)."""
        self.turn = threading.Lock()
        self.completions = WorkerCompletions()
        self.asked = self.answered = 0
        self.bytes_out = self.bytes_in = 0
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self.run_guarded, args=(work,), daemon=True)
            for work in (self.send_samples, self.watch_servers)
        ]

    def start(self) -> None:
        """Check the servers, then start; MissingError if one cannot be used."""
        for line in self.lines:
            line.connection.check_server()
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """End the threads and close the connections."""
        self.queue.put(None)
        self.over.set()
        for thread in self.threads:
            thread.join()
        for line in self.lines:
            line.connection.close()

    def enqueue_query(self, query: Sequence[Any]) -> None:
        """Enqueue one query; called on LoadGen's thread, inside its clock."""
        self.issued.append(monotonic_ns())
        self.queue.put(query)

    def request_sut_name(self) -> str:
        """Name the system under test: a round trip to every server, which LoadGen times."""
        try:
            return (
                f"{SUT_NAME_PREFIX}:"
                f" {', '.join(line.connection.request_server_name() for line in self.lines)}"
            )
        except Exception as error:
            self.abort(
                JudgedError(f"a server does not tell its name: {' '.join(str(error).split())}")
            )

    def run_guarded(self, work: Any) -> None:
        """Run a thread; any exception ends the process."""
        try:
            work()
        except BaseException as error:
            self.abort(error)

    def send_samples(self) -> None:
        """Send each sample of each query, to the servers in turns; wait where too many answers are
        owed.
        """
        number = -1
        while (query := self.queue.get()) is not None:
            number += 1
            for sample in query:
                line = self.lines[self.asked % len(self.lines)]
                line.free.acquire()
                request = self.inference.requests[sample.index]
                with self.turn:
                    line.count_sent()
                self.asked += 1
                self.bytes_out += len(request)
                line.connection.send_with_callback(
                    request, ReplyCallback(self, line, sample.id, number)
                )

    def complete_sample(self, line: ServerLine, identity: int, query: int, future: Any) -> None:
        """Hand an answer to LoadGen; called on gRPC's threads."""
        error = future.exception()
        if error is not None:
            raise line.connection.build_lost_error(error, self.format_progress())
        answer = self.form.parse_answer(line.connection, future.result())
        with self.turn:
            line.count_answered()
            self.answered += 1
            self.bytes_in += len(answer)
            responses = self.envelope.fill_responses([identity], [answer])
            self.completions.add_completion(
                monotonic_ns(), self.answered - 1, query, 1, 1
            )  # first: after the last answer LoadGen returns, and the record is written
            self.respond(responses)

    def format_progress(self) -> str:
        """Report the run's progress."""
        return f"after {self.answered:,} of {self.asked:,} answers"

    def watch_servers(self) -> None:
        """End the run if a server owes answers and gives none."""
        while not self.over.wait(SILENCE_CHECK_INTERVAL_S):
            for line in self.lines:
                if line.compute_silence_s() > self.silence_s:
                    where = line.connection.endpoint.target
                    raise JudgedError(
                        f"{where} gave no answer for {self.silence_s:g} s,"
                        f" {self.format_progress()}; nothing of that run counts"
                    )


class ReplyCallback:
    """The callback of one request."""

    __slots__ = ("dispatcher", "identity", "line", "query")

    def __init__(
        self, dispatcher: QueryDispatcher, line: ServerLine, identity: int, query: int
    ) -> None:
        self.dispatcher, self.line, self.identity, self.query = dispatcher, line, identity, query

    def __call__(self, future: Any) -> None:
        """Finish the request; any exception ends the process, since LoadGen would wait for ever."""
        try:
            self.dispatcher.complete_sample(self.line, self.identity, self.query, future)
        except BaseException as error:
            self.dispatcher.abort(error)


def run_loadgen_over_network(job: LoadGenJob, abort: Abort) -> LoadGenOutcome:
    """Run LoadGen in this process over the servers; it returns when all queries are answered."""
    lg = import_loadgen()
    assert isinstance(job.system, RemoteSystem)
    inference, recorder = job.system.open_inference()
    assert isinstance(inference, RemoteInference)
    library = SampleLibrary(inference, abort)
    dispatcher = QueryDispatcher(
        lg, inference, abort, choose_silence_limit_s(job.schedule, job.system.remote.timeout_ms)
    )
    dispatcher.start()
    sut = lg.ConstructQDL(dispatcher.enqueue_query, ignore_flush, dispatcher.request_sut_name)
    count = inference.sample_count
    run_loadgen_test(lg, job, sut, library)
    lg.DestroyQDL(sut)
    dispatcher.stop()
    inference.close()
    lost = ""
    if job.schedule.mode is not Mode.ACCURACY:
        lost = query_times.write_query_times(
            job.folder, job.schedule.scenario, dispatcher.issued, [dispatcher.completions]
        )
    return LoadGenOutcome(
        sample_count=count,
        batches=dispatcher.answered,
        samples=dispatcher.answered,
        built=recorder.built,
        longest=library.longest,
        lost=tuple(filter(None, [lost])),
        traffic=(dispatcher.bytes_out, dispatcher.bytes_in),
    )

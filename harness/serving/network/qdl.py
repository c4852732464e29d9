"""LoadGen over a network: its QDL sends each sample as one request, without batching, padding or
caching, and hands each answer on.

inference_rules.adoc, Network Division: the QDL is a proxy. A request that fails ends the run; none
is repeated.
"""

import gc
import threading
from array import array
from collections.abc import Sequence
from queue import SimpleQueue
from time import monotonic_ns
from typing import Any, Final

from harness.children.process import Abort
from harness.serving.loadgen import query_times
from harness.serving.loadgen.batching import Envelope
from harness.serving.loadgen.qsl import Library
from harness.serving.loadgen.query_times import Completions
from harness.serving.loadgen.session import NO_AUDIT, Job, Outcome, no_flush
from harness.serving.loadgen.test_settings import Schedule, loadgen, loadgen_settings, log_settings
from harness.serving.network.connection import Connection
from harness.serving.network.remote import RemoteInference, RemoteSystem
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

NAME: Final = "Network SUT"
"""inference_rules.adoc, Network Division: the SUT's name contains it."""
OFFLINE_S: Final = 60.0
BOUNDS: Final = 10
LEAST_S: Final = 10.0
"""House rules: how long no answer at all may come. A server that is slow still answers; one that is
frozen does not.
"""
LOOK_S: Final = 0.1
MS_PER_S: Final = 1000
NS_PER_S: Final = 1e9


def timeout_s(schedule: Schedule, wanted_ms: int | None) -> float:
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
        return OFFLINE_S
    return max(LEAST_S, BOUNDS * schedule.bound_ns / NS_PER_S)


class Line:
    """One server and what it owes."""

    def __init__(self, connection: Connection, in_flight: int) -> None:
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

    def silent_s(self) -> float:
        """Return for how long an answer has been owed."""
        return (monotonic_ns() - self.since_ns) / NS_PER_S if self.sent > self.answered else 0.0


class Dispatcher:
    """From LoadGen's queries to requests, and from replies to LoadGen's responses."""

    def __init__(self, lg: Any, inference: RemoteInference, abort: Abort, silence_s: float) -> None:
        remote = inference.remote
        self.respond, self.envelope = lg.QuerySamplesComplete, Envelope(lg.QuerySampleResponse)
        self.inference, self.abort, self.form, self.silence_s = (
            inference,
            abort,
            remote.form,
            silence_s,
        )
        self.lines = [Line(connection, remote.in_flight) for connection in remote.connect()]
        self.queue: SimpleQueue[Sequence[Any] | None] = SimpleQueue()
        self.issued = array("q")
        """When each query was issued (monotonic ns)."""
        self.turn = threading.Lock()
        self.completions = Completions()
        self.asked = self.answered = 0
        self.bytes_out = self.bytes_in = 0
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self.guarded, args=(work,), daemon=True)
            for work in (self.send, self.watch)
        ]

    def start(self) -> None:
        """Check the servers, then start; MissingError if one cannot be used."""
        for line in self.lines:
            line.connection.check()
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

    def issue(self, query: Sequence[Any]) -> None:
        """Enqueue one query; called on LoadGen's thread, inside its clock."""
        self.issued.append(monotonic_ns())
        self.queue.put(query)

    def name(self) -> str:
        """Name the system under test: a round trip to every server, which LoadGen times."""
        try:
            return f"{NAME}: {', '.join(line.connection.server_name() for line in self.lines)}"
        except Exception as error:
            self.abort(
                JudgedError(f"a server does not tell its name: {' '.join(str(error).split())}")
            )

    def guarded(self, work: Any) -> None:
        """Run a thread; any exception ends the process."""
        try:
            work()
        except BaseException as error:
            self.abort(error)

    def send(self) -> None:
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
                line.connection.start(request, Reply(self, line, sample.id, number))

    def finish(self, line: Line, identity: int, query: int, future: Any) -> None:
        """Hand an answer to LoadGen; called on gRPC's threads."""
        error = future.exception()
        if error is not None:
            raise line.connection.lost(error, self.progress())
        answer = self.form.answer(line.connection, future.result())
        with self.turn:
            line.count_answered()
            self.answered += 1
            self.bytes_in += len(answer)
            responses = self.envelope.fill([identity], [answer])
            self.completions.add(
                monotonic_ns(), self.answered - 1, query, 1, 1
            )  # first: after the last answer LoadGen returns, and the record is written
            self.respond(responses)

    def progress(self) -> str:
        """Say how far the run is."""
        return f"after {self.answered:,} of {self.asked:,} answers"

    def watch(self) -> None:
        """End the run if a server owes answers and gives none."""
        while not self.over.wait(LOOK_S):
            for line in self.lines:
                if line.silent_s() > self.silence_s:
                    where = line.connection.endpoint.target
                    raise JudgedError(
                        f"{where} gave no answer for {self.silence_s:g} s, {self.progress()};"
                        " nothing of that run counts"
                    )


class Reply:
    """The callback of one request."""

    __slots__ = ("dispatcher", "identity", "line", "query")

    def __init__(self, dispatcher: Dispatcher, line: Line, identity: int, query: int) -> None:
        self.dispatcher, self.line, self.identity, self.query = dispatcher, line, identity, query

    def __call__(self, future: Any) -> None:
        """Finish the request; any exception ends the process, since LoadGen would wait for ever."""
        try:
            self.dispatcher.finish(self.line, self.identity, self.query, future)
        except BaseException as error:
            self.dispatcher.abort(error)


def run_over_network(job: Job, abort: Abort) -> Outcome:
    """Run LoadGen in this process over the servers; it returns when all queries are answered."""
    lg = loadgen()
    assert isinstance(job.system, RemoteSystem)
    inference, recorder = job.system.open()
    assert isinstance(inference, RemoteInference)
    library = Library(inference, abort)
    dispatcher = Dispatcher(
        lg, inference, abort, timeout_s(job.schedule, job.system.remote.timeout_ms)
    )
    dispatcher.start()
    gc.freeze()
    count = inference.sample_count
    sut = lg.ConstructQDL(dispatcher.issue, no_flush, dispatcher.name)
    qsl = lg.ConstructQSL(
        count, min(count, inference.performance_sample_count), library.load, library.unload
    )
    lg.StartTestWithLogSettings(
        sut,
        qsl,
        loadgen_settings(job.schedule),
        log_settings(lg, job.folder),
        str(job.folder / NO_AUDIT),
    )
    lg.DestroyQSL(qsl)
    lg.DestroyQDL(sut)
    dispatcher.stop()
    inference.close()
    lost = (
        ""
        if job.schedule.mode is Mode.ACCURACY
        else query_times.write(
            job.folder, job.schedule.scenario, dispatcher.issued, [dispatcher.completions]
        )
    )
    return Outcome(
        sample_count=count,
        batches=dispatcher.answered,
        samples=dispatcher.answered,
        built=recorder.built,
        longest=library.longest,
        lost=tuple(filter(None, [lost])),
        traffic=(dispatcher.bytes_out, dispatcher.bytes_in),
    )

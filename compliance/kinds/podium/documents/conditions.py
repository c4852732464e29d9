"""The conditions of one run: its telemetry, restricted to the time of the run, and how steady its
rate was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.documents.base import Document
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.kinds.podium.recorded_times import compute_time_slack_s
from compliance.logs.finite_numbers import is_finite_number
from compliance.logs.telemetry import (
    GpuState,
    HostState,
    SampledSegment,
    TelemetryFile,
)
from compliance.within_run import compute_half_rates
from suite import events
from suite.loadgen.query_record import QueryTimes
from suite.rounds import NoiseRules, Round
from suite.units import NS_PER_MS, NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWindow:
    """The time span of a run, UTC in ns."""

    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions(Document):
    """The conditions of one run."""

    document_name: ClassVar[str] = "the conditions of a run"

    path: Path
    """Path of its telemetry, or of the run if there is none."""
    telemetry: TelemetryFile | None
    window: RunWindow | None
    """None if the run's own files do not give its time span."""
    resumed: bool
    """Whether the run was interrupted and so has gaps."""
    rates: tuple[Sequence[float], Sequence[float]] | None
    """Samples/s in slices of the run's first half and of its second; None if it is too short, or if
    the system does not set its own pace.
    """
    round: Round
    opened_ns: int | None = None
    """When a training log was begun, UTC in ns; None for a LoadGen run, whose system is loaded
    before its log is begun.
    """

    has_own_clock: bool = True
    """Whether the machine that timed the run sampled it: another node's clock may differ."""

    has_servers_beside: bool = False
    """Whether servers on LoadGen's machine answered: they are among its other programs."""

    @property
    def slack_ns(self) -> float:
        """Return by how much telemetry and the run's own times may differ."""
        length_ns = self.window.end_ns - self.window.begin_ns if self.window else 0
        return compute_time_slack_s(length_ns / NS_PER_S) * NS_PER_S

    @property
    def noise(self) -> NoiseRules | None:
        """Return the round's noise limits."""
        return self.round.noise

    @property
    def segments(self) -> Sequence[SampledSegment]:
        """Return the trustworthy telemetry segments."""
        if self.telemetry and self.telemetry.is_valid:
            return self.telemetry.segments
        return ()

    def iterate_host_states(self) -> Iterator[tuple[int, HostState]]:
        """Yield each host state that overlaps the run, with the nanoseconds of overlap."""
        for segment in self.segments:
            before = segment.head.clocks_ns[0]
            for t, _, state in segment.states.get("host", ()):
                overlap_ns = self.compute_overlap_ns(
                    segment.convert_to_utc_ns(before), segment.convert_to_utc_ns(t)
                )
                before = t
                if overlap_ns > 0 and isinstance(state, HostState):
                    yield overlap_ns, state

    def iterate_gpu_states(self) -> Iterator[tuple[str, list[GpuState]]]:
        """Yield each GPU's name and its states during the run."""
        for name in sorted(
            {name for segment in self.segments for name in segment.states if name.startswith("gpu")}
        ):
            readings = [
                (segment.convert_to_utc_ns(t), state)
                for segment in self.segments
                for t, _, state in segment.states.get(name, ())
            ]
            yield (
                name,
                [
                    state
                    for t, state in readings
                    if self.compute_overlap_ns(t, t + 1) > 0 and isinstance(state, GpuState)
                ],
            )

    def compute_overlap_ns(self, begin_ns: int, end_ns: int) -> int:
        """Return how many nanoseconds of a UTC span overlap the run."""
        if self.window is None:
            return end_ns - begin_ns
        return min(end_ns, self.window.end_ns) - max(begin_ns, self.window.begin_ns)


def build_serving_conditions(run: LoadGenRun) -> RunConditions | None:
    """Build the conditions of a performance run; None if it has neither telemetry nor a query
    record.
    """
    if run.telemetry is None and run.queries is None:
        return None
    rates = None
    if run.queries is not None:
        rates = compute_half_rates(run.queries, run.scenario, is_sorted_by_length(run))
    return RunConditions(
        path=run.telemetry.source.path if run.telemetry else run.folder,
        telemetry=run.telemetry,
        window=compute_serving_window(run.queries, run.telemetry),
        resumed=False,
        rates=rates,
        round=run.round,
        has_servers_beside=has_servers_beside(run),
    )


def has_servers_beside(run: LoadGenRun) -> bool:
    """Return whether a server of a run is on LoadGen's machine."""
    network = run.record.network if run.record else None
    if network is None:
        return False
    return network.loopback or network.loadgen_machine in filter(None, network.machines)


def is_sorted_by_length(run: LoadGenRun) -> bool:
    """Return whether Offline's batches were sorted by sample length; older records do not
    state it.
    """
    return run.record is None or run.record.batches.get("by_length", 1.0) != 0.0


def compute_serving_window(
    queries: QueryTimes | None, telemetry: TelemetryFile | None
) -> RunWindow | None:
    """Return the time from the first query to the last answer; None if either record is missing."""
    if queries is None or not len(queries) or not (telemetry and telemetry.segments):
        return None
    utc_ns = telemetry.segments[0].convert_to_utc_ns
    return RunWindow(
        begin_ns=utc_ns(int(queries.issued_ns.min())),
        end_ns=utc_ns(int(queries.done_ns.max())),
    )


def build_training_conditions(log: TrainingLog, telemetry: TelemetryFile) -> RunConditions:
    """Build the conditions of a training run on one node."""
    begin, end = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    times = [
        record.event.time_ms
        for record in (begin, end)
        if record and is_finite_number(record.event.time_ms)
    ]
    window, opened_ms = None, log.opened_ms
    if len(times) == 2:
        window = RunWindow(begin_ns=int(times[0]) * NS_PER_MS, end_ns=int(times[1]) * NS_PER_MS)
    return RunConditions(
        path=telemetry.source.path,
        telemetry=telemetry,
        window=window,
        resumed=bool(log.list_records(events.RESUMED)),
        rates=None,
        round=log.round,
        has_own_clock="_node" not in telemetry.source.path.name,
        opened_ns=None if opened_ms is None else int(opened_ms) * NS_PER_MS,
    )

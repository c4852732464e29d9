"""Measures the cost of a run's records: the harness ceiling with query times and the sampler,
against the harness without both.

A system under test that does nothing. Offline: samples/s. Server: queries/s completed under a rate
that is far above what can be held. Both sides alternate in one run; the side without is the harness
as it was before it kept records. The last line reports the sampler's use of a core.

Usage: python benchmarks/recording.py [--pairs N] [--format text|json]
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any, Final

from common.figures import arguments, compare, show
from common.tiny import choose_size

from harness.children.process import Abort, run_in_child
from harness.machine.telemetry.process import sample_during_block
from harness.serving.harness_ceiling import build_null_schedule, build_null_system
from harness.serving.loadgen import session
from harness.serving.loadgen.batching import COMPLETION_CHUNK_SIZE, QueryGatherer, WorkerThreads
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen
from suite.files.layout import TELEMETRY_FILE
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

BATCH: Final = 256
SAMPLES: Final = choose_size(1_000_000, 2_000)
OVERLOAD_QPS: Final = 1_000_000.0
SERVER_MS: Final = choose_size(1000, 100)
RATES: Final = {
    Scenario.OFFLINE: "result_samples_per_second",
    Scenario.SERVER: "result_completed_samples_per_sec",
}
ALONE_S: Final = choose_size(20.0, 1.0)
"""The sampler's use of a core is taken over as long, beside nothing else of ours."""


class PlainGatherer(QueryGatherer):
    """As it was: nothing is noted of a query."""

    def build_issue_callback(self) -> Callable[[list[int], list[int]], None]:
        """Return the function that takes one query."""
        put = self.queue.put
        return lambda ids, indexes: put((ids, indexes, 0))

    def gather_queries(
        self, ids: list[int], indexes: list[int], issued_ns: int
    ) -> tuple[list[int], list[int], int]:
        """Add what is there already; the window is none."""
        while len(ids) < self.max_batch:
            try:
                more = self.queue.get_nowait()
            except Empty:
                break
            if more is None:
                self.queue.put(None)
                break
            ids += more[0]
            indexes += more[1]
        return ids, indexes, 1


class PlainWorkers(WorkerThreads):
    """As they were: nothing is noted of a completion."""

    def process_batch(
        self, predictor: Any, batch: Any, envelope: Any, tally: Any, completions: Any
    ) -> None:
        """Answer one batch."""
        ids, indexes, *_ = batch
        answers = predictor(indexes)
        for start in range(0, len(ids), COMPLETION_CHUNK_SIZE):
            self.respond(
                envelope.fill_responses(
                    ids[start : start + COMPLETION_CHUNK_SIZE],
                    answers[start : start + COMPLETION_CHUNK_SIZE],
                )
            )
        tally.batches += 1
        tally.samples += len(ids)


def without(job: LoadGenJob, abort: Abort) -> LoadGenOutcome:
    """Run LoadGen without records; in a child process of its own."""
    session.QueryGatherer, session.WorkerThreads = PlainGatherer, PlainWorkers  # type: ignore[misc]
    for plain in (PlainGatherer, PlainWorkers):
        missing = [name for name in vars(plain) if not hasattr(plain.__base__, name)]
        assert not missing, f"{plain.__base__} has no {missing}"
    session.write_performance_times = lambda job, answering: iter(())
    return run_loadgen(job, abort)


def sampled(job: LoadGenJob) -> None:
    """Run LoadGen with records, and the sampler beside it."""
    with sample_during_block(job.folder / TELEMETRY_FILE, "cpu") as sampler:
        run_in_child(run_loadgen, job)
    assert not sampler.lost, sampler.lost


def measured(run: Callable[[LoadGenJob], object], scenario: Scenario, cache: Path) -> float:
    """Do one run; give what it reached."""
    schedule = build_null_schedule(scenario)
    schedule = (
        replace(schedule, min_queries=SAMPLES)
        if scenario is Scenario.OFFLINE
        else replace(schedule, rate=OVERLOAD_QPS, min_duration_ms=SERVER_MS)
    )
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        run(
            LoadGenJob(
                system=build_null_system(cache, BATCH), schedule=schedule, folder=Path(folder)
            )
        )
        return read_detail_log(Path(folder)).require_number(RATES[scenario])


def pair(scenario: Scenario, cache: Path, turned: bool) -> tuple[float, float]:
    """Measure with and without, one behind the other; every other pair the other way round."""
    sides: list[Callable[[LoadGenJob], object]] = [sampled, lambda job: run_in_child(without, job)]
    found = [measured(side, scenario, cache) for side in (sides[::-1] if turned else sides)]
    return (found[1], found[0]) if turned else (found[0], found[1])


def sampler_share(folder: Path) -> float:
    """Let a sampler work for a while; give its share of one core."""
    path = folder / TELEMETRY_FILE
    with sample_during_block(path, "cpu"):
        time.sleep(ALONE_S)
    first, *_, last = map(json.loads, path.read_text().splitlines())
    return float(
        last["end"]["cpu_ms"] * NS_PER_MS / (last["end"]["clocks_ns"][0] - first["clocks_ns"][0])
    )


def main() -> None:
    """Measure both sides in one run; the ratio is the lower of the two scenarios'."""
    given = arguments(__doc__ or "", pairs=7)
    figures = {}
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        cache = Path(folder)
        for scenario in RATES:
            ours, theirs = zip(
                *(pair(scenario, cache, number % 2 == 1) for number in range(given.pairs)),
                strict=True,
            )
            figures[scenario] = compare(ours, theirs, "samples/s")
        share = sampler_share(cache)
    worst = min(figures.values(), key=lambda figure: figure.ratio)
    notes = {
        f"{scenario.label} ratio": round(figure.ratio, 4) for scenario, figure in figures.items()
    } | {"sampler share of a core": round(share, 5)}
    show("harness ceiling: with records and sampler against without", worst, given.form, notes)


if __name__ == "__main__":
    main()

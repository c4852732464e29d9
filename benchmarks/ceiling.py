"""Measures the maximum throughput of the harness: a system under test that does nothing, in podium
and as a bare LoadGen Python SUT.

The bare SUT answers every query at once in one completion, on LoadGen's own thread. Both sides
alternate in one run. For Server, it checks whether 100,000 queries/s with a 15 ms bound are VALID.

Usage: python benchmarks/ceiling.py [--pairs N] [--format text|json]
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from common.figures import arguments, compare, show

from harness.children.process import Abort, run_in_child
from harness.engines.null import NullInference
from harness.serving.harness_ceiling import build_null_schedule, build_null_system
from harness.serving.loadgen.result_files import DetailLog, read_detail_log
from harness.serving.loadgen.session import LoadGenJob, ignore_flush, run_loadgen
from harness.serving.loadgen.test_settings import (
    build_log_settings,
    build_test_settings,
    import_loadgen,
)
from suite.loadgen.scenario import Scenario

SAMPLES: Final = 1_000_000
BATCH: Final = 256
TARGET_QPS: Final = 100_000.0
SERVER_MS: Final = 3000
RATE: Final = "result_samples_per_second"


def bare_loadgen(job: LoadGenJob, abort: Abort) -> None:
    """Run LoadGen with the shortest SUT there is."""
    lg = import_loadgen()
    samples = NullInference()

    def issue(queries: Sequence[Any]) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(query.id, 0, 0) for query in queries])

    sut = lg.ConstructSUT(issue, ignore_flush)
    qsl = lg.ConstructQSL(
        samples.sample_count, samples.performance_sample_count, samples.load, samples.unload
    )
    lg.StartTestWithLogSettings(
        sut, qsl, build_test_settings(job.schedule), build_log_settings(lg, job.folder)
    )


def run(task: Any, job: LoadGenJob) -> DetailLog:
    """Do one LoadGen run in a separate process."""
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        run_in_child(task, replace(job, folder=Path(folder)))
        return read_detail_log(Path(folder))


def offline(pairs: int, cache: Path) -> list[tuple[float, float]]:
    """Alternate both sides: (ours, theirs) in samples/s."""
    schedule = replace(build_null_schedule(Scenario.OFFLINE), min_queries=SAMPLES)
    job = LoadGenJob(system=build_null_system(cache, BATCH), schedule=schedule, folder=cache)
    return [
        (run(run_loadgen, job).require_number(RATE), run(bare_loadgen, job).require_number(RATE))
        for _ in range(pairs)
    ]


def server(pairs: int, cache: Path) -> str:
    """Run at the target rate as often, and describe the results."""
    schedule = replace(
        build_null_schedule(Scenario.SERVER), rate=TARGET_QPS, min_duration_ms=SERVER_MS
    )
    held = [
        run(
            run_loadgen,
            LoadGenJob(system=build_null_system(cache, BATCH), schedule=schedule, folder=cache),
        )
        for _ in range(pairs)
    ]
    valid = sum(facts.values["result_validity"] == "VALID" for facts in held)
    p99_ms = statistics.median(
        facts.require_number("result_99.00_percentile_latency_ns") / 1e6 for facts in held
    )
    return (
        f"{TARGET_QPS:,.0f} queries/s under 15 ms: VALID in {valid} of {pairs}, p99 {p99_ms:.2f} ms"
        " (median)"
    )


def main() -> None:
    """Measure both sides in one run."""
    given = arguments(__doc__ or "", pairs=7)
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        measured = offline(given.pairs, Path(folder))
        notes = {"Server": server(given.pairs, Path(folder))}
    ours, theirs = zip(*measured, strict=True)
    show(
        "harness ceiling, Offline: podium against a bare Python SUT",
        compare(ours, theirs, "samples/s"),
        given.form,
        notes,
    )


if __name__ == "__main__":
    main()

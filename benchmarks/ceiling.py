"""Measures the maximum throughput of the harness: a system under test that does nothing, in podium
and as a bare LoadGen Python SUT.

The bare SUT answers every query at once in one completion, on LoadGen's own thread. Both sides
alternate in one run. For Server, it checks whether 100,000 queries/s with a 15 ms bound are VALID.

With --tokens LoadGen measures tokens: a generator that does nothing, with answers of 16 tokens, in
podium and as a bare SUT that reports a first token and an answer at once. For Server, it checks
whether 20,000 queries/s are VALID within llama's bounds (smoke).

Usage: python benchmarks/ceiling.py [--tokens] [--pairs N] [--format text|json]
"""

import ctypes
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from common.figures import arguments, compare, show
from common.tiny import choose_size

from harness.children.process import Abort, run_in_child
from harness.engines.null import NULL_ANSWER_TOKENS, NullInference
from harness.serving.harness_ceiling import build_null_schedule, build_null_system
from harness.serving.loadgen.session import LoadGenJob, ignore_flush, run_loadgen
from harness.serving.loadgen.test_settings import (
    build_log_settings,
    build_test_settings,
    import_loadgen,
)
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.headline import FIRST_TOKEN_KEY, SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_BYTES

SAMPLES: Final = choose_size(1_000_000, 2_000)
BATCH: Final = 256
TARGET_QPS: Final = 100_000.0
SERVER_MS: Final = choose_size(3000, 100)
RATE: Final = "result_samples_per_second"
TOKEN_SAMPLES: Final = choose_size(100_000, 500)
TARGET_ANSWERS_QPS: Final = 20_000.0
TOKEN_RATE: Final = "result_tokens_per_second"
TTFT_P99: Final = FIRST_TOKEN_KEY.format(99.0)


def bare_loadgen(job: LoadGenJob, abort: Abort) -> None:
    """Run LoadGen with the shortest SUT there is."""
    lg = import_loadgen()
    samples = NullInference()
    answer = bytes(TOKEN_BYTES * NULL_ANSWER_TOKENS)
    memory = ctypes.create_string_buffer(answer, len(answer))
    address = ctypes.addressof(memory)

    def issue(queries: Sequence[Any]) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(query.id, 0, 0) for query in queries])

    def issue_tokens(queries: Sequence[Any]) -> None:
        lg.FirstTokenComplete(
            [lg.QuerySampleResponse(query.id, address, TOKEN_BYTES) for query in queries]
        )
        lg.QuerySamplesComplete(
            [
                lg.QuerySampleResponse(query.id, address, len(answer), NULL_ANSWER_TOKENS)
                for query in queries
            ]
        )

    sut = lg.ConstructSUT(issue_tokens if job.schedule.token_latencies else issue, ignore_flush)
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


def offline(pairs: int, cache: Path, tokens: bool) -> list[tuple[float, float]]:
    """Alternate both sides: (ours, theirs) in samples/s or tokens/s."""
    schedule = replace(
        build_null_schedule(Scenario.OFFLINE, tokens),
        min_queries=TOKEN_SAMPLES if tokens else SAMPLES,
    )
    job = LoadGenJob(
        system=build_null_system(cache, BATCH, tokens), schedule=schedule, folder=cache
    )
    rate = TOKEN_RATE if tokens else RATE
    return [
        (run(run_loadgen, job).require_number(rate), run(bare_loadgen, job).require_number(rate))
        for _ in range(pairs)
    ]


def server(pairs: int, cache: Path, tokens: bool) -> str:
    """Run at the target rate as often, and describe the results."""
    rate = TARGET_ANSWERS_QPS if tokens else TARGET_QPS
    schedule = replace(
        build_null_schedule(Scenario.SERVER, tokens), rate=rate, min_duration_ms=SERVER_MS
    )
    held = [
        run(
            run_loadgen,
            LoadGenJob(
                system=build_null_system(cache, BATCH, tokens), schedule=schedule, folder=cache
            ),
        )
        for _ in range(pairs)
    ]
    valid = sum(facts.values["result_validity"] == "VALID" for facts in held)
    key, bound = (
        (TTFT_P99, "200 ms to the first token and 10 ms for each further one")
        if tokens
        else ("result_99.00_percentile_latency_ns", "15 ms")
    )
    p99_ms = statistics.median(facts.require_number(key) / 1e6 for facts in held)
    return (
        f"{rate:,.0f} queries/s under {bound}: VALID in {valid} of {pairs}, p99 {p99_ms:.2f} ms"
        " (median)"
    )


def main() -> None:
    """Measure both sides in one run."""
    given = arguments(__doc__ or "", pairs=7, tokens=True)
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        measured = offline(given.pairs, Path(folder), given.tokens)
        notes = {"Server": server(given.pairs, Path(folder), given.tokens)}
    ours, theirs = zip(*measured, strict=True)
    show(
        "harness ceiling, Offline: podium against a bare Python SUT",
        compare(ours, theirs, TOKEN_RATE_UNIT if given.tokens else SAMPLE_RATE_UNIT),
        given.form,
        notes,
    )


if __name__ == "__main__":
    main()

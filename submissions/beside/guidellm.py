"""Read the JSON report of guidellm.

Source: vllm-project/guidellm 0.8, schemas: GenerativeBenchmarksReport.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from submissions.beside.figures import (
    ANSWERS,
    ANSWERS_PER_S,
    FAILED,
    FIRST_TOKEN,
    IN_FLIGHT_MEAN,
    LATENCY,
    MEAN,
    PER_TOKEN,
    PERCENTILES,
    TOKENS_PER_ANSWER,
    TOKENS_PER_S,
    WHOLE_PER_TOKEN,
    Definition,
    StatedRun,
    select_by_weight,
)
from suite.units import MS_PER_S

PROGRAM: Final = "guidellm"
DEFINITION: Final = Definition(
    find_percentile=select_by_weight,
    weighs_by_tokens=True,
    notes=(
        "guidellm calls the time per token behind the first inter-token latency; its time per"
        " output token is that from the request to the last token, per token.",
        "Its times per token end with the last token's event, podium's with the answer's end.",
        "In its means and percentiles of times per token, each answer counts as often as it has"
        " such tokens; in podium's, as in LoadGen's, once.",
    ),
)


class Distribution(msgspec.Struct, frozen=True):
    """Statistics of one measured value."""

    mean: float
    count: int = 0
    total_sum: float = 0.0
    percentiles: Mapping[str, float] = {}


class ByStatus(msgspec.Struct, frozen=True):
    """Statistics of the requests that were answered."""

    successful: Distribution | None = None


class RequestTotals(msgspec.Struct, frozen=True):
    """Numbers of requests."""

    successful: int
    errored: int = 0
    incomplete: int = 0


class Metrics(msgspec.Struct, frozen=True):
    """What a benchmark measured."""

    request_totals: RequestTotals
    requests_per_second: ByStatus = ByStatus()
    request_concurrency: ByStatus = ByStatus()
    request_latency: ByStatus = ByStatus()
    output_token_count: ByStatus = ByStatus()
    output_tokens_per_second: ByStatus = ByStatus()
    time_to_first_token_ms: ByStatus = ByStatus()
    inter_token_latency_ms: ByStatus = ByStatus()
    time_per_output_token_ms: ByStatus = ByStatus()


class Strategy(msgspec.Struct, frozen=True):
    """How requests were issued."""

    type_: str
    streams: int | None = None
    rate: float | None = None


class BenchmarkConfig(msgspec.Struct, frozen=True):
    """What was asked for."""

    strategy: Strategy


class Benchmark(msgspec.Struct, frozen=True):
    """One run."""

    config: BenchmarkConfig
    metrics: Metrics


class Metadata(msgspec.Struct, frozen=True):
    """What wrote the file."""

    guidellm_version: str


class Report(msgspec.Struct, frozen=True):
    """The file."""

    metadata: Metadata
    benchmarks: tuple[Benchmark, ...]


REPORT_DECODER: Final = msgspec.json.Decoder(Report)


def read_guidellm_runs(content: bytes) -> Iterator[StatedRun]:
    """Yield the runs of a file; msgspec's error for what is none of guidellm's."""
    report = REPORT_DECODER.decode(content)
    for each in report.benchmarks:
        strategy = each.config.strategy
        load = f"{strategy.type_} {strategy.streams or strategy.rate or ''}".strip()
        yield StatedRun(
            program=PROGRAM,
            version=report.metadata.guidellm_version,
            definition=DEFINITION,
            in_flight=strategy.streams,
            load=load,
            figures=dict(iterate_guidellm_values(each.metrics)),
        )


def iterate_guidellm_values(metrics: Metrics) -> Iterator[tuple[str, float]]:
    """Yield the figures of a run."""
    totals = metrics.request_totals
    yield ANSWERS, totals.successful
    yield FAILED, totals.errored + totals.incomplete
    for key, found in (
        (TOKENS_PER_ANSWER, metrics.output_token_count),
        (TOKENS_PER_S, metrics.output_tokens_per_second),
        (ANSWERS_PER_S, metrics.requests_per_second),
        (IN_FLIGHT_MEAN, metrics.request_concurrency),
    ):
        if found.successful:
            yield key, found.successful.mean
    for key, found, factor in (
        (FIRST_TOKEN, metrics.time_to_first_token_ms, 1),
        (PER_TOKEN, metrics.inter_token_latency_ms, 1),
        (LATENCY, metrics.request_latency, MS_PER_S),
        (WHOLE_PER_TOKEN, metrics.time_per_output_token_ms, 1),
    ):
        stated = found.successful
        if stated is None or not stated.count:
            continue
        yield f"{key}.{MEAN}", stated.mean * factor
        for percent in PERCENTILES:
            if (value := stated.percentiles.get(f"p{percent}")) is not None:
                yield f"{key}.p{percent}", value * factor

"""Read the JSON export of AIPerf, `profile_export_aiperf.json`.

Source: ai-dynamo/aiperf 0.13, docs/metrics_reference.md.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

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
    Definition,
    StatedRun,
    interpolate_linearly,
)

PROGRAM: Final = "AIPerf"
DEFINITION: Final = Definition(
    find_percentile=interpolate_linearly,
    notes=(
        "AIPerf's percentiles lie between two values (NumPy's); podium's, as LoadGen's, are one of"
        " the values.",
        "AIPerf calls the time per token behind the first inter-token latency.",
        "AIPerf divides its rates by the time of its whole phase, podium by that from the first"
        " request to the last token.",
    ),
)
TIMES: Final[Mapping[str, str]] = {
    FIRST_TOKEN: "time_to_first_token",
    PER_TOKEN: "inter_token_latency",
    LATENCY: "request_latency",
}
MEANS: Final[Mapping[str, str]] = {
    TOKENS_PER_ANSWER: "output_sequence_length",
    TOKENS_PER_S: "output_token_throughput",
    ANSWERS_PER_S: "request_throughput",
    IN_FLIGHT_MEAN: "effective_concurrency",
}


class Metric(msgspec.Struct, frozen=True):
    """Statistics of one measured value."""

    avg: float
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class Phase(msgspec.Struct, frozen=True):
    """How requests were issued."""

    type: str = ""
    concurrency: int | None = None
    rate: float | None = None


class InputConfig(msgspec.Struct, frozen=True):
    """What was asked for."""

    phases: tuple[Phase, ...] = ()


class Export(msgspec.Struct, frozen=True):
    """The file, but for its metrics."""

    aiperf_version: str
    input_config: InputConfig
    request_count: Metric
    error_request_count: Metric | None = None


EXPORT_DECODER: Final = msgspec.json.Decoder(Export)
FIELDS_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def read_aiperf_runs(content: bytes) -> Iterator[StatedRun]:
    """Yield the run of a file; msgspec's error for what is none of AIPerf's."""
    export, fields = EXPORT_DECODER.decode(content), FIELDS_DECODER.decode(content)
    phase = export.input_config.phases[-1] if export.input_config.phases else Phase()
    figures = {ANSWERS: export.request_count.avg, FAILED: 0.0}
    if export.error_request_count:
        figures[FAILED] = export.error_request_count.avg
    figures |= iterate_aiperf_values(fields)
    yield StatedRun(
        program=PROGRAM,
        version=export.aiperf_version,
        definition=DEFINITION,
        in_flight=phase.concurrency if phase.rate is None else None,
        load=f"{phase.type} {phase.rate or phase.concurrency or ''}".strip(),
        figures=figures,
        notes=tuple(describe_counts(fields)),
    )


def find_metric(fields: Mapping[str, Any], name: str) -> Metric | None:
    """Return a metric of the file; None if it has none of that name."""
    if fields.get(name) is None:
        return None
    return msgspec.convert(fields[name], Metric)


def iterate_aiperf_values(fields: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the figures of a run."""
    for key, name in MEANS.items():
        if metric := find_metric(fields, name):
            yield key, metric.avg
    for key, name in TIMES.items():
        metric = find_metric(fields, name)
        if metric is None:
            continue
        yield f"{key}.{MEAN}", metric.avg
        for percent in PERCENTILES:
            value = getattr(metric, f"p{percent}")
            if value is not None:
                yield f"{key}.p{percent}", value


def describe_counts(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if AIPerf counted other tokens than the server."""
    own = find_metric(fields, "total_osl")
    told = find_metric(fields, "total_usage_completion_tokens")
    if own and told and own.avg != told.avg:
        yield (
            f"AIPerf counted {own.avg:,.0f} output tokens with its tokenizer, the server"
            f" {told.avg:,.0f}; --use-server-token-count takes the server's."
        )

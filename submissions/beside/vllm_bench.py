"""Read the JSON result of `vllm bench serve --save-result`.

Source: vllm-project/vllm, vllm/benchmarks/serve.py: calculate_metrics.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from submissions.beside.figures import (
    ANSWERS,
    ANSWERS_PER_S,
    FAILED,
    FIRST_TOKEN,
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

PROGRAM: Final = "vllm bench serve"
DEFINITION: Final = Definition(
    find_percentile=interpolate_linearly,
    notes=(
        "Percentiles of vllm bench serve lie between two values (NumPy's); podium's, as LoadGen's,"
        " are one of the values.",
        "Its inter-token latencies (ITL) are the gaps between events, of all answers together; its"
        " TPOT is podium's time per token behind the first.",
    ),
)
TIMES: Final[Mapping[str, str]] = {FIRST_TOKEN: "ttft", PER_TOKEN: "tpot", LATENCY: "e2el"}
MEDIAN: Final = 50


class Result(msgspec.Struct, frozen=True):
    """The file, but for its times."""

    backend: str
    duration: float
    completed: int
    total_output_tokens: int
    request_throughput: float
    output_throughput: float
    failed: int = 0
    max_concurrency: int | None = None
    request_rate: float | str | None = None


RESULT_DECODER: Final = msgspec.json.Decoder(Result)
FIELDS_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def read_vllm_runs(content: bytes) -> Iterator[StatedRun]:
    """Yield the run of a file; msgspec's error for what is none of vLLM's."""
    result, fields = RESULT_DECODER.decode(content), FIELDS_DECODER.decode(content)
    is_unpaced = result.request_rate in (None, "inf")
    load = f"at most {result.max_concurrency} in flight" if result.max_concurrency else "unlimited"
    yield StatedRun(
        program=PROGRAM,
        version="",
        definition=DEFINITION,
        in_flight=result.max_concurrency if is_unpaced else None,
        load=load if is_unpaced else f"{result.request_rate} requests/s, {load}",
        figures=dict(iterate_vllm_bench_values(result, fields)),
    )


def iterate_vllm_bench_values(
    result: Result, fields: Mapping[str, Any]
) -> Iterator[tuple[str, float]]:
    """Yield the figures of a run."""
    yield ANSWERS, result.completed
    yield FAILED, result.failed
    if result.completed:
        yield TOKENS_PER_ANSWER, result.total_output_tokens / result.completed
    yield TOKENS_PER_S, result.output_throughput
    yield ANSWERS_PER_S, result.request_throughput
    for key, name in TIMES.items():
        for statistic, field in (
            (MEAN, f"mean_{name}_ms"),
            (f"p{MEDIAN}", f"median_{name}_ms"),
            *((f"p{percent}", f"p{percent}_{name}_ms") for percent in PERCENTILES),
        ):
            if fields.get(field) is not None:
                yield f"{key}.{statistic}", msgspec.convert(fields[field], float)

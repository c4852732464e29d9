"""The summary of a run in the form of the MLPerf Endpoints client, computed from the records of a
LoadGen run: `result_summary.json` of a point. podium submit writes it, and the judge computes it
again.

Source: mlcommons/endpoints, src/inference_endpoint/metrics: percentiles at the lower rank; 30
buckets of equal width on a logarithmic scale, from the lowest value to the highest or ten times the
lowest; early stopping as LoadGen's.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

from suite.loadgen.early_stopping import estimate_early_stopping
from suite.loadgen.token_record import is_time_per_token_known
from suite.loadgen.usage_record import NOT_STATED
from suite.studies.answer_figures import AnswerTimes, build_answer_times
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_S

PERCENTS: Final = (99.9, 99.0, 97.0, 95.0, 90.0, 80.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0)
LOWEST_PROVEN: Final = 50.0
"""Lowest percentile for which the client runs early stopping."""
BUCKETS: Final = 30
LEAST_SPAN: Final = 10
"""The highest edge is at least this many times the lowest value."""
MEDIAN: Final = 50.0
CONCURRENCY_PATTERN: Final = "concurrency"
ISSUED_QUERIES_KEY: Final = "generated_query_count"
SAMPLES_PER_QUERY_KEY: Final = "generated_samples_per_query"
OWN_VERSION: Final = "podium "
"""Before podium's version, in the place of the client's."""
CLIENT_SEEDS: Final[Mapping[str, str]] = {
    "scheduler_random_seed": "effective_schedule_rng_seed",
    "dataloader_random_seed": "effective_sample_index_rng_seed",
}
"""The client's name of a seed -> its key in LoadGen's detail log."""


def describe_client_run(run: RunFacts, concurrency: int) -> dict[str, Any]:
    """Describe a run in the client's fields; those that podium did not measure are left out.

    Args:
        run: with the records of its tokens and starts.
        concurrency: requests in flight.
    """
    times = build_answer_times(run.starts_ns, run.tokens, run.arrivals)  # type: ignore[arg-type]
    completed = len(times.tokens)
    issued = count_issued_samples(run, completed)
    duration_ns = int(times.last_ns.max() - times.starts_ns.min())
    tokens = int(times.tokens.sum())
    return {
        "version": f"{OWN_VERSION}{run.record.system.version}",
        "git_sha": None,
        "n_samples_issued": issued,
        "n_samples_completed": completed,
        "n_samples_failed": issued - completed,
        "duration_ns": duration_ns,
        "state": "complete",
        "complete": issued == completed,
        **describe_run_series(run, times),
        "legacy_loadgen_window_duration_ns": None,
        "qps": completed * NS_PER_S / duration_ns,
        "tps": tokens * NS_PER_S / duration_ns,
        "run_config": {
            "load_pattern": {
                "type": CONCURRENCY_PATTERN,
                "target_qps": None,
                "target_concurrency": concurrency,
            },
            **select_client_seeds(run),
        },
    }


def count_issued_samples(run: RunFacts, completed: int) -> int:
    """Return how many samples LoadGen issued; as many as were answered where its log does not
    say.
    """
    queries, each = map(run.find_number, (ISSUED_QUERIES_KEY, SAMPLES_PER_QUERY_KEY))
    if queries is None or each is None:
        return completed
    return max(int(queries * each), completed)


def select_client_seeds(run: RunFacts) -> dict[str, int]:
    """Return LoadGen's seeds under the client's names, as far as its log states them."""
    found = {name: run.values.get(key) for name, key in CLIENT_SEEDS.items()}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def describe_run_series(run: RunFacts, times: AnswerTimes) -> dict[str, Any]:
    """Describe the latencies and the lengths of a run's answers."""
    found = {
        "ttft": describe_series(times.ttft_ns.tolist()),
        "latency": describe_series(times.lasts_ns.tolist()),
        "output_sequence_lengths": describe_series(times.tokens.tolist(), is_proven=False),
    }
    network = run.record.network
    in_one_read = network.answers_in_one_read if network else None
    per_token = times.compute_tpot_ns().tolist()
    if per_token and is_time_per_token_known(in_one_read, len(times.tokens)):
        found["tpot"] = describe_series(per_token)
    prompts = [] if run.usage is None else run.usage.prompt_tokens.tolist()
    if prompts and NOT_STATED not in prompts:
        found["input_sequence_lengths"] = describe_series(prompts, is_proven=False)
    return found


def describe_series(values: Sequence[float], is_proven: bool = True) -> dict[str, Any]:
    """Describe values by the client's statistics; with `is_proven` also by the percentiles that
    early stopping proves.
    """
    ordered, count, total = sorted(values), len(values), sum(values)
    mean = total / count
    squares = sum((each - mean) ** 2 for each in ordered)
    found: dict[str, Any] = {
        "total": total,
        "min": ordered[0],
        "max": ordered[-1],
        "median": float(select_lower_rank(ordered, MEDIAN)),
        "avg": mean,
        "std_dev": math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
        "percentiles": {
            f"{percent:.1f}": float(select_lower_rank(ordered, percent)) for percent in PERCENTS
        },
    }
    if is_proven:
        found["early_stopping_percentiles"] = {
            f"{percent:.1f}": select_proven_value(ordered, percent)
            for percent in PERCENTS
            if percent >= LOWEST_PROVEN
        }
    return {**found, "histogram": build_histogram(ordered)}


def select_lower_rank(ordered: Sequence[float], percent: float) -> float:
    """Return the value at a percentile's lower rank among sorted values."""
    return ordered[int(percent / 100 * (len(ordered) - 1))]


def select_proven_value(ordered: Sequence[float], percent: float) -> float | None:
    """Return the value that early stopping proves of a percentile; None with too few values."""
    rank = estimate_early_stopping(len(ordered), percent).rank_from_top
    if rank is None:
        return None
    return float(ordered[len(ordered) - rank])


def build_histogram(ordered: Sequence[float]) -> dict[str, Any]:
    """Build the histogram of sorted values; from 0 on, a logarithm has no lowest value, and the
    buckets are as wide as one another.
    """
    low, high = ordered[0], ordered[-1]
    if low > 0:
        ratio = max(high / low, LEAST_SPAN)
        edges = [low * ratio ** (place / BUCKETS) for place in range(BUCKETS + 1)]
        edges[-1] = max(high, LEAST_SPAN * low)
    else:
        width = max(high - low, 1) / BUCKETS
        edges = [low + place * width for place in range(BUCKETS + 1)]
    counts = [0] * BUCKETS
    for value in ordered:
        counts[min(BUCKETS - 1, max(0, bisect_right(edges, value) - 1))] += 1
    buckets = [[edges[place], edges[place + 1]] for place in range(BUCKETS)]
    return {"buckets": buckets, "counts": counts}

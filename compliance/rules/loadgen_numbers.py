"""LoadGen's numbers, recomputed: duration, counts, rates and percentiles must prove one another."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from compliance.documents.serving import LoadGenRun
from compliance.documents.training import is_count
from compliance.rules import rule
from compliance.rules.loadgen_summary import PERCENTILES, SIX_DIGITS
from compliance.verdict import Fault
from suite import early_stopping
from suite.layout import DETAIL
from suite.scenario import Scenario

SLACK: Final = 0.02
"""Relative: what a rate may differ from its counts; no accepted entry of inference v0.5 differs by more."""
STAMP_MS: Final = 5.0
"""LoadGen's wall-clock stamps have whole milliseconds (loadgen/utils.cc); in some thirty real runs they lay 3.2 ms too close together at most."""
DRIFT: Final = 1e-3
"""Relative: the wall clock may be slewed against the steady one that latencies are taken from; NTP slews by 0.05 %."""
DELAY_MS: Final = 50.0
"""What the threads that stamp may wait for a core before and after the run; 1.6 ms were seen with all cores busy."""
POISSON_SIGMAS: Final = 6.0
"""Standard deviations by which the rate of a Poisson schedule may differ from its target."""
QUERIES_LIMIT: Final = 1e12
"""More queries than that no run has had time for."""
NS_PER_S: Final = 1e9


@rule("loadgen.percentiles", LoadGenRun)
def percentiles(run: LoadGenRun) -> Iterator[Fault]:
    """Percentiles ascend between the smallest and the largest latency, the mean lies between them, and no sample outlasts its query.

    Source: mlcommons/inference, loadgen/results.cc: percentiles of the sorted latencies.
    Advice: hand in LoadGen's file untouched.
    """
    lowest, mean, highest = (run.number(f"result_{name}_latency_ns") for name in ("min", "mean", "max"))
    if lowest is None or mean is None or highest is None:
        return
    if not 0 < lowest <= mean <= highest:
        yield run.detail_fault("result_mean_latency_ns", f"min {lowest:.0f}, mean {mean:.0f}, max {highest:.0f}", "0 < min <= mean <= max")
    last = lowest
    for key in (f"result_{percentile}_percentile_latency_ns" for percentile in PERCENTILES):
        value = run.number(key)
        if value is None:
            yield run.fault(DETAIL, f"no {key}", "six percentiles")
        elif not last <= value <= highest:
            yield run.detail_fault(key, f"{key} {value:.0f}", f"from {last:.0f} to {highest:.0f}")
        last = max(last, value or last)
    yield from outlasting(run)


def outlasting(run: LoadGenRun) -> Iterator[Fault]:
    """Yield figures of samples above those of their queries, which end with their last sample; only MultiStream has both."""
    keys = [(f"result_{name}_latency_ns", f"result_{name}_query_latency_ns") for name in ("min", "mean", "max")]
    keys += [(f"result_{percentile}_percentile_latency_ns", f"result_{percentile}_percentile_per_query_latency_ns") for percentile in PERCENTILES]
    for sample, query in keys:
        value, limit = run.number(sample), run.number(query)
        if value is not None and limit is not None and (value > limit or (value < limit and "max" in sample)):
            yield run.detail_fault(sample, f"{sample} {value:.0f}", f"{'' if 'max' in sample else 'at most '}{limit:.0f}, as {query}")


@rule("loadgen.duration", LoadGenRun)
def duration(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run takes at least the scenario's duration, by the detail log's clock and by its own counts.

    Source: inference_rules.adoc v0.5, Scenarios: minimum duration; the scenario's min_duration_ms.
    Advice: run longer: raise the expected rate or lower the expected latency, so that LoadGen prepares more queries.
    """
    if not run.performance or run.rule is None:
        return
    wanted = run.rule.min_duration_ms
    if run.span_ms is not None and run.span_ms < wanted:
        yield run.detail_fault("result_validity", f"{run.span_ms:.0f} ms between queries and result", f"at least {wanted} ms")
    claimed = claimed_ms(run)
    if run.wall_ms is not None and run.wall_ms < wanted * (1 - DRIFT) - STAMP_MS:
        yield run.detail_fault("power_end", f"{run.wall_ms:.0f} ms from power_begin to power_end", f"at least {wanted} ms")
    if claimed is not None and claimed + last_ms(run)[1] < wanted * (1 - SIX_DIGITS) - 1:
        yield run.detail_fault("result_query_count", f"queries and rate make {claimed:.0f} ms", f"at least {wanted} ms")


def claimed_ms(run: LoadGenRun) -> float | None:
    """Compute the duration that counts and rates claim; None where the log does not have them."""
    queries = run.number("result_query_count")
    if run.scenario is Scenario.OFFLINE:
        latency = run.number("result_max_latency_ns")
        return latency / 1e6 if latency else None
    if run.scenario is Scenario.MULTI_STREAM:
        return None  # LoadGen gives no rate there, and between two queries it spends time of its own
    if run.scenario is Scenario.SERVER:  # results.cc: one interval fewer than queries
        rate = run.number("result_completed_samples_per_sec")
        return 1000 * (queries - 1) / rate if queries and rate else None
    rate = run.number("result_qps_with_loadgen_overhead")  # results.cc: one query fewer, up to the time at which the last one was issued
    return 1000 * (queries - 1) / rate if queries and rate else None


def last_ms(run: LoadGenRun) -> tuple[float, float]:
    """Compute the least and the most that a run takes beyond what its rate tells: SingleStream's ends where the last query begins."""
    found = run.numbers("result_min_latency_ns", "result_max_latency_ns")
    return (found[0] / 1e6, found[1] / 1e6) if run.scenario is Scenario.SINGLE_STREAM and found else (0.0, 0.0)


@rule("loadgen.queries", LoadGenRun)
def queries(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run issues at least the scenario's queries (Offline: samples), and not more than were generated; an accuracy run has an answer to each.

    Source: inference_rules.adoc v0.5, Scenarios: minimum queries; the scenario's min_queries.
    Advice: raise loadgen.min_queries, or let the run take longer.
    """
    found = run.numbers("result_query_count", "generated_query_count", "generated_samples_per_query", "effective_samples_per_query")
    if not run.performance:
        yield from answered(run)
    if not run.performance or run.rule is None or found is None:
        return
    issued, generated, per_query, effective = found
    counted = issued * per_query if run.scenario is Scenario.OFFLINE else issued
    if counted < run.rule.min_queries:
        yield run.detail_fault("result_query_count", f"{counted:.0f}", f"at least {run.rule.min_queries}")
    if issued > generated or (run.scenario in (Scenario.SERVER, Scenario.OFFLINE) and issued != generated):
        required = "as many as were generated; in the streams at most"
        yield run.detail_fault("result_query_count", f"{issued:.0f} queries of {generated:.0f} generated", required)
    if per_query != effective:
        yield run.detail_fault("generated_samples_per_query", f"{per_query:.0f} samples per query", f"{effective:.0f}, as the settings say")


def answered(run: LoadGenRun) -> Iterator[Fault]:
    """Hold the answers of an accuracy run against the samples that were issued, set by set."""
    counts, sizes = (run.index.get(key, ()) for key in ("generated_query_count", "generated_samples_per_query"))
    pairs = [(count.value, size.value) for count, size in zip(counts, sizes, strict=False)]
    issued = sum(count * size for count, size in pairs if is_count(count) and is_count(size))
    if pairs and issued != len(run.answers.samples):
        yield run.detail_fault("generated_query_count", f"{issued} samples issued", f"{len(run.answers.samples)}, as there are answers")


@rule("loadgen.rate", LoadGenRun)
def rate(run: LoadGenRun) -> Iterator[Fault]:
    """Rates follow from counts and times: Offline samples over the latency, Server queries over the schedule, SingleStream one over the mean.

    Source: mlcommons/inference, loadgen/results.cc; within 2 %, which every accepted entry of inference v0.5 keeps.
    Advice: hand in LoadGen's file untouched; a rate that was edited contradicts the counts.
    """
    if not run.performance:
        return
    rates = run.numbers("result_completed_samples_per_sec", "result_scheduled_samples_per_sec")
    counts = run.numbers("result_query_count", "effective_target_qps", "result_scheduled_samples_per_sec")
    if run.scenario is Scenario.SERVER and counts and abs(counts[2] / max(counts[1], 1e-9) - 1) > POISSON_SIGMAS / math.sqrt(max(counts[0], 1)):
        yield run.detail_fault("result_scheduled_samples_per_sec", f"{counts[2]:g} scheduled", f"about {counts[1]:g}, the target")
    if run.scenario is Scenario.SERVER and rates and rates[0] > rates[1] * (1 + SIX_DIGITS):
        yield run.detail_fault("result_completed_samples_per_sec", f"{rates[0]:g} completed", f"at most {rates[1]:g}, as were scheduled")
    for key, expected in expectations(run):
        found = run.number(key)
        if found is not None and not math.isclose(found, expected, rel_tol=SLACK):
            yield run.detail_fault(key, f"{key} {found:g}", f"{expected:g}, from counts and times")


def expectations(run: LoadGenRun) -> Iterator[tuple[str, float]]:
    """Yield the rates that counts and times give."""
    if run.scenario is Scenario.OFFLINE and (found := run.numbers("result_query_count", "generated_samples_per_query", "result_max_latency_ns")):
        yield "result_samples_per_second", found[0] * found[1] * NS_PER_S / max(found[2], 1)
    if run.scenario is Scenario.SERVER and (found := run.numbers("generated_query_count", "generated_query_duration")):
        yield "result_scheduled_samples_per_sec", found[0] * NS_PER_S / max(found[1], 1)
    if run.scenario is Scenario.SINGLE_STREAM and (found := run.numbers("result_mean_latency_ns")):
        yield "result_qps_without_loadgen_overhead", NS_PER_S / max(found[0], 1)


@rule("loadgen.span", LoadGenRun)
def span(run: LoadGenRun) -> Iterator[Fault]:
    """The duration that counts and rates claim is that between LoadGen's own stamps around the run.

    Source: mlcommons/inference, loadgen/loadgen.cc: power_begin, power_end; the detail log's times of the queries and the result.
    Advice: hand in LoadGen's file untouched.
    """
    claimed, taken, wall, (least, most) = claimed_ms(run), run.span_ms, run.wall_ms, last_ms(run)
    if not run.performance or claimed is None or taken is None:
        return
    if claimed + least > taken * (1 + SIX_DIGITS) + 1:
        yield run.detail_fault("result_query_count", f"counts and rates make {claimed:.0f} ms", f"at most {taken:.0f} ms, by the log's clock")
    if wall is not None and not wall * (1 - DRIFT) - DELAY_MS - STAMP_MS - most <= claimed <= wall * (1 + DRIFT) + STAMP_MS - least:
        yield run.detail_fault("power_end", f"counts and rates make {claimed:.0f} ms", f"{wall:.0f} ms, from power_begin to power_end")


@rule("loadgen.streams", LoadGenRun)
def streams(run: LoadGenRun) -> Iterator[Fault]:
    """In the streams one query follows another: all latencies together take no longer than the run.

    Source: mlcommons/inference, loadgen: SingleStream and MultiStream send the next query when the last has ended.
    Advice: hand in LoadGen's file untouched.
    """
    found = run.numbers("result_query_count", "result_mean_latency_ns")
    if not run.performance or run.scenario not in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM) or found is None or run.span_ms is None:
        return
    together = found[0] * found[1] / 1e6
    if together > run.span_ms * (1 + SIX_DIGITS) + 1:
        yield run.detail_fault("result_mean_latency_ns", f"{found[0]:.0f} queries of {found[1]:.0f} ns", f"at most {run.span_ms:.0f} ms together")


@rule("loadgen.early_stopping", LoadGenRun)
def stopping(run: LoadGenRun) -> Iterator[Fault]:
    """Enough queries prove the percentile: LoadGen's early-stopping arithmetic, done again on the counts.

    Source: mlcommons/inference, loadgen/early_stopping.cc and results.cc: confidence 0.99, tolerance 0.
    Advice: run more queries: raise loadgen.min_queries or loadgen.min_duration_ms.
    """
    count = run.number("result_query_count")
    if not run.performance or run.rule is None or count is None:
        return
    over = run.number("result_overlatency_query_count") if run.scenario is Scenario.SERVER else 0.0
    if over is None or not 0 <= over <= count <= QUERIES_LIMIT:
        yield run.detail_fault("result_query_count", f"{over} of {count:g} queries over the bound", "counts")
    elif run.scenario is Scenario.SERVER and not early_stopping.server_passes(int(count), int(over), run.rule.percentile):
        needed = early_stopping.queries_needed(int(over), run.rule.percentile)
        yield run.detail_fault("result_overlatency_query_count", f"{over:.0f} of {count:.0f} queries over the bound", f"at least {needed} queries")
    elif run.scenario in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM):
        yield from estimate(run, int(count), run.rule.percentile)


def estimate(run: LoadGenRun, count: int, percentile: float) -> Iterator[Fault]:
    """Judge the estimate of a stream: enough queries, and not below the percentile that it is an upper bound of."""
    proven = early_stopping.estimate(count, percentile)
    if proven.place_from_top is None:
        yield run.detail_fault("result_query_count", f"{count} queries", f"at least {proven.queries_needed}")
    key = "early_stopping_latency_ss" if run.scenario is Scenario.SINGLE_STREAM else "early_stopping_latency_ms"
    told, least, most = run.number(key), run.number(f"result_{percentile:.2f}_percentile_latency_ns"), run.number("result_max_latency_ns")
    if told is not None and least is not None and most is not None and not least <= told <= most:
        yield run.detail_fault(key, f"{key} {told:.0f}", f"from the percentile {least:.0f} to the largest latency {most:.0f}")


@rule("loadgen.bound", LoadGenRun)
def bound(run: LoadGenRun) -> Iterator[Fault]:
    """Server holds its latency bound at its percentile, and the count of late queries fits the percentiles.

    Source: inference_rules.adoc v0.5, Scenarios, table: latency bound; the scenario's bound_ns and percentile.
    Advice: lower server.target_qps.
    """
    if not run.performance or run.rule is None or run.rule.bound_ns is None:
        return
    key = f"result_{run.rule.percentile:.2f}_percentile_latency_ns"
    found = run.number(key)
    if found is not None and found > run.rule.bound_ns:
        yield run.detail_fault(key, f"{found:.0f} ns", f"at most {run.rule.bound_ns} ns")
    over, most = run.number("result_overlatency_query_count"), run.number("result_max_latency_ns")
    if over is not None and most is not None and (over > 0) != (most > run.rule.bound_ns):
        found_text = f"{over:.0f} late queries, largest latency {most:.0f} ns"
        yield run.detail_fault("result_overlatency_query_count", found_text, f"late means over {run.rule.bound_ns} ns")


def metric(run: LoadGenRun) -> Mapping[str, float]:
    """Give the results that a record may name: metric -> value by the detail log."""
    keys = {
        Scenario.SINGLE_STREAM: {"latency_ns": "early_stopping_latency_ss"},
        Scenario.MULTI_STREAM: {"latency_ns": "early_stopping_latency_ms"},
        Scenario.SERVER: {"completed_samples_per_second": "result_completed_samples_per_sec"},
        Scenario.OFFLINE: {"samples_per_second": "result_samples_per_second"},
    }
    found = {name: run.number(key) for name, key in (keys[run.scenario] if run.scenario else {}).items()}
    return {name: value for name, value in found.items() if value is not None}

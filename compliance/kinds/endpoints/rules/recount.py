"""Compare a run's summary with its snapshot, and with a recount of its events."""

import math
from array import array
from collections.abc import Iterator
from random import Random
from typing import Final

from compliance.kinds.endpoints.documents.events import (
    MAX_REMEMBERED_SAMPLES,
    EventCount,
    compute_percentile,
)
from compliance.kinds.endpoints.documents.result_summary import (
    SNAPSHOT_SERIES,
    ResultSummary,
    Series,
    SnapshotMetric,
    get_series,
)
from compliance.kinds.endpoints.documents.run import (
    AGENTIC_PATTERN,
    SAMPLE_MAP_FILE,
    SNAPSHOT_FILE,
    EndpointsRun,
)
from compliance.kinds.endpoints.rules.run_counts import (
    MAX_DRAWN_GAPS,
    MIN_HELD_SHARE,
    USUAL_HELD_SHARE,
    draw_poisson_gaps_ns,
    find_load_pattern,
    is_drawn_rate,
)
from compliance.kinds.endpoints.rules.run_series import parse_percents
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.units import NS_PER_S

COUNTERS: Final = {
    "n_samples_issued": "tracked_samples_issued",
    "n_samples_completed": "tracked_samples_completed",
    "n_samples_failed": "tracked_samples_failed",
    "duration_ns": "tracked_duration_ns",
}
"""Field of the summary -> counter of the snapshot."""
MAX_SPAN_DIFFERENCE_NS: Final = NS_PER_S
MAX_MEDIAN_LAG_NS: Final = 100_000_000
MAX_HIGH_LAG_NS: Final = 100_000_000
MIN_ORDERED_SAMPLES: Final = 16
MIN_ORDERED_SHARE: Final = 0.9
"""Samples in their drawn places by which the size of a data set is known: none are by chance."""
MAX_TRIED_DRAWS: Final = 1_000_000
"""Samples that are shuffled to find a size, half a second's worth."""
OLDER_LACK: Final = ("input_sequence_lengths",)
"""Series that older builds wrote into the snapshot alone."""
HIGH_LAG_PERCENT: Final = 99.0
MEDIAN_PERCENT: Final = 50.0


@rule(
    "endpoints.same_numbers", EndpointsRun, About.SCORE, doubt="the figure, of which there are two"
)
def same_numbers(run: EndpointsRun) -> Iterator[Fault]:
    """The summary and the client's final snapshot have the same numbers.

    Source: mlcommons/endpoints: the summary is written from the snapshot.
    Advice: put summary and final snapshot of one run here.
    """
    summary, snapshot = run.summary, run.snapshot
    if summary is None or snapshot is None:
        return
    file = run.folder / SNAPSHOT_FILE
    if snapshot.state != "complete" or snapshot.n_pending_tasks:
        yield run.build_fault(
            f"state {snapshot.state} with {snapshot.n_pending_tasks} pending tasks",
            "state complete, and none pending",
            file=file,
        )
    for field, name in COUNTERS.items():
        metric, stated = snapshot.find_metric(name), getattr(summary, field)
        counted = metric.value if metric else None
        if stated is not None and counted != stated:
            yield run.build_fault(f"{name} {counted}", f"{stated}, as in the summary", file=file)
    for field, name in SNAPSHOT_SERIES.items():
        metric, series = snapshot.find_metric(name), get_series(summary, field)
        if series.min is None and (metric is None or not metric.count or field in OLDER_LACK):
            continue
        if metric is None:
            yield run.build_fault(f"no {name}", f"the series {name}", file=file)
            continue
        for found, required in find_snapshot_differences(metric, series):
            yield run.build_fault(f"{name}: {found}", f"{required}, as in the summary", file=file)


def find_snapshot_differences(metric: SnapshotMetric, series: Series) -> Iterator[tuple[str, str]]:
    """Yield the values of a snapshot's series that the summary has otherwise."""
    for name in ("total", "min", "max"):
        found, stated = getattr(metric, name), getattr(series, name)
        if found != stated:
            yield f"{name} {found}", f"{stated}"
    for name in ("percentiles", "early_stopping_percentiles"):
        found, stated = getattr(metric, name) or {}, getattr(series, name) or {}
        for percent in stated:
            if found.get(percent) != stated[percent]:
                yield f"{name} {percent} {found.get(percent)}", f"{stated[percent]}"
                break
    counts = tuple(count for _, count in metric.histogram)
    if counts and series.histogram.counts and counts != series.histogram.counts:
        yield "a histogram with other counts", "the same counts"
    if metric.sum_sq is not None and metric.count and series.std_dev is not None:
        mean = (metric.total or 0) / metric.count
        excess = metric.sum_sq - mean * mean * metric.count
        deviation = math.sqrt(max(0.0, excess) / max(1, metric.count - 1))
        # differences of squares lose half of a double's digits
        if not math.isclose(deviation, series.std_dev, rel_tol=1e-6, abs_tol=1e-6 * abs(mean)):
            yield f"a standard deviation of {deviation:.12g}", f"{series.std_dev}"


@rule(
    "endpoints.recount", EndpointsRun, About.SCORE, doubt="the figure, which the events contradict"
)
def recount(run: EndpointsRun) -> Iterator[Fault]:
    """A recount of events.jsonl gives the summary's counts, duration, window, latencies and times
    to the first token, to the last digit.

    Source: mlcommons/endpoints, metrics: what the client counts while it tracks performance.
    Advice: put summary and events.jsonl of one run here.
    """
    summary, events = run.summary, run.events
    if summary is None or events is None:
        return
    if events.truncated:
        yield run.build_fault(
            "more samples than are remembered, so that they were not recounted",
            f"at most {MAX_REMEMBERED_SAMPLES:,} samples",
            file=events.source.path,
            severity=Severity.WARNING,
        )
        return
    for name, found, stated in (
        ("samples issued", events.issued, summary.n_samples_issued),
        ("samples completed", events.completed, summary.n_samples_completed),
        ("samples failed", events.failed, summary.n_samples_failed),
        ("duration in ns", events.duration_ns, summary.duration_ns),
    ):
        if stated is not None and found != stated:
            yield run.build_fault(f"{name}: {stated}", f"{found}, recounted from events")
    yield from check_recounted_series(run, "latency", summary.latency, events.latencies_ns)
    yield from check_recounted_series(run, "ttft", summary.ttft, events.first_token_ns)
    yield from check_recounted_window(run, summary, events)
    yield from check_recounted_reasons(run, summary, events)
    tokens = summary.output_sequence_lengths.total
    if tokens is not None and tokens > events.answer_bytes:
        yield run.build_fault(
            f"{tokens} tokens of answers",
            f"at most {events.answer_bytes}, the bytes of the answers",
        )


def check_recounted_series(
    run: EndpointsRun, name: str, series: Series, values: "array[int]"
) -> Iterator[Fault]:
    """Yield the statistics of a series that its recount contradicts."""
    if series.min is None:
        return
    ordered = array("q", sorted(values))
    if not ordered:
        yield run.build_fault(
            f"{name} between {series.min} and {series.max}", "no values in events"
        )
        return
    stated = [
        ("total", series.total, sum(ordered)),
        ("min", series.min, ordered[0]),
        ("max", series.max, ordered[-1]),
        *(
            (f"p{percent:g}", value, compute_percentile(ordered, percent))
            for percent, value in parse_percents(series)
        ),
    ]
    for what, value, found in stated:
        if value is not None and value != found:
            yield run.build_fault(f"{name}: {what} {value:.12g}", f"{found}, recounted from events")
            return


def check_recounted_window(
    run: EndpointsRun, summary: ResultSummary, events: EventCount
) -> Iterator[Fault]:
    """Yield a legacy window that the events contradict."""
    stated = summary.legacy_loadgen_window_duration_ns
    if stated is None or events.last_issued_latency_ns is None or not events.issue_ns:
        return
    found = events.issue_ns[-1] + events.last_issued_latency_ns - events.issue_ns[0]
    if found != stated:
        yield run.build_fault(f"a window of {stated} ns", f"{found} ns, recounted from events")


def check_recounted_reasons(
    run: EndpointsRun, summary: ResultSummary, events: EventCount
) -> Iterator[Fault]:
    """Yield counts of reasons to end that the events contradict."""
    stated = summary.finish_reason_counts
    if not stated or not events.finish_reasons:
        return
    known = {name: count for name, count in stated.items() if name != "other"}
    for name, count in known.items():
        if count != events.finish_reasons.get(name, 0):
            yield run.build_fault(
                f"{count} answers that ended by {name}",
                f"{events.finish_reasons.get(name, 0)}, recounted from events",
            )


@rule("endpoints.cut", EndpointsRun, About.SCORE, severity=Severity.WARNING)
def cut(run: EndpointsRun) -> Iterator[Fault]:
    """Each answer has a reason to end. A stream that broke off has no such reason, and the client
    counts it as completed.

    Source: mlcommons/endpoints, issue 144.
    Advice: find out why the system cut answers; repeat the run.
    """
    events = run.events
    if events is not None and events.finish_reasons and events.unexplained_ends:
        yield run.build_fault(
            f"{events.unexplained_ends} of {events.completed} answers without a reason to end",
            "a reason for each",
            file=events.source.path,
        )


@rule("endpoints.held", EndpointsRun, About.RULES, doubt="the load on the system")
def held(run: EndpointsRun) -> Iterator[Fault]:
    """A run with a fixed number of requests in flight holds that number, from when it is reached
    until the last request is issued.

    Source: Endpoints rules, 6.1 and 6.2: a fixed concurrency, sustained.
    Advice: repeat the run on a client machine that keeps up with the answers.
    """
    summary, events = run.summary, run.events
    if summary is None or events is None or events.truncated:
        return
    pattern = summary.run_config.load_pattern
    wanted, issued = pattern.target_concurrency, events.issue_ns
    if pattern.type != "concurrency" or not wanted or not 0 < wanted < len(issued):
        return
    begin, end = issued[wanted - 1], issued[-1]
    if end <= begin:
        return
    flown = sum(
        max(0, min(start + latency, end) - max(start, begin))
        for start, latency in zip(events.completed_issue_ns, events.latencies_ns, strict=True)
    )
    mean = flown / (end - begin)
    if mean < USUAL_HELD_SHARE * wanted:
        yield run.build_fault(
            f"{mean:.4g} requests in flight on average",
            f"{wanted}, the concurrency",
            file=events.source.path,
            severity=None if mean < MIN_HELD_SHARE * wanted else Severity.WARNING,
        )


@rule("endpoints.lag", EndpointsRun, About.SCORE, doubt="the load on the system")
def lag(run: EndpointsRun) -> Iterator[Fault]:
    """A Poisson run issued its samples at the times that its seed gives.

    Source: mlcommons/endpoints, load generator: random.Random(seed).expovariate.
    Advice: repeat the run on a client machine that keeps up with the schedule.
    """
    summary, events = run.summary, run.events
    if summary is None or events is None or events.truncated:
        return
    config = summary.run_config
    rate, seed = config.load_pattern.target_qps, config.scheduler_random_seed
    count = len(events.issue_ns)
    if config.load_pattern.type != "poisson" or not rate or seed is None:
        return
    if not 1 < count <= MAX_DRAWN_GAPS or not is_drawn_rate(rate):
        return
    late, due = array("q"), 0
    for issued, gap in zip(
        events.issue_ns[1:], draw_poisson_gaps_ns(seed, rate, count)[1:], strict=True
    ):
        due += gap
        late.append(issued - events.issue_ns[0] - due)
    ordered = array("q", sorted(late))
    median = compute_percentile(ordered, MEDIAN_PERCENT)
    high = compute_percentile(ordered, HIGH_LAG_PERCENT)
    if abs(late[-1]) > MAX_SPAN_DIFFERENCE_NS or abs(median) > MAX_MEDIAN_LAG_NS:
        yield run.build_fault(
            f"samples issued {median / NS_PER_S:.3g} s off their schedule at the median,"
            f" {late[-1] / NS_PER_S:.3g} s at the end",
            f"as drawn from scheduler_random_seed {seed}",
            file=events.source.path,
        )
    elif high > MAX_HIGH_LAG_NS:
        yield run.build_fault(
            f"one sample in a hundred issued {high / NS_PER_S:.3g} s late or more",
            f"at most {MAX_HIGH_LAG_NS / NS_PER_S:g} s",
            file=events.source.path,
            severity=Severity.WARNING,
        )


@rule("endpoints.order", EndpointsRun, About.RULES, doubt="which samples were issued")
def order(run: EndpointsRun) -> Iterator[Fault]:
    """The map of samples lists the issued samples, in the order that the run's seed draws. If less
    than a whole data set was issued, its size is the one by which most samples are in their places.
    The rule skips a run without such a size, and conversations, whose turns have an order of their
    own.

    Source: mlcommons/endpoints: list(range(n)), shuffled by random.Random(seed) for each pass.
    Advice: put the files of one run here, with the sample map that the client wrote for it.
    """
    issued = run.samples.order
    if run.summary is None or not issued or len(issued) > MAX_DRAWN_GAPS:
        return
    yield from check_sample_map(run)
    if find_load_pattern(run) == AGENTIC_PATTERN:
        return
    seed = run.summary.run_config.dataloader_random_seed
    size = None
    if seed is not None:
        size = find_shuffled_size(seed, issued)
    if seed is None or size is None:
        return
    wanted = draw_sample_order(seed, size, len(issued))
    place = next(
        (at for at, pair in enumerate(zip(issued, wanted, strict=True)) if len({*pair}) > 1), None
    )
    if place is not None:
        yield run.build_fault(
            f"sample {issued[place]} issued as number {place + 1}",
            f"sample {wanted[place]}, as drawn from dataloader_random_seed {seed}",
            file=run.folder / SAMPLE_MAP_FILE,
        )


def check_sample_map(run: EndpointsRun) -> Iterator[Fault]:
    """Yield a map that names other samples than those that were issued."""
    file, samples, events = run.folder / SAMPLE_MAP_FILE, run.samples.order, run.events
    counted = None
    if run.summary:
        counted = run.summary.n_samples_issued
    if counted is not None and len(samples) != counted:
        yield run.build_fault(f"{len(samples)} samples", f"{counted}, as issued", file=file)
        return
    if events is None or events.truncated or events.issued != counted:
        return
    if events.issue_digest != run.samples.digest:
        yield run.build_fault(
            "other identifiers than in the events, or another order",
            "each sample in the order of its issue",
            file=file,
        )


def find_shuffled_size(seed: int, issued: "array[int]") -> int | None:
    """Return the size of the data set that was issued; of part of one pass the first size by which
    nearly all samples are in the places that the seed draws, None if there is none near the highest
    index.
    """
    least, known = max(issued) + 1, len(set(issued))
    if known == least:
        return least
    if known < len(issued) or known < MIN_ORDERED_SAMPLES:
        return None
    # the highest of n indices is rarely further from the end than ten times their mean distance
    tries = min(10 * least // known + 1, max(1, MAX_TRIED_DRAWS // least))
    for size in range(least, least + tries):
        drawn = draw_sample_order(seed, size, known)
        found = sum(each == wanted for each, wanted in zip(issued, drawn, strict=True))
        if found >= MIN_ORDERED_SHARE * known:
            return size
    return None


def draw_sample_order(seed: int, samples: int, issued: int) -> list[int]:
    """Draw the order in which the client issues samples: shuffled again for each pass."""
    generator = Random(seed)  # noqa: S311 - repeats the client's draws
    passes, found = list(range(samples)), list[int]()
    while len(found) < issued:
        generator.shuffle(passes)
        found += passes
    return found[:issued]

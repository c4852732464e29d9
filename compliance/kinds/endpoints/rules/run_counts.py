"""Check the counts and rates of a run of the Endpoints client."""

import math
from array import array
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import ResultSummary, get_series
from compliance.kinds.endpoints.documents.run import AGENTIC_PATTERN, EndpointsRun
from compliance.rules import rule
from compliance.rules.file_integrity import is_content_lost
from compliance.verdict import About, Fault, Severity
from suite.units import NS_PER_MS, NS_PER_S

RATE_TOLERANCE: Final = 1e-9
"""Relative: the client prints all digits of a double."""
SUMMED_TOLERANCE: Final = 1e-9
SCHEDULE_EARLY_NS: Final = 50_000_000
SCHEDULE_LATE_NS: Final = 1_000_000_000
"""How much earlier and later than the drawn schedule the last query may have been issued."""
MAX_DRAWN_GAPS: Final = 2_000_000
MIN_DRAWN_RATE: Final = 1e-6
MAX_DRAWN_RATE: Final = 1e9
"""Queries per second of which gaps are drawn."""
MIN_HELD_SHARE: Final = 0.9
"""Smallest share of the requested concurrency that a run has in flight on average."""
USUAL_HELD_SHARE: Final = 0.98
"""A client that takes long between an answer and the next request holds less than it asks for."""
REISSUE_NS: Final = 1_000_000
"""Time that the client may take between the end of an answer and the next request."""
START_NS: Final = 1_000_000_000
"""Time that the client may take until the first requests are in flight."""
CLOSED_LOOP_PATTERNS: Final = ("concurrency", AGENTIC_PATTERN)
MIN_REACHED_SHARE: Final = 0.9
"""Smallest share of the longest time after which a run was stopped by it: no request was due."""


@rule("endpoints.evidence", EndpointsRun, severity=Severity.INFO, rounds=("endpoints",))
def evidence(run: EndpointsRun) -> Iterator[Fault]:
    """A run folder has events.jsonl, from which its counts, times and latencies are recounted.
    Without it podium can only compare the figures with each other.

    Source: mlcommons/endpoints, run folder: the client writes events.jsonl beside its summary.
    Advice: keep events.jsonl; without it an invented but consistent run cannot be told from a real
    one.
    """
    if run.summary is not None and run.events is None:
        yield run.build_fault("no events", "events.jsonl, from which the figures can be recounted")


@rule("endpoints.state", EndpointsRun, About.SCORE, doubt="the figure, since the run did not end")
def state(run: EndpointsRun) -> Iterator[Fault]:
    """The run ended, and all of its answers were counted.

    Source: mlcommons/endpoints, result_summary.json: state and complete; Endpoints rules,
    Completeness.
    Advice: repeat the run, and let the client finish.
    """
    summary = run.summary
    if summary is None and not is_content_lost(run.summary_source):
        yield run.build_fault("no summary that can be read", "the client's summary")
    if summary is not None and (summary.state != "complete" or summary.complete is not True):
        yield run.build_fault(
            f"state {summary.state}, complete {summary.complete}", "state complete, complete true"
        )


@rule("endpoints.counts", EndpointsRun, About.SCORE, doubt="the figure, which rests on the counts")
def counts(run: EndpointsRun) -> Iterator[Fault]:
    """The summary states how many samples were issued, completed and failed, how long the run took
    and its rate. All issued samples completed, the failed ones among them. A missing rate is a
    warning, since it follows from the counts and older builds of the client write none.

    Source: mlcommons/endpoints, metrics: counters tracked_samples_*.
    Advice: repeat a run that lost samples; if none was lost, put the files of one run here.
    """
    summary = run.summary
    if summary is None:
        return
    for name in (
        "n_samples_issued",
        "n_samples_completed",
        "n_samples_failed",
        "duration_ns",
    ):
        value = getattr(summary, name)
        if value is None or value < 0:
            yield run.build_fault(f"{name} {value}", "a number of at least 0")
    if summary.qps is None:
        yield run.build_fault("qps None", "a number of at least 0", severity=Severity.WARNING)
    elif summary.qps < 0:
        yield run.build_fault(f"qps {summary.qps}", "a number of at least 0")
    issued, completed = summary.n_samples_issued, summary.n_samples_completed
    if issued is not None and completed is not None and issued != completed:
        yield run.build_fault(f"{completed} samples completed", f"{issued}, as many as were issued")
    if (summary.n_samples_failed or 0) > (completed or 0):
        yield run.build_fault(
            f"{summary.n_samples_failed} samples failed", f"at most {completed}, the completed ones"
        )


@rule("endpoints.whole", EndpointsRun, About.SCORE, doubt="the figure, which it would show")
def whole(run: EndpointsRun) -> Iterator[Fault]:
    """A series has all of its statistics, or none if nothing was measured. Latencies are always
    measured, and the rate of tokens is stated if, and only if, lengths are. A missing rate is a
    warning, since it follows from the lengths and older builds of the client write none.

    Source: mlcommons/endpoints, metrics: what every build of the client writes.
    Advice: put the whole summary of this run here; if it is incomplete at the source, repeat the
    run.
    """
    summary = run.summary
    if summary is None:
        return
    for name in ("latency", "ttft", "tpot", "output_sequence_lengths"):
        found = get_series(summary, name).statistics
        missing = [each for each, value in found.items() if value is None]
        if missing and (len(missing) < len(found) or name == "latency"):
            yield run.build_fault(f"{name}: no {', '.join(missing)}", "all statistics of a series")
    lengths = summary.output_sequence_lengths.total
    if (summary.tps is None) != (lengths is None):
        yield run.build_fault(
            f"tps {summary.tps} with lengths that add up to {lengths}",
            "both, or neither",
            severity=Severity.WARNING if summary.tps is None else None,
        )


@rule("endpoints.failed", EndpointsRun, About.SCORE, doubt="the rate, which counts failed samples")
def failed(run: EndpointsRun) -> Iterator[Fault]:
    """No sample failed, since the client's rate counts failed samples like answered ones. The rules
    of MLPerf Endpoints v1.0 do not mention failed requests, so it is a warning there.

    Source: mlcommons/endpoints, issue 34; under LoadGen an error ends the run.
    Advice: repeat the run with a system that answers every request.
    """
    summary = run.summary
    if summary is None or not summary.n_samples_failed:
        return
    whole = (summary.n_samples_completed or 0) - summary.n_samples_failed
    if run.events is not None:
        whole -= run.events.unexplained_ends
    if summary.duration_ns:
        rate = whole * NS_PER_S / summary.duration_ns
    else:
        rate = math.nan
    yield run.build_fault(
        f"{summary.n_samples_failed} samples failed; {rate:.6g} whole answers/s, where qps says"
        f" {summary.qps}",
        "none",
        severity=Severity.WARNING if run.tolerates_failures else None,
    )


@rule("endpoints.finish", EndpointsRun, About.SCORE, doubt="how many answers there are")
def finish(run: EndpointsRun) -> Iterator[Fault]:
    """As many answers have a reason to end as samples completed without failing. Answers without a
    reason were cut.

    Source: mlcommons/endpoints, finish_reason_counts.
    Advice: find out why the system cut answers (its limits of tokens and time), and repeat the run.
    """
    summary = run.summary
    if summary is None or summary.finish_reason_counts is None:
        return
    ended = sum(summary.finish_reason_counts.values())
    whole = (summary.n_samples_completed or 0) - (summary.n_samples_failed or 0)
    if ended > whole:
        yield run.build_fault(f"{ended} answers with a reason to end", f"at most {whole}")
    elif 0 < ended < whole:
        failures = summary.n_samples_failed or 0
        of_them = ""
        if failures:
            of_them = f", {failures} of which failed"
        yield run.build_fault(
            f"{whole + failures - ended} answers without a reason to end{of_them}",
            f"a reason for each of {whole}",
            severity=Severity.WARNING,
        )


@rule("endpoints.rate", EndpointsRun, About.SCORE, doubt="the rate")
def rate(run: EndpointsRun) -> Iterator[Fault]:
    """The rates follow from counts and time: completed samples, and tokens of all answers, divided
    by the run's duration. With the legacy window, the time runs from the first issue to the end of
    the query issued last, and the first sample does not count.

    Source: mlcommons/endpoints, metrics: qps and tps.
    Advice: put the files of one run here; if rate and counts disagree at the source, repeat the run
    with the round's client.
    """
    summary = run.summary
    if summary is None or not summary.window_ns or summary.window_ns < 0:
        return
    seconds = summary.window_ns / NS_PER_S
    tokens = summary.output_sequence_lengths.total
    for name, stated, amount in (
        ("qps", summary.qps, summary.rated_queries),
        ("tps", summary.tps, tokens),
    ):
        if stated is None or amount is None:
            continue
        if not math.isclose(stated, amount / seconds, rel_tol=RATE_TOLERANCE):
            yield run.build_fault(f"{name} {stated}", f"{amount / seconds:.12g}, from its counts")


@rule("endpoints.window", EndpointsRun, About.SCORE, doubt="the rate, which is divided by it")
def window(run: EndpointsRun) -> Iterator[Fault]:
    """The legacy window is stated if the run asked for it. Neither the window nor the highest
    latency is longer than the run.

    Source: mlcommons/endpoints, use_legacy_loadgen_qps_metrics.
    Advice: put summary and configuration of one run here; otherwise repeat the run with the round's
    client.
    """
    summary = run.summary
    if summary is None or summary.duration_ns is None:
        return
    stated = summary.legacy_loadgen_window_duration_ns
    asked = summary.run_config.load_pattern.use_legacy_loadgen_qps_metrics
    if stated is not None and not 0 < stated <= summary.duration_ns:
        yield run.build_fault(
            f"a window of {stated} ns", f"above 0, at most the duration, {summary.duration_ns} ns"
        )
    if asked is not None and asked != (stated is not None):
        yield run.build_fault(
            f"legacy window {stated}", "a window" if asked else "none, as the run asked for none"
        )
    highest = summary.latency.max
    if highest is not None and highest > summary.duration_ns:
        yield run.build_fault(
            f"a latency of {highest} ns", f"at most the duration, {summary.duration_ns} ns"
        )


@rule("endpoints.schedule", EndpointsRun, About.SCORE, doubt="the time that the run took")
def schedule(run: EndpointsRun) -> Iterator[Fault]:
    """A Poisson run takes as long as its seed draws: the legacy window without the drawn gaps is
    the latency of the query issued last.

    Source: mlcommons/endpoints, load generator: random.Random(seed).expovariate, in whole
    nanoseconds, at least 1.
    Advice: put summary and configuration of one run here, with the seeds that the run used.
    """
    summary = run.summary
    if summary is None:
        return
    config = summary.run_config
    pattern, seed = config.load_pattern, config.scheduler_random_seed
    issued, stated = summary.n_samples_issued, summary.legacy_loadgen_window_duration_ns
    if pattern.type != "poisson":
        return
    if pattern.target_qps is None or not is_drawn_rate(pattern.target_qps):
        yield run.build_fault(f"target_qps {pattern.target_qps}", "the rate of Poisson arrivals")
        return
    if seed is None or not issued or not 1 < issued <= MAX_DRAWN_GAPS:
        return
    low, high, took = summary.latency.min, summary.latency.max, stated or summary.duration_ns
    if low is None or high is None or took is None:
        return
    rest = took - sum(draw_poisson_gaps_ns(seed, pattern.target_qps, issued)[1:])
    # the whole run ends with the last answer, not with that of the query issued last
    if stated:
        latest = high + SCHEDULE_LATE_NS
    else:
        latest = math.inf
    if not low - SCHEDULE_EARLY_NS <= rest <= latest:
        yield run.build_fault(
            f"{'a window' if stated else 'a duration'} that leaves {rest / NS_PER_S:.6g} s for the"
            " last query",
            f"a latency between {low / NS_PER_S:.6g} and {high / NS_PER_S:.6g} s, as drawn from"
            f" scheduler_random_seed {seed}",
        )


def is_drawn_rate(rate: float) -> bool:
    """Return whether the gaps of a rate can be drawn, in whole nanoseconds."""
    return MIN_DRAWN_RATE <= rate <= MAX_DRAWN_RATE


@lru_cache(maxsize=1)  # two rules of a run draw the same
def draw_poisson_gaps_ns(seed: int, rate: float, queries: int) -> "array[int]":
    """Draw the time before each query, in nanoseconds."""
    generator, per_ns = Random(seed), rate / NS_PER_S  # noqa: S311 - repeats the client's draws
    return array("q", (max(1, int(generator.expovariate(per_ns))) for _ in range(queries)))


@rule("endpoints.in_flight", EndpointsRun, About.SCORE, doubt="the time that the run took")
def in_flight(run: EndpointsRun) -> Iterator[Fault]:
    """With a fixed number of requests in flight, latencies add up to at most that many times the
    duration. A run that holds its concurrency comes close to this sum, except for the time after
    the last request was issued, which is no longer than the highest latency.

    Source: Little's law; Endpoints rules, 6.1 and 6.2: a fixed concurrency, sustained.
    Advice: run longer, or with fewer requests in flight, on a client machine that keeps up.
    """
    summary = run.summary
    if summary is None or not summary.duration_ns or summary.latency.total is None:
        return
    wanted = find_held_requests(run)
    if wanted is None:
        return
    held = summary.latency.total / summary.duration_ns
    share = None
    if not has_agentic_pattern(run):
        share = compute_least_share(summary, wanted)
    if held > wanted * (1 + SUMMED_TOLERANCE):
        yield run.build_fault(f"latencies of {held:.6g} requests at a time", f"at most {wanted}")
    elif share is not None and share < USUAL_HELD_SHARE:
        yield build_idle_fault(run, held, wanted, share)
    elif held < wanted * MIN_HELD_SHARE and (summary.n_samples_issued or 0) > wanted:
        yield run.build_fault(
            f"{held:.4g} requests in flight on average",
            f"about {wanted}, the concurrency",
            severity=Severity.WARNING,
        )


def find_load_pattern(run: EndpointsRun) -> str | None:
    """Return how the run issued its requests, as its summary says, or else its settings."""
    stated = None
    if run.summary:
        stated = run.summary.run_config.load_pattern.type
    found = None
    if run.config:
        found = run.config.find_value("settings", "load_pattern", "type")
    return stated or (found if isinstance(found, str) else None)


def build_idle_fault(run: EndpointsRun, held: float, wanted: int, share: float) -> Fault:
    """Build a Fault about requests that were not in flight: an error where too few are."""
    return run.build_fault(
        f"{held:.4g} requests in flight on average, and at most {share:.4g} of {wanted} before the"
        " last ones end",
        f"{wanted}, the concurrency",
        severity=None if share < MIN_HELD_SHARE else Severity.WARNING,
    )


def compute_least_share(summary: ResultSummary, wanted: int) -> float | None:
    """Return at most which share of its requests a run had in flight, without the time in which it
    may have begun and ended: when the last request was issued, it was one of those in flight, and
    the others may have ended at once. None if the run issued no more than it holds, or nearly all
    of its time is left out.
    """
    latency, duration, issued = summary.latency, summary.duration_ns, summary.n_samples_issued
    if latency.total is None or latency.max is None or not duration or (issued or 0) <= wanted:
        return None
    held_ns = wanted * (duration - START_NS) - (wanted - 1) * latency.max
    if held_ns <= 0:
        return None
    return float(latency.total + (issued or 0) * REISSUE_NS) / held_ns


def has_agentic_pattern(run: EndpointsRun) -> bool:
    """Return whether requests in flight are those of conversations, of which some may wait for a
    tool and some end before others.
    """
    return find_load_pattern(run) == AGENTIC_PATTERN


def find_held_requests(run: EndpointsRun) -> int | None:
    """Return how many requests the run holds in flight, as its summary says, or else its settings;
    None if it holds no number.
    """
    if find_load_pattern(run) not in CLOSED_LOOP_PATTERNS:
        return None
    pattern = None
    if run.summary:
        pattern = run.summary.run_config.load_pattern
    if pattern is not None and pattern.type is not None:
        return pattern.target_concurrency or None
    wanted = None
    if run.config:
        wanted = run.config.find_number("settings", "load_pattern", "target_concurrency")
    if isinstance(wanted, int) and wanted:
        return wanted
    return None


@rule("endpoints.config_differs", EndpointsRun, About.RULES, doubt="how the run was made")
def config_differs(run: EndpointsRun) -> Iterator[Fault]:
    """The summary and config.yaml have the same seeds, load pattern, rate, warm-up and number of
    samples. A run that reached its longest time may have issued fewer samples.

    Source: mlcommons/endpoints, run_config of the summary, written from the configuration; builds
    without it state the legacy window alone.
    Advice: submit the configuration that the run used.
    """
    if run.summary is None or run.config is None or run.config_source is None:
        return
    stated, pattern = run.summary.run_config, run.summary.run_config.load_pattern
    settings, legacy = "settings", pattern.use_legacy_loadgen_qps_metrics
    if pattern.type is None:
        legacy = run.summary.legacy_loadgen_window_duration_ns is not None
    for value, path in (
        (stated.scheduler_random_seed, ("runtime", "scheduler_random_seed")),
        (stated.dataloader_random_seed, ("runtime", "dataloader_random_seed")),
        (pattern.type, ("load_pattern", "type")),
        (pattern.target_qps, ("load_pattern", "target_qps")),
        (pattern.target_concurrency, ("load_pattern", "target_concurrency")),
        (stated.warmup.enabled, ("warmup", "enabled")),
        (bool(legacy), ("load_pattern", "use_legacy_loadgen_qps_metrics")),
        (find_asked_samples(run), ("runtime", "n_samples_to_issue")),
    ):
        configured = run.config.find_value(settings, *path)
        if value is not None and configured is not None and str(value) != str(configured):
            yield run.build_fault(
                f"{'.'.join(path)} {configured}",
                f"{value}, as in the summary",
                file=run.config_source.path,
            )


def find_asked_samples(run: EndpointsRun) -> int | None:
    """Return how many samples a run issued; None if it was stopped before, by its longest time."""
    if run.summary:
        issued, took = run.summary.n_samples_issued, run.summary.duration_ns
    else:
        issued, took = None, None
    runtime = ("settings", "runtime")
    asked, longest_ms = (
        run.config.find_number(*runtime, name) if run.config else None
        for name in ("n_samples_to_issue", "max_duration_ms")
    )
    if None in (issued, took, asked) or not longest_ms or (issued or 0) >= (asked or 0):
        return issued
    reached = (took or 0) >= MIN_REACHED_SHARE * longest_ms * NS_PER_MS
    if reached:
        return None
    return issued

"""Check an entry of a published inference round that was measured with the Endpoints client."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.documents.endpoints.entry import EndpointsEntry
from compliance.rules import rule
from compliance.rules.endpoints.run_series import (
    find_histogram_problems,
    find_series_problems,
    is_whole_histogram,
)
from compliance.verdict import About, Fault, Severity
from suite.units import MS_PER_S, NS_PER_S

LOAD_PATTERNS: Final = {
    "Server": ("poisson",),
    "Interactive": ("poisson",),
    "Offline": ("max_throughput",),
    "SingleStream": ("concurrency", "agentic_inference"),
}
"""Scenario -> load patterns that measure it. Source: mlcommons/inference, submission_checker,
v6.1.
"""
BOUND_PERCENTILE: Final = "99.0"
MAX_EMPTY_SHARE: Final = 0.01
TOKENS_METRIC: Final = "TOKENS_PER_SAMPLE"
MAX_LENGTH_RATIO: Final = 1.5
PER_CENT: Final = 100.0
BREAKDOWN_SCORE: Final = "overall_accuracy"
BREAKDOWN_TOLERANCE: Final = 0.0051
"""In per cent, which the client rounds to two decimals."""
MIN_STREAM_SHARE: Final = 0.9
TOOL_DELAY: Final = "'inject_tool_delay': True"
NS_PER_MS: Final = NS_PER_S // MS_PER_S


@rule("endpoints.seeds", EndpointsEntry, About.RULES, doubt="whether the run is the round's")
def seeds(entry: EndpointsEntry) -> Iterator[Fault]:
    """An entry's run uses the round's seeds for the schedule and the order of samples.

    Source: mlcommons/inference, submission_checker/constants.py: seeds of the round.
    Advice: run the client with the round's seeds.
    """
    summary = entry.run.summary
    if summary is None:
        return
    rules, config = entry.round.rules, summary.run_config
    for name, found, wanted in (
        ("scheduler_random_seed", config.scheduler_random_seed, rules.schedule_rng_seed),
        ("dataloader_random_seed", config.dataloader_random_seed, rules.sample_index_rng_seed),
    ):
        if found != wanted:
            yield entry.build_fault(f"{name} {found}", f"{wanted}")


@rule("endpoints.load_pattern", EndpointsEntry, About.RULES, doubt="what the figure measures")
def load_pattern(entry: EndpointsEntry) -> Iterator[Fault]:
    """A scenario is measured by its load pattern: Server and Interactive by Poisson arrivals,
    Offline at once, SingleStream with one request in flight.

    Source: mlcommons/inference, submission_checker, v6.1.
    Advice: run the client with the scenario's load pattern.
    """
    summary = entry.run.summary
    wanted = LOAD_PATTERNS.get(entry.scenario or "")
    if summary is None or wanted is None:
        return
    pattern = summary.run_config.load_pattern
    if pattern.type not in wanted:
        yield entry.build_fault(f"load pattern {pattern.type}", " or ".join(wanted))
    elif entry.scenario == "SingleStream" and pattern.target_concurrency != 1:
        yield entry.build_fault(
            f"{pattern.target_concurrency} requests in flight", "1 in SingleStream"
        )


@rule("endpoints.duration", EndpointsEntry, About.RULES, doubt="whether the run was long enough")
def duration(entry: EndpointsEntry) -> Iterator[Fault]:
    """An entry's run takes at least as long as the round requires.

    Source: mlcommons/inference, submission_checker/constants.py: TEST_DURATION_MS.
    Advice: issue more samples.
    """
    found, wanted_ms = (
        entry.run.summary.duration_ns if entry.run.summary else None,
        entry.round.rules.min_duration_ms,
    )
    if found is not None and found < wanted_ms * NS_PER_MS:
        yield entry.build_fault(
            f"a duration of {found / NS_PER_S:.6g} s", f"at least {wanted_ms / MS_PER_S:g} s"
        )


@rule("endpoints.bounds", EndpointsEntry, About.RULES, doubt="whether the latencies are allowed")
def bounds(entry: EndpointsEntry) -> Iterator[Fault]:
    """The 99th percentile that early stopping proves is below the benchmark's bound: of the time to
    the first token and per output token, or of the latency.

    Source: mlcommons/inference, submission_checker, llm_check and LLM_LATENCY_LIMITS.
    Advice: lower the rate, or run longer so that early stopping can prove the percentile.
    """
    summary, model, scenario = entry.run.summary, entry.model, entry.scenario or ""
    if summary is None or model is None or not entry.is_closed:
        return
    first, per_token = model.first_token_ns.get(scenario), model.per_token_ns.get(scenario)
    latency = None if first or per_token else model.bounds_ns.get(scenario)
    for name, series, bound in (
        ("ttft", summary.ttft, first),
        ("tpot", summary.tpot, per_token),
        ("latency", summary.latency, latency),
    ):
        if bound is None:
            continue
        proven = (series.early_stopping_percentiles or {}).get(BOUND_PERCENTILE)
        if proven is None:
            yield entry.build_fault(
                f"{name}: no 99th percentile that early stopping proves",
                f"one below {bound / NS_PER_MS:g} ms: at least 662 samples",
            )
        elif proven >= bound:
            yield entry.build_fault(
                f"{name}: 99th percentile {proven / NS_PER_MS:.6g} ms",
                f"below {bound / NS_PER_MS:g} ms",
            )


@rule("endpoints.accuracy", EndpointsEntry, About.QUALITY, doubt="whether the model is accurate")
def accuracy(entry: EndpointsEntry) -> Iterator[Fault]:
    """A closed entry reaches each metric of its benchmark, in the row's unit.

    Source: mlcommons/inference, submission_checker/constants.py: accuracy-target and
    accuracy-upper-limit.
    Advice: repeat the accuracy run; fix the model if it is not accurate enough.
    """
    if not entry.is_closed or entry.model is None:
        return
    if entry.accuracy is None:
        yield entry.build_fault(
            "no accuracy results", "accuracy_results.json", file=entry.accuracy_source.path
        )
        return
    minimums, maximums = entry.model.find_minimums(entry.scenario), entry.model.accuracy_most
    claims = entry.compute_claims()
    for metric, least in minimums.items():
        if metric not in claims:
            yield entry.build_fault(
                f"no {metric}", f"{metric}, {least:g} or more", file=entry.accuracy_source.path
            )
        elif claims[metric] < least:
            yield entry.build_fault(
                f"{metric} {claims[metric]:.6g}",
                f"{least:g} or more",
                file=entry.accuracy_source.path,
            )
        elif claims[metric] > find_metric_limit(least):
            yield entry.build_fault(
                f"{metric} {claims[metric]:.6g}",
                f"at most {find_metric_limit(least):g}, what the metric can be",
                file=entry.accuracy_source.path,
            )
        elif claims[metric] > maximums.get(metric, math.inf):
            yield entry.build_fault(
                f"{metric} {claims[metric]:.6g}",
                f"at most {maximums[metric]:g}",
                file=entry.accuracy_source.path,
            )


@rule("endpoints.accuracy_counts", EndpointsEntry, About.QUALITY, doubt="the accuracy")
def accuracy_counts(entry: EndpointsEntry) -> Iterator[Fault]:
    """Every sample of the accuracy data set was answered and scored.

    Source: mlcommons/endpoints, accuracy_results.json: response_counts; dataset-size of the round.
    Advice: repeat the accuracy run until it is complete.
    """
    if entry.accuracy is None:
        return
    scores, file = entry.accuracy.list_scores(), entry.accuracy_source.path
    for each in scores:
        count = each.response_counts
        if each.complete is False:
            yield entry.build_fault(f"{each.dataset_name}: complete false", "true", file=file)
        if count.issued is not None and count.issued != (count.scored or 0) + (count.missing or 0):
            yield entry.build_fault(
                f"{each.dataset_name}: {count.scored} scored, {count.missing} missing",
                f"{count.issued} together, as many as were issued",
                file=file,
            )
        if count.missing:
            yield entry.build_fault(
                f"{each.dataset_name}: {count.missing} answers missing", "none", file=file
            )
        if count.empty and count.issued:
            few = count.empty <= MAX_EMPTY_SHARE * count.issued
            yield entry.build_fault(
                f"{each.dataset_name}: {count.empty} empty answers",
                "none",
                file=file,
                severity=Severity.WARNING if few else None,
            )
        issued, total = count.issued, each.total_samples
        if issued is not None and total is not None and issued != total:
            yield entry.build_fault(
                f"{each.dataset_name}: {issued} issued of {total}", "all samples", file=file
            )
    yield from check_accuracy_size(entry)


def check_accuracy_size(entry: EndpointsEntry) -> Iterator[Fault]:
    """Yield an accuracy run over another number of samples than the round's data set has."""
    if entry.model is None or entry.accuracy is None or not entry.is_closed:
        return
    size = entry.model.accuracy_samples_in.get(entry.scenario or "", entry.model.accuracy_samples)
    totals = [each.total_samples for each in entry.accuracy.list_scores()]
    if size is None:
        return
    found = sum(total or 0 for total in totals)
    if found != size:
        yield entry.build_fault(
            f"an accuracy run over {found} samples",
            f"{size}",
            file=entry.accuracy_source.path,
            severity=Severity.WARNING if found > size else None,
        )


@rule("endpoints.accuracy_lengths", EndpointsEntry, About.QUALITY, doubt="the accuracy")
def accuracy_lengths(entry: EndpointsEntry) -> Iterator[Fault]:
    """The lengths of the accuracy run's answers fit together, and the score is that of its
    breakdown.

    Source: mlcommons/endpoints, accuracy_results.json: output_sequence_lengths and breakdown.
    Advice: submit the client's files unmodified.
    """
    scale = entry.model.endpoints_scale if entry.model else 1.0
    for each in entry.accuracy.list_scores() if entry.accuracy else ():
        lengths, whole = each.output_sequence_lengths, (each.breakdown or {}).get(BREAKDOWN_SCORE)
        problems = [*find_series_problems(lengths)] if lengths.min is not None else []
        if lengths.min is not None and is_whole_histogram(lengths):
            problems += find_histogram_problems(lengths)
        for found, required in problems:
            yield entry.build_fault(
                f"{each.dataset_name}: {found}", required, file=entry.accuracy_source.path
            )
        if not isinstance(each.score, int | float) or not isinstance(whole, int | float):
            continue
        if not math.isclose(each.score * scale, whole, abs_tol=BREAKDOWN_TOLERANCE):
            yield entry.build_fault(
                f"{each.dataset_name}: score {each.score}",
                f"{whole}, as in its breakdown",
                file=entry.accuracy_source.path,
            )


@rule("endpoints.single_stream", EndpointsEntry, About.SCORE, doubt="the latency")
def single_stream(entry: EndpointsEntry) -> Iterator[Fault]:
    """In SingleStream one request is always in flight, so that latencies add up to the duration;
    tools that a configuration delays take time, too.

    Source: Little's law: 0.9999 and more in published results of v6.1.
    Advice: submit the client's files unmodified.
    """
    summary = entry.run.summary
    if summary is None or entry.scenario != "SingleStream" or not summary.duration_ns:
        return
    data_sets = entry.run.config.find_value("datasets") if entry.run.config else None
    if summary.latency.total is None or TOOL_DELAY in str(data_sets):
        return
    held = summary.latency.total / summary.duration_ns
    if held < MIN_STREAM_SHARE:
        yield entry.build_fault(
            f"latencies of {held:.3g} of the duration", f"{MIN_STREAM_SHARE:g} or more"
        )


@rule("endpoints.model", EndpointsEntry, About.IDENTITY, doubt="which benchmark was measured")
def model(entry: EndpointsEntry) -> Iterator[Fault]:
    """The configuration names the benchmark of the entry's folder.

    Source: mlcommons/endpoints, submission_ref.model.
    Advice: submit the configuration that the run used.
    """
    config = entry.run.config
    named = config.find_value("submission_ref", "model") if config else None
    if not isinstance(named, str) or entry.benchmark is None:
        return
    meant = entry.round.find_benchmark(named)
    if meant is not None and meant != entry.benchmark:
        yield entry.build_fault(
            f"submission_ref.model {named}",
            f"{entry.benchmark}, as in the entry's folder",
            file=entry.run.config_source.path if entry.run.config_source else None,
        )


def find_metric_limit(least: float) -> float:
    """Return the highest value of a metric whose minimum is this: of shares 1, of per cents 100; of
    lengths and counts there is none.
    """
    return 1.0 if least <= 1 else PER_CENT if least <= PER_CENT else math.inf


@rule("endpoints.accuracy_mean", EndpointsEntry, About.QUALITY, doubt="the accuracy")
def accuracy_mean(entry: EndpointsEntry) -> Iterator[Fault]:
    """The average accuracy is the mean of the data sets' scores.

    Source: mlcommons/endpoints, accuracy_results.json.
    Advice: submit the client's files unmodified.
    """
    if entry.accuracy is None or entry.accuracy.average_accuracy is None:
        return
    scores = [each.score for each in entry.accuracy.list_scores()]
    plain = [each for each in scores if isinstance(each, int | float)]
    stated = entry.accuracy.average_accuracy
    if not plain or len(plain) != len(scores):
        return
    mean = sum(plain) / len(plain)
    if not math.isclose(mean, stated, rel_tol=1e-9, abs_tol=1e-12):
        yield entry.build_fault(
            f"average_accuracy {stated}",
            f"{mean:.12g}, the mean of the scores",
            file=entry.accuracy_source.path,
        )


@rule("endpoints.tokens_per_sample", EndpointsEntry, About.QUALITY, doubt="the accuracy")
def tokens_per_sample(entry: EndpointsEntry) -> Iterator[Fault]:
    """Answers of the accuracy run have the length that the benchmark requires.

    Source: mlcommons/inference, submission_checker/constants.py: accuracy-upper-limit,
    TOKENS_PER_SAMPLE.
    Advice: check that the system's answers end where the reference's do.
    """
    most = entry.model.accuracy_most.get(TOKENS_METRIC) if entry.model else None
    if most is None or entry.accuracy is None or not entry.is_closed:
        return
    series = [each.output_sequence_lengths for each in entry.accuracy.list_scores()]
    tokens = sum(float(each.total or 0) for each in series)
    answers = sum(each.count for each in series)
    if answers and tokens / answers > most:
        yield entry.build_fault(
            f"{tokens / answers:.6g} tokens per answer",
            f"at most {most:g}",
            file=entry.accuracy_source.path,
        )

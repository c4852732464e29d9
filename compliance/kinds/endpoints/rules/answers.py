"""Check the answers in a run's events: what they say first, what they repeat, how long they are."""

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compliance.kinds.endpoints.documents.events import EventCount, compute_percentile
from compliance.kinds.endpoints.documents.result_summary import Series
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.kinds.endpoints.rules.recount import MEDIAN_PERCENT
from compliance.kinds.endpoints.rules.run_series import parse_percents
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

MAX_BLANK_SHARE: Final = 0.5
MAX_REPEATED_SHARE: Final = 0.2
MIN_COMPARED_PAIRS: Final = 20
MAX_EARLY_SHARE: Final = 0.1
OFFLINE_PATTERN: Final = "max_throughput"
MAX_TOKEN_DIFFERENCE: Final = 0.01
TIME_TOLERANCE: Final = 1e-9


@rule("endpoints.first_chunk", EndpointsRun, About.SCORE, severity=Severity.WARNING)
def first_chunk(run: EndpointsRun) -> Iterator[Fault]:
    """The first chunk of an answer has content. A chunk that only stops the clock of the first
    token is forbidden.

    Source: Endpoints rules, 4.1 and 9.2.
    Advice: let the system send its first token, and nothing before it.
    """
    events = run.events
    if events is None or not events.streamed:
        return
    if events.blank_first_chunks > MAX_BLANK_SHARE * events.streamed:
        yield run.build_fault(
            f"{events.blank_first_chunks} of {events.streamed} answers whose first chunk is blank",
            "a first chunk with text",
            file=events.source.path,
        )


@rule("endpoints.warm_up_data", EndpointsRun, About.RULES, doubt="what was in the caches")
def warm_up_data(run: EndpointsRun) -> Iterator[Fault]:
    """No request of the warm-up has a prompt of a measured one, unless the warm-up is salted.

    Source: Endpoints rules, 6.3.1.
    Advice: warm up with other data, or with salt.
    """
    events = run.events
    if events is None or not events.warmed_up_prompts:
        return
    stated = None
    if run.summary:
        stated = run.summary.run_config.warmup.salt
    salted = stated or (run.config and run.config.find_value("settings", "warmup", "salt"))
    if not salted:
        yield run.build_fault(
            f"{events.warmed_up_prompts} measured requests that ask what the warm-up asked",
            "none, or salt in the warm-up",
            file=events.source.path,
        )


@rule("endpoints.repeated", EndpointsRun, About.SCORE, severity=Severity.WARNING)
def repeated(run: EndpointsRun) -> Iterator[Fault]:
    """Answers to one sample differ from pass to pass if they are drawn at a temperature above 0.
    Equal answers may come from a cache. Short answers are not compared.

    Source: Endpoints rules, 2.2.1: no response caching.
    Advice: explain why the answers are equal, or switch off what returns earlier answers.
    """
    events = run.events
    temperature = None
    if run.config:
        temperature = run.config.find_number("model_params", "temperature")
    if events is None or not temperature or temperature <= 0 or not is_order_known(run, events):
        return
    pairs = equal = 0
    last: dict[int, int] = {}
    answers = sorted(zip(events.completed_places, events.answer_hashes, strict=True))
    for place, answer in answers:
        sample = run.samples.order[place]
        before, last[sample] = last.get(sample), answer
        if before and answer:
            pairs += 1
            equal += before == answer
    if pairs >= MIN_COMPARED_PAIRS and equal > MAX_REPEATED_SHARE * pairs:
        yield run.build_fault(
            f"{equal} of {pairs} answers equal to that of the pass before",
            f"at most {MAX_REPEATED_SHARE:g} of them, at temperature {temperature:g}",
            file=events.source.path,
        )


@rule("endpoints.reordered", EndpointsRun, About.RULES, severity=Severity.WARNING)
def reordered(run: EndpointsRun) -> Iterator[Fault]:
    """An Offline run answers its passes over the data set one after another: of no pass is a tenth
    answered before half of the pass before it.

    Source: Endpoints rules, 5.7.1: no reordering across passes.
    Advice: explain the order, or schedule requests as they come.
    """
    events = run.events
    pattern = None
    if run.summary:
        pattern = run.summary.run_config.load_pattern.type
    if events is None or pattern != OFFLINE_PATTERN or not is_order_known(run, events):
        return
    size = max(run.samples.order) + 1
    if len(set(run.samples.order)) != size or len(run.samples.order) < 2 * size:
        return
    ends = collect_pass_ends(events, size)
    for number in range(1, max(ends, default=0) + 1):
        before, own = ends.get(number - 1), ends.get(number)
        if not before or not own:
            continue
        median = compute_percentile(array("q", sorted(before)), MEDIAN_PERCENT)
        early = sum(end < median for end in own)
        if early >= MAX_EARLY_SHARE * len(own):
            yield run.build_fault(
                f"{early} of {len(own)} answers of pass {number + 1} before half of pass {number}",
                f"fewer than {MAX_EARLY_SHARE:g} of them",
                file=events.source.path,
            )
            return


def collect_pass_ends(events: EventCount, size: int) -> Mapping[int, list[int]]:
    """Return when the samples of each pass completed."""
    ends = defaultdict[int, list[int]](list)
    for place, issued, latency in zip(
        events.completed_places, events.completed_issue_ns, events.latencies_ns, strict=True
    ):
        ends[place // size].append(issued + latency)
    return ends


def is_order_known(run: EndpointsRun, events: EventCount) -> bool:
    """Return whether the map says which sample each issued one was."""
    return (
        not events.truncated
        and bool(run.samples.order)
        and len(run.samples.order) == events.issued
        and events.issue_digest == run.samples.digest
    )


@rule("endpoints.recount_tokens", EndpointsRun, About.SCORE, doubt="the rate of tokens")
def recount_tokens(run: EndpointsRun) -> Iterator[Fault]:
    """A recount of the answers' tokens with the run's tokenizer gives the summary's lengths and
    times per token: exactly, or within 1 % if it is another version of the tokenizer. Answers with
    reasoning or calls of tools are counted through a chat template, and not recounted.

    Source: mlcommons/endpoints, metrics_aggregator: the whole answer, and what came after the first
    chunk.
    Advice: name the tokenizer, with its version, that the client used; put the answers of this run
    here.
    """
    tokens = None
    if run.events and not run.events.truncated:
        tokens = run.events.tokens
    if run.summary is None or run.events is None or tokens is None:
        return
    if tokens.uncounted:
        yield run.build_fault(
            f"{tokens.uncounted} answers with reasoning or calls of tools, not recounted",
            "answers of text alone, to recount tokens",
            file=run.events.source.path,
            severity=Severity.INFO,
        )
        return
    for name, series, values in (
        ("output_sequence_lengths", run.summary.output_sequence_lengths, tokens.lengths),
        ("tpot", run.summary.tpot, tokens.token_times_ns),
    ):
        differing = list_differences(series, values)
        if not differing:
            continue
        what, stated, found = differing[0]
        near = math.isclose(series.total or 0, math.fsum(values), rel_tol=MAX_TOKEN_DIFFERENCE)
        yield run.build_fault(
            f"{name}: {what} {stated:.12g}",
            f"{found:.12g}, recounted with the tokenizer",
            severity=Severity.WARNING if near else None,
        )


def list_differences(series: Series, values: Sequence[float]) -> list[tuple[str, float, float]]:
    """Return name, stated and recounted value of the statistics that differ."""
    if series.min is None:
        return []
    ordered = sorted(values)
    if not ordered:
        return [("total", float(series.total or 0), 0.0)]
    found = [
        ("count", series.count or None, len(ordered)),
        ("total", series.total, math.fsum(ordered)),
        ("min", series.min, ordered[0]),
        ("max", series.max, ordered[-1]),
        *(
            (f"p{percent:g}", value, ordered[int(percent / 100 * (len(ordered) - 1))])
            for percent, value in parse_percents(series)
        ),
    ]
    return [
        (name, float(stated), float(counted))
        for name, stated, counted in found
        if stated is not None and not math.isclose(stated, counted, rel_tol=TIME_TOLERANCE)
    ]

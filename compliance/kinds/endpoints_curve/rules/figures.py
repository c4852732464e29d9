"""Check the figures of a point of a curve: rates, times, turns and accuracy."""

import math
from collections.abc import Iterator
from typing import Any

from compliance.kinds.endpoints.documents.accuracy import PER_CENT, scale_fraction
from compliance.kinds.endpoints.rules.accuracy import find_metric_limit
from compliance.kinds.endpoints_curve.documents.point import (
    SYSTEM_FILE,
    EndpointsPoint,
    compute_interactivity,
)
from compliance.rules import rule
from compliance.rules.file_integrity import is_content_lost
from compliance.verdict import About, Fault, Severity
from suite.units import MS_PER_S, NS_PER_S


@rule("endpoints.derived", EndpointsPoint, About.SCORE, doubt="the figure")
def derived(point: EndpointsPoint) -> Iterator[Fault]:
    """The figures that a point states follow from its run: system_tps from tokens and duration,
    tps_per_user from the 90th percentile of TPOT, e2e_avg_interactivity from the turns. A point
    with latencies has a 90th percentile of TPOT. One that states its interactivity has the turns
    from which it follows.

    Source: Endpoints rules, 4.1; the checker tolerates 1 %, too.
    Advice: state what the run's summary yields.
    """
    summary = point.summary
    if summary is None:
        return
    figures, file = point.compute_figures(), point.run.summary_source.path
    if figures.system_tps is None:
        yield point.build_fault("no output tokens", "tokens of all answers", file=file)
    if not point.is_offline_run and figures.tpot_p90_ms is None:
        yield point.build_fault(
            "no 90th percentile of TPOT above 0", "one, from which tps_per_user follows", file=file
        )
    rate = None
    if figures.tpot_p90_ms is not None:
        rate = MS_PER_S / figures.tpot_p90_ms
    for name, found in (
        ("system_tps", figures.system_tps),
        ("tps_per_user", rate),
        ("ttft_p90_ms", figures.ttft_p90_ms),
        ("tpot_p90_ms", figures.tpot_p90_ms),
        ("e2e_avg_interactivity", compute_interactivity(summary)),
    ):
        for where, stated in list_stated_figures(point, name):
            if found is None and name == "e2e_avg_interactivity":
                yield point.build_fault(
                    f"{name} {stated}",
                    "tokens and time of all turns, from which it follows",
                    file=point.folder / where,
                )
            elif found is not None and not is_near(point, stated, found):
                yield point.build_fault(
                    f"{name} {stated}", f"{found:.6g}, from the run", file=point.folder / where
                )


@rule("endpoints.turn_totals", EndpointsPoint, About.SCORE, doubt="the interactivity")
def turn_totals(point: EndpointsPoint) -> Iterator[Fault]:
    """The sums over all turns of an agentic run are the sums over its answers, for tokens and for
    time. With failed requests the sums can only be smaller.

    Source: Endpoints rules, 4.1: e2e_avg_interactivity.
    Advice: put the files of one agentic run here; otherwise repeat the run with the round's client.
    """
    summary = point.summary
    if summary is None or not point.is_agentic:
        return
    full_run = summary.output_sequence_lengths_full_run
    lengths = [summary.output_sequence_lengths.total]
    if full_run:
        lengths.append(full_run.output_sequence_lengths.total)
    known = [float(each) for each in lengths if each is not None]
    tokens, seconds = summary.output_tokens_per_turn_total, summary.e2e_turn_time_seconds_total
    total = summary.latency.total
    for name, stated, wanted in (
        ("output_tokens_per_turn_total", tokens, known),
        ("e2e_turn_time_seconds_total", seconds, [] if total is None else [total / NS_PER_S]),
    ):
        if stated is None or not wanted:
            continue
        lost = summary.n_samples_failed and stated <= max(wanted)
        if not lost and not any(is_near(point, stated, each) for each in wanted):
            yield point.build_fault(
                f"{name} {stated}",
                f"{max(wanted):.6g}, of all answers",
                file=point.run.summary_source.path,
            )


def list_stated_figures(point: EndpointsPoint, name: str) -> list[tuple[str, Any]]:
    """Return a figure as each file of a point states it."""
    found = [
        (point.run.summary_source.path.name, getattr(point.summary, name, None)),
        (point.disclosure_source.path.name, point.find_value(name)),
        (SYSTEM_FILE, (point.system or {}).get(name)),
    ]
    return [
        (where, value)
        for where, value in found
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def is_near(point: EndpointsPoint, stated: float, found: float) -> bool:
    """Return whether a stated figure is the recomputed one, within the round's tolerance."""
    return math.isclose(stated, found, rel_tol=point.round.rules.relative_tolerance)


@rule("endpoints.point_accuracy", EndpointsPoint, About.QUALITY, doubt="whether it is accurate")
def point_accuracy(point: EndpointsPoint) -> Iterator[Fault]:
    """A point with an accuracy run reaches each metric of its benchmark, and a point of an agentic
    benchmark reaches the minimum of its own answers. A missing length of answers is a warning,
    since the client's scorer need not write it.

    Source: Endpoints rules, 4.3, 6.6; client, benchmark definitions: 0.99 of the reference.
    Advice: repeat the accuracy run; fix the model if it is not accurate enough.
    """
    row = point.model
    if row is None:
        return
    yield from check_inline_accuracy(point)
    if point.accuracy is None or not point.accuracy.list_scores() or not row.accuracy:
        return
    file = point.accuracy.source.path
    claims = point.accuracy.compute_claims(tuple(row.accuracy))
    unit_claims = point.accuracy.compute_unit_claims(tuple(row.accuracy))
    for metric, least in row.accuracy.items():
        # the better one, since the round's texts do not say how data sets are weighted
        weighted = [each[metric] for each in (claims, unit_claims) if metric in each]
        found = max(weighted, default=None)
        most = row.accuracy_most.get(metric, math.inf)
        if found is None:
            yield point.build_fault(
                f"no {metric}",
                f"{metric}, {least:g} or more",
                file=file,
                severity=None if least <= PER_CENT else Severity.WARNING,
            )
            continue
        found = scale_fraction(found, least)
        limit = min(most, find_metric_limit(least))
        if not least <= found <= limit:
            yield point.build_fault(
                f"{metric} {found:.6g}", f"between {least:g} and {limit:g}", file=file
            )


def check_inline_accuracy(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield a score of an agentic point's own answers that is missing or too low."""
    row = point.model
    if row is None or row.inline_accuracy is None:
        return
    least = row.inline_accuracy
    if is_accuracy_lost(point):
        return
    results = None
    if point.accuracy:
        results = point.accuracy.results
    if results:
        scores = results.list_inline_scores()
    else:
        scores = []
    found = None
    if scores:
        found = scores[0].find_main_score()
    file = None
    if point.accuracy:
        file = point.accuracy.source.path
    if found is None:
        yield point.build_fault("no score of the performance run", f"{least:g} or more", file=file)
    elif not 0 <= found <= 1:
        yield point.build_fault(f"a score of {found:g}", "a fraction", file=file)
    elif found * row.accuracy_scale < least:
        yield point.build_fault(
            f"{found * PER_CENT:.6g} % of the performance run's answers",
            f"{least:g} or more",
            file=file,
        )


def is_accuracy_lost(point: EndpointsPoint) -> bool:
    """Return whether a point's accuracy results cannot be read, which is an error of their own."""
    found = point.accuracy
    return found is not None and found.results is None and is_content_lost(found.source)


@rule("endpoints.turn_tokens", EndpointsPoint, About.QUALITY, doubt="whether answers are whole")
def turn_tokens(point: EndpointsPoint) -> Iterator[Fault]:
    """Turns of an agentic benchmark have the mean length of the reference's.

    Source: client, examples/10_Agentic_Inference/README.md: of the full run, not of the window.
    Advice: check that the system's answers end where the reference's do.
    """
    row, summary = point.model, point.summary
    if row is None or summary is None or len(row.turn_tokens) != 2:
        return
    least, most = row.turn_tokens
    full_run = summary.output_sequence_lengths_full_run
    mean = None
    if full_run:
        mean = full_run.output_sequence_lengths.avg
    file = point.run.summary_source.path
    if mean is None:
        yield point.build_fault(
            "no lengths of the full run",
            f"a mean between {least:g} and {most:g} tokens",
            file=file,
            severity=Severity.WARNING,
        )
    elif not least <= mean <= most:
        yield point.build_fault(
            f"{mean:.6g} tokens per turn", f"between {least:g} and {most:g}", file=file
        )

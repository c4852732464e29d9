"""The rate of a run of the Endpoints client, and what it rests on."""

from dataclasses import dataclass
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import ResultSummary
from suite.units import NS_PER_S

LEGACY_WINDOW: Final = "legacy_window"
WHOLE_RUN: Final = "whole_run"
MIN_NOTED_DIFFERENCE: Final = 0.01
"""Share by which the rates of window and whole run may differ without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsHeadline:
    """The figure of MLCommons' tables, and the same over the whole run."""

    metric: str
    unit: str
    value: float
    basis: str
    """The time that the figure is divided by: `legacy_window`, from the first issue to the end of
    the query issued last, or `whole_run`.
    """
    whole_run: float | None
    """The rate over the run's whole duration; None for latencies."""
    whole_answers_per_s: float | None
    """Answers per second that did not fail, over the whole duration."""
    late_tokens: float | None
    """Share of the rate that was produced after the window; None below a hundredth."""


def compute_whole_answers_per_s(summary: ResultSummary) -> float | None:
    """Return the answers per second that did not fail, over the whole duration; None if the summary
    lacks the values.
    """
    if not summary.duration_ns or summary.n_samples_completed is None:
        return None
    whole = summary.n_samples_completed - (summary.n_samples_failed or 0)
    return whole / (summary.duration_ns / NS_PER_S)


def compute_rate_headline(summary: ResultSummary, counts_tokens: bool) -> EndpointsHeadline | None:
    """Return the rate of tokens, or of queries; None if the summary lacks the values."""
    if not summary.duration_ns or summary.n_samples_completed is None:
        return None
    seconds = summary.duration_ns / NS_PER_S
    value = summary.tokens_per_s if counts_tokens else summary.queries_per_s
    if value is None:
        return None
    amount = float(summary.n_samples_completed)
    if counts_tokens:
        amount = float(summary.output_sequence_lengths.total or 0)
    whole = amount / seconds
    window = summary.legacy_loadgen_window_duration_ns
    late = 0.0
    if window and value:
        late = 1 - whole / value
    return EndpointsHeadline(
        metric="tokens_per_second" if counts_tokens else "samples_per_second",
        unit="tokens/s" if counts_tokens else "queries/s",
        value=float(value),
        basis=LEGACY_WINDOW if window else WHOLE_RUN,
        whole_run=whole,
        whole_answers_per_s=compute_whole_answers_per_s(summary),
        late_tokens=late if abs(late) > MIN_NOTED_DIFFERENCE else None,
    )

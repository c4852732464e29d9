"""Read the figure of an entry that was measured with the Endpoints client, and what it rests on."""

from dataclasses import dataclass
from typing import Final

from compliance.kinds.inference_mllog.documents.endpoints_entry import EndpointsEntry
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


def find_endpoints_headline(entry: EndpointsEntry) -> EndpointsHeadline | None:
    """Return the figure of an entry: tokens per second of a language model, else queries per
    second; in SingleStream the mean latency. None if its summary lacks the values.

    Source: mlcommons/inference, submission_checker, v6.1.
    """
    summary, model = entry.run.summary, entry.model
    if summary is None or not summary.duration_ns or summary.n_samples_completed is None:
        return None
    seconds = summary.duration_ns / NS_PER_S
    whole_answers = (summary.n_samples_completed - (summary.n_samples_failed or 0)) / seconds
    if entry.scenario == "SingleStream":
        mean = summary.latency.avg
        if mean is None:
            return None
        return EndpointsHeadline(
            metric="latency_mean",
            unit="ns",
            value=float(mean),
            basis=WHOLE_RUN,
            whole_run=None,
            whole_answers_per_s=whole_answers,
            late_tokens=None,
        )
    tokens = summary.output_sequence_lengths.total
    counts_tokens = bool(model and model.token_latencies) and tokens is not None
    if counts_tokens:
        value = summary.tokens_per_s
    else:
        value = summary.queries_per_s
    if value is None:
        return None
    whole = float((tokens or 0) if counts_tokens else summary.n_samples_completed) / seconds
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
        whole_answers_per_s=whole_answers,
        late_tokens=late if abs(late) > MIN_NOTED_DIFFERENCE else None,
    )

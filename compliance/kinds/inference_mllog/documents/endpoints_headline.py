"""Read the figure of an entry that was measured with the Endpoints client."""

from compliance.kinds.endpoints.documents.headline import (
    WHOLE_RUN,
    EndpointsHeadline,
    compute_rate_headline,
    compute_whole_answers_per_s,
)
from compliance.kinds.inference_mllog.documents.endpoints_entry import EndpointsEntry


def find_endpoints_headline(entry: EndpointsEntry) -> EndpointsHeadline | None:
    """Return the figure of an entry: tokens per second of a language model, else queries per
    second; in SingleStream the mean latency. None if its summary lacks the values.

    Source: mlcommons/inference, submission_checker, v6.1.
    """
    summary, model = entry.run.summary, entry.model
    if summary is None:
        return None
    whole_answers = compute_whole_answers_per_s(summary)
    if entry.scenario != "SingleStream":
        tokens = summary.output_sequence_lengths.total
        counts_tokens = bool(model and model.token_latencies) and tokens is not None
        return compute_rate_headline(summary, counts_tokens)
    mean = summary.latency.avg
    if mean is None or whole_answers is None:
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

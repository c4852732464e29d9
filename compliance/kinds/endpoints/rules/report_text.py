"""Compare the text of a run's report with its summary."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from compliance.kinds.endpoints.documents.report_text import StatedFigure
from compliance.kinds.endpoints.documents.result_summary import ResultSummary, get_series
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.units import NS_PER_MS, NS_PER_S

RUN_FIGURES: Final[Mapping[str, tuple[str, float]]] = {
    "Total samples issued": ("n_samples_issued", 1.0),
    "Total samples completed": ("n_samples_completed", 1.0),
    "Total samples failed": ("n_samples_failed", 1.0),
    "Duration": ("duration_ns", NS_PER_S),
    "QPS": ("qps", 1.0),
    "TPS": ("tps", 1.0),
}
"""Name in the text -> field of the summary, and what it is divided by."""
SERIES_FIGURES: Final[Mapping[str, str]] = {
    "Min": "min",
    "Max": "max",
    "Median": "median",
    "Avg.": "avg",
    "Std Dev.": "std_dev",
}
PERCENTILES: Final = "Percentiles"
PROVEN_PERCENTILES: Final = "Early-stopping percentile estimates"
TOKEN_SERIES: Final = ("output_sequence_lengths", "input_sequence_lengths")
DOUBLE_TOLERANCE: Final = 1e-9


@rule(
    "endpoints.report_text", EndpointsRun, About.SCORE, doubt="the figure, of which there are two"
)
def report_text(run: EndpointsRun) -> Iterator[Fault]:
    """If report.txt is beside the summary, its figures equal the summary's, in the digits that it
    prints. Missing and additional lines are ignored.

    Source: mlcommons/endpoints, metrics: the client prints the summary that it writes.
    Advice: put report.txt and summary of one run here, or leave report.txt out.
    """
    if run.summary is None or run.report_source is None:
        return
    for stated in run.report:
        value = find_summary_value(run.summary, stated)
        half = 0.5 * 10.0**-stated.digits
        if value is not None and abs(value - stated.value) > half + DOUBLE_TOLERANCE * abs(value):
            where = ", ".join(filter(None, (stated.series, stated.part, stated.name)))
            yield run.build_fault(
                f"{where}: {stated.value:.12g}",
                f"{value:.12g}, as in the summary",
                stated.line,
                file=run.report_source.path,
            )


def find_summary_value(summary: ResultSummary, stated: StatedFigure) -> float | None:
    """Return a figure of the text as the summary has it, in the text's unit; None if the summary
    has none of that name.
    """
    if not stated.series:
        field, scale = RUN_FIGURES.get(stated.name, ("", 1.0))
        value = getattr(summary, field, None)
        return None if value is None else value / scale
    series = get_series(summary, stated.series)
    value = None
    if not stated.part:
        value = getattr(series, SERIES_FIGURES.get(stated.name, ""), None)
    with suppress(ValueError):
        if stated.part == PERCENTILES:
            value = series.find_percentile(float(stated.name))
        elif stated.part == PROVEN_PERCENTILES:
            proven = series.early_stopping_percentiles or {}
            value = proven.get(f"{float(stated.name):.1f}")
    if value is None:
        return None
    return value / (1.0 if stated.series in TOKEN_SERIES else NS_PER_MS)

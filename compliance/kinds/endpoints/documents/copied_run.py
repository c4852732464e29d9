"""What tells a run of the Endpoints client from all others."""

import hashlib
from pathlib import Path
from typing import Final

from compliance.documents.submitted_runs import RunMark, SubmittedRun, TimeShape
from compliance.kinds.endpoints.documents.result_summary import ResultSummary, Series
from compliance.kinds.endpoints.documents.run import EndpointsRun

MAX_COMPARED_BYTES: Final = 1 << 22
COMPARED_SERIES: Final = ("latency", "ttft", "tpot", "output_sequence_lengths")
DIGEST_MARK: Final = "result"
TOTALS_MARK: Final = "totals"
EQUAL_MARKS: Final = frozenset({DIGEST_MARK, TOTALS_MARK})
"""In a submission of curves, endpoints.copied_run reports these."""
TIMED_SERIES: Final = ("latency", "ttft", "tpot")


def identify_client_run(run: EndpointsRun, organisation: str, system: str) -> SubmittedRun:
    """Return the digest of a run's summary, its totals, and the shape of its times."""
    marks, shape = [], None
    if run.summary is not None:
        content = read_compared_bytes(run.summary_source.path)
        if content:
            marks.append(RunMark(DIGEST_MARK, hashlib.sha256(content).hexdigest()))
        if totals := collect_totals(run.summary):
            marks.append(RunMark(TOTALS_MARK, totals))
        shape = describe_time_shape(run.summary)
    return SubmittedRun(
        file=run.summary_source.path,
        organisation=organisation,
        system=system,
        marks=marks,
        shape=shape,
    )


def read_compared_bytes(path: Path) -> bytes:
    """Read what is compared of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_COMPARED_BYTES)
    except OSError:
        return b""


def collect_totals(summary: ResultSummary) -> tuple[object, ...] | None:
    """Return the totals of a run, which no two runs share; None if it lacks one."""
    found = (summary.duration_ns, *(getattr(summary, name).total for name in COMPARED_SERIES))
    if None in found:
        return None
    return found


def describe_time_shape(summary: ResultSummary) -> TimeShape:
    """Return the shape of a run's times: the extremes and the mean of each series, beside the
    counts and lengths that a factor leaves as they are.
    """
    lengths = summary.output_sequence_lengths
    times = [
        float(value)
        for name in TIMED_SERIES
        for value in list_series_times(getattr(summary, name))
        if value
    ]
    counts = (summary.n_samples_issued, summary.n_samples_completed, lengths.total, len(times))
    return TimeShape(counts=counts, times=times)


def list_series_times(series: Series) -> list[float | int | None]:
    """List the times of a series that depend on single answers; 0 where nothing was measured."""
    return [series.min, series.max, series.median, series.total]

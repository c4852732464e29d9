"""Read the result summary and the final snapshot of the Endpoints client.

Source: mlcommons/endpoints, src/inference_endpoint/metrics; all times are nanoseconds.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from compliance.logs.source_file import SourceFile, read_json_document
from suite.units import NS_PER_S

Number = int | float


class Histogram(msgspec.Struct, frozen=True):
    """Buckets of equal width on a logarithmic scale, and the number of values in each."""

    buckets: tuple[tuple[Number, Number], ...] = ()
    counts: tuple[int, ...] = ()


class Series(msgspec.Struct, frozen=True):
    """Statistics of one measured value; every field is None, or empty, if nothing was measured."""

    total: Number | None = None
    min: Number | None = None
    max: Number | None = None
    median: Number | None = None
    avg: Number | None = None
    std_dev: Number | None = None
    percentiles: Mapping[str, Number] = {}
    early_stopping_percentiles: Mapping[str, Number | None] | None = None
    """Percentiles that LoadGen's early stopping proves; null where too few samples prove one."""
    histogram: Histogram = Histogram()

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.histogram.counts)

    def find_percentile(self, percent: float) -> float | None:
        """Return a percentile; builds of the client name it "90.0" or "90". None if it is
        missing.
        """
        for name, value in self.percentiles.items():
            with suppress(ValueError, OverflowError):
                if float(name) == percent:
                    return float(value)
        return None

    @property
    def statistics(self) -> Mapping[str, object]:
        """Every statistic that a series with values has; None, or empty, where it is missing."""
        return {
            "total": self.total,
            "min": self.min,
            "max": self.max,
            "median": self.median,
            "avg": self.avg,
            "std_dev": self.std_dev,
            "percentiles": self.percentiles or None,
            "histogram": self.histogram.counts or None,
        }


class LoadPattern(msgspec.Struct, frozen=True):
    """How requests were issued."""

    type: str | None = None
    target_qps: Number | None = None
    target_concurrency: int | None = None
    use_legacy_loadgen_qps_metrics: bool | None = None


class Warmup(msgspec.Struct, frozen=True):
    """Requests before the measurement."""

    enabled: bool | None = None
    salt: bool | None = None


class RunConfig(msgspec.Struct, frozen=True):
    """What the client says of its settings, in the summary."""

    load_pattern: LoadPattern = LoadPattern()
    warmup: Warmup = Warmup()
    scheduler_random_seed: int | None = None
    dataloader_random_seed: int | None = None


class FullRunLengths(msgspec.Struct, frozen=True):
    """Lengths of all turns of an agentic run, beside those of its window."""

    output_sequence_lengths: Series = Series()


class ResultSummary(msgspec.Struct, frozen=True):
    """`performance/result_summary.json`. Fields that some builds of the client lack are None."""

    version: str | None = None
    """Of the client, with the commit it was built from."""
    git_sha: str | None = None
    n_samples_issued: int | None = None
    n_samples_completed: int | None = None
    """Includes the failed ones."""
    n_samples_failed: int | None = None
    duration_ns: int | None = None
    """From the start of tracking to the last tracked completion."""
    state: str | None = None
    complete: bool | None = None
    ttft: Series = Series()
    tpot: Series = Series()
    latency: Series = Series()
    output_sequence_lengths: Series = Series()
    input_sequence_lengths: Series = Series()
    legacy_loadgen_window_duration_ns: int | None = None
    """From the first issue to the completion of the query that was issued last."""
    qps: Number | None = None
    tps: Number | None = None
    finish_reason_counts: Mapping[str, int] | None = None
    run_config: RunConfig = RunConfig()
    output_sequence_lengths_full_run: FullRunLengths | None = None
    system_tps: Number | None = None
    """Figures that a point of a curve may state; the client does not write them."""
    tps_per_user: Number | None = None
    system_tps_per_kw: Number | None = None
    e2e_avg_interactivity: Number | None = None
    output_tokens_per_turn_total: Number | None = None
    e2e_turn_time_seconds_total: Number | None = None

    @property
    def window_ns(self) -> int | None:
        """Nanoseconds that the client divides its rates by."""
        stated = self.legacy_loadgen_window_duration_ns
        if stated is None:
            return self.duration_ns
        return stated

    @property
    def queries_per_s(self) -> float | None:
        """Return the client's rate; older builds of it state none, and then it follows from counts
        and time. None if they are missing, too.
        """
        return compute_rate(self.qps, self.rated_queries, self.window_ns)

    @property
    def tokens_per_s(self) -> float | None:
        """Return the client's rate of tokens, or the rate by the lengths of all answers."""
        return compute_rate(self.tps, self.output_sequence_lengths.total, self.window_ns)

    @property
    def rated_queries(self) -> int | None:
        """Queries in the client's rate: the legacy window begins with the first one."""
        completed = self.n_samples_completed
        if completed is None or self.legacy_loadgen_window_duration_ns is None:
            return completed
        return completed - 1


def compute_rate(
    stated: Number | None, amount: Number | None, window_ns: int | None
) -> float | None:
    """Return a stated rate, or the amount per second of the window."""
    if stated is not None:
        return float(stated)
    if amount is None or not window_ns or window_ns < 0:
        return None
    return amount * NS_PER_S / window_ns


class SnapshotMetric(msgspec.Struct, frozen=True):
    """A counter or a series of the final snapshot."""

    type: str
    name: str
    value: Number | None = None
    count: int | None = None
    total: Number | None = None
    min: Number | None = None
    max: Number | None = None
    sum_sq: Number | None = None
    percentiles: Mapping[str, Number] = {}
    early_stopping_percentiles: Mapping[str, Number | None] | None = None
    histogram: tuple[tuple[tuple[Number, Number], int], ...] = ()


class FinalSnapshot(msgspec.Struct, frozen=True):
    """`metrics/final_snapshot.json`."""

    state: str | None = None
    n_pending_tasks: int | None = None
    metrics: tuple[SnapshotMetric, ...] = ()

    def find_metric(self, name: str) -> SnapshotMetric | None:
        """Return the metric of that name; None if there is none."""
        return next((each for each in self.metrics if each.name == name), None)


SUMMARY_DECODER: Final = msgspec.json.Decoder(ResultSummary)
SNAPSHOT_DECODER: Final = msgspec.json.Decoder(FinalSnapshot)
SNAPSHOT_SERIES: Final[Mapping[str, str]] = {
    "latency": "sample_latency_ns",
    "ttft": "ttft_ns",
    "tpot": "tpot_ns",
    "output_sequence_lengths": "osl",
    "input_sequence_lengths": "isl",
}
"""Series of the summary -> name in the snapshot."""


def read_result_summary(source: SourceFile) -> ResultSummary | None:
    """Read a summary; None with a parse error if that fails."""
    return read_json_document(source, SUMMARY_DECODER)


def read_final_snapshot(source: SourceFile) -> FinalSnapshot | None:
    """Read a snapshot; None with a parse error if that fails."""
    return read_json_document(source, SNAPSHOT_DECODER)


def get_series(summary: ResultSummary, name: str) -> Series:
    """Return a series of a summary by its name in the file."""
    found: Any = getattr(summary, name)
    if isinstance(found, Series):
        return found
    return Series()

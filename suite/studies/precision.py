"""The study of `podium precision`: `study.json` with a row for each engine and precision.

The harness writes it, and the judge recomputes it from the LoadGen runs that it names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final

from suite.loadgen.scenario import Scenario
from suite.terms import Precision

PRECISION_KIND: Final = "precision"
PRECISION_SCENARIOS: Final = (Scenario.OFFLINE, Scenario.SINGLE_STREAM)
"""Samples per second come from Offline, latencies from SingleStream."""
OFFLINE_RATE_KEY: Final = "result_samples_per_second"
OFFLINE_TOKENS_KEY: Final = "result_tokens_per_second"
"""Logged where LoadGen measures tokens."""
SHOWN_PERCENTILES: Final = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRow:
    """One engine in one precision."""

    engine: str
    precision: str
    system: str
    """Name of the system; empty if it could not be served."""
    accuracy: str = ""
    """Folder of the accuracy run, relative to the study's; empty if there is none."""
    offline: str = ""
    """Folder of Offline's performance run."""
    single_stream: str = ""
    """Folder of SingleStream's performance run."""
    scores: dict[str, float]
    difference: dict[str, float]
    """Score minus the checkpoint's reference accuracy; for a metric without one, minus the score of
    the first fp32 row.
    """
    samples_per_second: float | None
    """Offline."""
    tokens_per_second: float | None = None
    """Offline, of answers that are generated token by token."""
    latency_ns: dict[str, float]
    """SingleStream: p50, p90, p99."""
    speed_up: float | None
    """Relative to the first fp32 row."""
    compliant: bool
    why: str
    """Why the row is not compliant."""

    @property
    def performance_folders(self) -> Mapping[Scenario, str]:
        """Return the folder of each scenario's performance run."""
        return dict(zip(PRECISION_SCENARIOS, (self.offline, self.single_stream), strict=True))

    @property
    def organisation_folder(self) -> str:
        """Return the organisation's folder that the runs are in, relative to the study's."""
        return PurePosixPath(*PurePosixPath(self.accuracy).parts[:2]).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionStudy:
    """`study.json` of `podium precision`."""

    kind: str
    workload: str
    profile: str
    checkpoint_sha256: str
    reference: dict[str, float]
    """Reference accuracy of the checkpoint."""
    device: str
    threads: int
    settings: dict[str, Any]
    """Settings of every row that affect the system under test."""
    version: str
    """Version of podium."""
    finished: bool
    """False while the command is under way: rows may be missing."""
    rows: tuple[PrecisionRow, ...]


def read_latency_cells(value: Callable[[str], float]) -> dict[str, float]:
    """Return the latencies of a row from the numbers of SingleStream's detail log."""
    return {
        f"p{share}": value(f"result_{share}.00_percentile_latency_ns")
        for share in SHOWN_PERCENTILES
    }


def compare_with_fp32(
    rows: Sequence[PrecisionRow], reference: Mapping[str, float]
) -> tuple[PrecisionRow, ...]:
    """Compare scores with the reference, and every rate and the scores without a reference with the
    first fp32 row.
    """
    base = next(
        (row for row in rows if row.precision == Precision.FP32 and row.samples_per_second), None
    )
    known = {**(base.scores if base else {}), **reference}
    rate = base.samples_per_second if base else None
    return tuple(
        replace(
            row,
            difference={
                metric: value - known[metric]
                for metric, value in row.scores.items()
                if metric in known
            },
            speed_up=row.samples_per_second / rate if row.samples_per_second and rate else None,
        )
        for row in rows
    )

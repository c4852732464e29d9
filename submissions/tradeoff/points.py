"""The points of throughput against latency: what was measured, by whom and with what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.results.curves import ScoredCurve
from compliance.verdict import Finding, Severity
from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.records import EnergyRecord
from suite.result import Machine
from suite.served_identity import ServedIdentity
from suite.studies.measured import MeasuredStudy
from suite.studies.sweep import list_sweep_rows
from suite.units import MS_PER_S, NS_PER_MS, W_PER_KW

BATCH_LATENCY: Final = "mean latency of a query"
TOKEN_LATENCY: Final = "time per token of a user"
CPU_DEVICE: Final = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """One system, engine, precision and batch: its throughput and its latency."""

    group: tuple[str, ...]
    """What points of one figure share: the subject, then rules, profile and division, or data."""
    source: str
    """Path of its study, its results or its curve, as given."""
    system: str
    """With the organisation, if the results state one."""
    machine: Machine
    hardware: str
    """The machine in words: its accelerators, or its processors without any."""
    engine: str
    precision: str
    batch: int | None
    """Samples per query of a sweep's row."""
    rate: float
    rate_unit: str
    low: float | None
    high: float | None
    """Ends of the rate's 95 % interval; None if there is none."""
    latency_ms: float
    latency: str
    """Which latency it is."""
    priced_names: tuple[str, ...]
    """Names by which a file of prices may know the system."""
    energy: tuple[EnergyRecord, ...] = ()
    in_flight: int | None = None
    """Requests in flight of a curve's point."""
    provisioned_w: float | None = None
    """Of a submission to MLPerf Endpoints, which states it in place of readings."""
    compliant: bool = True


def iterate_study_points(
    folder: Path, study: MeasuredStudy, findings: Sequence[Finding]
) -> Iterator[MeasuredPoint]:
    """Yield the rows of a sweep; none of them counts if the judge found an error in it."""
    broken = any(
        each.severity is Severity.ERROR and Path(each.file).is_relative_to(folder)
        for each in findings
    )
    subject, bare = study.subject, study.request.bare
    for row in list_sweep_rows(study):
        if not row.samples_per_second or not row.mean_latency_ns:
            continue
        yield MeasuredPoint(
            group=(subject.workload, "bare network" if bare else subject.profile),
            source=str(folder),
            system=subject.system,
            machine=Machine(accelerators=0 if subject.device == CPU_DEVICE else 1),
            hardware=describe_study_hardware(study),
            engine=row.engine,
            precision=row.precision,
            batch=row.batch,
            rate=row.samples_per_second,
            rate_unit=SAMPLE_RATE_UNIT,
            low=row.low,
            high=row.high,
            latency_ms=row.mean_latency_ns / NS_PER_MS,
            latency=BATCH_LATENCY,
            priced_names=(row.folder.partition("/")[0], subject.system),
            energy=row.energy,
            compliant=not broken,
        )


def describe_study_hardware(study: MeasuredStudy) -> str:
    """Describe the device of a sweep: the processors, if it is none of its own."""
    device, machine = study.subject.device, study.record.machine
    if device != CPU_DEVICE or not machine.processor:
        return device
    count = f"{machine.processors} x " if machine.processors else ""
    return f"{count}{machine.processor}"


def iterate_curve_points(curve: ScoredCurve) -> Iterator[MeasuredPoint]:
    """Yield the points of a curve with a fixed number of requests in flight: the time per token is
    the inverse of a user's speed.
    """
    for point in curve.points:
        if not (point.is_fixed and point.system_tps and point.tps_per_user):
            continue
        interval = point.intervals.get("system_tps")
        yield MeasuredPoint(
            group=(curve.model, curve.round, curve.data_set, curve.division),
            source=curve.path,
            system=" ".join(filter(None, (curve.org, curve.system))),
            machine=curve.machine,
            hardware=str(curve.machine),
            engine=(curve.served or ServedIdentity()).engine.value,
            precision=curve.precision or "",
            batch=None,
            in_flight=point.concurrency,
            rate=point.system_tps,
            rate_unit=TOKEN_RATE_UNIT,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            latency_ms=MS_PER_S / point.tps_per_user,
            latency=TOKEN_LATENCY,
            priced_names=(curve.system, curve.machine.accelerator or ""),
            provisioned_w=None if curve.kw is None else curve.kw * W_PER_KW,
            compliant=point.compliant and not curve.failed_rules,
        )

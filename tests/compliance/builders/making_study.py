"""Makes a small study: two batch sizes of a bare network, as `podium sweep` writes it."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy
from kinds.records import SECOND_NS, telemetry
from making import LOADS, write_run
from spoiling import setting

from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE, RUN_RECORD, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario
from suite.records import (
    RunRecord,
    locate_system_folder,
    read_served_run,
    write_record,
    write_system_record,
)
from suite.studies.batch_loop import build_batch_settings
from suite.studies.documents import STUDIES_FOLDER, StudyMachine
from suite.studies.records import (
    FailedPoint,
    PointRecord,
    SavedRequest,
    StudyRecord,
    write_point_record,
    write_study_record,
)
from suite.studies.sweep import AGAIN, BATCH, SWEEP_KIND, SweepPoint, SweepRequest

LOAD: Final = LOADS[Scenario.MULTI_STREAM]
SYSTEM: Final = "box-torch-fp32"
SECONDS: Final = LOAD.row.min_duration_ms / 1000
BATCH_SIZE: Final = LOAD.samples_per_query
REQUEST: Final = SweepRequest(
    engines=("torch",),
    precisions=("fp32",),
    batches=(BATCH_SIZE, 4096),
    seconds=SECONDS,
    seed=0,
    within_ms=20.0,
    bare=True,
    scored=False,
    reference={},
)
STRIDE: Final = 331
"""Mixes the latencies of a run, so that its ten parts are alike."""
FIRST_QUERY_NS: Final = 2_000_000_000
"""When the first query is issued, by the monotonic clock: a second after telemetry begins."""
TELEMETRY_UTC_NS: Final = 1_700_000_040_000_000_000
UNSAMPLED: Final = {"effective_accuracy_log_sampling_target": 0}


def build_point(purpose: str, batch: int = BATCH_SIZE) -> SweepPoint:
    """A point of the only series."""
    return SweepPoint(
        engine="torch", precision="fp32", purpose=purpose, batch=batch, seconds=SECONDS
    )


def write_point(folder: Path, step_ns: int, number: int, purpose: str, repeat: int = 1) -> None:
    """One run of eight samples a query, with the record of the point and of its queries."""
    load = replace(LOAD, step_ns=step_ns)
    write_run(folder, load, "performance")
    for key, value in UNSAMPLED.items():
        setting(key, value)(folder / DETAIL_LOG)
    served = read_served_run(folder)
    system = replace(
        served.system,
        workload="toy",
        checkpoint_sha256="random, seed 0",
        settings={**served.system.settings, **build_batch_settings(BATCH_SIZE)},
    )
    (locate_system_folder(folder) / "system.json").unlink()
    write_system_record(folder, system)
    record: RunRecord = replace(served.record, system_sha256=system.compute_digest())
    write_record(folder / RUN_RECORD, record)
    point = asdict(build_point(purpose))
    seconds = 1 + sum(load.latencies) / SECOND_NS
    saved = PointRecord(number=number, repeat=repeat, point=point, seconds=seconds)
    write_point_record(folder, saved)
    write_queries(folder, load.latencies)


def write_queries(folder: Path, latencies_ns: Any) -> None:
    """The record of the queries of a run, and its telemetry."""
    count = len(latencies_ns)
    latencies = numpy.array(latencies_ns, "i8")[numpy.arange(count) * STRIDE % count]
    rows = numpy.zeros(
        count, [("issued_ns", "<i8"), ("done_ns", "<i8"), ("batch", "<u4"), ("samples", "<u4")]
    )
    rows["done_ns"] = FIRST_QUERY_NS + numpy.cumsum(latencies)
    rows["issued_ns"] = rows["done_ns"] - latencies
    rows["batch"], rows["samples"] = range(count), BATCH_SIZE
    numpy.save(folder / QUERY_RECORD_FILE, rows)
    seconds = int(rows["done_ns"].max()) // SECOND_NS
    (folder / TELEMETRY_FILE).write_text(telemetry(SECOND_NS, TELEMETRY_UTC_NS, seconds))


def write_study(root: Path, repeats: Sequence[float] = (1.0,)) -> Path:
    """A study of one batch size, measured at its beginning and again at its end, and of one that
    does not fit into memory; each run's latencies rise so many times as fast as LOAD's.
    """
    folder = root / STUDIES_FOLDER / "toy"
    places = []
    for purpose, ending, later_ns in ((BATCH, "", 0), (AGAIN, "-again", 100)):
        for repeat, longer in enumerate(repeats, 1):
            further = "" if repeat == 1 else f"-run-{repeat}"
            places.append(f"{SYSTEM}/batch-{BATCH_SIZE}{ending}{further}")
            step_ns = int(longer * LOAD.step_ns) + later_ns
            write_point(folder / places[-1], step_ns, len(places), purpose, repeat)
    failed = FailedPoint(
        point=asdict(build_point(BATCH, 4096)),
        why="engine torch: memory does not suffice for a batch of 4096",
    )
    record = StudyRecord(
        kind=SWEEP_KIND,
        origin="random weights, seed 0",
        requests=(SavedRequest(request=asdict(REQUEST), repeats=len(repeats)),),
        runs=tuple(places),
        machine=StudyMachine(
            processor="AMD EPYC",
            processors=1,
            packages={"torch": "2.13.0"},
            commands=(("podium", "sweep", "--network", "toy"),),
        ),
        failed=(failed,),
    )
    write_study_record(folder, record)
    return folder

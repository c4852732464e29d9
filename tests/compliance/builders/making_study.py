"""Makes a small study: two batch sizes of a bare network, as `podium sweep` writes it."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy
from kinds.records import SECOND_NS, telemetry
from making import LOADS, write_run

from suite.files.json_files import write_json
from suite.files.layout import (
    ACCURACY_TEXT,
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    SYSTEM_RECORD,
    TELEMETRY_FILE,
)
from suite.loadgen.scenario import Scenario
from suite.studies.documents import (
    POINT_FILE,
    STUDIES_FOLDER,
    STUDY_FILE,
    PointIdentity,
    RateDrift,
    RequestedPoints,
    Study,
    StudyMachine,
    StudyRow,
    SweepRequest,
    build_batch_settings,
    compute_part_means,
    compute_rate_interval,
    compute_row_cells,
    order_sweep_points,
    select_best_batches,
)

LOAD: Final = LOADS[Scenario.MULTI_STREAM]
SYSTEM: Final = "box-torch-fp32"
SECONDS: Final = 5.0
SHARED: Final[dict[str, Any]] = {
    "subject": "toy",
    "bare": True,
    "weights": "random, seed 0",
    "profile": None,
    "device": "cpu",
    "threads": 2,
    "seconds": SECONDS,
    "version": "0.1.0",
}


AXES: Final[dict[str, Any]] = {"engines": ("torch",), "precisions": ("fp32",), "batches": (8, 4096)}
SETTINGS: Final[dict[str, Any]] = {"engine.compile": False}
STRIDE: Final = 331
"""Mixes the latencies of a run, so that its ten parts are alike."""
FIRST_QUERY_NS: Final = 2_000_000_000
"""When the first query is issued, by the monotonic clock: a second after telemetry begins."""
TELEMETRY_UTC_NS: Final = 1_700_000_040_000_000_000


def write_point(folder: Path, step_ns: int) -> tuple[StudyRow, list[int]]:
    """One run of eight samples a query, with the record of the point and of its queries; the row
    that it makes.
    """
    load = replace(LOAD, step_ns=step_ns)
    write_run(folder, load, "performance")
    (folder / RUN_RECORD).unlink()
    (folder.parent / SYSTEM_RECORD).unlink()
    batch = load.samples_per_query
    point = PointIdentity(
        **SHARED,
        engine="torch",
        precision="fp32",
        framework="torch",
        batch=batch,
        settings={**SETTINGS, **build_batch_settings(batch)},
        system="box",
    )
    write_json(folder / POINT_FILE, asdict(point))
    latencies = numpy.array(load.latencies, "i8")[
        numpy.arange(load.queries) * STRIDE % load.queries
    ]
    rows = numpy.zeros(
        load.queries,
        [("issued_ns", "<i8"), ("done_ns", "<i8"), ("batch", "<u4"), ("samples", "<u4")],
    )
    rows["done_ns"] = FIRST_QUERY_NS + numpy.cumsum(latencies)
    rows["issued_ns"] = rows["done_ns"] - latencies
    rows["batch"], rows["samples"] = range(load.queries), batch
    numpy.save(folder / QUERY_RECORD_FILE, rows)
    seconds = int(rows["done_ns"].max()) // SECOND_NS
    (folder / TELEMETRY_FILE).write_text(telemetry(SECOND_NS, TELEMETRY_UTC_NS, seconds))
    low, high = compute_rate_interval(compute_part_means(latencies), batch)
    facts = read_facts(folder)
    place = f"{SYSTEM}/{folder.name}"
    return (
        StudyRow(
            engine="torch",
            precision="fp32",
            batch=batch,
            folder=place,
            low=low,
            high=high,
            **compute_row_cells(facts.__getitem__, batch),
        ),
        load.latencies,
    )


def read_facts(folder: Path) -> dict[str, float]:
    """Key of the detail log -> value."""
    import json

    records = [
        json.loads(line.partition(" ")[2])
        for line in (folder / DETAIL_LOG).read_text().splitlines()
    ]
    return {record["key"]: record["value"] for record in records}


def write_study(root: Path) -> Path:
    """A study of one batch size, measured twice."""
    folder = root / STUDIES_FOLDER / "toy"
    row, _ = write_point(folder / SYSTEM / "batch-8", LOAD.step_ns)
    again, _ = write_point(folder / SYSTEM / "batch-8-again", LOAD.step_ns + 100)
    assert (
        row.samples_per_second
        and again.samples_per_second
        and not (folder / ACCURACY_TEXT).exists()
    )
    drift = RateDrift(
        engine="torch",
        precision="fp32",
        batch=8,
        folder=again.folder,
        samples_per_second=again.samples_per_second,
        change=again.samples_per_second / row.samples_per_second - 1,
    )
    refused = StudyRow(
        engine="torch",
        precision="fp32",
        batch=4096,
        folder="",
        why="engine torch: memory does not suffice for a batch of 4096",
    )
    rows = (row, refused)
    study = Study(
        kind="sweep",
        machine=StudyMachine(
            processor="AMD EPYC",
            processors=1,
            packages={"torch": "2.13.0"},
            commands=(("podium", "sweep", "--network", "toy"),),
        ),
        **SHARED,
        system="box",
        seed=0,
        within_ms=20.0,
        rows=rows,
        drift=(drift,),
        best=select_best_batches(rows, 20.0),
        command=SweepRequest(
            subjects=("toy",), **AXES, order=order_sweep_points(("toy",), **AXES, seed=0)
        ),
        asked=(
            RequestedPoints(
                engine="torch",
                precision="fp32",
                framework="torch",
                batches=AXES["batches"],
                settings=SETTINGS,
            ),
        ),
    )
    write_json(folder / STUDY_FILE, asdict(study))
    return folder

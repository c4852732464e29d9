"""Makes a small A/B, as `podium ab` writes it: two sides in turn until it is decided."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from making import LOADS, RESNET50, entry_of, write_run, write_truth
from making_rates import write_search
from making_study import write_queries

from suite.ab.runs import AbFigures
from suite.ab.sides import AB_KIND, AbPoint, AbRequest, AbSide
from suite.ab.study import AB
from suite.files.layout import RUN_RECORD, ResultsEntry
from suite.loadgen.scenario import Scenario
from suite.records import (
    locate_system_folder,
    read_served_run,
    write_record,
    write_system_record,
)
from suite.rounds.settings import GLOBAL_BATCH_SIZE
from suite.studies.documents import STUDIES_FOLDER, STUDY_TRUTH_FOLDER
from suite.studies.measured import read_measured_run
from suite.studies.points import MeasuredRun, collect_points
from suite.studies.records import PointRecord, write_point_record
from suite.workload import Mode

LOAD: Final = LOADS[Scenario.OFFLINE]
STEP_LOAD: Final = LOADS[Scenario.MULTI_STREAM]
RUN_MS: Final = 10_000.0
"""From the start of a run to that of the next one."""
RUN_S: Final = 9.0
WOBBLE: Final = (1.0, 1.004, 0.998, 1.002, 0.996)
"""What equal runs differ by, in turn."""
SPEEDS: Final = {"a": 1.0, "b": 1.25}


def build_request(minutes: float = 10.0) -> AbRequest:
    """Two values of a variable, in the embedded data."""
    side = AbSide(named=(), options={"engine": "torch", "threads": "2"})
    return AbRequest(
        a=side,
        b=replace(side, named=("env.ACME_FAST=1",), environment={"ACME_FAST": "1"}),
        workload="resnet50",
        profile="smoke",
        scenario="offline",
        shared=(),
        difference=0.03,
        alpha=0.05,
        power=0.8,
        seed=7,
        minutes=minutes,
        seconds=LOAD.row.min_duration_ms / 1000,
        accuracy=True,
    )


def build_training_request() -> AbRequest:
    """The same of optimizer steps."""
    asked = build_request()
    options = {"threads": "2"}
    return replace(
        asked,
        a=replace(asked.a, options=options),
        b=replace(asked.b, options=options),
        scenario=Scenario.MULTI_STREAM.value,
        seconds=STEP_LOAD.row.min_duration_ms / 1000,
        accuracy=False,
        training=True,
    )


def write_ab(
    root: Path,
    request: AbRequest | None = None,
    speed: Callable[[AbPoint, int], float] | None = None,
) -> Path:
    """An A/B to its end: B is a quarter faster, unless `speed` says else of a run and its
    number.
    """
    folder, asked = root / STUDIES_FOLDER / "resnet50-ab", request or build_request()
    if not asked.training:
        write_truth(folder / STUDY_TRUTH_FOLDER)
    runs: list[MeasuredRun[AbPoint, AbFigures]] = []
    while (point := AB.choose_next_point(asked, collect_points(AB, runs))) is not None:
        number = len(runs) + 1
        factor = (speed or steady)(point, number)
        place = write_side_run(folder, asked, point, number, factor)
        runs.append(read_measured_run(AB, asked, folder, place))
    write_search(folder, asked, [each.folder for each in runs], AB_KIND)
    return folder


def steady(point: AbPoint, number: int) -> float:
    """The speed of a side on a machine that does not drift."""
    return SPEEDS[point.side] * WOBBLE[number % len(WOBBLE)]


def write_side_run(
    folder: Path, request: AbRequest, point: AbPoint, number: int, factor: float
) -> str:
    """One run of a side at so many times the usual speed; its place."""
    planned = AB.describe_run(request, point)
    where = entry_of(folder, planned.name_system(""))
    place = folder / where.system / AB.name_point(point)
    load = replace(
        LOADS[planned.scenario],
        subject=RESNET50,
        lowest_ns=round(LOAD.lowest_ns / factor),
        begin_ms=number * RUN_MS - (20_000.0 if planned.mode is Mode.ACCURACY else 0.0),
    )
    if planned.is_training:
        write_step_run(place, number, factor, where)
    else:
        write_run(place, load, planned.mode.value, where)
    record = PointRecord(number=number, repeat=1, point=asdict(point), seconds=RUN_S)
    write_point_record(place, record)
    return place.relative_to(folder).as_posix()


def write_step_run(place: Path, number: int, factor: float, where: ResultsEntry) -> None:
    """One run of optimizer steps at so many times the usual speed."""
    load = replace(
        STEP_LOAD,
        lowest_ns=round(STEP_LOAD.lowest_ns / factor),
        step_ns=round(STEP_LOAD.step_ns / factor),
        begin_ms=number * RUN_MS,
    )
    write_run(place, load, Mode.PERFORMANCE.value, where)
    served = read_served_run(place)
    batch = {GLOBAL_BATCH_SIZE: load.samples_per_query}
    system = replace(
        served.system,
        checkpoint_sha256="",
        nonce="",
        settings={**served.system.settings, **batch},
    )
    write_system_record(locate_system_folder(place), system)
    write_record(place / RUN_RECORD, replace(served.record, system_sha256=system.compute_digest()))
    write_queries(place, load.latencies)

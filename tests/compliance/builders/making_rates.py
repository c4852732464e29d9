"""Makes small studies of rates, as `podium peak` and `podium infer --weights` write them: a search
to its end, and one VALID Server run.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy
from making import LOADS, Load, load_of, write_run
from making_llama import build_llama_subject
from making_tokens import STRIDE
from spoiling import setting

from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE
from suite.loadgen.scenario import Scenario
from suite.studies.documents import STUDIES_FOLDER, StudyMachine
from suite.studies.measured import read_measured_run
from suite.studies.peak import PEAK, PeakFigures, PeakStep
from suite.studies.peak_search import find_most_over
from suite.studies.points import MeasuredRun, collect_points
from suite.studies.precision_rows import PrecisionRequest
from suite.studies.rates import (
    PEAK_KIND,
    PeakRequest,
)
from suite.studies.records import (
    PointRecord,
    SavedRequest,
    StudyRecord,
    write_point_record,
    write_study_record,
)
from suite.studies.speed import SPEED_KIND, SpeedPoint, SpeedRequest

LOAD: Final = LOADS[Scenario.SERVER]
PERCENTILE: Final = 99.0
HALF: Final = 84.0
"""Queries/s at which one query in a hundred is late."""
AT_MS: Final = 100_000.0


def write_server(folder: Path, load: Load = LOAD) -> None:
    """One Server run with the record of its queries."""
    write_run(folder, load, "performance")
    latencies = issued(load)
    rows = numpy.zeros(
        load.queries,
        [("issued_ns", "<i8"), ("done_ns", "<i8"), ("batch", "<u4"), ("samples", "<u4")],
    )
    rows["issued_ns"] = numpy.arange(load.queries) * 12_000_000
    rows["done_ns"] = rows["issued_ns"] + latencies
    rows["batch"], rows["samples"] = range(load.queries), 1
    numpy.save(folder / QUERY_RECORD_FILE, rows)


def issued(load: Load) -> "numpy.ndarray[Any, numpy.dtype[numpy.int64]]":
    """The latencies in order of issue: late ones all over the run."""
    return numpy.array(load.latencies, "i8")[numpy.arange(load.queries) * STRIDE % load.queries]


def loaded(rate: float, number: int) -> tuple[Load, int]:
    """A run at a rate: the share of late queries rises with its fortieth power, and is one in a
    hundred at HALF; the run, and how many are late.
    """
    load = replace(LOAD, rate=rate, begin_ms=AT_MS + number * 20_000.0)
    queries = load.plan(performance=True).queries
    late = round(queries * 0.01 * (rate / HALF) ** 40)
    bound_ns = load.row.bound_ns or 0
    return (
        replace(
            load, queries=queries, step_ns=int((bound_ns - load.lowest_ns) / (queries - late - 0.5))
        ),
        late,
    )


def write_peak(root: Path) -> Path:
    """A search to its end: VALID and INVALID runs, each the step that follows from those before
    it.
    """
    folder = root / STUDIES_FOLDER / "resnet50-peak"
    request = PeakRequest(
        scenario="Server",
        percentile=PERCENTILE,
        bound_ns=LOAD.row.bound_ns or 0,
        of_round=True,
        min_queries=LOAD.row.min_queries,
        min_duration_ms=LOAD.row.min_duration_ms,
        tolerance=0.1,
        seen=90.0,
        budget_s=600.0,
    )
    runs: list[MeasuredRun[PeakStep, PeakFigures]] = []
    while (step := PEAK.choose_next_point(request, collect_points(PEAK, runs))) is not None:
        assert step.full
        place = write_trial(folder, step)
        runs.append(read_measured_run(PEAK, request, folder, place))
    assert {run.figures.verdict for run in runs} == {"VALID", "INVALID"}
    write_search(folder, request, [run.folder for run in runs])
    return folder


def write_search(
    folder: Path,
    request: PeakRequest | SpeedRequest | PrecisionRequest,
    places: Sequence[str],
    kind: str = PEAK_KIND,
    origin: str = "",
) -> None:
    """The record of a search, or of another kind."""
    record = StudyRecord(
        kind=kind,
        origin=origin,
        requests=(SavedRequest(request=asdict(request)),),
        runs=tuple(places),
        machine=StudyMachine(processor="", processors=2, packages={}, commands=()),
    )
    write_study_record(folder, record)


def write_token_peak(root: Path) -> Path:
    """A search within bounds of tokens that a VALID run of Llama has begun."""
    subject = build_llama_subject()
    load = replace(load_of(Scenario.SERVER, subject), begin_ms=AT_MS)
    folder = root / STUDIES_FOLDER / "llama-peak"
    place = "box-torch-fp32/trial-01"
    write_run(folder / place, load, "performance")
    request = PeakRequest(
        scenario="Server",
        percentile=load.row.percentile,
        bound_ns=load.row.first_token_ns or 0,
        of_round=True,
        min_queries=load.row.min_queries,
        min_duration_ms=load.row.min_duration_ms,
        tolerance=0.1,
        seen=90.0,
        per_token_ns=load.row.per_token_ns,
        budget_s=600.0,
    )
    write_step(folder / place, PeakStep(number=1, rate=load.rate, queries=load.queries, full=True))
    write_search(folder, request, [place])
    return folder


def write_step(folder: Path, step: PeakStep) -> None:
    """The record of a run of a search."""
    record = PointRecord(number=step.number, repeat=1, point=asdict(step), seconds=6.0)
    write_point_record(folder, record)


def write_trial(folder: Path, step: PeakStep) -> str:
    """One full run of a search; its place."""
    place = f"box-torch-fp32/{PEAK.name_point(step)}"
    load, late = loaded(step.rate, step.number - 1)
    write_server(folder / place, load)
    verdict = "VALID" if late <= find_most_over(load.queries, PERCENTILE) else "INVALID"
    setting("result_validity", verdict)(folder / place / DETAIL_LOG)
    write_step(folder / place, step)
    return place


def write_speed(root: Path) -> Path:
    """Speed alone of random weights."""
    folder = root / STUDIES_FOLDER / "resnet50-speed"
    place = "box-torch-fp32/server"
    write_server(folder / place)
    point = SpeedPoint(scenario="Server", samples_per_query=1, equal_issue=False)
    record = PointRecord(number=1, repeat=1, point=asdict(point), seconds=6.0)
    write_point_record(folder / place, record)
    request = SpeedRequest(points=(point,), settings={})
    write_search(folder, request, [place], SPEED_KIND, "random, seed 0")
    return folder

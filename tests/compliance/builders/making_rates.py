"""Makes small studies of rates, as `podium peak` and `podium infer --weights` write them: one VALID Server run each."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec
import numpy
from making import LOADS, SHA256, write_run
from making_study import read_facts

from suite.files.layout import QUERIES, RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord, write_json
from suite.studies.documents import STUDIES, STUDY
from suite.studies.rates import NOT_SUBMITTABLE, PEAK, RUN, SPEED, TRIAL, Peak, Sought, Speed, SpeedRow, Stamps, Trial, TrialRecord, answer_of, counted

LOAD: Final = LOADS[Scenario.SERVER]
PERCENTILE: Final = 99.0


def write_server(folder: Path) -> RunRecord:
    """One Server run with the record of its queries; what podium records of it."""
    write_run(folder, LOAD, "performance")
    latencies = numpy.array(LOAD.latencies, "i8")
    rows = numpy.zeros(LOAD.queries, [("issued_ns", "<i8"), ("done_ns", "<i8"), ("batch", "<u4"), ("samples", "<u4")])
    rows["issued_ns"] = numpy.arange(LOAD.queries) * 12_000_000
    rows["done_ns"] = rows["issued_ns"] + latencies
    rows["batch"], rows["samples"] = range(LOAD.queries), 1
    numpy.save(folder / QUERIES, rows)
    return msgspec.json.decode((folder / RUN_RECORD).read_bytes(), type=RunRecord)


def stamps_of(run: RunRecord, origin: str = "") -> Stamps:
    """What a run's record says of system and weights."""
    names = ("workload", "profile", "engine", "precision", "framework", "device", "threads", "system", "version")
    return Stamps(checkpoint_sha256=SHA256, origin=origin, **{name: getattr(run, name) for name in names})


def write_peak(root: Path) -> Path:
    """A search that was at its end with its first run: the rate above it was never asked for."""
    folder = root / STUDIES / "resnet50-peak"
    place = "box/trial-01"
    run = write_server(folder / place)
    facts, bound_ns = read_facts(folder / place), LOAD.row.bound_ns or 0
    sought = Sought(
        scenario="Server", percentile=PERCENTILE, bound_ns=bound_ns, of_round=True, min_queries=LOAD.row.min_queries,
        min_duration_ms=LOAD.row.min_duration_ms, tolerance=0.02, seen=166.0,
    )  # fmt: skip
    _, over, scatter = counted(numpy.array(LOAD.latencies), bound_ns, 0)
    trial = Trial(
        folder=place, purpose=RUN, rate=LOAD.rate, queries=LOAD.queries, over=over, dispersion=scatter,
        latency_ns=facts["result_99.00_percentile_latency_ns"], verdict="VALID", seconds=6.0,
    )  # fmt: skip
    stamps = stamps_of(run)
    write_json(folder / place / TRIAL, asdict(TrialRecord(stamps=stamps, sought=sought, settings={}, trial=trial)))
    write_json(folder / STUDY, asdict(Peak(kind=PEAK, stamps=stamps, sought=sought, trials=(trial,), answer=answer_of(sought, [trial]))))
    return folder


def write_speed(root: Path) -> Path:
    """Speed alone of random weights."""
    folder = root / STUDIES / "resnet50-speed"
    place = "open/org/results/box/resnet50/Server/performance/run_1"
    run = write_server(folder / place)
    row = SpeedRow(scenario=run.scenario, folder=place, verdict=run.verdict, metric=run.metric, value=run.value)
    write_json(folder / STUDY, asdict(Speed(kind=SPEED, note=NOT_SUBMITTABLE, stamps=stamps_of(run, "random, seed 0"), rows=(row,))))
    return folder

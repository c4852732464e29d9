"""Makes small studies of rates, as `podium peak` and `podium infer --weights` write them: a search
to its end, and one VALID Server run.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy
from making import LOADS, SHA256, Load, load_of, write_run
from making_llama import build_llama_subject
from making_study import read_facts
from making_tokens import STRIDE
from spoiling import setting

from suite.files.json_files import write_json
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE, RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.studies.peak_search import find_most_over
from suite.studies.rates import (
    NOT_SUBMITTABLE,
    PEAK_KIND,
    RATE_ATTEMPT_FILE,
    RUN_PURPOSE,
    SPEED_KIND,
    PeakRequest,
    PeakStudy,
    RateAttempt,
    RateAttemptRecord,
    SpeedRow,
    SpeedStudy,
    StudyStamps,
    build_peak_aim,
    build_run_observation,
    compute_peak_answer,
    count_queries_over_bound,
    replay_peak_search,
    select_latency_keys,
)

LOAD: Final = LOADS[Scenario.SERVER]
PERCENTILE: Final = 99.0
HALF: Final = 84.0
"""Queries/s at which one query in a hundred is late."""
AT_MS: Final = 100_000.0


def write_server(folder: Path, load: Load = LOAD) -> RunRecord:
    """One Server run with the record of its queries; what podium records of it."""
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
    return msgspec.json.decode((folder / RUN_RECORD).read_bytes(), type=RunRecord)


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


def stamps_of(run: RunRecord, origin: str = "") -> StudyStamps:
    """What a run's record says of system and weights."""
    names = (
        "workload",
        "profile",
        "engine",
        "precision",
        "framework",
        "device",
        "threads",
        "system",
        "version",
    )
    return StudyStamps(
        checkpoint_sha256=SHA256, origin=origin, **{name: getattr(run, name) for name in names}
    )


def write_peak(root: Path) -> Path:
    """A search to its end: VALID and INVALID runs, each the step that follows from those before
    it.
    """
    folder = root / STUDIES_FOLDER / "resnet50-peak"
    sought = PeakRequest(
        scenario="Server",
        percentile=PERCENTILE,
        bound_ns=LOAD.row.bound_ns or 0,
        of_round=True,
        min_queries=LOAD.row.min_queries,
        min_duration_ms=LOAD.row.min_duration_ms,
        tolerance=0.1,
        seen=90.0,
    )
    trials: list[RateAttempt] = []
    stamps: StudyStamps | None = None
    while (
        step := replay_peak_search(
            build_peak_aim(sought), list(map(build_run_observation, trials))
        ).choose_next_run()
    ) is not None:
        assert step.full
        trial, record = write_trial(folder, sought, float(f"{step.rate:.6g}"), len(trials))
        stamps = stamps_of(record)
        write_json(
            folder / trial.folder / RATE_ATTEMPT_FILE,
            asdict(RateAttemptRecord(stamps=stamps, sought=sought, settings={}, trial=trial)),
        )
        trials.append(trial)
    assert stamps and {trial.verdict for trial in trials} == {"VALID", "INVALID"}
    write_json(
        folder / STUDY_FILE,
        asdict(
            PeakStudy(
                kind=PEAK_KIND,
                stamps=stamps,
                sought=sought,
                trials=tuple(trials),
                answer=compute_peak_answer(sought, trials),
            )
        ),
    )
    return folder


def write_token_peak(root: Path) -> Path:
    """A search within bounds of tokens that a VALID run of Llama has begun."""
    subject = build_llama_subject()
    load = replace(load_of(Scenario.SERVER, subject), begin_ms=AT_MS)
    folder = root / STUDIES_FOLDER / "llama-peak"
    place = "box-torch-fp32/trial-01"
    write_run(folder / place, load, "performance")
    run = msgspec.json.decode((folder / place / RUN_RECORD).read_bytes(), type=RunRecord)
    facts = read_facts(folder / place)
    sought = PeakRequest(
        scenario="Server",
        percentile=load.row.percentile,
        bound_ns=load.row.first_token_ns or 0,
        of_round=True,
        min_queries=load.row.min_queries,
        min_duration_ms=load.row.min_duration_ms,
        tolerance=0.1,
        seen=90.0,
        per_token_ns=load.row.per_token_ns,
    )
    latency_key, token_key = select_latency_keys(sought)
    trial = RateAttempt(
        folder=place,
        purpose=RUN_PURPOSE,
        rate=load.rate,
        queries=load.queries,
        over=0,
        dispersion=1.0,
        latency_ns=facts[latency_key],
        verdict="VALID",
        seconds=6.0,
        per_token_ns=facts[token_key or ""],
    )
    record = RateAttemptRecord(stamps=stamps_of(run), sought=sought, settings={}, trial=trial)
    write_json(folder / place / RATE_ATTEMPT_FILE, asdict(record))
    made = PeakStudy(
        kind=PEAK_KIND,
        stamps=record.stamps,
        sought=sought,
        trials=(trial,),
        answer=compute_peak_answer(sought, [trial]),
    )
    write_json(folder / STUDY_FILE, asdict(made))
    return folder


def write_trial(
    folder: Path, sought: PeakRequest, rate: float, number: int
) -> tuple[RateAttempt, RunRecord]:
    """One full run of a search."""
    place = f"box-torch-fp32/trial-{number + 1:02}"
    load, late = loaded(rate, number)
    record = write_server(folder / place, load)
    verdict = "VALID" if late <= find_most_over(load.queries, PERCENTILE) else "INVALID"
    setting("result_validity", verdict)(folder / place / DETAIL_LOG)
    _, over, scatter = count_queries_over_bound(issued(load), sought.bound_ns, 0)
    assert over == late
    facts = read_facts(folder / place)
    trial = RateAttempt(
        folder=place,
        purpose=RUN_PURPOSE,
        rate=rate,
        queries=load.queries,
        over=over,
        dispersion=scatter,
        latency_ns=facts["result_99.00_percentile_latency_ns"],
        verdict=verdict,
        seconds=6.0,
    )
    return trial, record


def write_speed(root: Path) -> Path:
    """Speed alone of random weights."""
    folder = root / STUDIES_FOLDER / "resnet50-speed"
    place = "open/org/results/box/resnet50/Server/performance/run_1"
    run = write_server(folder / place)
    row = SpeedRow(
        scenario=run.scenario, folder=place, verdict=run.verdict, metric=run.metric, value=run.value
    )
    write_json(
        folder / STUDY_FILE,
        asdict(
            SpeedStudy(
                kind=SPEED_KIND,
                note=NOT_SUBMITTABLE,
                stamps=stamps_of(run, "random, seed 0"),
                rows=(row,),
            )
        ),
    )
    return folder

"""Makes a small curve, as `podium curve` writes it: Offline runs with two numbers of answers in
flight.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy
from making import LOADS, Load, line, percentiles, write_run
from spoiling import put, set_value
from system_records import put_system

from suite.files.layout import (
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    START_RECORD_FILE,
    SUMMARY_LOG,
    SYSTEM_RECORD,
    TOKEN_RECORD_FILE,
)
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS
from suite.studies.concurrency_curve import (
    CURVE_KIND,
    LOADGEN_TOKEN_RATE_KEY,
    LOCAL_CONCURRENCY_SETTING,
    CurveRequest,
)
from suite.studies.documents import STUDIES_FOLDER, StudyMachine
from suite.studies.records import (
    PointRecord,
    SavedRequest,
    StudyRecord,
    write_point_record,
    write_study_record,
)

Table = numpy.ndarray[Any, Any]
CONCURRENCIES: Final = (2, 40)
LOAD: Final = LOADS[Scenario.OFFLINE]
TOKENS: Final = 5
"""Of each answer, and up to two more."""
ISSUED_NS: Final = 1_000_000_000
ANSWER_FIELDS: Final = (("begun", "<i8"), ("last_step", "<i8"), ("tokens", "<i8"))
"""Of an answer in progress: the numbers of its first and last step, from 0, and its tokens."""


def write_curve(
    root: Path, times: tuple[float, float] = (1.0, 1.0), repeats: Sequence[float] = (1.0,)
) -> Path:
    """A curve that keeps all rules; each point takes so many times as long as LOAD, and each run
    of it so many times as long as the point.
    """
    folder = root / STUDIES_FOLDER / "resnet50-curve-box"
    seconds = LOAD.row.min_duration_ms / 1000
    runs = [
        (concurrency, repeat, times[place] * longer)
        for place, concurrency in enumerate(CONCURRENCIES)
        for repeat, longer in enumerate(repeats, 1)
    ]
    for number, (concurrency, repeat, longer) in enumerate(runs, 1):
        load = replace(
            LOAD,
            begin_ms=80_000.0 + number * 20_000.0,
            lowest_ns=int(longer * LOAD.lowest_ns),
        )
        home = folder / name_run(concurrency, repeat)
        write_point(home, load, concurrency)
        point = PointRecord(
            number=number,
            repeat=repeat,
            point={"concurrency": concurrency},
            seconds=1 + max(load.latencies) / 1e9,
        )
        write_point_record(home, point)
    request = CurveRequest(concurrencies=CONCURRENCIES, seconds=seconds, is_remote=False)
    study = StudyRecord(
        kind=CURVE_KIND,
        origin="",
        requests=(SavedRequest(request=asdict(request), repeats=len(repeats)),),
        runs=tuple(name_run(concurrency, repeat) for concurrency, repeat, _ in runs),
        machine=StudyMachine(
            processor="",
            processors=2,
            packages={},
            commands=(("podium", "curve", "resnet50", "--points", "2,40"),),
        ),
    )
    write_study_record(folder, study)
    return folder


def name_run(concurrency: int, repeat: int = 1) -> str:
    """The folder of a point's run in the study's."""
    further = "" if repeat == 1 else f"-run-{repeat}"
    return f"box-torch-fp32/in-flight-{concurrency}{further}"


def write_point(folder: Path, load: Load, concurrency: int) -> None:
    """One run, with the records of its queries, tokens and starts."""
    write_run(folder, load, "performance")
    (folder.parent / SYSTEM_RECORD).rename(folder / SYSTEM_RECORD)  # each point has its own
    put_system(**{f"settings__{LOCAL_CONCURRENCY_SETTING}": concurrency})(folder / SYSTEM_RECORD)
    answers, steps = generate_answers(load, concurrency)
    step_ns = load.latencies[0] // steps
    starts, first, ends = (
        ISSUED_NS + each * step_ns
        for each in (answers["begun"], answers["begun"] + 1, answers["last_step"] + 1)
    )
    put(
        batches__count=float(steps),
        batches__mean_size=len(answers) / steps,
        batches__mean_live=float(answers["tokens"].sum()) / steps,
    )(folder / RUN_RECORD)
    queries = numpy.zeros(len(ends), list(QUERY_RECORD_FIELDS))
    queries["issued_ns"], queries["done_ns"], queries["samples"] = ISSUED_NS, ends, 1
    queries["batch"] = answers["last_step"]
    numpy.save(folder / QUERY_RECORD_FILE, queries)
    table = numpy.empty((len(ends), len(TOKEN_RECORD_FIELDS)), "<i8")
    counts = answers["tokens"]
    for column, values in enumerate((numpy.array(load.issued()), first, ends, counts)):
        table[:, column] = values
    numpy.save(folder / TOKEN_RECORD_FILE, table)
    numpy.save(folder / START_RECORD_FILE, starts)
    put_latencies(folder, (ends - ISSUED_NS).tolist())
    rate = float(f"{counts.sum() / (load.latencies[0] / 1e9):.6g}")
    insert_facts(folder / DETAIL_LOG, "result_samples_per_second", {LOADGEN_TOKEN_RATE_KEY: rate})


def put_latencies(folder: Path, latencies: Sequence[int]) -> None:
    """Put the answers' own latencies, which rise, into LoadGen's logs."""
    detail, summary = folder / DETAIL_LOG, folder / SUMMARY_LOG
    named = {
        "result_min_latency_ns": ("Min", latencies[0]),
        "result_max_latency_ns": ("Max", latencies[-1]),
        "result_mean_latency_ns": ("Mean", sum(latencies) // len(latencies)),
    } | {
        key: (f"{key.split('_')[1]} percentile", value)
        for key, value in percentiles(latencies, "").items()
    }
    text = summary.read_text()
    for key, (name, value) in named.items():
        set_value(detail, key, value)
        text = re.sub(rf"(?m)^({re.escape(name)} latency \(ns\) *: ).*$", rf"\g<1>{value}", text)
    summary.write_text(text)


def generate_answers(load: Load, concurrency: int) -> tuple[Table, int]:
    """The answers of a generator with so many slots, by rising ends, and how many steps it makes:
    each step generates one token for each answer in progress, and the next prompts begin behind it.
    """
    count = load.queries * load.samples_per_query
    waiting = [TOKENS + place % 3 for place in range(count)][::-1]
    live, ended, step = list[tuple[int, int]](), list[tuple[int, int, int]](), 0
    while waiting or live:
        while waiting and len(live) < concurrency:
            live.append((step, waiting.pop()))
        ended += [(begun, step, tokens) for begun, tokens in live if step - begun == tokens - 1]
        live = [each for each in live if step - each[0] < each[1] - 1]
        step += 1
    answers = numpy.array(ended, list(ANSWER_FIELDS))
    return answers, step


def insert_facts(path: Path, behind: str, facts: Mapping[str, Any]) -> None:
    """Insert lines of a detail log behind that of a key, with its time."""
    lines = path.read_text().splitlines(keepends=True)
    at = next(place for place, each in enumerate(lines) if f'"key": "{behind}"' in each)
    time_ms = json.loads(lines[at].removeprefix(":::MLLOG "))["time_ms"]
    added = [line(key, value, time_ms, {}) for key, value in facts.items()]
    path.write_text("".join([*lines[: at + 1], *added, *lines[at + 1 :]]))

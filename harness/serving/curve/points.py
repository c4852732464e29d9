"""One point of a curve: a LoadGen Offline run with a fixed number of requests in flight.

Offline's one query has all prompts, and the system under test takes so many at a time: the slots of
a generator in this process, or the connections to servers. The next prompt begins when an answer
ends, so that it is a closed loop whose users never wait.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.progress import WaitProgress
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.result_files import DetailLog, read_detail_log
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import OFFLINE_MARGIN, LoadGenSchedule
from harness.serving.performance_runs import build_mode_schedule
from harness.serving.run_record import (
    RunResult,
    describe_unstreamed_answers,
    read_run_record,
    write_run_record,
)
from harness.serving.setup import ServingSetup
from suite.errors import JudgedError
from suite.files.layout import DETAIL_LOG, START_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.headline import HEADLINE_METRICS
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue
from suite.studies.concurrency_curve import (
    DURATION_SETTING,
    LOADGEN_TOKEN_RATE_KEY,
    CurveFigures,
    CurvePoint,
    compute_curve_figures,
)
from suite.studies.rates import RUN_STAMP_FIELDS, VALID_VERDICT, StudyStamps
from suite.units import MS_PER_S, NS_PER_S
from suite.workload import Mode

EXPECTED_RATE_SETTING: Final = "offline.expected_qps"
POINT_FOLDER_FORMAT: Final = "in-flight-{}"
MAX_POINT_RUNS: Final = 4
"""A run that was too short is made again with the rate that was seen."""
INVALID_POINT: Final = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSubject:
    """The system under test with one number of requests in flight."""

    serving_setup: ServingSetup
    concurrency: int
    stamps: StudyStamps
    seconds: float
    folder: Path
    """Of the run."""


def is_curve_point_measured(subject: CurveSubject) -> bool:
    """Return whether a VALID run of the same system, settings and length exists, with its
    records.
    """
    names = (DETAIL_LOG, TOKEN_RECORD_FILE, START_RECORD_FILE)
    record = read_run_record(subject.folder)
    if record is None or not all((subject.folder / name).is_file() for name in names):
        return False
    wanted = {name: getattr(subject.stamps, name) for name in RUN_STAMP_FIELDS}
    planned = dict(subject.serving_setup.request.settings)
    planned[DURATION_SETTING] = int(subject.seconds * MS_PER_S)
    return (
        all(getattr(record, name) == value for name, value in wanted.items())
        and convert_point_settings(record.settings) == convert_point_settings(planned)
        and record.verdict == VALID_VERDICT
    )


def convert_point_settings(settings: Mapping[str, HyperValue]) -> dict[str, Any]:
    """Convert settings to JSON types, without those that a run adapts."""
    kept = {
        name: value
        for name, value in settings.items()
        if name not in (EXPECTED_RATE_SETTING, "loadgen.min_queries")
    }
    converted: dict[str, Any] = json.loads(json.dumps(kept, default=list))
    return converted


def run_valid_point(subject: CurveSubject, probe_result: ProbeResult) -> None:
    """Run until LoadGen's query was long enough; JudgedError if that does not come, or LoadGen
    reports an error.
    """
    probe = probe_result.probe
    rate = min(
        OFFLINE_MARGIN * probe.samples_per_second,
        OFFLINE_MARGIN * subject.concurrency * NS_PER_S / probe.latency_ns,
    )
    for _ in range(MAX_POINT_RUNS):
        schedule = build_curve_schedule(subject, probe_result, rate)
        detail_log = run_curve_point(subject, schedule)
        if detail_log.errors:
            raise JudgedError(f"{subject.concurrency} in flight: LoadGen: {detail_log.errors[0]}")
        if detail_log.values.get("result_validity") == VALID_VERDICT:
            return
        seen = detail_log.require_number(HEADLINE_METRICS[Scenario.OFFLINE][1])
        rate = OFFLINE_MARGIN * max(rate, seen)
    raise JudgedError(
        f"{subject.concurrency} in flight: LoadGen calls the run {INVALID_POINT}, {MAX_POINT_RUNS}"
        " times"
    )


def build_curve_schedule(
    subject: CurveSubject, probe_result: ProbeResult, rate: float
) -> LoadGenSchedule:
    """Plan a point: as the round asks of Offline, but for its length."""
    return build_mode_schedule(
        subject.serving_setup,
        Scenario.OFFLINE,
        Mode.PERFORMANCE,
        probe_result,
        {
            EXPECTED_RATE_SETTING: rate,
            DURATION_SETTING: int(subject.seconds * MS_PER_S),
        },
    )


def run_curve_point(subject: CurveSubject, schedule: LoadGenSchedule) -> DetailLog:
    """Run LoadGen, and keep the run with its records in place of an earlier one."""
    job = LoadGenJob(
        system=subject.serving_setup.system,
        schedule=schedule,
        folder=subject.folder,
        has_starts=True,
    )
    title = f"{subject.concurrency} in flight"
    with (
        WaitProgress(title, schedule.min_duration_ms / MS_PER_S) as shown,
        run_loadgen_in_child(job, shown.show_elapsed) as (folder, outcome),
    ):
        if sentence := describe_unstreamed_answers(outcome):
            raise JudgedError(f"{title}: {sentence}")
        detail_log = read_detail_log(folder)
        metric, key = HEADLINE_METRICS[Scenario.OFFLINE]
        is_valid = detail_log.values.get("result_validity") == VALID_VERDICT
        result = RunResult(
            verdict=VALID_VERDICT if is_valid else INVALID_POINT,
            metric=metric,
            value=detail_log.require_number(key),
        )
        write_run_record(subject.serving_setup, schedule, outcome, result, folder)
        shutil.rmtree(subject.folder, ignore_errors=True)  # a shorter run
    return detail_log


def read_curve_point(subject: CurveSubject) -> CurvePoint:
    """Read a point from its files; JudgedError if its records are lost."""
    detail_log = read_detail_log(subject.folder)
    figures = read_curve_figures(subject.folder)
    return CurvePoint(
        concurrency=subject.concurrency,
        region=None,
        folder=f"{subject.folder.parent.name}/{subject.folder.name}",
        loadgen_tps=detail_log.require_number(LOADGEN_TOKEN_RATE_KEY),
        **asdict(figures),
    )


def read_curve_figures(folder: Path) -> CurveFigures:
    """Compute a point's figures from its records; JudgedError if these are lost."""
    import numpy

    record = read_run_record(folder)
    try:
        tokens, starts_ns = (
            numpy.load(folder / name, allow_pickle=False)
            for name in (TOKEN_RECORD_FILE, START_RECORD_FILE)
        )
    except (OSError, ValueError) as error:
        raise JudgedError(f"{folder}: the records of its tokens are lost: {error}") from error
    _, first_ns, last_ns, counts = tokens.T
    samples = record.sample_count if record else 0
    if len(starts_ns) != len(tokens) or not samples:
        raise JudgedError(f"{folder}: the records of its tokens do not fit together")
    figures = compute_curve_figures(starts_ns, first_ns, last_ns, counts, samples)
    if figures is None:
        raise JudgedError(f"{folder}: no answer has a second token, so no speed per user is known")
    return figures

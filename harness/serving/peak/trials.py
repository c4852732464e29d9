"""One LoadGen run of a search: a probe or a full run, kept with its records; and what an earlier
command kept.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.progress import WaitProgress
from harness.serving.energy import compute_loadgen_energy
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.result_files import DetailLog, read_detail_log
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen_in_child
from harness.serving.loadgen.test_settings import LoadGenSchedule
from harness.serving.performance_runs import build_mode_schedule
from harness.serving.run_record import RunResult, write_run_record
from harness.serving.setup import ServingSetup
from suite.errors import JudgedError
from suite.files.json_files import write_json
from suite.files.layout import DETAIL_LOG, PARTIAL_SUFFIX, QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.files.superseded import move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.headline import select_headline_metric
from suite.loadgen.scenario import Scenario
from suite.studies.documents import STUDY_FILE
from suite.studies.peak_search import NextRun, PeakAim
from suite.studies.rates import (
    PROBE_PURPOSE,
    RATE_ATTEMPT_FILE,
    RUN_PURPOSE,
    VALID_VERDICT,
    PeakRequest,
    RateAttempt,
    RateAttemptRecord,
    StudyStamps,
    build_peak_aim,
    compute_token_latencies,
    count_attempt_queries,
    select_latency_keys,
)
from suite.workload import Mode

SEARCH_TRIAL_DECODER: Final = msgspec.json.Decoder(RateAttemptRecord)
MAX_VOIDED_TRIES: Final = 3
"""A run that LoadGen voids because of the machine is made again."""
INVALID_TRIAL: Final = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSession:
    """A search under way."""

    serving_setup: ServingSetup
    probe_result: ProbeResult
    stamps: StudyStamps
    sought: PeakRequest
    study_folder: Path
    """Folder of the study."""

    @property
    def scenario(self) -> Scenario:
        """Return the scenario that is searched."""
        return next(each for each in Scenario if each.label == self.sought.scenario)

    @property
    def aim(self) -> PeakAim:
        """Return the aim of a Server search."""
        return build_peak_aim(self.sought)

    def convert_settings(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        made: dict[str, Any] = json.loads(
            json.dumps(dict(self.serving_setup.request.settings), default=list)
        )
        return made


def recover_earlier_trials(session: SearchSession) -> list[RateAttempt]:
    """Read the runs that an earlier command kept, in their order; runs of another system or
    request, and what follows a gap, are moved aside.
    """
    trials: list[RateAttempt] = []
    strange: list[Path] = []
    for folder in sorted(session.study_folder.glob("*/trial-*")):
        record = None if folder.name.endswith(PARTIAL_SUFFIX) else read_trial_record(folder)
        if record is None:
            shutil.rmtree(folder, ignore_errors=True)  # of a killed run
        elif folder != build_trial_path(session, len(trials)) or not is_same_search(
            record, session
        ):
            strange.append(folder)
        else:
            trials.append(record.trial)
    table = [] if trials else [session.study_folder / STUDY_FILE]
    move_to_superseded([*strange, *table], results=session.study_folder.parents[1])
    return trials


def read_trial_record(folder: Path) -> RateAttemptRecord | None:
    """Read a run's record; None if it or LoadGen's log is missing or unreadable."""
    try:
        return (
            read_untrusted_file(folder / RATE_ATTEMPT_FILE, SEARCH_TRIAL_DECODER.decode)
            if (folder / DETAIL_LOG).is_file()
            else None
        )
    except UnreadableError:
        return None


def is_same_search(record: RateAttemptRecord, session: SearchSession) -> bool:
    """Return whether a run belongs to this search; a new probe may find another rate."""
    return (record.stamps, replace(record.sought, seen=session.sought.seen), record.settings) == (
        session.stamps,
        session.sought,
        session.convert_settings(),
    )


def build_trial_path(session: SearchSession, number: int) -> Path:
    """Return the folder of a run."""
    return session.study_folder / session.stamps.system / f"trial-{number + 1:02}"


def run_search_step(session: SearchSession, step: NextRun, number: int) -> RateAttempt:
    """Do a run and keep it; JudgedError if LoadGen voids it several times."""
    for _ in range(MAX_VOIDED_TRIES):
        began_s = time.monotonic()
        folder, schedule = build_trial_path(session, number), build_trial_schedule(session, step)
        shutil.rmtree(folder, ignore_errors=True)
        job = LoadGenJob(
            system=session.serving_setup.system,
            schedule=schedule,
            folder=folder,
            power=session.serving_setup.power,
        )
        title = (
            f"{session.scenario.label} {'run' if step.full else 'probe'} at"
            f" {format_trial_rate(session, step.rate)}"
        )
        lasts_s = (
            step.queries / step.rate
            if session.scenario is Scenario.SERVER
            else schedule.min_duration_ms / 1000
        )
        with (
            WaitProgress(title, lasts_s) as shown,
            run_loadgen_in_child(job, shown.show_elapsed) as (partial, outcome),
        ):
            detail_log = read_detail_log(partial)
            trial = describe_search_trial(
                session, step, partial, folder, detail_log, time.monotonic() - began_s
            )
            write_trial_records(session, schedule, outcome, detail_log, trial, partial)
        if not detail_log.errors:
            return trial
    shutil.rmtree(folder, ignore_errors=True)
    raise JudgedError(f"LoadGen: {detail_log.errors[0]}")


def format_trial_rate(session: SearchSession, rate: float) -> str:
    """Format a rate."""
    return (
        f"{rate:,.1f} queries/s"
        if session.scenario is Scenario.SERVER
        else f"{rate:.0f} samples per query"
    )


def build_trial_schedule(session: SearchSession, step: NextRun) -> LoadGenSchedule:
    """Plan a run: as the round asks, with the search's bound, rate and length."""
    sought = session.sought
    planned = build_mode_schedule(
        session.serving_setup, session.scenario, Mode.PERFORMANCE, session.probe_result, {}
    )
    planned = replace(
        planned,
        percentile=sought.percentile,
        bound_ns=(
            sought.bound_ns
            if session.scenario is Scenario.SERVER and sought.per_token_ns is None
            else None
        ),
    )
    if session.scenario is Scenario.MULTI_STREAM:
        guess_ns = int(
            EXPECTED_LATENCY_SHARE * step.rate / session.probe_result.probe.samples_per_second * 1e9
        )
        return replace(
            planned,
            samples_per_query=int(step.rate),
            min_queries=sought.min_queries,
            min_duration_ms=sought.min_duration_ms,
            expected_latency_ns=max(1, guess_ns),
        )
    if step.full:
        return replace(
            planned,
            rate=step.rate,
            min_queries=sought.min_queries,
            min_duration_ms=sought.min_duration_ms,
        )
    return replace(
        planned,
        rate=step.rate,
        min_queries=step.queries + session.aim.compute_skipped_queries(step.rate),
        min_duration_ms=1,
        sampled_answers=0,
    )


def describe_search_trial(
    session: SearchSession,
    step: NextRun,
    files: Path,
    folder: Path,
    detail_log: DetailLog,
    seconds: float,
) -> RateAttempt:
    """Describe a run by its files."""
    sought, server = session.sought, session.scenario is Scenario.SERVER
    queries, over, scatter = count_attempt_queries(
        sought,
        read_bounded_latencies(files, sought),
        0 if step.full else session.aim.compute_skipped_queries(step.rate),
    )
    latency_ns, per_token_ns = (
        find_logged_latency(detail_log, key) for key in select_latency_keys(sought)
    )
    if step.full and server and per_token_ns is None:
        queries, over = (
            int(detail_log.require_number("result_query_count")),
            int(detail_log.require_number("result_overlatency_query_count")),
        )
    within = detail_log.values.get("result_validity") == VALID_VERDICT and (
        server or (latency_ns is not None and latency_ns <= sought.bound_ns)
    )
    return RateAttempt(
        folder=folder.relative_to(session.study_folder).as_posix(),
        purpose=RUN_PURPOSE if step.full else PROBE_PURPOSE,
        rate=step.rate,
        queries=queries,
        over=over,
        dispersion=scatter,
        latency_ns=latency_ns,
        verdict=VALID_VERDICT if within else INVALID_TRIAL,
        seconds=seconds,
        per_token_ns=per_token_ns,
    )


def find_logged_latency(detail_log: DetailLog, key: str | None) -> float | None:
    """Return a latency of the detail log, ns; None if there is none under the key."""
    found = detail_log.values.get(key) if key else None
    return float(found) if isinstance(found, int | float) else None


def read_bounded_latencies(folder: Path, sought: PeakRequest) -> Sequence[Any]:
    """Read the latencies of a run that the search bounds, in order of issue, ns: of its queries, or
    of first and of further tokens; JudgedError without the records.
    """
    queries = open_run_record(folder / QUERY_RECORD_FILE)
    if sought.per_token_ns is None:
        return (queries["done_ns"] - queries["issued_ns"],)
    _, first_ns, last_ns, tokens = open_run_record(folder / TOKEN_RECORD_FILE).T
    return compute_token_latencies(queries["issued_ns"], first_ns, last_ns, tokens)


def open_run_record(path: Path) -> Any:
    """Memory-map the record of a run's queries or tokens; JudgedError without it."""
    import numpy

    try:
        return numpy.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise JudgedError(
            f"{path.name}: {error}; a search counts its late queries there"
        ) from error


def write_trial_records(
    session: SearchSession,
    schedule: LoadGenSchedule,
    outcome: LoadGenOutcome,
    detail_log: DetailLog,
    trial: RateAttempt,
    folder: Path,
) -> None:
    """Write run.json and trial.json beside LoadGen's files."""
    metric, key = select_headline_metric(session.scenario, detail_log.measures_tokens)
    measured = compute_loadgen_energy(folder, schedule.scenario, detail_log)
    verdict = (
        VALID_VERDICT
        if detail_log.values.get("result_validity") == VALID_VERDICT
        else INVALID_TRIAL
    )
    result = RunResult(
        verdict=verdict,
        metric=metric,
        value=detail_log.require_number(key) if key in detail_log.values else 0.0,
        measured=measured,
    )
    write_run_record(session.serving_setup, schedule, outcome, result, folder)
    document = RateAttemptRecord(
        stamps=session.stamps,
        sought=session.sought,
        settings=session.convert_settings(),
        trial=trial,
    )
    write_json(folder / RATE_ATTEMPT_FILE, asdict(document))

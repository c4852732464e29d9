"""One LoadGen run of a search: a probe or a full run, kept with its records; and what an earlier
command kept.
"""

import json
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.progress import WaitProgress
from harness.serving.energy import energy_of
from harness.serving.infer import schedule_of
from harness.serving.loadgen.probe import Look
from harness.serving.loadgen.result_files import Facts, read_facts
from harness.serving.loadgen.session import Job, Outcome, held
from harness.serving.loadgen.test_settings import Schedule
from harness.serving.run_record import Result, write_run_record
from harness.serving.setup import Bench
from suite.errors import JudgedError
from suite.files.json_files import write_json
from suite.files.layout import DETAIL_LOG, PARTIAL_SUFFIX, QUERY_RECORD_FILE
from suite.files.superseded import supersede
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.headline import HEADLINE_METRICS
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
    count_queries_over_bound,
)
from suite.workload import Mode

RECORDS: Final = msgspec.json.Decoder(RateAttemptRecord)
TRIES: Final = 3
"""A run that LoadGen voids because of the machine is made again."""
INVALID: Final = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A search under way."""

    bench: Bench
    look: Look
    stamps: StudyStamps
    sought: PeakRequest
    home: Path
    """Folder of the study."""

    @property
    def scenario(self) -> Scenario:
        """Return the scenario that is searched."""
        return next(each for each in Scenario if each.label == self.sought.scenario)

    @property
    def aim(self) -> PeakAim:
        """Return the aim of a Server search."""
        return build_peak_aim(self.sought)

    def settings(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        made: dict[str, Any] = json.loads(
            json.dumps(dict(self.bench.request.settings), default=list)
        )
        return made


def kept(session: Session) -> list[RateAttempt]:
    """Read the runs that an earlier command kept, in their order; runs of another system or
    request, and what follows a gap, are moved aside.
    """
    trials: list[RateAttempt] = []
    strange: list[Path] = []
    for folder in sorted(session.home.glob("*/trial-*")):
        record = None if folder.name.endswith(PARTIAL_SUFFIX) else record_in(folder)
        if record is None:
            shutil.rmtree(folder, ignore_errors=True)  # of a killed run
        elif folder != place(session, len(trials)) or not same(record, session):
            strange.append(folder)
        else:
            trials.append(record.trial)
    table = [] if trials else [session.home / STUDY_FILE]
    supersede(session.home.parents[1], [*strange, *table])
    return trials


def record_in(folder: Path) -> RateAttemptRecord | None:
    """Read a run's record; None if it or LoadGen's log is missing or unreadable."""
    try:
        return (
            read_untrusted_file(folder / RATE_ATTEMPT_FILE, RECORDS.decode)
            if (folder / DETAIL_LOG).is_file()
            else None
        )
    except UnreadableError:
        return None


def same(record: RateAttemptRecord, session: Session) -> bool:
    """Tell whether a run belongs to this search; a new look at the system may see another rate."""
    return (record.stamps, replace(record.sought, seen=session.sought.seen), record.settings) == (
        session.stamps,
        session.sought,
        session.settings(),
    )


def place(session: Session, number: int) -> Path:
    """Return the folder of a run."""
    return session.home / session.stamps.system / f"trial-{number + 1:02}"


def run_step(session: Session, step: NextRun, number: int) -> RateAttempt:
    """Do a run and keep it; JudgedError if LoadGen voids it several times."""
    for _ in range(TRIES):
        began_s = time.monotonic()
        folder, schedule = place(session, number), schedule_for(session, step)
        shutil.rmtree(folder, ignore_errors=True)
        job = Job(
            system=session.bench.system, schedule=schedule, folder=folder, power=session.bench.power
        )
        title = (
            f"{session.scenario.label} {'run' if step.full else 'probe'} at"
            f" {worded(session, step.rate)}"
        )
        lasts_s = (
            step.queries / step.rate
            if session.scenario is Scenario.SERVER
            else schedule.min_duration_ms / 1000
        )
        with (
            WaitProgress(title, lasts_s) as shown,
            held(job, shown.show_elapsed) as (partial, outcome),
        ):
            facts = read_facts(partial)
            trial = trial_of(session, step, partial, folder, facts, time.monotonic() - began_s)
            record(session, schedule, outcome, facts, trial, partial)
        if not facts.errors:
            return trial
    shutil.rmtree(folder, ignore_errors=True)
    raise JudgedError(f"LoadGen: {facts.errors[0]}")


def worded(session: Session, rate: float) -> str:
    """Format a rate."""
    return (
        f"{rate:,.1f} queries/s"
        if session.scenario is Scenario.SERVER
        else f"{rate:.0f} samples per query"
    )


def schedule_for(session: Session, step: NextRun) -> Schedule:
    """Plan a run: as the round asks, with the search's bound, rate and length."""
    sought = session.sought
    planned = schedule_of(session.bench, session.scenario, Mode.PERFORMANCE, session.look, {})
    planned = replace(
        planned,
        percentile=sought.percentile,
        bound_ns=sought.bound_ns if session.scenario is Scenario.SERVER else None,
    )
    if session.scenario is Scenario.MULTI_STREAM:
        guess_ns = int(
            EXPECTED_LATENCY_SHARE * step.rate / session.look.probe.samples_per_second * 1e9
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


def trial_of(
    session: Session, step: NextRun, files: Path, folder: Path, facts: Facts, seconds: float
) -> RateAttempt:
    """Describe a run by its files."""
    sought, server = session.sought, session.scenario is Scenario.SERVER
    queries, over, scatter = count_queries_over_bound(
        latencies(files),
        sought.bound_ns,
        0 if step.full else session.aim.compute_skipped_queries(step.rate),
    )
    estimate = facts.values.get(
        HEADLINE_METRICS[session.scenario][1]
        if not server
        else f"result_{sought.percentile:.2f}_percentile_latency_ns"
    )
    latency_ns = float(estimate) if isinstance(estimate, int | float) else None
    if step.full and server:
        queries, over = (
            int(facts.number("result_query_count")),
            int(facts.number("result_overlatency_query_count")),
        )
    within = facts.values.get("result_validity") == VALID_VERDICT and (
        server or (latency_ns is not None and latency_ns <= sought.bound_ns)
    )
    return RateAttempt(
        folder=folder.relative_to(session.home).as_posix(),
        purpose=RUN_PURPOSE if step.full else PROBE_PURPOSE,
        rate=step.rate,
        queries=queries,
        over=over,
        dispersion=scatter,
        latency_ns=latency_ns,
        verdict=VALID_VERDICT if within else INVALID,
        seconds=seconds,
    )


def latencies(folder: Path) -> Any:
    """Read the latencies of a run's queries in order of issue, ns; JudgedError without the
    record.
    """
    import numpy

    try:
        rows = numpy.load(folder / QUERY_RECORD_FILE, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise JudgedError(
            f"{QUERY_RECORD_FILE}: {error}; a search counts its late queries there"
        ) from error
    return rows["done_ns"] - rows["issued_ns"]


def record(
    session: Session,
    schedule: Schedule,
    outcome: Outcome,
    facts: Facts,
    trial: RateAttempt,
    folder: Path,
) -> None:
    """Write run.json and trial.json beside LoadGen's files."""
    metric, key = HEADLINE_METRICS[session.scenario]
    measured = energy_of(folder, schedule.scenario, facts)
    verdict = VALID_VERDICT if facts.values.get("result_validity") == VALID_VERDICT else INVALID
    result = Result(
        verdict=verdict,
        metric=metric,
        value=facts.number(key) if key in facts.values else 0.0,
        measured=measured,
    )
    write_run_record(session.bench, schedule, outcome, result, folder)
    document = RateAttemptRecord(
        stamps=session.stamps, sought=session.sought, settings=session.settings(), trial=trial
    )
    write_json(folder / RATE_ATTEMPT_FILE, asdict(document))

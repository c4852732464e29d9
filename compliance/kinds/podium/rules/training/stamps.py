"""Check the identity and environment of a training run: header, clock, and place in the tree."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from compliance.documents.organisation_name import mark_code_points
from compliance.documents.timestamps import find_date_problem
from compliance.kinds.podium.documents import command_line
from compliance.kinds.podium.documents.training import TrainingLog, is_logged_count
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import fold_name
from suite.terms import Precision, Profile
from suite.units import MS_PER_S

BENCHMARK_ALIASES: Final = {"resnet50": "resnet", "mask": "maskrcnn"}
"""Names of benchmarks that mean the same, folded."""
EARLIEST_CLOCK_MS: Final = 1_500_000_000_000
"""July 2017, before the first MLPerf round: an earlier clock was never set."""
MAX_IDLE_MS: Final = 60_000
"""Between init_stop and run_start, all ranks wait for one another ..."""
MAX_IDLE_ALONE_MS: Final = 10_000
"""... and a single process, which waits for no other, took 3 ms when measured; an epoch of smoke
takes longer than this.
"""
MIN_ROUNDED_EVENTS: Final = 5
"""Minimum number of events at which whole seconds are not a coincidence: one clock in 10^15."""
NONCE_DIGIT_COUNTS: Final = (32, 64)
TEXT_EVENTS: Final = (
    events.FRAMEWORK,
    events.INPUT,
    events.DEVICE,
    events.VERSION,
    events.SUBMISSION_ORG,
    events.SUBMISSION_PLATFORM,
    events.METRIC_SIGNATURE,
)
COUNT_EVENTS: Final = (
    events.WORLD_SIZE,
    events.THREADS,
    events.TRAIN_SAMPLES,
    events.CORPUS_SAMPLES,
    events.EVAL_SAMPLES,
)
ENVIRONMENT_CHECKS: Final[tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...]] = (
    (TEXT_EVENTS, lambda value: isinstance(value, str) and bool(value.strip()), "text"),
    (COUNT_EVENTS, lambda value: is_logged_count(value) and value > 0, "a whole number above 0"),
    (
        (events.SEED, events.RUN_INDEX),
        lambda value: is_logged_count(value),
        "a whole number of at least 0",
    ),
    ((events.PRECISION,), lambda value: value in [*Precision], " or ".join(Precision)),
    ((events.SETTINGS,), lambda value: isinstance(value, dict), "a table of settings"),
    (
        (events.COMMAND_LINE,),
        lambda value: (
            isinstance(value, list) and bool(value) and all(isinstance(part, str) for part in value)
        ),
        "a list of strings",
    ),
)
"""Test of each event's value, and its description."""


def fold_benchmark_name(name: str) -> str:
    """Fold a benchmark's name."""
    return BENCHMARK_ALIASES.get(fold_name(name), fold_name(name))


@rule("training.stamps", TrainingLog, About.IDENTITY)
def stamps(log: TrainingLog) -> Iterator[Fault]:
    """Round, profile and workload are known, and benchmark, division and status match the
    workload's row.

    Source: house rule: every log names its profile, so a smoke run cannot be mistaken for a full
    one; submission_rules.adoc, Divisions.
    Advice: check the log against the round and workload that it was run for (--round).
    """
    wanted: dict[str, tuple[object, ...]] = {
        events.ROUND: (log.round.name,),
        events.WORKLOAD: tuple(log.round.benchmarks),
        events.PROFILE: (*Profile,),
        events.SUBMISSION_STATUS: (
            ("onprem", "cloud", "preview") if log.profile is Profile.FULL else ("research",)
        ),
    }
    if log.row:
        wanted[events.SUBMISSION_BENCHMARK] = (log.row.training_name,)
    if log.row and log.training:
        wanted[events.SUBMISSION_DIVISION] = (log.training.division.value,)
    for key, choices in wanted.items():
        record = log.find_record(key)
        if record and record.value not in choices:
            yield log.build_fault(
                f"{key} {record.value!r}", " or ".join(map(str, choices)), record.line
            )
    if log.row and log.profile and not log.training:
        yield log.build_fault(
            f"profile {log.profile}", f"a profile in the row of {log.workload}", events.PROFILE
        )


@rule("training.nonce", TrainingLog, About.IDENTITY)
def nonce(log: TrainingLog) -> Iterator[Fault]:
    """The campaign's nonce has 32 hexadecimal digits, or 64 if it includes a challenge.

    Source: house rule: the nonce binds every LoadGen run to this run set.
    Advice: train again within a campaign (podium run or podium train), which draws the nonce.
    """
    record = log.find_record(events.NONCE)
    if record and not (
        isinstance(record.value, str)
        and len(record.value) in NONCE_DIGIT_COUNTS
        and set(record.value) <= set("0123456789abcdef")
    ):
        yield log.build_fault(
            f"{record.value!r}",
            f"{NONCE_DIGIT_COUNTS[0]} lower-case hexadecimal digits",
            record.line,
        )


@rule("training.environment", TrainingLog, About.IDENTITY)
def environment(log: TrainingLog) -> Iterator[Fault]:
    """Seed, framework, input, device, precision, threads, world size, settings and command line
    have valid values.

    Source: suite/events.py; training_rules.adoc v0.7, Formats and Random numbers: the seed is
    logged.
    Advice: train again with podium train, which logs each of these values; a log from elsewhere
    cannot be completed afterwards.
    """
    for keys, holds, required in ENVIRONMENT_CHECKS:
        for record in (record for key in keys if (record := log.find_record(key))):
            if not holds(record.value):
                yield log.build_fault(f"{record.key} {record.value!r}", required, record.line)


@rule("training.command", TrainingLog, About.IDENTITY, severity=Severity.WARNING)
def command(log: TrainingLog) -> Iterator[Fault]:
    """The command line has the log's workload and profile, and each setting that it changes has the
    logged value.

    Source: house rule: the log contains the command line so that the run can be repeated; without
    --profile it is smoke.
    Advice: train again with the settings on the command line or in --config, so that the log states
    what ran.
    """
    words, table = log.find_value(events.COMMAND_LINE), log.find_value(events.SETTINGS)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return
    settings = table if isinstance(table, dict) else {}
    for found, required in command_line.find_command_contradictions(
        words,
        log.round.benchmarks,
        log.find_value(events.WORKLOAD),
        log.find_value(events.PROFILE),
        settings,
    ):
        yield log.build_fault(found, required, events.COMMAND_LINE)


@rule("training.run_index", TrainingLog, About.IDENTITY)
def run_index(log: TrainingLog) -> Iterator[Fault]:
    """The run's index, from 0, is the number in its file name.

    Source: submission_rules.adoc, result_<i>.txt; house rule: the index is logged.
    Advice: do not rename logs.
    """
    index = log.find_value(events.RUN_INDEX)
    if is_logged_count(index) and log.number is not None and log.number != index:
        yield log.build_fault(
            f"run_index {index} in {log.path.name}", f"result_{index}.txt", events.RUN_INDEX
        )


@rule("training.place", TrainingLog, About.IDENTITY)
def place(log: TrainingLog) -> Iterator[Fault]:
    """Organisation, system, benchmark and division match the log's folders, ignoring case, spaces
    and punctuation.

    Source: submission_rules.adoc, Directory structure.
    Advice: move the log to the tree of the organisation and system that ran it.
    """
    if log.place is None:
        return
    pairs = {
        events.SUBMISSION_ORG: (log.place.org, fold_name),
        events.SUBMISSION_PLATFORM: (log.place.system, fold_name),
        events.SUBMISSION_BENCHMARK: (log.place.benchmark, fold_benchmark_name),
        events.SUBMISSION_DIVISION: (log.place.division, fold_name),
    }
    for key, (folder, folded) in pairs.items():
        record = log.find_record(key)
        if record and folder and folded(str(record.value)) != folded(folder):
            yield log.build_fault(
                f"{key} {mark_code_points(repr(record.value), repr(str(folder)))} in the folder"
                f" '{folder}'",
                f"the name {mark_code_points(folder, str(record.value))}",
                record.line,
            )


@rule("training.cache", TrainingLog, About.RULES)
def cache(log: TrainingLog) -> Iterator[Fault]:
    """The system's file cache is cleared before the run, or the log gives the reason why that was
    not required.

    Source: training_rules.adoc v0.7, Timing: caches are cleared or the system rebooted; judge by
    value: false is an error, null is not.
    Advice: run as a user who may drop the cache, or use a profile that does not require it.
    """
    for record in log.list_records(events.CACHE_CLEAR):
        if record.value is not True and (
            record.value is not None or not record.event.metadata.get("reason")
        ):
            yield log.build_fault(
                f"cache_clear {record.value!r}", "true, or null with a reason", record.line
            )


@rule("training.clock", TrainingLog, About.SCORE)
def clock(log: TrainingLog) -> Iterator[Fault]:
    """Times are whole milliseconds from a clock that was set, never decrease, and are not after
    today. run_stop is later than run_start.

    Source: mlcommons/logging, mllog.py: time_ms; house rule: times in podium's log never decrease,
    even if the machine's clock is set back.
    Advice: set the machine's clock, keep it in step (NTP) and train again.
    """
    last = 0
    for record in log.records:
        time = record.event.time_ms
        if type(time) is not int or time < EARLIEST_CLOCK_MS:
            yield log.build_fault(
                f"time_ms {time}",
                "whole milliseconds since 1970, from a clock that was set",
                record.line,
            )
            continue
        if time < last:
            yield log.build_fault(
                f"{record.key} {last - time} ms before the event above it",
                "times that never decrease",
                record.line,
            )
        last = max(last, time)
    if wrong := find_date_problem(last / MS_PER_S):
        yield log.build_fault(wrong.found, wrong.required, log.records[-1].line)
    start, stop = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    if start and stop and stop.event.time_ms <= start.event.time_ms:
        yield log.build_fault(
            "run_stop is not later than run_start", "run_stop later than run_start", stop.line
        )


@rule("training.rounded", TrainingLog, About.SCORE)
def rounded(log: TrainingLog) -> Iterator[Fault]:
    """A run's times have millisecond resolution.

    Source: mlcommons/logging, mllog.py: time_ms; whole seconds throughout are not a coincidence.
    Advice: put the original log here: tools that convert or reformat logs drop the milliseconds.
    """
    times = [record.event.time_ms for record in log.records if record.key in events.RUN_EVENTS]
    if len(times) >= MIN_ROUNDED_EVENTS and all(
        type(time) is int and time % MS_PER_S == 0 for time in times
    ):
        yield log.build_fault(
            f"all {len(times)} events of the run at whole seconds",
            "times in milliseconds",
            events.RUN_START,
        )


@rule("training.init", TrainingLog, About.RULES)
def init(log: TrainingLog) -> Iterator[Fault]:
    """Initialisation, from init_start to run_start, takes at most 20 minutes. More than one minute
    of it after init_stop, or more than ten seconds in a single process, is a warning.

    Source: training_rules.adoc v0.7, Timing: 20 minutes of untimed initialisation; the round's
    init_limit_ms. House rule: podium starts the clock directly after it logs init_stop, so epochs
    before the clock would show here.
    Advice: start the clock earlier, or prepare data before the run; explain in the submission how
    the run spent the time.
    """
    start = log.find_record(events.INIT_START)
    stop = log.find_record(events.RUN_START) or log.find_record(events.INIT_STOP)
    limit = log.round.training.init_limit_ms
    taken = stop.event.time_ms - start.event.time_ms if start and stop else 0
    if taken > limit:
        yield log.build_fault(
            f"{taken / 60_000:.1f} minutes",
            f"at most {limit / 60_000:g}",
            stop.line if stop else None,
        )
    ready, begun = log.find_record(events.INIT_STOP), log.find_record(events.RUN_START)
    idle_ms = begun.event.time_ms - ready.event.time_ms if ready and begun else 0
    most_ms = MAX_IDLE_ALONE_MS if log.find_value(events.WORLD_SIZE) == 1 else MAX_IDLE_MS
    if begun and idle_ms > most_ms:
        fault = log.build_fault(
            f"{idle_ms / MS_PER_S:.0f} s between init_stop and run_start",
            f"at most {most_ms / MS_PER_S:g}",
            begun.line,
        )
        yield replace(fault, severity=Severity.WARNING)


@rule("training.quality_target", TrainingLog, About.QUALITY)
def quality_target(log: TrainingLog) -> Iterator[Fault]:
    """The run's target is the round's.

    Source: training_rules.adoc v0.7, Benchmarks; the row's target.
    Advice: leave the target unchanged; the round sets it.
    """
    record = log.find_record(events.QUALITY_TARGET)
    if record and log.training and record.value != dict(log.training.target):
        yield log.build_fault(f"{record.value!r}", f"{dict(log.training.target)!r}", record.line)

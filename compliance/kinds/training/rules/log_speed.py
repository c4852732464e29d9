"""Compare the throughput and the step times that a published training log states with its clock."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final, NamedTuple

from compliance.kinds.training.documents.evaluations import parse_run_progress
from compliance.kinds.training.documents.log import GLOBAL_BATCH_KEY, PublishedLog, PublishedSet
from compliance.kinds.training.logs.published import PublishedRecord
from compliance.logs.finite_numbers import is_finite_number, parse_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.units import NS_PER_S

STATISTICS_KEY: Final = "tracked_stats"
THROUGHPUT_KEY: Final = "throughput"
STEP_TIME_KEY: Final = "train_step_time"
PROGRESS_FIELDS: Final = (events.SAMPLES_COUNT, "step", "step_num", events.EPOCH_NUM)
"""Metadata fields that give the progress of a run in its statistics. Loggers fill each of them with
samples, steps or epochs.
"""
AGREEING: Final = (0.95, 1.6)
"""Clock time divided by stated time: 1.00 to 1.32 in accepted logs, whose throughput may leave
evaluations out. Less is impossible, but for rounding.
"""
COMPARED: Final = (0.4, 3.0)
"""Outside this range the unit of a throughput is unknown: some are those of one accelerator."""
MAX_SPREAD_FACTOR: Final = 1.5
"""Maximum factor between a run of a set and their median; accepted sets have at most 1.31."""
MIN_COMPARED_RUNS: Final = 3
"""Minimum number of runs whose median shows which of them differs."""
MAX_COMPARED_STATISTICS: Final = 100
"""Maximum number of pairs of statistics of a log that are compared: enough for a median."""


class StatedSpeed(NamedTuple):
    """How the clock compares with a statistic of a log."""

    key: str
    record: PublishedRecord
    ratio: float
    """Median of clock time divided by stated time, if progress is counted in samples."""


@rule("log.speed", PublishedLog, About.SCORE, severity=Severity.WARNING)
def speed(log: PublishedLog) -> Iterator[Fault]:
    """The throughput and step times that a log states match its own time stamps.

    Source: house rule: a log must not contradict itself; tracked_stats of mlcommons/logging gives
    them for a run's progress in samples, steps or epochs.
    Advice: log throughput from the same clock and the same samples as the epochs' events.
    """
    batch, samples = log.find_value(GLOBAL_BATCH_KEY), log.find_value("train_samples")
    known = [float(each) for each in (batch, samples) if is_finite_number(each) and each > 0]
    for stated in compute_stated_speeds(log):
        if stated.key == THROUGHPUT_KEY:
            units = (1.0, *known)
        else:
            units = (1.0, *known[:1])
        sign = 1
        if stated.key != THROUGHPUT_KEY:
            sign = -1
        factors = [stated.ratio / unit**sign for unit in units]
        if any(AGREEING[0] <= factor <= AGREEING[1] for factor in factors):
            continue
        odd = [factor for factor in factors if COMPARED[0] <= factor <= COMPARED[1]]
        if odd:
            yield log.build_fault(
                f"time stamps {odd[0]:.2f} times as far apart as {stated.key} says",
                "about equal times",
                stated.record.line,
            )


@rule("runs.speed", PublishedSet, About.SCORE, severity=Severity.WARNING)
def equal_speed(runs: PublishedSet) -> Iterator[Fault]:
    """The runs of a set have the same relation between stated speed and time stamps.

    Source: house rule: all runs of a set are made by the same program on the same system.
    Advice: compute the stated speed in the same way in all runs of a set.
    """
    speeds = [(log, stated) for log in runs.logs for stated in compute_stated_speeds(log)]
    for key in (THROUGHPUT_KEY, STEP_TIME_KEY):
        found = [(log, stated) for log, stated in speeds if stated.key == key]
        if len(found) < MIN_COMPARED_RUNS:
            continue
        usual = median(stated.ratio for _, stated in found)
        for log, stated in found:
            factor = stated.ratio / usual
            if not 1 / MAX_SPREAD_FACTOR <= factor <= MAX_SPREAD_FACTOR:
                yield log.build_fault(
                    f"{factor:.3g} times the other runs' time by the clock for its {key}",
                    "about equal times",
                    stated.record.line,
                )


def compute_stated_speeds(log: PublishedLog) -> Iterator[StatedSpeed]:
    """Yield how the clock compares with each statistic of a log that gives a speed."""
    records = log.list_records(STATISTICS_KEY)
    if len(records) > 1:
        for key in (THROUGHPUT_KEY, STEP_TIME_KEY):
            stated = [
                each for each in records if isinstance(each.value, Mapping) and key in each.value
            ]
            every = len(stated) // MAX_COMPARED_STATISTICS + 1
            ratios = [
                ratio
                for before, record in zip(stated[::every], stated[1::every], strict=False)
                if (ratio := compute_clock_ratio(key, before, record)) is not None
            ]
            if ratios:
                yield StatedSpeed(key, stated[0], median(ratios))


def compute_clock_ratio(key: str, before: PublishedRecord, record: PublishedRecord) -> float | None:
    """Return the clock's time between two statistics divided by the time that the later one states;
    None if they do not give it.
    """
    value = parse_finite_number(record.value.get(key))
    early, late = find_progress(before), find_progress(record)
    took_s = (record.time_ns - before.time_ns) / NS_PER_S
    if early is None or late is None or value is None:
        return None
    if late <= early or took_s <= 0 or value <= 0:
        return None
    done = late - early
    if key == THROUGHPUT_KEY:
        return took_s * value / done
    return took_s / (value * done)


def find_progress(record: PublishedRecord) -> float | None:
    """Return the progress of a run at a statistic: where the record gives a range, its end."""
    stated = record.metadata.get("step")
    if isinstance(stated, list):
        if stated:
            return parse_finite_number(stated[-1])
        return None
    return parse_run_progress(record, PROGRESS_FIELDS)

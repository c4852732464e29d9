"""Mutants of one training log: clocks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..kinds import Kinds
from .log import Log

TIMES: Kinds[Log] = Kinds()


def span(log: Log) -> tuple[float, float]:
    """Give the start and the stop of the run, in seconds."""
    return (
        log.records[log.of_key("run_start")[0]].seconds,
        log.records[log.of_key("run_stop")[0]].seconds,
    )


def raw_time(key: str, time: Any) -> Callable[[Log], bool]:
    """Write something into a record's time."""
    return lambda log: log.edit(lambda record: replace(record, time=time), *log.of_key(key)[:1])


@TIMES.add("the stop comes after the start")
def stop_a_minute_before_start(log: Log) -> bool:
    return log.edit(lambda record: record.at(span(log)[0] - 60), *log.of_key("run_stop"))


@TIMES.add("the stop comes after the start")
def stop_at_start(log: Log) -> bool:
    return log.edit(lambda record: record.at(span(log)[0]), *log.of_key("run_stop"))


@TIMES.add("the run ends after its last evaluation")
def stop_after_half_the_time(log: Log) -> bool:
    begin, end = span(log)
    return log.edit(lambda record: record.at((begin + end) / 2), *log.of_key("run_stop"))


@TIMES.add("the run ends after its last evaluation")
def stop_before_last_accuracy(log: Log) -> bool:
    last = log.records[log.of_key("eval_accuracy")[-1]].seconds
    return last < span(log)[1] + 1 and log.edit(
        lambda record: record.at(last - 5), *log.of_key("run_stop")
    )


@TIMES.add("the run starts before its first epoch")
def start_after_half_the_time(log: Log) -> bool:
    begin, end = span(log)
    return log.edit(lambda record: record.at((begin + end) / 2), *log.of_key("run_start"))


@TIMES.add("the run starts before its first epoch")
def start_after_first_epoch_start(log: Log) -> bool:
    first = min(log.records[index].seconds for index in log.of_key("epoch_start", "block_start"))
    return log.edit(lambda record: record.at(first + 5), *log.of_key("run_start"))


@TIMES.add("the run starts after its initialisation")
def start_before_init_stop(log: Log) -> bool:
    end = log.records[log.of_key("init_stop")[0]].seconds
    return log.edit(lambda record: record.at(end + 300), *log.of_key("init_stop"))


@TIMES.add("initialisation takes at most 20 minutes")
def init_of_21_minutes(log: Log) -> bool:
    end = log.records[log.of_key("init_stop")[0]].seconds
    return log.edit(
        lambda record: record.at(end - 1260), *log.of_key("init_start"), *log.of_key("cache_clear")
    )


@TIMES.add("initialisation takes at most 20 minutes")
def init_of_two_hours_by_its_end(log: Log) -> bool:
    later = [
        index
        for index, record in log.records.items()
        if record.seconds >= log.records[log.of_key("init_stop")[0]].seconds
    ]
    return log.edit(lambda record: record.later(7200), *later)


@TIMES.add("initialisation takes at most 20 minutes")
def start_21_minutes_after_initialisation(log: Log) -> bool:
    start = log.of_key("run_start")[0]
    later = [index for index, record in log.records.items() if index >= start and record.seconds]
    return log.edit(lambda record: record.later(1260), *later)


@TIMES.add("initialisation starts before it ends")
def init_ends_before_it_starts(log: Log) -> bool:
    begin = min(log.records[index].seconds for index in log.of_key("init_start"))
    return log.edit(lambda record: record.at(begin - 10), *log.of_key("init_stop"))


def backwards(key: str) -> Callable[[Log], bool]:
    """Set a record of the middle back by an hour."""
    return lambda log: (
        (index := log.middle(key)) is not None
        and log.edit(lambda record: record.at(span(log)[0] - 3600), index)
    )


def forwards(key: str) -> Callable[[Log], bool]:
    """Set a record of the middle on by a day."""
    return lambda log: (
        (index := log.middle(key)) is not None
        and log.edit(lambda record: record.at(span(log)[1] + 86400), index)
    )


CLOCKED = (
    "epoch_start",
    "epoch_stop",
    "block_start",
    "block_stop",
    "eval_start",
    "eval_stop",
    "eval_accuracy",
)
TIMES.made(CLOCKED, backwards, "backwards", "run events never run backwards")
TIMES.made(
    ("epoch_stop", "block_stop", "eval_accuracy"),
    forwards,
    "forwards",
    "run events never run backwards",
)
for key in ("run_start", "run_stop"):
    TIMES.put(f"{key}_at_zero", raw_time(key, 0), "a time that can be counted from")
    TIMES.put(f"{key}_without_a_time", raw_time(key, None), "a time that can be counted from")
    TIMES.put(f"{key}_time_is_text", raw_time(key, "yesterday"), "a time that can be counted from")
    TIMES.put(f"{key}_time_is_negative", raw_time(key, -1), "a time that can be counted from")


@TIMES.add("a time that can be counted from")
def run_stop_time_is_nan(log: Log) -> bool:
    return raw_time("run_stop", float("nan"))(log)


@TIMES.add("a time is a number")
def run_stop_time_is_digits_as_text(log: Log) -> bool:
    stop = log.one("run_stop")
    return not log.old and stop is not None and raw_time("run_stop", str(stop.time))(log)


@TIMES.add("a time that can be counted from")
def stop_in_another_century(log: Log) -> bool:
    return log.edit(lambda record: record.at(9e9), *log.of_key("run_stop"))


@TIMES.add("each evaluation has a time")
def accuracy_without_a_time(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: replace(record, time=None), *log.of_key("eval_accuracy")[-1:]
    )


@TIMES.add("each evaluation has a time")
def accuracies_at_zero(log: Log) -> bool:
    return log.edit(lambda record: record.at(0.0), *log.of_key("eval_accuracy"))


@TIMES.add("the order of the records is the order of their times")
def two_evaluations_swapped_in_time(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    if len(found) < 5:
        return False
    first, second = (log.records[index].seconds for index in found[1:3])
    return (
        second - first > 1
        and log.edit(lambda record: record.at(second), found[1])
        and log.edit(lambda record: record.at(first), found[2])
    )


@TIMES.add("the last evaluation ends before the stop")
def accuracy_a_day_after_stop(log: Log) -> bool:
    last = log.records[log.of_key("eval_accuracy")[-1]].number
    return log.edit(
        lambda record: record.at(span(log)[1] + 86400),
        *(index for index in log.of_key("eval_accuracy") if log.records[index].number == last),
    )


@TIMES.add("times in milliseconds")
def stop_in_seconds(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: replace(record, time=round(record.seconds)), *log.of_key("run_stop")
    )

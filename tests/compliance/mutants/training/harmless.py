"""What accepted logs do, done to other logs: the judge has to let it pass (a warning at most)."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..kinds import Kinds
from .accuracy import capped, last
from .log import Log, Record, read
from .numbers import field_of

HARMLESS: Kinds[Log] = Kinds()
WHY = "published logs do this"
SAMPLES = ("train_samples", "eval_samples", "num_train_examples", "num_eval_examples")


def lines(change: Callable[[str], str]) -> Callable[[Log], bool]:
    """Change each record's line as text."""

    def edit(log: Log) -> bool:
        for index in log.records:
            log.lines[index] = change(log.lines[index])
        return True

    return edit


def whole(change: Callable[[bytes], bytes]) -> Callable[[Log], bool]:
    """Change the file as bytes."""

    def edit(log: Log) -> bool:
        log.encoded = change(log.content())
        return True

    return edit


HARMLESS.put("behind_mpi", lines(lambda line: "[1,0]<stdout>:" + line), WHY)
HARMLESS.put(
    "behind_binding", lines(lambda line: "Binding: ['numactl', '--physcpubind=0-5']" + line), WHY
)
HARMLESS.put(
    "behind_half_a_warning", lines(lambda line: "UserWarning: rescale_grad is not n" + line), WHY
)
HARMLESS.put(
    "behind_a_progress_bar",
    lines(lambda line: " 12%|###      | 3/25\r 16%|####     | 4/25\r" + line),
    WHY,
)
HARMLESS.put(
    "in_noise",
    lines(
        lambda line: (
            "Wed Jul 1 | 35C P0 | 71W / 300W\n"
            + line.rstrip("\n")
            + "\nIteration 7, loss 2.31 ***\n"
        )
    ),
    WHY,
)
HARMLESS.put(
    "carriage_returns",
    whole(lambda content: content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")),
    WHY,
)
HARMLESS.put("no_final_newline", whole(lambda content: content.rstrip()), WHY)
HARMLESS.put("bytes_of_latin_1", whole(lambda content: b"caf\xe9 \xb5s \xff\n" + content), WHY)
HARMLESS.put(
    "a_final_line_of_noise",
    whole(
        lambda content: (
            content.rstrip() + b"\nmpirun noticed nothing\nENDING TIMING RUN AT 2019-06-18\n"
        )
    ),
    WHY,
)


@HARMLESS.add(WHY)
def fields_in_another_order(log: Log) -> bool:
    def turned(line: str) -> str:
        record = read_again(line)
        head, _, _ = line.partition("{")
        whole = dict(reversed(record.body().items()))
        return head + dumped(whole) + "\n"

    return lines(turned)(log)


def read_again(line: str) -> Record:
    """Read a record that is one."""
    record = read(line)
    assert record is not None
    return record


def dumped(whole: dict[str, Any]) -> str:
    """Write an object."""
    return json.dumps(whole)


@HARMLESS.add(WHY)
def further_fields(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: replace(record, rest={**(record.rest or {}), "namespace": "worker7"}),
        *log.records,
    )


@HARMLESS.add(WHY)
def headers_at_the_end(log: Log) -> bool:
    found = [index for index in log.records if log.records[index].key.startswith("submission_")]
    return log.move(
        found,
        len(log.lines),
        lambda record: replace(record, time=0 if record.rest is not None else "0.0"),
    )


@HARMLESS.add(WHY)
def headers_without_a_time(log: Log) -> bool:
    found = [index for index in log.records if log.records[index].key.startswith("submission_")]
    return log.edit(
        lambda record: replace(record, time=0 if record.rest is not None else "0.0"), *found
    )


@HARMLESS.add(WHY)
def many_hosts_clear_and_start(log: Log) -> bool:
    """Each with a clock of its own, up to a minute off."""
    rng = random.Random(7)
    for key in ("cache_clear", "init_start"):
        index = log.of_key(key)[0]
        log.insert(index + 1, *(log.records[index].later(rng.uniform(-50, 2)) for _ in range(40)))
    return True


@HARMLESS.add(WHY)
def cache_cleared_by_nothing(log: Log) -> bool:
    return log.edit(lambda record: replace(record, value=None), *log.of_key("cache_clear"))


@HARMLESS.add(WHY)
def cache_cleared_by_text(log: Log) -> bool:
    return log.edit(lambda record: replace(record, value="true"), *log.of_key("cache_clear"))


@HARMLESS.add(WHY)
def hyper_parameters_said_again(log: Log) -> bool:
    found = [
        index
        for index in log.records
        if log.records[index].key.startswith(("opt_", "lars_", "max_samples", "global_batch_size"))
    ]
    return log.insert(found[-1] + 1, *(log.records[index].later(0.01) for index in found))


@HARMLESS.add(WHY)
def unknown_records(log: Log) -> bool:
    start = log.of_key("run_start")[0]
    extra = [
        replace(log.records[start], key=key, value=value).later(0.001)
        for key, value in (("tracked_stats", 7.5), ("weights_initialization", None))
    ]
    return log.insert(start + 1, *extra)


@HARMLESS.add(WHY)
def booleans_as_text(log: Log) -> bool:
    found = [
        index
        for index in log.records
        if isinstance(log.records[index].value, bool) and log.records[index].key.startswith("opt_")
    ]
    return log.edit(lambda record: replace(record, value=str(record.value)), *found)


@HARMLESS.add(WHY)
def accuracies_as_text(log: Log) -> bool:
    found = [
        index
        for index in log.of_key("eval_accuracy")
        if isinstance(log.records[index].value, float)
    ]
    return (
        log.benchmark == "transformer"
        and log.old
        and log.edit(lambda record: replace(record, value=str(record.value)), *found)
    )


@HARMLESS.add(WHY)
def optimizer_in_capitals(log: Log) -> bool:
    return log.edit(
        lambda record: replace(record, value=record.value.capitalize()), *log.of_key("opt_name")
    )


@HARMLESS.add(WHY)
def counted_from_zero(log: Log) -> bool:
    """Epochs, blocks and evaluations from 0 where they were from 1."""
    found = [index for index in log.records if isinstance(log.records[index].number, int)]
    fits = log.benchmark != "ssd" and all(log.records[index].number > 0 for index in found)
    return fits and log.edit(
        lambda record: record.where(**{field_of(record): record.number - 1}), *found
    )


@HARMLESS.add(WHY)
def no_epochs_in_blocks(log: Log) -> bool:
    return bool(log.of_key("block_start")) and log.delete(*log.of_key("epoch_start", "epoch_stop"))


@HARMLESS.add(WHY)
def no_samples(log: Log) -> bool:
    """Of v0.7 only one submitter left them out, whose times are in seconds."""
    return log.delete(*log.of_key(*SAMPLES)) and (log.old or times_in_seconds(log))


@HARMLESS.add(WHY)
def samples_said_again(log: Log) -> bool:
    found = log.of_key(*SAMPLES)
    return bool(found) and log.insert(
        found[-1] + 1, *(log.records[index].later(0.01) for index in found)
    )


@HARMLESS.add(WHY)
def no_seed(log: Log) -> bool:
    return log.delete(*log.of_key("seed"))


def open_at_the_end(*keys: str) -> Callable[[Log], bool]:
    """Leave the last of each kind out, where none is open yet."""
    return lambda log: log.delete(
        *(log.of_key(key)[-1] for key in keys if log.of_key(key) and closed_all(log, key))
    )


def closed_all(log: Log, stop: str) -> bool:
    """Tell whether each start has its stop."""
    return len(log.of_key(stop)) == len(log.of_key(stop.replace("stop", "start")))


HARMLESS.put("last_epoch_open", open_at_the_end("epoch_stop"), WHY)
HARMLESS.put("last_block_open", open_at_the_end("block_stop"), WHY)
HARMLESS.put("last_evaluation_open", open_at_the_end("eval_stop"), WHY)
HARMLESS.put("last_of_all_open", open_at_the_end("epoch_stop", "block_stop", "eval_stop"), WHY)


@HARMLESS.add(WHY)
def names_in_other_letters(log: Log) -> bool:
    log.edit(
        lambda record: replace(record, value=str(record.value).upper()),
        *log.of_key("submission_org"),
    )
    return log.edit(
        lambda record: replace(record, value=" ".join(str(record.value))),
        *log.of_key("submission_org"),
    )


@HARMLESS.add(WHY)
def mask_for_maskrcnn(log: Log) -> bool:
    return log.benchmark == "maskrcnn" and log.edit(
        lambda record: replace(record, value="mask"), *log.of_key("submission_benchmark")
    )


def ended(status: str, reached: bool) -> Callable[[Log], bool]:
    """Let it end with another status than success."""

    def change(log: Log) -> bool:
        if not reached:
            log.edit(capped(log, 0.02), *(index for index in log.of_key("eval_accuracy")))
        return log.edit(lambda record: record.where(status=status), *log.of_key("run_stop"))

    return change


HARMLESS.put("aborted_below_target", ended("aborted", False), "a legal run that missed its target")
HARMLESS.put("abort_below_target", ended("abort", False), "a legal run that missed its target")


@HARMLESS.add("counts as not converged")
def aborted_at_target(log: Log) -> bool:
    """Only one submitter stopped such a run, whose times are in seconds."""
    return ended("aborted", True)(log) and times_in_seconds(log)


@HARMLESS.add("exactly the target is enough")
def exactly_the_target(log: Log) -> bool:
    def change(record: Record) -> Record:
        unit = 100 if log.old and log.benchmark in ("gnmt", "transformer") else 1
        target = {"resnet": 0.759, "ssd": 0.23, "gnmt": 0.24, "transformer": 0.25}[log.benchmark]
        return replace(record, value=target * unit)

    return log.benchmark != "maskrcnn" and len(last(log)) == 1 and log.edit(change, *last(log))


@HARMLESS.add(WHY)
def event_types_all_alike(log: Log) -> bool:
    found = [index for index in log.records if "event_type" in (log.records[index].rest or {})]
    return log.edit(
        lambda record: replace(record, rest={**(record.rest or {}), "event_type": "POINT_IN_TIME"}),
        *found,
    )


@HARMLESS.add(WHY)
def no_event_types(log: Log) -> bool:
    found = [index for index in log.records if "event_type" in (log.records[index].rest or {})]
    return log.edit(
        lambda record: replace(record, drop=frozenset({"event_type", "namespace"})), *found
    )


@HARMLESS.add(WHY)
def times_in_seconds(log: Log) -> bool:
    """Alibaba's `time_s`."""
    return not log.old and lines(lambda line: in_seconds(line))(log)


def in_seconds(line: str) -> str:
    """Write the time in seconds, under the name that says so."""
    record = read_again(line)
    body = {
        ("time_s" if name == "time_ms" else name): value / 1000 if name == "time_ms" else value
        for name, value in record.body().items()
    }
    return f"{record.lead}:::MLLOG {dumped(body)}\n"

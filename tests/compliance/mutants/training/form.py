"""Mutants of one training log: form - what cannot be read, hides, or says two things."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..kinds import Kinds
from .log import Log

FORM: Kinds[Log] = Kinds()


def lined(key: str, change: Callable[[str], str]) -> Callable[[Log], bool]:
    """Change the line of the last record of a kind, as text."""

    def edit(log: Log) -> bool:
        found = log.of_key(key)
        if found:
            log.lines[found[-1]] = change(log.lines[found[-1]])
        return bool(found)

    return edit


def whole(change: Callable[[bytes], bytes]) -> Callable[[Log], bool]:
    """Change the file as bytes."""

    def edit(log: Log) -> bool:
        log.encoded = change(log.content())
        return True

    return edit


def cut(line: str) -> str:
    """Cut a line in the middle of its record."""
    return line[: line.index(":::MLL") + (len(line) - line.index(":::MLL")) * 2 // 3] + "\n"


def in_value(text: str) -> Callable[[str], str]:
    """Write something in place of a record's value."""

    def change(line: str) -> str:
        start = line.index('"value": ') + len('"value": ')
        _, end = json.JSONDecoder().raw_decode(line[start:])
        return line[:start] + text + line[start + end :]

    return change


def without(field: str, key: str) -> Callable[[Log], bool]:
    """Leave a field of a record out."""
    return lambda log: log.edit(
        lambda record: replace(record, drop=frozenset({field})), *log.of_key(key)[-1:]
    )


KEYS = ("run_start", "run_stop", "eval_accuracy", "global_batch_size", "submission_benchmark")
FORM.made(KEYS, lambda key: lined(key, cut), "cut", "a whole record")
FORM.made(
    KEYS,
    lambda key: lined(key, lambda line: line.replace("{", "{\x00\x07\x1b\x98", 1)),
    "garbage_in",
    "readable JSON",
)
FORM.made(
    (*KEYS[:2], KEYS[4]),
    lambda key: lined(key, lambda line: line.replace(f"{key}", f"{key[:-1]}", 1)),
    "misspelt",
    "known keys",
)
FORM.made(
    ("run_stop", "eval_accuracy", "epoch_start", "block_start"),
    lambda key: without("metadata", key),
    "metadata_missing",
    "metadata",
)
FORM.made(
    ("run_start", "eval_accuracy", "global_batch_size", "submission_org"),
    lambda key: without("value", key),
    "value_missing",
    "a value",
)
FORM.made(
    ("eval_accuracy", "global_batch_size"),
    lambda key: lined(key, in_value("NaN")),
    "nan_in",
    "JSON has no NaN",
)
FORM.made(
    ("eval_accuracy", "global_batch_size"),
    lambda key: lined(key, in_value("Infinity")),
    "infinity_in",
    "JSON has no Infinity",
)
FORM.made(
    ("eval_accuracy",),
    lambda key: lined(key, in_value("[" * 3000 + "]" * 3000)),
    "nested_in",
    "bounded depth",
)
FORM.made(
    ("eval_accuracy", "global_batch_size"),
    lambda key: lined(key, in_value("1" * 500)),
    "endless_number_in",
    "a number in its range",
)


@FORM.add("closed: the batch is required")
def misspelt_batch(log: Log) -> bool:
    return log.closed and lined(
        "global_batch_size", lambda line: line.replace("global_batch_size", "global_batchsize", 1)
    )(log)


@FORM.add("a record has a time")
def time_missing(log: Log) -> bool:
    if log.old:
        return log.edit(lambda record: replace(record, time=""), *log.of_key("run_stop"))
    return log.edit(
        lambda record: replace(record, drop=frozenset({"time_ms"})), *log.of_key("run_stop")
    )


@FORM.add("a record has a key")
def key_missing(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: replace(record, drop=frozenset({"key"})), *log.of_key("run_stop")
    )


@FORM.add("a key is text")
def key_is_a_number(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: replace(record, key=7),  # type: ignore[arg-type]
        *log.of_key("run_start"),
    )


@FORM.add("metadata is an object")
def metadata_is_text(log: Log) -> bool:
    return log.edit(lambda record: replace(record, metadata="none"), *log.of_key("run_stop"))  # type: ignore[arg-type]


@FORM.add("metadata is an object")
def metadata_is_null(log: Log) -> bool:
    return log.edit(lambda record: replace(record, metadata=None), *log.of_key("run_stop"))  # type: ignore[arg-type]


@FORM.add("one record on a line")
def two_records_on_a_line(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    return (
        lined("eval_accuracy", lambda line: line.rstrip("\n") + " ")(log)
        and found[-1] + 1 < len(log.lines)
        and glue(log, found[-1])
    )


def glue(log: Log, index: int) -> bool:
    """Write the next record on the same line."""
    following = next((other for other in log.records if other > index), None)
    if following is None:
        return False
    log.lines[index] = log.lines[index].rstrip() + " " + log.lines.pop(following)
    return True


@FORM.add("one record on a line")
def hidden_behind_a_second_token(log: Log) -> bool:
    """The line is the worse accuracy for a reader of the first token, the better one for a reader
    of the last.
    """
    found = log.of_key("eval_accuracy")
    line = log.lines[found[0]]
    log.lines[found[0]] = line.rstrip("\n") + " " + line[line.index(":::MLL") :]
    return True


@FORM.add("one record on a line")
def stop_hidden_in_an_epoch_line(log: Log) -> bool:
    found, stop = log.of_key("epoch_start", "block_start"), log.of_key("run_stop")[0]
    log.lines[found[-1]] = log.lines[stop].rstrip("\n") + " " + log.lines[found[-1]]
    del log.lines[stop]
    return True


FORM.put(
    "stop_behind_a_bare_token",
    lined("run_stop", lambda line: re.sub(r"(:::MLL\w*) ", r"\1 \1 ", line, count=1)),
    "one record on a line",
)
FORM.put(
    "token_in_a_value", lined("run_stop", in_value('":::MLLOG {}"')), "no record within a record"
)


@FORM.add("records of one round")
def stop_in_the_other_dialect(log: Log) -> bool:
    return log.edit(lambda record: record.in_other_dialect(), *log.of_key("run_stop"))


def doubled(field: str, value: str) -> Callable[[str], str]:
    """Say a field twice in one object."""
    return lambda line: line.replace(f'"{field}":', f'"{field}": {value}, "{field}":', 1)


FORM.put(
    "value_twice_in_accuracy", lined("eval_accuracy", doubled("value", "0.1")), "each field once"
)
FORM.put(
    "value_twice_in_batch", lined("global_batch_size", doubled("value", "1")), "each field once"
)
FORM.put(
    "status_twice_in_stop", lined("run_stop", doubled("status", '"aborted"')), "each field once"
)
FORM.put(
    "metadata_twice_in_stop",
    lined("run_stop", doubled("metadata", '{"status": "aborted"}')),
    "each field once",
)


@FORM.add("each field once")
def time_twice_in_stop(log: Log) -> bool:
    return not log.old and lined("run_stop", doubled("time_ms", "1500000000000"))(log)


@FORM.add("each field once")
def key_twice_in_stop(log: Log) -> bool:
    return not log.old and lined("run_stop", doubled("key", '"run_start"'))(log)


def typed(event: str, key: str) -> Callable[[Log], bool]:
    """Give a record another event type."""

    def change(log: Log) -> bool:
        found = [
            index for index in log.of_key(key) if (log.records[index].rest or {}).get("event_type")
        ]
        return log.edit(
            lambda record: replace(record, rest={**(record.rest or {}), "event_type": event}),
            *found[:1],
        )

    return change


FORM.put("event_type_unknown", typed("SOMETIME", "run_start"), "a known event type")
FORM.put("event_type_end_of_a_start", typed("INTERVAL_END", "run_start"), "a start is no end")
FORM.put("event_type_start_of_a_stop", typed("INTERVAL_START", "run_stop"), "a stop is no start")


def in_records(change: Callable[[Any], Any]) -> Callable[[Log], bool]:
    """Change what stands after the token in the line of run_stop."""
    return lined(
        "run_stop",
        lambda line: line[: line.index("{")] + change(line[line.index("{") :].rstrip("\n")) + "\n",
    )


FORM.put("record_is_a_list", in_records(lambda body: f"[{body}]"), "a record is an object")
FORM.put(
    "text_after_a_record", in_records(lambda body: body + "}} and more {"), "nothing after a record"
)
FORM.put("single_quotes", in_records(lambda body: body.replace('"', "'")), "JSON")

FORM.put("file_empty", whole(lambda content: b""), "a log")
FORM.put("file_of_blanks", whole(lambda content: b" \n\n \n"), "a log")
FORM.put("file_of_garbage", whole(lambda content: bytes(range(256)) * 40), "a log")
FORM.put("file_of_zeros", whole(lambda content: b"\0" * 5000), "a log")
FORM.put("file_half", whole(lambda content: content[: len(content) // 2]), "a whole log")
FORM.put(
    "file_in_utf16",
    whole(lambda content: content.decode("latin-1").encode("utf-16")),
    "one byte a character",
)
FORM.put(
    "file_without_records",
    whole(
        lambda content: (
            b"".join(line for line in content.splitlines(True) if b":::MLL" not in line)
            or b"step 1\n"
        )
    ),
    "records",
)
FORM.put("file_compressed", whole(lambda content: __import__("gzip").compress(content)), "a log")
FORM.put(
    "file_twice",
    whole(lambda content: content + (b"" if content.endswith(b"\n") else b"\n") + content),
    "one run in a log",
)
FORM.put(
    "other_token", whole(lambda content: content.replace(b":::MLL", b"::MLL")), "the records' token"
)


@FORM.add("a whole log")
def file_without_its_end(log: Log) -> bool:
    """It ends within the last event, not within a header that some write at the end."""
    stop = log.of_key("run_stop")[-1]
    log.lines = [*log.lines[:stop], log.lines[stop][: len(log.lines[stop]) // 2]]
    return True

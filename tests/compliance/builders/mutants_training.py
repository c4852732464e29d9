"""Kinds of mutation, each of which breaks one rule of a published training log: name -> what is
done to it.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from log_text import (
    EVALUATION,
    Mutation,
    Row,
    Unfit,
    cut,
    delete,
    delete_together,
    double,
    edit,
    move,
    number,
    of,
    pick,
    raw,
    retime,
    settings_of,
    stretch,
    value,
    without,
)
from mutants_settings import SETTINGS, closed, new, only

IDENTITY: Final = (
    "submission_org",
    "submission_benchmark",
    "submission_division",
    "submission_status",
    "submission_platform",
)


def accuracies(change: Any, which: int | str | None = -1) -> Mutation:
    """Change the value of evaluations, whatever its form: number, text, list, table, table in a
    table.
    """

    def nested(told: Any) -> Any:
        if isinstance(told, dict):
            return {key: nested(each) for key, each in told.items()}
        if isinstance(told, list):
            return [nested(each) for each in told]
        return change(float(told))

    return edit(
        "eval_accuracy", lambda row: row.table.update(value=nested(row.table["value"])), which
    )


def first_metric(told: float) -> Mutation:
    """Change only the first of several metrics."""

    def change(row: Row) -> None:
        table = row.table["value"]
        if isinstance(table, list):
            table[0] = told
        elif isinstance(table, dict):
            (table.get("accuracy") or table).update(BBOX=told)
        else:
            raise Unfit

    return edit("eval_accuracy", change, -1)


def just_below(rows: list[Row]) -> list[Row] | str:
    """Let the last evaluation miss the target by a little."""
    goals = {
        "resnet": 0.7589,
        "ssd": 0.2299,
        "mask": 0.3389,
        "maskrcnn": 0.3389,
        "gnmt": 0.2399,
        "transformer": 0.2499,
    }
    goal = goals[settings_of(rows)["submission_benchmark"]]
    return accuracies(lambda score: goal * 100 if score > 1 else goal)(rows)


def relabel(key: str, change: Any, which: int | str = 0) -> Mutation:
    """Change the number that a record bears."""
    field = "first_epoch_num" if key.startswith("block") else "epoch_num"
    return edit(key, lambda row: row.metadata.update({field: change(row.metadata[field])}), which)


def in_line(mutation: Mutation) -> Mutation:
    """Mutate only logs whose evaluations end before the run does."""

    def mutate(rows: list[Row]) -> list[Row] | str:
        if of(rows, "eval_accuracy")[-1].seconds > pick(rows, "run_stop").seconds:
            raise Unfit
        return mutation(rows)

    return mutate


def glued(rows: list[Row]) -> list[Row]:
    """Put two records on one line."""
    stop = pick(rows, "run_stop")
    before = pick(rows, "run_start")
    before.raw = (
        before.text().removeprefix(before.front) + " " + stop.text().removeprefix(stop.front)
    )
    return [row for row in rows if row is not stop]


def hidden(rows: list[Row]) -> list[Row]:
    """Hide a record behind a second mark."""
    row = pick(rows, "run_stop")
    mark = row.text().removeprefix(row.front)
    row.raw = f"{mark.split(' ')[0]} {mark}"
    return rows


def init_after(rows: list[Row]) -> list[Row]:
    """Write initialisation behind the run."""
    block = [*of(rows, "init_start"), *of(rows, "init_stop")]
    stop = pick(rows, "run_stop")
    for row in block:
        row.at(stop.seconds + 1)
    return [*(row for row in rows if all(row is not each for each in block)), *block]


def trained_on(what: str, field: str) -> Mutation:
    """Train once more behind the end of the run."""

    def mutate(rows: list[Row]) -> list[Row]:
        stop = pick(rows, "run_stop")
        again = [copy.deepcopy(pick(rows, f"{what}_{end}", -1)) for end in ("start", "stop")]
        for index, row in enumerate(again, 1):
            row.at(stop.seconds + 5 * index)
            row.metadata[field] = 99
        return [*rows, *again]

    return mutate


def late_evaluation(rows: list[Row]) -> list[Row]:
    """Move the last evaluation, whole, behind the end of the run."""
    if not of(rows, "eval_start"):
        raise Unfit
    moved = [of(rows, key)[-1] for key in EVALUATION]
    stop = pick(rows, "run_stop")
    for row in moved:
        row.at(stop.seconds + 1)
    return [*(row for row in rows if all(row is not each for each in moved)), *moved]


def swapped(first: str, second: str) -> Mutation:
    """Let two records change their times."""

    def mutate(rows: list[Row]) -> list[Row]:
        one, other = pick(rows, first), pick(rows, second, -1)
        earlier, later = one.seconds, other.seconds
        one.at(later)
        other.at(earlier)
        return rows

    return mutate


def between(key: str, share: float) -> Any:
    """A time within the run."""

    def when(rows: list[Row]) -> float:
        start, stop = pick(rows, "run_start").seconds, pick(rows, "run_stop").seconds
        return start + share * (stop - start)

    return when


def mixed(rows: list[Row]) -> list[Row]:
    """Write one record in the other round's dialect."""
    row = pick(rows, "run_stop")
    other = row.copy()
    other.new = not row.new
    other.table = (
        {"value": None, "metadata": row.metadata}
        if row.new
        else {"key": row.key, "time_ms": row.seconds * 1000, **row.table}
    )
    return [other if each is row else each for each in rows]


def repeated_evaluation(rows: list[Row]) -> list[Row]:
    """Let the evaluation in the middle stand twice."""
    middle = pick(rows, "eval_accuracy", "middle").metadata["epoch_num"]
    again = [
        row.copy()
        for row in rows
        if row.key in EVALUATION and row.metadata.get("epoch_num") == middle
    ]
    index = max(
        index
        for index, row in enumerate(rows)
        if row.key in EVALUATION and row.metadata.get("epoch_num") == middle
    )
    for row in again:
        row.at(rows[index].seconds)
    return [*rows[: index + 1], *again, *rows[index + 1 :]]


def half(rows: list[Row]) -> list[Row]:
    """Leave out the second half of the file."""
    return rows[: len(rows) // 2]


def torn(rows: list[Row]) -> str:
    """End the file in the middle of its last record."""
    index = max(index for index, row in enumerate(rows) if row.key)
    return "\n".join(row.text() for row in rows[: index + 1])[:-20]


FORM: Final[Mapping[str, Mutation]] = {
    "malformed JSON": edit("run_stop", raw(lambda text: text[:-1])),
    "malformed JSON of an evaluation": edit(
        "eval_accuracy", raw(lambda text: text.replace('"metadata"', "metadata")), -1
    ),
    "malformed JSON of a setting": edit(
        "global_batch_size", raw(lambda text: text.replace('"value": ', '"value" ', 1))
    ),
    "no value": edit("run_start", cut("value")),
    "no value of an evaluation": edit("eval_accuracy", cut("value"), -1),
    "no metadata": edit("run_stop", cut("metadata")),
    "no metadata of a block": edit("block_start", cut("metadata"), 0),
    "metadata that is a text": edit("run_stop", lambda row: row.table.update(metadata="success")),
    "no time": new(edit("run_start", cut("time_ms"))),
    "no key": new(edit("run_start", cut("key"))),
    "key that is a number": new(edit("run_start", lambda row: row.table.update(key=7))),
    "time that is a text": new(
        edit("run_stop", lambda row: row.table.update(time_ms="1594210618449"))
    ),
    "time below zero": new(edit("run_start", lambda row: row.table.update(time_ms=-1))),
    "time that is null": new(edit("eval_accuracy", lambda row: row.table.update(time_ms=None), -1)),
    "garbage for a time": edit("run_start", raw(lambda text: text.replace(" 1", " x", 1))),
    "two records on a line": glued,
    "a record hidden behind a second mark": hidden,
    "a record within a record": edit(
        "run_stop", raw(lambda text: text.replace('"value": null', '"value": ":::MLLOG {}"'))
    ),
    "a key twice": edit(
        "eval_accuracy",
        raw(lambda text: text.replace('"value": ', '"value": 0.1, "value": ', 1)),
        -1,
    ),
    "a status twice": edit(
        "run_stop",
        raw(lambda text: text.replace('"status": ', '"status": "aborted", "status": ', 1)),
    ),
    "NaN for a setting": edit(
        "global_batch_size", raw(lambda text: text.replace('"value": ', '"value": NaN, "x": ', 1))
    ),
    "Infinity for an accuracy": edit(
        "eval_accuracy",
        raw(lambda text: text.replace('"value": ', '"value": Infinity, "x": ', 1)),
        -1,
    ),
    "binary garbage in a record": edit(
        "run_stop", raw(lambda text: text[:30] + "\x00\x01\x02\xff" + text[34:])
    ),
    "a record nested without end": edit(
        "run_stop", raw(lambda text: text.replace("null", "[" * 100_000 + "]" * 100_000, 1))
    ),
    "a number that nothing counts": edit("global_batch_size", value(10**400)),
    "text behind a record": edit("run_stop", raw(lambda text: text + " done")),
    "another round's dialect": mixed,
    "half the file": half,
    "torn in the last record": torn,
    "an empty file": lambda rows: "",
    "no record": lambda rows: "Epoch 1: 100%\n" * 20,
}
"""What a record must be, and a file of them."""

PRESENCE: Final[Mapping[str, Mutation]] = {
    **{
        f"no {key}": delete(key)
        for key in (
            *IDENTITY,
            "cache_clear",
            "init_start",
            "init_stop",
            "run_start",
            "run_stop",
            "eval_accuracy",
        )
    },
    "no train_samples": new(delete("train_samples")),
    "no eval_samples": new(delete("eval_samples")),
    **{f"empty {key}": edit(key, value("")) for key in IDENTITY},
    "organisation that is null": edit("submission_org", value(None)),
    "benchmark that is a number": edit("submission_benchmark", value(5)),
    "unknown benchmark": edit("submission_benchmark", value("resnet34")),
    "unknown division": edit("submission_division", value("semi-closed")),
    "unknown status": edit("submission_status", value("somewhere")),
    **{f"two values of {key}": double(key, value="something else") for key in IDENTITY},
    "second division open": closed(double("submission_division", value="open")),
    "run_start twice": double("run_start"),
    "run_start twice, later": double("run_start", later=0.5),
    "run_stop twice": double("run_stop"),
    "run_stop twice, later": double("run_stop", later=30.0),
    "init_stop twice, later": double("init_stop", later=-5.0),
    "neither blocks nor epochs": lambda rows: [
        row for row in rows if not row.key.startswith(("block", "epoch"))
    ],
    "unknown event type": new(edit("run_start", lambda row: row.table.update(event_type="START"))),
    "a start that is an end": new(
        edit("run_start", lambda row: row.table.update(event_type="INTERVAL_END"))
    ),
    "an end that is a start": new(
        edit("run_stop", lambda row: row.table.update(event_type="INTERVAL_START"))
    ),
    "train_samples of text": new(edit("train_samples", value("many"))),
    "eval_samples 0": new(edit("eval_samples", value(0))),
    "eval_samples below 0": new(edit("eval_samples", value(-5000))),
    "two sizes of the training set": new(double("train_samples", value=123)),
}
"""What must stand in a log, and how often."""

CLOCK: Final[Mapping[str, Mutation]] = {
    "run_stop before run_start in the file": move(
        "run_stop", "run_start", behind=False, keep_time=True
    ),
    "run_stop before run_start in time": retime(
        "run_stop", lambda rows: pick(rows, "run_start").seconds - 60
    ),
    "run_stop when the run starts": retime(
        "run_stop", lambda rows: pick(rows, "run_start").seconds
    ),
    "run_stop before the last evaluation": in_line(
        retime("run_stop", lambda rows: of(rows, "eval_accuracy")[-1].seconds - 5)
    ),
    "run_stop in the middle": retime("run_stop", between("run_stop", 0.5)),
    "run_stop in the middle of the file": move("run_stop", "eval_accuracy", beside_which="middle"),
    "run_start in the middle": retime("run_start", between("run_start", 0.5)),
    "run_start behind the first block": move(
        "run_start", "block_start", keep_time=True, beside_which=1
    ),
    "run_start before initialisation": move("run_start", "init_stop", behind=False),
    "init_stop before init_start": move("init_stop", "init_start", behind=False),
    "init_start behind init_stop": move("init_start", "init_stop", which=-1),
    "init_start behind run_start": move("init_start", "run_start", which=-1),
    "init_stop behind run_start": move("init_stop", "run_start"),
    "init_stop much after run_start in time": retime(
        "init_stop", lambda rows: pick(rows, "run_start").seconds + 30
    ),
    "initialisation behind the run": init_after,
    "init_stop before init_start in time": retime(
        "init_stop", lambda rows: of(rows, "init_start")[0].seconds - 30
    ),
    "initialisation of 21 minutes": stretch("init_stop", 1260.0),
    "20 minutes before the run": stretch("run_start", 1260.0),
    "cache cleared behind run_start": move("cache_clear", "run_start", which=-1),
    "cache not cleared": edit("cache_clear", value(False), None),
    "cache not cleared, in words": edit("cache_clear", value("false"), None),
    "cache cleared 0": edit("cache_clear", value(0), None),
    "an evaluation back in time": edit("eval_accuracy", lambda row: row.later(-3600.0), "middle"),
    "a block back in time": edit("block_start", lambda row: row.later(-600.0), -1),
    "an epoch back in time": edit("epoch_stop", lambda row: row.later(-6000.0), "middle"),
    "times of an epoch's ends exchanged": swapped("epoch_start", "epoch_stop"),
    "times of blocks exchanged": swapped("block_start", "block_start"),
    "run events without a clock": edit("eval_accuracy", lambda row: row.at(0.0), None),
    "run_start without a clock": edit("run_start", lambda row: row.at(0.0)),
    "run_stop in another century": edit("run_stop", lambda row: row.at(9e9)),
    "last evaluation behind run_stop": new(in_line(late_evaluation)),
    "a block behind run_stop": new(trained_on("block", "first_epoch_num")),
    "an epoch behind run_stop": new(trained_on("epoch", "epoch_num")),
}
"""The order of a run, and its times."""

PROGRESS: Final[Mapping[str, Mutation]] = {
    **{
        f"no {key} in the middle": delete(key, "middle")
        for key in ("block_start", "block_stop", "epoch_start", "epoch_stop", *EVALUATION)
    },
    **{f"no first {key}": delete(key, 0) for key in ("block_start", "epoch_start", "eval_start")},
    "no epoch in the middle": delete_together(
        ("epoch_start", "epoch_stop"), "middle", "epoch_start"
    ),
    "no block in the middle": delete_together(
        ("block_start", "block_stop"), "middle", "block_start"
    ),
    "no evaluation in the middle": delete_together(EVALUATION, "middle", "eval_accuracy"),
    "no first evaluation": delete_together(EVALUATION, 0, "eval_accuracy"),
    "no block_stop": new(delete("block_stop")),
    "no eval_stop": delete("eval_stop"),
    "no epoch_stop": new(delete("epoch_stop")),
    "a block twice": double("block_start", "middle"),
    "an epoch's start twice": double("epoch_start", "middle"),
    "an epoch's end twice": double("epoch_stop", "middle"),
    "an evaluation twice": repeated_evaluation,
    "an accuracy twice": double("eval_accuracy", "middle"),
    "an epoch's number again": relabel("epoch_start", lambda epoch: epoch - 1, "middle"),
    "an epoch's number left out": relabel("epoch_start", lambda epoch: epoch + 1, "middle"),
    "an epoch ends as another": relabel("epoch_stop", lambda epoch: epoch + 7, "middle"),
    "a block's number again": relabel("block_start", lambda epoch: 0, "middle"),
    "a block ends as another": relabel("block_stop", lambda epoch: epoch + 40, "middle"),
    "an evaluation of an earlier epoch": relabel("eval_accuracy", lambda epoch: 0, "middle"),
    "an evaluation of a later epoch": relabel("eval_accuracy", lambda epoch: epoch + 50, "middle"),
    "evaluations of epochs below zero": edit("eval_accuracy", number("epoch_num", -4)),
    "first epoch 7": relabel("epoch_start", lambda epoch: epoch + 7, 0),
    **{
        f"no number in {key}": edit(key, without("epoch_num"), "middle")
        for key in ("epoch_start", "epoch_stop", *EVALUATION)
    },
    "no number in block_start": edit("block_start", without("first_epoch_num"), "middle"),
    "no number in block_stop": edit("block_stop", without("first_epoch_num"), "middle"),
    "no count in block_start": edit("block_start", without("epoch_count"), "middle"),
    "block of no epochs": edit("block_start", number("epoch_count", 0), "middle"),
    "block of fewer epochs than none": edit("block_start", number("epoch_count", -4), 0),
    "block of an unknown count": edit("block_start", number("epoch_count", "four"), 0),
    "number of an epoch that is text": edit("epoch_start", number("epoch_num", "three"), "middle"),
    "number of an evaluation that is null": edit(
        "eval_accuracy", number("epoch_num", None), "middle"
    ),
}
"""Blocks, epochs and evaluations."""

QUALITY: Final[Mapping[str, Mutation]] = {
    "success far below the target": in_line(accuracies(lambda score: score * 0.5)),
    "success just below the target": in_line(just_below),
    "success without the last evaluation": delete_together(EVALUATION, -1, "eval_accuracy"),
    "box below the target": first_metric(0.3),
    "accuracy 1": accuracies(lambda score: 1.0 if score <= 1 else 100.0),
    "accuracy above 1": accuracies(lambda score: 1.2 if score <= 1 else 120.0),
    "accuracy above 1 in the middle": accuracies(
        lambda score: 1.2 if score <= 1 else 120.0, "middle"
    ),
    "accuracy in percent": new(accuracies(lambda score: score * 100, None)),
    "accuracy below 0": accuracies(lambda score: -score, "middle"),
    "accuracy null": edit("eval_accuracy", value(None), -1),
    "accuracy null in the middle": edit("eval_accuracy", value(None), "middle"),
    "accuracy true": edit("eval_accuracy", value(True), -1),
    "accuracy in words": edit("eval_accuracy", value("good"), -1),
    "accuracy as text": new(accuracies(str)),
    "accuracy NaN in words": accuracies(lambda score: "nan"),
    "accuracy without end": accuracies(lambda score: 10.0**300),
    "accuracy an empty list": edit("eval_accuracy", value([]), -1),
    "accuracy an empty table": edit("eval_accuracy", value({}), -1),
    "accuracy of another metric": edit("eval_accuracy", value({"top5": 0.93}), -1),
    "status missing": edit("run_stop", without("status")),
    "status null": edit("run_stop", number("status", None)),
    "status unknown": edit("run_stop", number("status", "finished")),
    "status true": edit("run_stop", number("status", True)),
    "status a list": edit("run_stop", number("status", ["success"])),
    "aborted, and the target is reached": only(
        "", None, edit("run_stop", number("status", "aborted"))
    ),
}
"""What the evaluations gave, and what is said of it."""

KINDS: Final[Mapping[str, Mutation]] = {
    f"{family}: {name}": mutation
    for family, kinds in (
        ("form", FORM),
        ("presence", PRESENCE),
        ("clock", CLOCK),
        ("progress", PROGRESS),
        ("quality", QUALITY),
        ("settings", SETTINGS),
    )
    for name, mutation in kinds.items()
}

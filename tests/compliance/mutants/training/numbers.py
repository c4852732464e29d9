"""Mutants of one training log: the numbers of epochs, blocks and evaluations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..kinds import Kinds
from .log import Log, Record

NUMBERS: Kinds[Log] = Kinds()
EPOCHS = ("epoch_start", "epoch_stop")
EVALS = ("eval_start", "eval_accuracy", "eval_stop")


def field_of(record: Record) -> str:
    """Name the field that says which epoch a record is about."""
    return "first_epoch_num" if record.key.startswith("block") else "epoch_num"


def numbered(number: Callable[[Any], Any], *keys: str) -> Callable[[Log], bool]:
    """Change the number of a record in the middle."""

    def change(log: Log) -> bool:
        index = log.middle(*keys)
        return index is not None and log.edit(
            lambda record: record.where(**{field_of(record): number(record.number)}), index
        )

    return change


for key in (
    "epoch_start",
    "epoch_stop",
    "block_start",
    "block_stop",
    "eval_start",
    "eval_accuracy",
    "eval_stop",
):
    NUMBERS.put(
        f"{key}_number_off",
        numbered(lambda number: number + 7, key),
        "numbers of start and stop agree, and go on by one",
    )
    NUMBERS.put(f"{key}_number_missing", numbered(lambda number: None, key), "says which epoch")
    NUMBERS.put(f"{key}_number_text", numbered(lambda number: "next", key), "a number of an epoch")
for key in ("epoch_start", "block_start", "eval_accuracy"):
    NUMBERS.put(f"{key}_number_negative", numbered(lambda number: -3, key), "a number of an epoch")


def from_the_middle(shift: int, *keys: str) -> Callable[[Log], bool]:
    """Shift the numbers of all records from the middle on."""

    def change(log: Log) -> bool:
        found = log.of_key(*keys)
        firsts = log.of_key(keys[0])
        half = (
            [index for index in found if index >= firsts[len(firsts) // 2]]
            if len(firsts) >= 3
            else []
        )
        return log.edit(
            lambda record: record.where(**{field_of(record): record.number + shift}), *half
        )

    return change


NUMBERS.put("epochs_skipped", from_the_middle(2, *EPOCHS), "epochs are consecutive")
NUMBERS.put("epochs_counted_again", from_the_middle(-1, *EPOCHS), "epochs are consecutive")
NUMBERS.put(
    "blocks_skipped", from_the_middle(9, "block_start", "block_stop"), "blocks follow one another"
)
NUMBERS.put(
    "blocks_counted_again",
    from_the_middle(-3, "block_start", "block_stop"),
    "blocks follow one another",
)
NUMBERS.put("evaluations_descend", from_the_middle(-30, *EVALS), "evaluation epochs ascend")


@NUMBERS.add("evaluation epochs ascend")
def all_evaluations_of_one_epoch(log: Log) -> bool:
    found = log.of_key(*EVALS)
    number = log.records[found[0]].number
    return len(list(log.evaluations())) >= 3 and log.edit(
        lambda record: record.where(epoch_num=number), *found
    )


@NUMBERS.add("an epoch that was trained is evaluated")
def evaluated_beyond_what_was_trained(log: Log) -> bool:
    evaluations = list(log.evaluations())
    return log.edit(lambda record: record.where(epoch_num=record.number + 500), *evaluations[-1])


@NUMBERS.add(
    "evaluated at least every 4 epochs (resnet), every epoch (maskrcnn, gnmt, transformer)"
)
def evaluations_too_far_apart(log: Log) -> bool:
    evaluations = [index for lines in log.evaluations() for index in lines]
    return log.benchmark != "ssd" and log.edit(
        lambda record: record.where(epoch_num=record.number * 3), *evaluations
    )


@NUMBERS.add("epochs are numbered from 0 or 1")
def epochs_from_a_hundred(log: Log) -> bool:
    return log.edit(
        lambda record: record.where(epoch_num=record.number + 100), *log.of_key(*EPOCHS)
    )


@NUMBERS.add("a block has epochs")
def block_of_no_epochs(log: Log) -> bool:
    return log.edit(lambda record: record.where(epoch_count=0), *log.of_key("block_start")[:1])


@NUMBERS.add("a block has epochs")
def block_of_negative_epochs(log: Log) -> bool:
    return log.edit(lambda record: record.where(epoch_count=-4), *log.of_key("block_start")[:1])


@NUMBERS.add("a block says how many epochs it has")
def block_of_unknown_epochs(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: record.where(epoch_count="some"), *log.of_key("block_start")[:1]
    )


@NUMBERS.add("a block says how many epochs it has")
def block_without_a_count(log: Log) -> bool:
    index = log.centre("block_start")
    return (
        index is not None
        and log.records[index].metadata.get("epoch_count", 1) > 1
        and log.edit(lambda record: record.where(epoch_count=None), index)
    )


@NUMBERS.add("a number of an epoch")
def eval_accuracy_number_null(log: Log) -> bool:
    index = log.centre("eval_accuracy")
    return index is not None and log.edit(lambda record: record.where_null("epoch_num"), index)


@NUMBERS.add("the next block starts where this one ends")
def block_of_many_epochs(log: Log) -> bool:
    index = log.middle("block_start")
    return index is not None and log.edit(
        lambda record: record.where(epoch_count=record.metadata.get("epoch_count", 1) + 20), index
    )


@NUMBERS.add("an epoch ends once")
def an_epoch_again(log: Log) -> bool:
    start, stop = log.middle("epoch_start"), log.middle("epoch_stop")
    if start is None or stop is None:
        return False
    again = [
        log.records[start],
        next(
            log.records[index]
            for index in log.of_key("epoch_stop")
            if log.records[index].number == log.records[start].number
        ),
    ]
    place = (
        next(
            index
            for index in log.of_key("epoch_stop")
            if log.records[index].number == log.records[start].number
        )
        + 1
    )
    return log.insert(place, *(replace(record, time=again[-1].time) for record in again))


@NUMBERS.add("an evaluation comes after its epoch")
def evaluation_before_its_epoch(log: Log) -> bool:
    evaluations = list(log.evaluations())
    if len(evaluations) < 4:
        return False
    first = log.of_key("epoch_start", "block_start")[0]
    begin = log.records[first].seconds
    return log.move(evaluations[-2], first, lambda record: record.at(begin))

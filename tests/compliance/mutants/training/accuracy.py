"""Mutants of one training log: accuracies, targets and the status that follows from them."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..kinds import Kinds
from .log import Log, Record

ACCURACY: Kinds[Log] = Kinds()
TARGETS: Final = {
    "resnet": 0.759,
    "ssd": 0.23,
    "maskrcnn": 0.339,
    "gnmt": 0.24,
    "transformer": 0.25,
}
"""Fractions; of the two of Mask R-CNN the lower."""


def mapped(value: Any, change: Callable[[float], float]) -> Any:
    """Change each number of an accuracy, whatever its shape; numbers are fractions for `change`."""
    if isinstance(value, list):
        return [mapped(part, change) for part in value]
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    number = float(value)
    unit = 100 if number > 1 else 1
    changed = change(number / unit) * unit
    return str(changed) if isinstance(value, str) else changed


def valued(value: Any, *indices: int) -> Callable[[Log], bool]:
    """Give the last accuracies this value."""

    def change(log: Log) -> bool:
        return log.edit(lambda record: replace(record, value=value), *last(log))

    return change


def last(log: Log) -> list[int]:
    """Find the accuracies of the last evaluation before the end, those behind it being in flight;
    some log two units.
    """
    stop = log.of_key("run_stop")
    found = [
        index for index in log.of_key("eval_accuracy") if not stop or index < stop[0]
    ] or log.of_key("eval_accuracy")
    return [index for index in found if log.records[index].number == log.records[found[-1]].number]


def capped(log: Log, least: float) -> Callable[[Record], Record]:
    """Hold accuracies below the target."""
    return lambda record: replace(
        record, value=mapped(record.value, lambda part: min(part, TARGETS[log.benchmark] - least))
    )


@ACCURACY.add("success means that the target was reached")
def last_just_below_target(log: Log) -> bool:
    return log.edit(capped(log, 0.0002), *last(log))


@ACCURACY.add("success means that the target was reached")
def all_far_below_target(log: Log) -> bool:
    return log.edit(capped(log, 0.1), *log.of_key("eval_accuracy"))


@ACCURACY.add("success means that the last evaluation reached the target")
def target_reached_before_the_last_only(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    best = log.records[found[-1]].value
    return (
        len(found) > 2
        and log.edit(lambda record: replace(record, value=best), found[-2])
        and log.edit(capped(log, 0.01), *last(log))
    )


LAST: Final[dict[str, Any]] = {
    "null": None,
    "nan": math.nan,
    "infinite": math.inf,
    "text": "good",
    "empty_text": "",
    "true": True,
    "negative": -0.5,
    "empty_list": [],
    "empty_object": {},
    "beyond_all_scales": 7600.0,
    "nested": [[[0.9]]],
    "nan_as_text": "nan",
    "of_another_metric": {"top5": 0.93},
}
for name, value in LAST.items():
    ACCURACY.put(f"last_accuracy_{name}", valued(value), "an accuracy is a number in its range")


@ACCURACY.add("an accuracy is a number in its range")
def last_accuracy_is_one(log: Log) -> bool:
    if log.benchmark in ("gnmt", "transformer"):
        return valued(100.0 if log.old else 1.0)(log)
    return log.edit(
        lambda record: replace(record, value=mapped(record.value, lambda part: 1.0)), *last(log)
    )


@ACCURACY.add("an accuracy is a number in its range")
def last_accuracy_beyond_one(log: Log) -> bool:
    if log.benchmark in ("gnmt", "transformer"):
        return valued(125.0)(log)
    return log.edit(
        lambda record: replace(record, value=mapped(record.value, lambda part: 1.7)), *last(log)
    )


@ACCURACY.add("an accuracy is a number in its range")
def last_accuracy_endless(log: Log) -> bool:
    return log.edit(
        lambda record: replace(record, value=mapped(record.value, lambda part: 1e300)), *last(log)
    )


def in_words(value: Any) -> Any:
    """Write each number of an accuracy as text."""
    if isinstance(value, list):
        return [in_words(part) for part in value]
    if isinstance(value, dict):
        return {name: in_words(part) for name, part in value.items()}
    return str(value)


@ACCURACY.add("an accuracy is a number")
def last_accuracy_digits_as_text(log: Log) -> bool:
    return not log.old and log.edit(
        lambda record: replace(record, value=in_words(record.value)), *last(log)
    )


@ACCURACY.add("v0.7 logs BLEU as a fraction")
def bleu_in_percent(log: Log) -> bool:
    fits = not log.old and log.benchmark in ("gnmt", "transformer")
    return fits and log.edit(
        lambda record: replace(record, value=record.value * 100), *log.of_key("eval_accuracy")
    )


@ACCURACY.add("fractions, not percent")
def percent_instead_of_fraction(log: Log) -> bool:
    return log.benchmark in ("resnet", "ssd") and log.edit(
        lambda record: replace(record, value=record.value * 100), *log.of_key("eval_accuracy")
    )


@ACCURACY.add("fractions, not percent")
def boxes_and_masks_in_percent(log: Log) -> bool:
    fits = not log.old and log.benchmark == "maskrcnn"
    return fits and log.edit(
        lambda record: replace(record, value=mapped(record.value, lambda part: part * 100)),
        *log.of_key("eval_accuracy"),
    )


for name, value in {
    "null": None,
    "nan": math.nan,
    "text": "bad",
    "negative": -0.1,
    "above_one": 170.0,
}.items():

    def in_the_middle(log: Log, value: Any = value) -> bool:
        """Give an accuracy of the middle this value."""
        found = log.of_key("eval_accuracy")
        return len(found) > 2 and log.edit(
            lambda record: replace(record, value=value), found[len(found) // 2 - 1]
        )

    ACCURACY.put(f"middle_accuracy_{name}", in_the_middle, "each accuracy is a number in its range")


def masks(which: int) -> Callable[[Record], Record]:
    """Lower one of the two accuracies of Mask R-CNN below its target."""

    def change(record: Record) -> Record:
        whole = (
            record.value.get("accuracy", record.value)
            if isinstance(record.value, dict)
            else record.value
        )
        parts = dict(enumerate(whole)) if isinstance(whole, list) else dict(whole)
        key = sorted(parts, key=str)[which]
        lowered = {**parts, key: 0.33}
        value = list(lowered.values()) if isinstance(whole, list) else lowered
        return replace(record, value={"accuracy": value} if whole is not record.value else value)

    return change


@ACCURACY.add("boxes reach 0.377")
def boxes_below_target(log: Log) -> bool:
    return log.benchmark == "maskrcnn" and log.edit(masks(0), *last(log))


@ACCURACY.add("masks reach 0.339")
def masks_below_target(log: Log) -> bool:
    return log.benchmark == "maskrcnn" and log.edit(masks(1), *last(log))


@ACCURACY.add("boxes and masks, both")
def masks_missing(log: Log) -> bool:
    def change(record: Record) -> Record:
        value = record.value
        return replace(record, value=value[:1] if isinstance(value, list) else {"BBOX": 0.38})

    return log.benchmark == "maskrcnn" and log.edit(change, *last(log))


@ACCURACY.add("boxes and masks, both")
def one_number_for_two(log: Log) -> bool:
    return log.benchmark == "maskrcnn" and valued(0.38)(log)


@ACCURACY.add("one accuracy of an evaluation")
def two_accuracies_of_one_evaluation(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    middle = found[len(found) // 2]
    better = replace(
        log.records[middle], value=mapped(log.records[middle].value, lambda part: part * 0.93)
    )
    return len(last(log)) == 1 and log.insert(middle + 1, better)


for name, status in {
    "garbage": "finished",
    "empty": "",
    "number": 1,
    "true": True,
    "list": ["success"],
}.items():

    def with_status(log: Log, status: Any = status) -> bool:
        """Stop the run with this status."""
        return log.edit(lambda record: record.where(status=status), *log.of_key("run_stop"))

    ACCURACY.put(f"status_{name}", with_status, "success, abort or aborted")


@ACCURACY.add("success, abort or aborted")
def status_missing(log: Log) -> bool:
    return log.edit(lambda record: record.where(status=None), *log.of_key("run_stop"))


@ACCURACY.add("success, abort or aborted")
def status_null(log: Log) -> bool:
    return log.edit(lambda record: record.where_null("status"), *log.of_key("run_stop"))


@ACCURACY.add("a run that reached the target was not aborted")
def success_called_aborted(log: Log) -> bool:
    stop = log.one("run_stop")
    return (
        stop is not None
        and stop.metadata.get("status") == "success"
        and log.edit(lambda record: record.where(status="aborted"), *log.of_key("run_stop"))
    )


@ACCURACY.add("success means that the target was reached")
def aborted_called_success(log: Log) -> bool:
    return log.edit(
        lambda record: record.where(status="success"), *log.of_key("run_stop")
    ) and log.edit(capped(log, 0.05), *last(log))

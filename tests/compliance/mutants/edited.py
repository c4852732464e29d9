"""Mutants of training results since v1.0 that keep a log's form and change what it says: its clock,
its progress, its system, its digits.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from compliance.kinds.training.round import load_training_round

from .kinds import Kinds
from .training.later import PLACES, field_of, first, set_to
from .training.log import Log, Record
from .training.sets import TrainingSet

EDITED: Kinds[Log] = Kinds()
EDITED_SETS: Kinds[TrainingSet] = Kinds()
WARNED: Kinds[TrainingSet] = Kinds()
"""What published results hold too, so that it is only a warning."""
SHARED: Final = ("gnn", "rgat", "bert", "dlrm_dcnv2")
"""Benchmarks that are evaluated after each share of the whole."""
GENERATED: Final = "minigo"
"""It plays on behind its run, and its data is its own."""
WARMUPS: Final[dict[str, Any]] = {
    "null": None,
    "text": "128",
    "true": True,
    "negative": -1,
    "next": 129,
}
RATES: Final[dict[str, Any]] = {"text": "fast", "negative": -1}
COUNTED: Final = {
    "max_steps": "llama31_8b",
    "opt_learning_rate_decay_steps": "llama31_8b",
    "eval_samples": "dlrm_dcnv2",
}
FIELDS: Final = load_training_round("training-v5.1").rules.system_fields


def warmed_up(value: Any) -> Callable[[Log], bool]:
    """Give the steps that the decay follows from another value."""
    return lambda log: (
        log.benchmark == "llama31_8b" and set_to("opt_learning_rate_warmup_steps", value)(log)
    )


def one_more(key: str) -> Callable[[Log], bool]:
    """Count one more than the rules."""
    return lambda log: (
        log.closed
        and log.benchmark == COUNTED[key]
        and log.edit(lambda record: replace(record, value=record.value + 1), *log.of_key(key))
    )


def unbounded(key: str) -> Callable[[Log], bool]:
    """Take out where evaluations begin or end, in logs that have no blocks to tell it."""
    return lambda log: (
        log.benchmark != GENERATED
        and not log.of_key(key.replace("eval", "block"))
        and log.delete(*log.of_key(key))
    )


EDITED.made(
    WARMUPS,
    lambda name: warmed_up(WARMUPS[name]),
    "warmup",
    "steps that others follow from are a number",
)
EDITED.made(COUNTED, one_more, "one_more", "whole numbers are exact")
EDITED.made(
    ("eval_start", "eval_stop"), unbounded, "unbounded", "where evaluations begin and end is told"
)
EDITED.made(
    RATES,
    lambda name: set_to("opt_base_learning_rate", RATES[name]),
    "rate",
    "a learning rate is a number from 0 on",
)
EDITED.put("accumulated_fraction", set_to("gradient_accumulation_steps", 1.5), "whole steps")


def times(record: Record, factor: float) -> Record:
    """Multiply a record's progress."""
    return record.where(
        **{name: record.metadata[name] * factor for name in PLACES if name in record.metadata}
    )


@EDITED.add("the progress of the last evaluation")
def last_evaluation_later(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    return (
        log.benchmark in SHARED
        and len(found) > 5
        and log.edit(lambda record: times(record, 1.5), found[-1])
    )


@EDITED.add("progress as the rules count it")
def ten_times_all_progress(log: Log) -> bool:
    told = [index for index in log.records if field_of(log.records[index])]
    return (
        log.closed
        and log.benchmark in (*SHARED, "stable_diffusion", "llama31_8b")
        and log.edit(lambda record: times(record, 10), *told)
    )


@EDITED.add("all evaluations")
def only_the_last_evaluation(log: Log) -> bool:
    kept = {key: log.of_key(key)[-1:] for key in ("eval_start", "eval_accuracy", "eval_stop")}
    gone = [index for key, last in kept.items() for index in log.of_key(key) if index not in last]
    return log.closed and log.benchmark in (*SHARED, "llama31_8b") and log.delete(*gone)


@EDITED.add("a result of each evaluation")
def only_the_last_result(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    return (
        log.closed
        and len(found) > 5
        and log.benchmark not in (GENERATED, "stable_diffusion")
        and log.delete(*found[:-1])
    )


@EDITED.add("all that is trained lies behind run_start")
def start_a_fifth_late(log: Log) -> bool:
    return moved(log, "run_start", 0.2)


@EDITED.add("all that is evaluated lies before run_stop")
def stop_a_tenth_early(log: Log) -> bool:
    return moved(log, "run_stop", -0.1)


def moved(log: Log, key: str, share: float) -> bool:
    """Move an end of the run by a share of its time."""
    start, stop = log.one("run_start"), log.one("run_stop")
    if start is None or stop is None or log.benchmark == GENERATED:
        return False
    by = share * (stop.seconds - start.seconds)
    return first(key, lambda record: record.later(by))(log)


@EDITED.add("every metric of a checkpoint")
def checkpoint_without_fid(log: Log) -> bool:
    found = [
        index
        for index in log.of_key("eval_accuracy")
        if log.records[index].metadata.get("metric") == "FID"
    ]
    return log.delete(*found[:1])


def described(
    change: Callable[[dict[str, Any]], object], oldest: str = "training_v4.1"
) -> Callable[[TrainingSet], bool]:
    """Change the system's description, of the rounds whose checker looks at it."""

    def edit(group: TrainingSet) -> bool:
        table = json.loads(group.system_file.read_text())
        change(table)
        return group.home.parent.name >= oldest and group.undo.write(
            group.system_file, json.dumps(table)
        )

    return edit


EDITED_SETS.made(
    FIELDS,
    lambda field: described(lambda table: table.pop(field)),
    "described_without",
    "the fields of a description",
)
EDITED_SETS.put(
    "described_onprem", described(lambda table: table.update(status="onprem")), "one of four texts"
)
EDITED_SETS.put("described_nowhere", described(lambda table: table.update(status="")), "a status")


def disguised(noise_ms: int) -> Callable[[TrainingSet], bool]:
    """Put a copy of a run in another's place: a day later, with another seed, milliseconds more and
    rounded results.
    """

    def copy(group: TrainingSet) -> bool:
        log = group.log(0)
        precise = [
            index
            for index in log.of_key("eval_accuracy")
            if isinstance(log.records[index].value, float)
        ]
        log.edit(lambda record: replace(record, value=round(record.value, 6)), *precise)
        log.edit(lambda record: replace(record, value=987_654), *log.of_key("seed"))
        for at, index in enumerate(log.records):
            log.edit(lambda record, at=at: record.later(86_400 + noise_ms * at / 1000), index)  # type: ignore[misc]
        return len(precise) > 5 and group.put(1, log)

    return copy


WARNED.put("copied_with_noise", disguised(1), "separate runs")
WARNED.put("copied_with_much_noise", disguised(50), "separate runs")


@WARNED.add("a learning rate")
def no_learning_rate(group: TrainingSet) -> bool:
    return all(
        group.change(index, set_to("opt_base_learning_rate", None))
        for index in range(len(group.runs))
    )

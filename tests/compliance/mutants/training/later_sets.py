"""Mutants of run sets since v1.0."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..kinds import Kinds
from .log import Log
from .sets import TrainingSet

LATER_SETS: Kinds[TrainingSet] = Kinds()


def told(key: str, value: Any) -> Callable[[TrainingSet], bool]:
    """Give one run another value."""
    return lambda group: group.change(
        1, lambda log: log.edit(lambda record: replace(record, value=value), *log.of_key(key))
    )


def shifted(log: Log, seconds: float) -> bool:
    """Move a whole log in time."""
    return log.edit(lambda record: record.later(seconds), *log.records)


LATER_SETS.made(
    ("global_batch_size", "opt_base_learning_rate", "gradient_accumulation_steps", "eval_samples"),
    lambda key: told(key, 3),
    "one_run",
    "the same in all runs",
)


@LATER_SETS.add("a seed in every run")
def no_seed(group: TrainingSet) -> bool:
    asked = group.home.parent.name >= "training_v4.1"
    return asked and group.change(2, lambda log: log.delete(*log.of_key("seed")))


@LATER_SETS.add("another seed in every run")
def same_seed(group: TrainingSet) -> bool:
    seeds = [record for record in group.log(0).records.values() if record.key == "seed"]
    return bool(seeds) and group.change(
        1,
        lambda log: log.edit(
            lambda record: replace(record, value=seeds[0].value, metadata=seeds[0].metadata),
            log.of_key("seed")[0],
        ),
    )


@LATER_SETS.add("separate runs")
def copied(group: TrainingSet) -> bool:
    return group.put(2, group.log(1))


@LATER_SETS.add("separate runs")
def copied_later(group: TrainingSet) -> bool:
    log = group.log(1)
    return shifted(log, 86_400) and group.put(2, log)


@LATER_SETS.add("separate runs")
def copied_with_another_seed(group: TrainingSet) -> bool:
    log = group.log(1)
    return log.edit(
        lambda record: replace(record, value=987_654), *log.of_key("seed")
    ) and group.put(2, log)


@LATER_SETS.add("the benchmark's number of runs")
def one_run_more(group: TrainingSet) -> bool:
    log = group.log(1)
    return (
        shifted(log, 90_000)
        and log.edit(lambda record: record.later(17), *log.of_key("run_stop"))
        and group.undo.write(group.free(), log.content())
    )


@LATER_SETS.add("at most one run that misses the target")
def two_aborted(group: TrainingSet) -> bool:
    return all(
        group.change(
            index,
            lambda log: log.edit(
                lambda record: record.where(status="aborted"), *log.of_key("run_stop")
            ),
        )
        for index in (0, 1, 2, 3, 4)[: len(group.runs)]
    )


@LATER_SETS.add("one benchmark")
def one_log_of_another_benchmark(group: TrainingSet) -> bool:
    return told(
        "submission_benchmark", "dlrm_dcnv2" if group.log(0).benchmark != "dlrm_dcnv2" else "rgat"
    )(group)


@LATER_SETS.add("one division")
def one_log_of_another_division(group: TrainingSet) -> bool:
    return told("submission_division", "open")(group)


@LATER_SETS.add("a run is a log")
def one_log_empty(group: TrainingSet) -> bool:
    return group.undo.write(group.runs[1], b"")


@LATER_SETS.add("a run is whole")
def one_log_cut(group: TrainingSet) -> bool:
    content = group.runs[1].read_bytes()
    return group.undo.write(group.runs[1], content[: len(content) // 2])


@LATER_SETS.add("as much training as the reference")
def half_the_training(group: TrainingSet) -> bool:
    def halve(log: Log) -> bool:
        found = log.of_key("eval_accuracy")
        names = (
            [
                name
                for name in ("samples_count", "epoch_num")
                if name in log.records[found[-1]].metadata
            ]
            if found
            else []
        )
        return bool(names) and log.edit(
            lambda record: record.where(**{name: record.metadata[name] / 2 for name in names}),
            *found,
        )

    return group.log(0).closed and all(
        group.change(index, halve) for index in range(len(group.runs))
    )

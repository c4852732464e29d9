"""Mutants of one training log since v1.0: what its benchmarks count, the hyper-parameters that its
rulesets fix, and its clock.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..kinds import Kinds
from .log import Edit, Log, Record

LATER: Kinds[Log] = Kinds()
PLACES: Final = ("samples_count", "epoch_num", "step_num")
REQUIRED: Final = (
    "global_batch_size",
    "gradient_accumulation_steps",
    "opt_name",
    "opt_base_learning_rate",
    "opt_end_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_decay_steps",
    "opt_learning_rate_decay_schedule",
    "opt_adamw_beta_1",
    "opt_adamw_beta_2",
    "opt_adamw_epsilon",
    "opt_adamw_weight_decay",
    "opt_gradient_clip_norm",
    "max_sequence_length",
    "max_steps",
    "lora_alpha",
    "lora_rank",
    "opt_weight_decay",
    "opt_learning_rate_training_steps",
    "opt_learning_rate_warmup_epochs",
    "opt_learning_rate_warmup_factor",
    "opt_adagrad_epsilon",
    "opt_adagrad_learning_rate_decay",
    "opt_adagrad_initial_accumulator_value",
    "opt_learning_rate_decay_start_step",
    "init_checkpoint_step",
)
OTHER: Final[dict[str, Any]] = {
    "opt_name": "sgdx",
    "max_sequence_length": 1024,
    "opt_adamw_beta_1": 0.8,
    "opt_adamw_beta_2": 0.9999,
    "opt_adamw_epsilon": 0.001,
    "opt_gradient_clip_norm": 2.5,
    "opt_learning_rate_decay_schedule": "linear",
    "opt_learning_rate_decay_steps": 1_000,
    "max_steps": 7,
    "lora_rank": 32,
    "opt_adagrad_epsilon": 0.5,
    "opt_adagrad_learning_rate_decay": 0.5,
    "opt_adagrad_initial_accumulator_value": 1.5,
    "opt_learning_rate_decay_start_step": 3,
    "opt_weight_decay": 0.9,
    "opt_learning_rate_warmup_epochs": -1,
    "opt_learning_rate_warmup_factor": -0.5,
    "gradient_accumulation_steps": 0,
    "eval_samples": 17,
    "init_checkpoint_step": 99,
}
FREE: Final = frozenset({"opt_adamw_weight_decay", "opt_adamw_epsilon", "opt_gradient_clip_norm"})
"""What the ruleset of Llama 2 leaves open."""
ONLY_OF: Final = {
    "init_checkpoint_step": ("llama31_405b", "gpt3"),
    "opt_learning_rate_warmup_factor": ("retinanet", "ssd"),
    "opt_learning_rate_warmup_epochs": ("retinanet", "ssd"),
    "opt_learning_rate_decay_steps": ("llama31_8b", "dlrm_dcnv2"),
    "eval_samples": ("llama31_8b", "llama31_405b", "dlrm_dcnv2", "unet3d", "rnnt"),
}
"""What other benchmarks' logs tell of their own accord."""
BATCHES: Final[dict[str, Any]] = {
    "zero": 0,
    "half": 16.5,
    "negative": -32,
    "text": "32",
    "null": None,
    "list": [32],
}
SCORES: Final[dict[str, Any]] = {
    "null": None,
    "text": "3.2",
    "list": [0.5],
    "table": {"x": 1},
    "negative": -1.0,
    "nan": float("nan"),
    "true": True,
}
POSITIONS: Final[dict[str, Any]] = {"missing": None, "text": "many", "negative": -5, "list": [3]}


def field_of(record: Record) -> str | None:
    """Name the field that says how far the run was."""
    return next((name for name in PLACES if name in record.metadata), None)


def without(key: str) -> Callable[[Log], bool]:
    """Take all records of a hyper-parameter out of a closed log."""
    return lambda log: (
        log.closed
        and log.benchmark in ONLY_OF.get(key, (log.benchmark,))
        and log.delete(*log.of_key(key))
    )


def set_to(key: str, value: Any, closed: bool = True) -> Callable[[Log], bool]:
    """Give a hyper-parameter another value, wherever it is told."""

    def change(log: Log) -> bool:
        if log.benchmark not in ONLY_OF.get(key, (log.benchmark,)):
            return False
        if (closed and not log.closed) or (key in FREE and log.benchmark == "llama2_70b_lora"):
            return False
        return log.edit(lambda record: replace(record, value=value), *log.of_key(key))

    return change


def position(value: Any) -> Callable[[Log], bool]:
    """Give an evaluation another place."""

    def change(log: Log) -> bool:
        found = log.of_key("eval_accuracy")
        field = field_of(log.records[found[0]]) if found else None
        counted = (
            "samples_count"
            if field and "samples_count" in log.records[found[0]].metadata
            else field
        )
        return bool(counted) and log.edit(
            lambda record: record.where(**{str(counted): value}), found[len(found) // 2]
        )

    return change


def score(value: Any) -> Callable[[Log], bool]:
    """Give an evaluation in the middle another result."""
    return lambda log: (
        bool(found := log.of_key("eval_accuracy"))
        and log.edit(lambda record: replace(record, value=value), found[len(found) // 2])
    )


def first(key: str, change: Edit, which: int = 0) -> Callable[[Log], bool]:
    """Change one record of a kind."""
    return lambda log: bool(found := log.of_key(key)) and log.edit(change, found[which])


def again(key: str, seconds: float) -> Callable[[Log], bool]:
    """Write a record again, at another time."""
    return lambda log: (
        bool(found := log.of_key(key))
        and log.insert(found[0] + 1, log.records[found[0]].later(seconds))
    )


LATER.made(REQUIRED, without, "no", "required in closed logs")
LATER.made(OTHER, lambda key: set_to(key, OTHER[key]), "other", "fixed in the closed division")
LATER.made(
    BATCHES,
    lambda name: set_to("global_batch_size", BATCHES[name], closed=False),
    "batch",
    "a whole number above 0",
)
LATER.made(SCORES, lambda name: score(SCORES[name]), "score", "a number in its range")
LATER.made(POSITIONS, lambda name: position(POSITIONS[name]), "position", "how far the run was")
LATER.made(
    (
        "cache_clear",
        "init_start",
        "init_stop",
        "run_start",
        "run_stop",
        "eval_accuracy",
        "train_samples",
        "eval_samples",
        "submission_benchmark",
        "submission_division",
    ),
    lambda key: lambda log: log.delete(*log.of_key(key)),
    "gone",
    "in each log",
)
LATER.made(
    ("run_start", "run_stop", "init_stop"), lambda key: again(key, 0), "twice", "exactly once"
)
LATER.made(
    ("run_start", "run_stop", "init_stop"),
    lambda key: again(key, 40),
    "twice_later",
    "exactly once",
)
LATER.made(
    ("run_start", "run_stop", "eval_accuracy"),
    lambda key: first(key, lambda record: replace(record, time=0)),
    "clock_at_zero",
    "a clock that was set",
)
LATER.made(
    ("done", "", None, 1, "Success!"),
    lambda status: first("run_stop", lambda record: record.where(status=status)),
    "status",
    "a status that is known",
)
LATER.made(
    (None, "", "  ", 7),
    lambda name: set_to("submission_division", name, closed=False),
    "division",
    "closed or open",
)
LATER.made(
    (0, -3, "x"),
    lambda count: first("train_samples", lambda record: replace(record, value=count)),
    "trained_on",
    "a number of samples",
)


@LATER.add("success, or no target reached")
def aborted_at_target(log: Log) -> bool:
    return first("run_stop", lambda record: record.where(status="aborted"))(log)


@LATER.add("run_stop behind run_start")
def stop_before_start(log: Log) -> bool:
    start = log.one("run_start")
    return start is not None and first("run_stop", lambda record: record.at(start.seconds - 60))(
        log
    )


@LATER.add("run_stop behind the evaluations")
def stop_ten_minutes_early(log: Log) -> bool:
    return log.benchmark != "stable_diffusion" and first(
        "run_stop", lambda record: record.later(-600)
    )(log)


@LATER.add("times that do not go backwards")
def middle_evaluation_early(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    return len(found) > 2 and log.edit(lambda record: record.later(-7200), found[len(found) // 2])


@LATER.add("at most 30 minutes")
def slow_initialisation(log: Log) -> bool:
    return log.closed and log.edit(lambda record: record.later(-3600), *log.of_key("init_start"))


@LATER.add("initialisation before the run")
def initialised_in_the_run(log: Log) -> bool:
    return log.move(
        log.of_key("init_stop"), log.of_key("run_start")[0] + 1, lambda record: record.later(30)
    )


@LATER.add("caches are cleared")
def cache_not_cleared(log: Log) -> bool:
    return log.edit(lambda record: replace(record, value=False), *log.of_key("cache_clear"))


@LATER.add("caches are cleared before the run")
def cache_cleared_late(log: Log) -> bool:
    stop = log.one("run_stop")
    return stop is not None and log.move(
        log.of_key("cache_clear"),
        log.of_key("run_stop")[0],
        lambda record: record.at(stop.seconds - 1),
    )


@LATER.add("evaluations in order")
def swapped_evaluations(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    if len(found) < 3:
        return False
    early, late = (log.records[index].metadata for index in found[:2])
    log.edit(lambda record: replace(record, metadata=late), found[0])
    return log.edit(lambda record: replace(record, metadata=early), found[1])


@LATER.add("each evaluation once")
def repeated_evaluation(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    return (
        len(found) > 1
        and log.benchmark != "stable_diffusion"
        and log.insert(found[0] + 1, log.records[found[0]])
    )


@LATER.add("no evaluation left out")
def evaluation_left_out(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    if len(found) < 7:
        return False
    at = field_of(log.records[found[3]])
    place = log.records[found[3]].metadata.get(at or "")
    return log.delete(
        *(
            index
            for index in log.of_key("eval_start", "eval_stop", "eval_accuracy")
            if log.records[index].metadata.get(at or "") == place
        )
    )


@LATER.add("a position in the benchmark's unit")
def ten_times_the_samples(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    name = field_of(log.records[found[-1]]) if len(found) > 2 else None
    return name is not None and log.edit(
        lambda record: record.where(**{name: record.metadata[name] * 10}), found[-1]
    )


@LATER.add("the last evaluation reaches the target")
def target_missed(log: Log) -> bool:
    found = log.of_key("eval_accuracy")
    return len(found) > 1 and log.edit(
        lambda record: replace(record, value=log.records[found[0]].value), found[-1]
    )


@LATER.add("one value of each hyper-parameter")
def two_learning_rates(log: Log) -> bool:
    found = log.of_key("opt_base_learning_rate")
    return bool(found) and log.insert(found[-1] + 1, replace(log.records[found[-1]], value=0.123))


@LATER.add("an organisation")
def organisation_null(log: Log) -> bool:
    return first("submission_org", lambda record: replace(record, value=None))(log)


@LATER.add("an organisation")
def organisation_empty(log: Log) -> bool:
    return first("submission_org", lambda record: replace(record, value=""))(log)


@LATER.add("one record per line")
def glued(log: Log) -> bool:
    index = log.of_key("run_start")[0]
    log.lines[index] = log.lines[index].rstrip("\n") + str(log.records[log.of_key("run_stop")[0]])
    return True


@LATER.add("a record is JSON")
def broken_record(log: Log) -> bool:
    index = log.of_key("eval_accuracy")[-1]
    log.lines[index] = log.lines[index].rstrip().rstrip("}") + "\n"
    return True


@LATER.add("each name once")
def repeated_name(log: Log) -> bool:
    index = log.of_key("eval_accuracy")[-1]
    before = log.lines[index]
    log.lines[index] = before.replace('"value":', '"value": 0.1, "value":', 1)
    return log.lines[index] != before


@LATER.add("a whole log")
def cut_in_the_middle(log: Log) -> bool:
    log.lines = log.lines[: log.of_key("eval_accuracy")[-1]]
    return True


@LATER.add("nothing is trained after the run")
def trained_on(log: Log) -> bool:
    stop, begun = log.one("run_stop"), log.one("block_start") or log.one("epoch_start")
    if stop is None or begun is None or "block" not in begun.key and "epoch" not in begun.key:
        return False
    ended = replace(begun, key=begun.key.replace("start", "stop")).at(stop.seconds + 90)
    return log.insert(len(log.lines), begun.at(stop.seconds + 10), ended)


@LATER.add("blocks say where they begin")
def block_without_place(log: Log) -> bool:
    found = log.of_key("block_start")
    return bool(found) and log.edit(
        lambda record: replace(record, metadata={"file": "x"}), found[0]
    )

"""Mutants of one training log: hyper-parameters, the batch, who filed what."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..kinds import Kinds
from .log import Log

HYPER: Kinds[Log] = Kinds()
LARS: Final = (
    "lars_opt_learning_rate_decay_steps",
    "lars_opt_learning_rate_decay_poly_power",
    "lars_opt_weight_decay",
    "lars_epsilon",
    "opt_name",
)
GNMT: Final = (
    "opt_base_learning_rate",
    "opt_learning_rate_alt_decay_func",
    "opt_learning_rate_alt_warmup_func",
    "opt_learning_rate_decay_factor",
    "opt_learning_rate_decay_interval",
    "opt_learning_rate_decay_steps",
    "opt_learning_rate_remain_steps",
    "opt_learning_rate_warmup_steps",
    "max_sequence_length",
)
ADAM: Final = (
    "opt_name",
    "opt_base_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_adam_beta_1",
    "opt_adam_beta_2",
    "opt_adam_epsilon",
    "max_sequence_length",
)
MASK: Final = (
    "opt_base_learning_rate",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_warmup_factor",
    "num_image_candidates",
)
SSD: Final = (
    "opt_base_learning_rate",
    "opt_weight_decay",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_warmup_factor",
    "max_samples",
    "model_bn_span",
)
OLD: Final = {
    "resnet": (*LARS, "opt_base_learning_rate", "opt_learning_rate_warmup_epochs", "model_bn_span"),
    "ssd": SSD,
    "maskrcnn": MASK,
    "gnmt": GNMT,
    "transformer": ADAM,
}
NEW: Final = {
    "resnet": (
        *LARS,
        "lars_opt_base_learning_rate",
        "lars_opt_learning_rate_warmup_epochs",
        "lars_opt_end_learning_rate",
        "lars_opt_momentum",
    ),
    "ssd": (*SSD, "opt_learning_rate_decay_boundary_epochs"),
    "maskrcnn": (
        *MASK,
        "opt_learning_rate_decay_factor",
        "opt_learning_rate_decay_steps",
        "min_image_size",
        "max_image_size",
    ),
    "gnmt": GNMT,
    "transformer": ADAM,
}
"""What the closed division requires in a log: the official checkers' lists, training 0.6.0 and
0.7.0.
"""
ALL: Final = sorted({key for table in (OLD, NEW) for keys in table.values() for key in keys})


def required(log: Log) -> tuple[str, ...]:
    """Name the hyper-parameters that this log has to have."""
    return (OLD if log.old else NEW).get(log.benchmark, ()) if log.closed else ()


def missing(key: str) -> Callable[[Log], bool]:
    """Take a hyper-parameter out."""
    return lambda log: key in required(log) and log.delete(*log.of_key(key))


def second(key: str) -> Callable[[Log], bool]:
    """Log a second value of a hyper-parameter."""

    def change(log: Log) -> bool:
        found = log.of_key(key)
        return bool(found) and log.insert(
            found[-1] + 1,
            replace(log.records[found[-1]], value=different(log.records[found[-1]].value)),
        )

    return change


def different(value: Any) -> Any:
    """Give another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 if value else 1
    return [value[0], value[1] + 1] if isinstance(value, list) else f"{value}2"


def valued(
    key: str,
    value: Any,
    *,
    benchmark: str | None = None,
    new: bool | None = None,
    closed: bool = True,
) -> Callable[[Log], bool]:
    """Give a hyper-parameter this value, where that breaks the closed rules."""

    def change(log: Log) -> bool:
        fits = (
            (log.closed or not closed)
            and benchmark in (None, log.benchmark)
            and new in (None, not log.old)
        )
        return fits and log.edit(lambda record: replace(record, value=value), *log.of_key(key))

    return change


HYPER.made(ALL, missing, "missing", "required in closed")
HYPER.made(("global_batch_size", *ALL), second, "two_values", "one value of each hyper-parameter")

for name, value in {
    "zero": 0,
    "negative": -4096,
    "fraction": 1024.5,
    "text": "large",
    "digits_as_text": "4096",
    "null": None,
    "true": True,
    "list": [4096],
    "nan": math.nan,
}.items():
    HYPER.put(
        f"batch_{name}", valued("global_batch_size", value, closed=False), "a whole number above 0"
    )


@HYPER.add("required in each log")
def batch_missing(log: Log) -> bool:
    return log.closed and log.delete(*log.of_key("global_batch_size"))


@HYPER.add("statistics over no more than the batch")
def bn_span_beyond_batch(log: Log) -> bool:
    batch = log.value("global_batch_size")
    return log.edit(lambda record: replace(record, value=batch * 2), *log.of_key("model_bn_span"))


def where_required(value: Any) -> Callable[[Log], bool]:
    """Give the first required hyper-parameter with a number this value."""

    def change(log: Log) -> bool:
        keys = [
            key
            for key in required(log)
            if isinstance(log.value(key), int | float) and not isinstance(log.value(key), bool)
        ]
        return bool(keys) and log.edit(
            lambda record: replace(record, value=value), *log.of_key(keys[-1])
        )

    return change


for name, value in {"null": None, "text": "default", "nan": math.nan, "empty_list": []}.items():
    HYPER.put(f"hyper_{name}", where_required(value), "a hyper-parameter is a number")

OUTSIDE: Final[dict[str, tuple[str, Any, str | None, bool | None]]] = {
    "resnet_optimizer": ("opt_name", "adam", "resnet", None),
    "transformer_optimizer": ("opt_name", "sgd", "transformer", None),
    "optimizer_null": ("opt_name", None, None, None),
    "optimizer_number": ("opt_name", 3, None, None),
    "lars_end_rate": ("lars_opt_end_learning_rate", 0.0002, "resnet", True),
    "lars_power": ("lars_opt_learning_rate_decay_poly_power", 3, "resnet", True),
    "lars_power_zero": ("lars_opt_learning_rate_decay_poly_power", 0, "resnet", None),
    "lars_epsilon": ("lars_epsilon", 1e-5, "resnet", True),
    "lars_epsilon_negative": ("lars_epsilon", -1e-5, "resnet", None),
    "lars_weight_decay": ("lars_opt_weight_decay", 0.00015, "resnet", True),
    "lars_weight_decay_zero": ("lars_opt_weight_decay", 0, "resnet", None),
    "lars_weight_decay_of_v06": ("lars_opt_weight_decay", 0.00015, "resnet", False),
    "lars_weight_decay_negative": ("lars_opt_weight_decay", -0.0001, "resnet", None),
    "lars_end_rate_negative": ("lars_opt_end_learning_rate", -0.001, "resnet", None),
    "lars_decay_steps_zero": ("lars_opt_learning_rate_decay_steps", 0, "resnet", None),
    "lars_momentum": ("lars_opt_momentum", 0.95, "resnet", True),
    "lars_momentum_above_one": ("lars_opt_momentum", 1.1, "resnet", True),
    "lars_decay_steps_negative": ("lars_opt_learning_rate_decay_steps", -1, "resnet", None),
    "lars_base_rate_zero": ("lars_opt_base_learning_rate", 0, "resnet", True),
    "lars_base_rate_negative": ("lars_opt_base_learning_rate", -7.4, "resnet", True),
    "lars_warmup_negative": ("lars_opt_learning_rate_warmup_epochs", -2, "resnet", True),
    "base_rate_zero": ("opt_base_learning_rate", 0, None, None),
    "base_rate_negative": ("opt_base_learning_rate", -0.1, None, None),
    "base_rate_text": ("opt_base_learning_rate", "high", None, None),
    "base_rate_null": ("opt_base_learning_rate", None, None, None),
    "warmup_steps_negative": ("opt_learning_rate_warmup_steps", -100, None, None),
    "warmup_steps_text": ("opt_learning_rate_warmup_steps", "some", None, None),
    "warmup_factor_negative": ("opt_learning_rate_warmup_factor", -1, None, None),
    "bn_span_zero": ("model_bn_span", 0, None, None),
    "bn_span_fraction": ("model_bn_span", 12.5, None, None),
    "ssd_warmup_steps_zero": ("opt_learning_rate_warmup_steps", 0, "ssd", None),
    "ssd_max_samples": ("max_samples", 25, "ssd", True),
    "ssd_max_samples_zero": ("max_samples", 0, "ssd", None),
    "ssd_max_samples_fraction": ("max_samples", 1.5, "ssd", None),
    "ssd_weight_decay_negative": ("opt_weight_decay", -0.0005, "ssd", None),
    "ssd_weight_decay_above_one": ("opt_weight_decay", 1.5, "ssd", None),
    "ssd_boundaries_a_number": ("opt_learning_rate_decay_boundary_epochs", 44, "ssd", True),
    "ssd_first_boundary": ("opt_learning_rate_decay_boundary_epochs", [43, 55], "ssd", True),
    "ssd_second_boundary": ("opt_learning_rate_decay_boundary_epochs", [44, 57], "ssd", True),
    "ssd_boundaries_of_two_k": ("opt_learning_rate_decay_boundary_epochs", [44, 60], "ssd", True),
    "ssd_one_boundary": ("opt_learning_rate_decay_boundary_epochs", [44], "ssd", True),
    "ssd_three_boundaries": ("opt_learning_rate_decay_boundary_epochs", [44, 55, 66], "ssd", True),
    "mask_base_rate": ("opt_base_learning_rate", 0.05, "maskrcnn", True),
    "mask_decay_factor": ("opt_learning_rate_decay_factor", 0.2, "maskrcnn", True),
    "mask_decay_steps": ("opt_learning_rate_decay_steps", [6001, 8002], "maskrcnn", True),
    "mask_decay_steps_of_two_k": (
        "opt_learning_rate_decay_steps",
        [24000, 36000],
        "maskrcnn",
        True,
    ),
    "mask_second_decay_step": (
        "opt_learning_rate_decay_steps",
        [12000, 16777],
        "maskrcnn",
        True,
    ),
    "mask_one_decay_step": ("opt_learning_rate_decay_steps", [24000], "maskrcnn", True),
    "mask_candidates": ("num_image_candidates", 1500, "maskrcnn", True),
    "mask_candidates_zero": ("num_image_candidates", 0, "maskrcnn", None),
    "mask_candidates_fraction": ("num_image_candidates", 1500.5, "maskrcnn", None),
    "mask_min_image_size": ("min_image_size", 600, "maskrcnn", True),
    "mask_max_image_size": ("max_image_size", 1000, "maskrcnn", True),
    "gnmt_decay_factor": ("opt_learning_rate_decay_factor", 0.6, "gnmt", None),
    "gnmt_decay_steps": ("opt_learning_rate_decay_steps", 8, "gnmt", True),
    "gnmt_decay_steps_of_v06": ("opt_learning_rate_decay_steps", 8, "gnmt", False),
    "gnmt_decay_interval_zero": ("opt_learning_rate_decay_interval", 0, "gnmt", None),
    "gnmt_decay_interval_negative": ("opt_learning_rate_decay_interval", -5, "gnmt", None),
    "gnmt_remain_steps_negative": ("opt_learning_rate_remain_steps", -1, "gnmt", None),
    "gnmt_decay_function": ("opt_learning_rate_alt_decay_func", 7, "gnmt", None),
    "gnmt_decay_function_unknown": ("opt_learning_rate_alt_decay_func", "cosine", "gnmt", None),
    "gnmt_decay_function_null": ("opt_learning_rate_alt_decay_func", None, "gnmt", None),
    "gnmt_warmup_function": ("opt_learning_rate_alt_warmup_func", 7, "gnmt", None),
    "gnmt_warmup_function_unknown": ("opt_learning_rate_alt_warmup_func", "cosine", "gnmt", None),
    "sequence_length_zero": ("max_sequence_length", 0, None, None),
    "sequence_length_negative": ("max_sequence_length", -64, None, None),
    "sequence_length_fraction": ("max_sequence_length", 50.5, None, None),
    "adam_epsilon": ("opt_adam_epsilon", 1e-8, "transformer", True),
    "adam_epsilon_of_v06": ("opt_adam_epsilon", 1e-6, "transformer", False),
    "adam_epsilon_negative": ("opt_adam_epsilon", -1e-9, "transformer", None),
    "adam_beta_1_negative": ("opt_adam_beta_1", -0.9, "transformer", None),
    "adam_beta_2_negative": ("opt_adam_beta_2", -0.98, "transformer", None),
    "adam_beta_1_of_one": ("opt_adam_beta_1", 1.0, "transformer", None),
    "adam_beta_1_above_one": ("opt_adam_beta_1", 1.9, "transformer", None),
    "adam_beta_2_of_one": ("opt_adam_beta_2", 1.0, "transformer", None),
    "adam_beta_2_above_one": ("opt_adam_beta_2", 1.98, "transformer", None),
    "adam_beta_1": ("opt_adam_beta_1", 0.7, "transformer", False),
    "adam_beta_2": ("opt_adam_beta_2", 0.5, "transformer", False),
}
"""Kind -> hyper-parameter, a value that its round does not allow, benchmark, round (True: v0.7
only).
"""
for name, (key, value, benchmark, new) in OUTSIDE.items():
    HYPER.put(
        f"outside_{name}",
        valued(key, value, benchmark=benchmark, new=new),
        "within the closed division's table",
    )


@HYPER.add("a sequence length says whether it truncates or discards")
def sequence_method_missing(log: Log) -> bool:
    return (
        not log.old
        and log.closed
        and log.benchmark == "transformer"
        and log.edit(lambda record: record.where(method=None), *log.of_key("max_sequence_length"))
    )


@HYPER.add("a sequence length truncates or discards")
def sequence_method_unknown(log: Log) -> bool:
    return (
        not log.old
        and log.closed
        and log.benchmark == "transformer"
        and log.edit(lambda record: record.where(method="pad"), *log.of_key("max_sequence_length"))
    )


for name, value in {"false": False, "text_false": "false", "garbage": "maybe", "zero": 0}.items():
    HYPER.put(
        f"cache_clear_{name}", valued("cache_clear", value, closed=False), "caches are cleared"
    )

for key, name, value, in_tree in (
    ("submission_benchmark", "unknown", "resnet152", False),
    ("submission_benchmark", "empty", "", False),
    ("submission_benchmark", "null", None, False),
    ("submission_benchmark", "number", 5, False),
    ("submission_org", "empty", "", False),
    ("submission_org", "null", None, False),
    ("submission_org", "of_another", "Contoso", True),
    ("submission_division", "unknown", "ajar", False),
    ("submission_division", "empty", "", False),
    ("submission_status", "unknown", "sometime", False),
    ("submission_status", "empty", "", False),
    ("submission_platform", "empty", "", False),
):
    HYPER.put(
        f"{key}_{name}",
        valued(key, value, closed=False),
        "says what was run, by whom",
        in_tree=in_tree,
    )


SIZES: Final[dict[str, tuple[str, Any]]] = {
    "train_samples_text": ("train_samples", "many"),
    "eval_samples_zero": ("eval_samples", 0),
    "eval_samples_negative": ("eval_samples", -5000),
}
for name, (key, value) in SIZES.items():
    HYPER.put(name, valued(key, value, new=True, closed=False), "a whole number above 0")


@HYPER.add("one size of the training set")
def two_values_train_samples(log: Log) -> bool:
    return not log.old and second("train_samples")(log)


@HYPER.add("hyper-parameters are those of the run")
def batch_after_stop(log: Log) -> bool:
    stop = log.of_key("run_stop")[0]
    end = log.records[stop].seconds
    return log.closed and log.move(
        log.of_key("global_batch_size"), stop + 1, lambda record: record.at(end + 0.001)
    )


@HYPER.add("the benchmark is the folder's", in_tree=True)
def submission_benchmark_of_another(log: Log) -> bool:
    name = "ssd" if log.benchmark == "resnet" else "resnet"
    return log.edit(lambda record: replace(record, value=name), *log.of_key("submission_benchmark"))


@HYPER.add("the organisation is the folder's", in_tree=True)
def submission_org_nvidia(log: Log) -> bool:
    return str(log.value("submission_org")).casefold() != "nvidia" and log.edit(
        lambda record: replace(record, value="NVIDIA"), *log.of_key("submission_org")
    )


@HYPER.add("the division is the system description's", in_tree=True)
def submission_division_of_another(log: Log) -> bool:
    name = "open" if log.closed else "closed"
    return log.edit(lambda record: replace(record, value=name), *log.of_key("submission_division"))

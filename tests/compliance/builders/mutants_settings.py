"""Mutations of one log: hyper-parameters that are missing, told twice, or outside the closed
division's table.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_text import (
    Mutation,
    Row,
    Unfit,
    delete,
    double,
    edit,
    move,
    number,
    settings_of,
    value,
    without,
)


def only(key: str, told: Any, mutation: Mutation) -> Mutation:
    """Mutate only logs in which an event has this value."""

    def mutate(rows: list[Row]) -> list[Row] | str:
        if settings_of(rows).get(key) != told:
            raise Unfit
        return mutation(rows)

    return mutate


def closed(mutation: Mutation) -> Mutation:
    """Mutate only logs of the closed division."""
    return only("submission_division", "closed", mutation)


def new(mutation: Mutation) -> Mutation:
    """Mutate only logs of v0.7."""

    def mutate(rows: list[Row]) -> list[Row] | str:
        if not any(row.new for row in rows):
            raise Unfit
        return mutation(rows)

    return mutate


ILLEGAL: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    "global_batch_size": (
        ("0", 0),
        ("below 0", -32),
        ("a fraction", 1664.5),
        ("text", "big"),
        ("null", None),
        ("a list", [1664]),
    ),
    "model_bn_span": (("above the batch", 10**6), ("0", 0), ("a fraction", 12.5)),
    "opt_name": (("another optimizer", "adagrad"), ("null", None), ("a number", 3)),
    "opt_base_learning_rate": (("0", 0), ("below 0", -0.1), ("text", "high"), ("null", None)),
    "lars_opt_base_learning_rate": (("0", 0), ("below 0", -5)),
    "lars_opt_end_learning_rate": (("below 0", -0.001),),
    "lars_opt_learning_rate_decay_poly_power": (("0", 0),),
    "lars_opt_learning_rate_decay_steps": (("0", 0), ("below 0", -10)),
    "lars_opt_weight_decay": (("no power of two", 0.00015), ("0", 0), ("below 0", -0.0001)),
    "lars_epsilon": (("below 0", -1.0),),
    "max_samples": (("0", 0), ("a fraction", 1.5)),
    "opt_learning_rate_warmup_steps": (("below 0", -1), ("text", "some")),
    "opt_learning_rate_warmup_factor": (("below 0", -1),),
    "opt_weight_decay": (("below 0", -0.1), ("above 1", 1.5)),
    "num_image_candidates": (("a fraction", 1500.5), ("0", 0)),
    "opt_learning_rate_decay_factor": (("another", 0.75),),
    "opt_learning_rate_decay_interval": (("0", 0), ("below 0", -5)),
    "opt_learning_rate_remain_steps": (("below 0", -5),),
    "opt_learning_rate_alt_decay_func": (("text", "cosine"), ("null", None)),
    "opt_learning_rate_alt_warmup_func": (("text", "cosine"), ("a number", 7)),
    "max_sequence_length": (("0", 0), ("below 0", -1), ("a fraction", 50.5)),
    "opt_adam_epsilon": (("another", 1e-6),),
    "opt_adam_beta_1": (("1", 1.0), ("below 0", -0.9), ("above 1", 1.9)),
    "opt_adam_beta_2": (("1", 1.0), ("above 1", 1.98)),
}
"""Hyper-parameter -> values that the closed division does not allow; Adam's betas of GNMT are no
tunables and are not judged.
"""
ILLEGAL_NEW: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    "lars_epsilon": (("another", 1e-5),),
    "lars_opt_end_learning_rate": (("another", 0.001),),
    "lars_opt_learning_rate_decay_poly_power": (("another", 3),),
    "num_image_candidates": (("no thousand", 1500),),
    "lars_opt_momentum": (("another for a small batch", 0.95), ("above 1", 1.1)),
    "max_samples": (("another", 5),),
    "opt_learning_rate_warmup_factor": (("below 0", -2),),
    "opt_learning_rate_decay_boundary_epochs": (
        ("first off the grid", [45, 55]),
        ("second off the grid", [44, 56]),
        ("of two factors", [44, 60]),
        ("one", [44]),
        ("a number", 44),
    ),
    "min_image_size": (("another", 600),),
    "max_image_size": (("another", 1000),),
}
"""Those of v0.7 alone."""
NOT_JUDGED: Final = frozenset(
    {("gnmt", "opt_adam_beta_1"), ("gnmt", "opt_adam_beta_2"), ("gnmt", "opt_adam_epsilon")}
)


SOME_LACK: Final = (
    "lars_opt_end_learning_rate",
    "opt_name",
    "model_bn_span",
    "opt_learning_rate_decay_factor",
)
"""Hyper-parameters that not every round and benchmark asks for."""


def tunable(key: str, mutation: Mutation) -> Mutation:
    """Mutate only closed logs in which the hyper-parameter is judged."""

    def mutate(rows: list[Row]) -> list[Row] | str:
        told = settings_of(rows)
        if (
            told.get("submission_division") != "closed"
            or (told.get("submission_benchmark"), key) in NOT_JUDGED
        ):
            raise Unfit
        return mutation(rows)

    return mutate


def factor(key: str, times: float, benchmark: str) -> Mutation:
    """Multiply a hyper-parameter of one benchmark."""

    def change(row: Row) -> None:
        told = row.table["value"]
        row.table["value"] = (
            [each * times for each in told] if isinstance(told, list) else told * times
        )

    return closed(only("submission_benchmark", benchmark, edit(key, change, None)))


def second_step(row: Row) -> None:
    """Change the second of two steps."""
    row.table["value"][1] += 777


SETTINGS: Final[Mapping[str, Mutation]] = {
    **{
        f"{key} {name}": tunable(key, edit(key, value(told), None))
        for key, cases in ILLEGAL.items()
        for name, told in cases
    },
    **{
        f"{key} {name} (v0.7)": new(tunable(key, edit(key, value(told), None)))
        for key, cases in ILLEGAL_NEW.items()
        for name, told in cases
    },
    **{f"no {key}": tunable(key, delete(key)) for key in ILLEGAL if key not in SOME_LACK},
    "no lars_opt_end_learning_rate": new(closed(delete("lars_opt_end_learning_rate"))),
    "no lars_opt_momentum": new(closed(delete("lars_opt_momentum"))),
    "no min_image_size": new(closed(delete("min_image_size"))),
    "no boundaries": new(closed(delete("opt_learning_rate_decay_boundary_epochs"))),
    **{f"two values of {key}": double(key, value=0.0123) for key in ILLEGAL},
    "Mask R-CNN's rate off its grid": new(factor("opt_base_learning_rate", 1.1, "maskrcnn")),
    "Mask R-CNN's steps off their grid": new(
        factor("opt_learning_rate_decay_steps", 1.04, "maskrcnn")
    ),
    "Mask R-CNN's second step off its grid": new(
        closed(
            only(
                "submission_benchmark",
                "maskrcnn",
                edit("opt_learning_rate_decay_steps", second_step),
            )
        )
    ),
    "Mask R-CNN's decay factor": new(factor("opt_learning_rate_decay_factor", 2, "maskrcnn")),
    "GNMT's decay steps": factor("opt_learning_rate_decay_steps", 2, "gnmt"),
    "Transformer's method unknown": new(
        closed(
            only(
                "submission_benchmark",
                "transformer",
                edit("max_sequence_length", number("method", "forget")),
            )
        )
    ),
    "Transformer's method missing": new(
        closed(
            only(
                "submission_benchmark",
                "transformer",
                edit("max_sequence_length", without("method")),
            )
        )
    ),
    "batch behind run_stop": closed(move("global_batch_size", "run_stop", which=-1)),
}
"""Hyper-parameters."""

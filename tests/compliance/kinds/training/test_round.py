"""Published training rounds as data, and hyper-parameters against their closed divisions."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compliance.kinds.training.round import (
    PublishedTraining,
    build_published_training,
    load_training_round,
)
from suite.errors import RequestError
from suite.rounds import Constraint
from suite.rounds.legality import check_hyperparameter_constraints, is_on_grid
from suite.rounds.load import merge_round_tables

ROUNDS = ("training-v0.6", "training-v0.7")
CLOSED: Mapping[str, Mapping[str, Any]] = {
    "resnet": {
        "global_batch_size": 4096,
        "model_bn_span": 64,
        "opt_name": "lars",
        "lars_epsilon": 0.0,
        "lars_opt_weight_decay": 0.00005,
        "lars_opt_momentum": 0.9,
        "lars_opt_end_learning_rate": 0.0001,
    },
    "ssd": {
        "global_batch_size": 1024,
        "max_samples": 50,
        "opt_learning_rate_decay_boundary_epochs": (48, 60),
    },
    "maskrcnn": {
        "global_batch_size": 96,
        "opt_base_learning_rate": 0.12,
        "opt_learning_rate_decay_steps": (12000, 16000),
        "num_image_candidates": 6000,
    },
    "gnmt": {"opt_learning_rate_alt_warmup_func": "t2t", "opt_learning_rate_decay_factor": 0.5},
    "transformer": {"opt_name": "Adam", "opt_adam_epsilon": 1e-9, "opt_adam_beta_1": 0.86},
}
"""What the closed division of v0.7 allows."""


def breaches(benchmark: str, round_name: str = "training-v0.7", **changes: Any) -> list[str]:
    constraints = load_training_round(round_name).find_closed_constraints(benchmark)
    assert constraints is not None
    return [
        breach.key
        for breach in check_hyperparameter_constraints(
            constraints, {**CLOSED.get(benchmark, {}), **changes}
        )
    ]


@pytest.mark.parametrize("name", ROUNDS)
def test_every_number_stands_beside_its_source(name: str) -> None:
    """A number that nobody can look up is an opinion."""
    round = load_training_round(name)
    for key, row in round.benchmarks.items():
        assert all(
            round.find_source(f"{key}.{field}") != f"round {name}"
            for field in ("runs", "required", "targets.0")
        ), key
        for index in range(len(row.constraints)):
            assert f"{key}.constraints.{index}" in round.sources, (key, row.constraints[index].key)
    assert "20 minutes" in round.find_source("training.init_limit_min")


@pytest.mark.parametrize("name", ROUNDS)
def test_targets_and_runs_are_those_of_the_rules(name: str) -> None:
    round = load_training_round(name)
    told = {key: (dict(row.targets[0].metrics), row.runs) for key, row in round.benchmarks.items()}
    assert {
        key: told[key] for key in ("resnet", "ssd", "maskrcnn", "gnmt", "transformer", "minigo")
    } == {
        "resnet": ({"top1": 0.759}, 5),
        "ssd": ({"map": 0.23}, 5),
        "maskrcnn": ({"box": 0.377, "mask": 0.339}, 5),
        "gnmt": ({"bleu": 0.24}, 10),
        "transformer": ({"bleu": 0.25}, 10),
        "minigo": ({"win_rate": 0.5}, 10),
    }


def test_v07_has_bert_and_dlrm_and_v06_has_not() -> None:
    assert load_training_round(ROUNDS[1]).benchmarks.keys() - load_training_round(
        ROUNDS[0]
    ).benchmarks.keys() == {
        "bert",
        "dlrm",
    }


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ("resnet", "resnet"),
        ("ResNet-50", "resnet"),
        ("mask", "maskrcnn"),
        ("Mask R-CNN", "maskrcnn"),
        ("GNMT", "gnmt"),
        ("resnet34", None),
        (None, None),
    ],
)
def test_names_are_compared_without_case_and_punctuation(
    told: str | None, known: str | None
) -> None:
    assert load_training_round(ROUNDS[0]).find_benchmark_name(told) == known


@pytest.mark.parametrize("name", ROUNDS)
def test_no_name_means_two_benchmarks(name: str) -> None:
    names = [each for row in load_training_round(name).benchmarks.values() for each in row.names]
    assert len(names) == len(set(names))


def test_a_log_needs_its_optimizers_hyper_parameters_too() -> None:
    round = load_training_round("training-v0.7")
    assert "lars_epsilon" in round.list_closed_required("resnet", "LARS")
    assert "lars_epsilon" not in round.list_closed_required("resnet", "sgd")
    assert "sgd_opt_momentum" in round.list_closed_required("resnet", "sgd")
    assert round.list_closed_required("resnet34") == ()
    assert round.find_closed_constraints("resnet34") is None


@pytest.mark.parametrize("benchmark", CLOSED)
def test_what_the_table_allows_is_legal(benchmark: str) -> None:
    assert breaches(benchmark) == []


@pytest.mark.parametrize(
    ("benchmark", "key", "value"),
    [
        ("resnet", "opt_name", "adam"),
        ("resnet", "lars_epsilon", 1e-5),
        ("resnet", "lars_opt_weight_decay", 0.00015),
        ("resnet", "lars_opt_momentum", 0.93),
        ("resnet", "lars_opt_end_learning_rate", 0.0),
        ("resnet", "model_bn_span", 5000),
        ("resnet", "global_batch_size", 4096.5),
        ("resnet", "global_batch_size", 10**400),
        ("resnet", "global_batch_size", True),
        ("resnet", "global_batch_size", float("nan")),
        ("ssd", "max_samples", 2),
        ("ssd", "opt_learning_rate_decay_boundary_epochs", (48, 55)),
        ("ssd", "opt_learning_rate_decay_boundary_epochs", (45, 55)),
        ("ssd", "opt_learning_rate_decay_boundary_epochs", (48,)),
        ("ssd", "opt_learning_rate_decay_boundary_epochs", 48),
        ("maskrcnn", "opt_base_learning_rate", 0.13),
        ("maskrcnn", "opt_learning_rate_decay_steps", (12000, 16500)),
        ("maskrcnn", "opt_learning_rate_decay_steps", (12345, 16460)),
        ("maskrcnn", "num_image_candidates", 1500),
        ("gnmt", "opt_learning_rate_alt_warmup_func", "cosine"),
        ("gnmt", "opt_learning_rate_decay_factor", 0.6),
        ("transformer", "opt_name", "sgd"),
        ("transformer", "opt_adam_epsilon", 1e-8),
        ("transformer", "opt_adam_beta_1", 1.0),
    ],
)
def test_what_the_table_does_not_allow_is_not(benchmark: str, key: str, value: object) -> None:
    assert set(breaches(benchmark, **{key: value})) == {key}


def test_momentum_is_free_for_batches_from_32k_on() -> None:
    assert breaches("resnet", lars_opt_momentum=0.93, global_batch_size=65536) == []


def test_constraints_of_an_optimizer_that_was_not_used_do_not_apply() -> None:
    """A log may name the other optimizer's settings: they have no effect."""
    assert breaches("resnet", sgd_opt_base_learning_rate=0.12345) == []
    assert breaches("resnet", opt_name="sgd", sgd_opt_base_learning_rate=0.12345) == [
        "sgd_opt_base_learning_rate"
    ]


def test_v06_allows_what_its_checker_does() -> None:
    assert breaches("transformer", "training-v0.6", opt_adam_beta_2=0.997) == []
    assert breaches("transformer", "training-v0.6", opt_adam_beta_2=0.99) == ["opt_adam_beta_2"]
    assert breaches("ssd", "training-v0.6", max_samples=8732) == []


def test_batches_of_bert_choose_the_target() -> None:
    targets = load_training_round("training-v0.7").benchmarks["bert"].targets
    assert [(each.batch_from, each.metrics["masked_lm"]) for each in targets] == [
        (0, 0.712),
        (8192, 0.706),
    ]


@pytest.mark.parametrize(
    ("value", "slack", "holds"),
    [
        ((40, 50), 0.0, True),
        ((44, 55), 0.0, True),
        ((36.0, 45.0), 0.0, True),
        ((44, 54), 0.0, False),
        ((44, 54.5), 1.0, True),
        ((0, 0), 0.0, False),
        (("44", "55"), 0.0, False),
        ((44, True), 0.0, False),
        ((44, float("inf")), 1.0, False),
        ("44", 0.0, False),
    ],
)
def test_a_grid_takes_one_factor_for_all(value: Any, slack: float, holds: bool) -> None:
    assert is_on_grid(value, (40.0, 50.0), slack) is holds


def test_a_grid_is_not_judged_without_the_hyper_parameter_it_is_divided_by() -> None:
    constraint = Constraint(
        key="steps", grid=(60000.0, 80000.0), grid_times=16, grid_per_key="batch"
    )
    assert not list(check_hyperparameter_constraints([constraint], {"steps": (1, 2)}))
    assert not list(check_hyperparameter_constraints([constraint], {"steps": (1, 2), "batch": 0}))
    assert list(check_hyperparameter_constraints([constraint], {"steps": (1, 2), "batch": 96}))


def test_case_matters_unless_the_constraint_says_otherwise() -> None:
    strict = Constraint(key="opt_name", one_of=("adam",))
    assert list(check_hyperparameter_constraints([strict], {"opt_name": "Adam"}))
    assert not list(
        check_hyperparameter_constraints([replace(strict, any_case=True)], {"opt_name": "Adam"})
    )


def test_a_bound_from_above_leaves_itself_out() -> None:
    constraint = Constraint(key="beta", below=1.0)
    assert [
        breach.required for breach in check_hyperparameter_constraints([constraint], {"beta": 1.0})
    ] == ["below 1"]
    assert not list(check_hyperparameter_constraints([constraint], {"beta": 0.999}))


def tables(text: str) -> PublishedTraining:
    return build_published_training("training-test", *merge_round_tables("training-test", [text]))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[round]\ntitle = "t"\ndialect = "x"\n', "training"),
        (
            '[round]\ntitle = "t"\ndialect = "x"\n[training]\ninit_limit_min = "20"\n',
            "init_limit_min|divisions",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused(text: str, problem: str) -> None:
    with pytest.raises((RequestError, KeyError), match=problem):
        tables(text)


def test_legality_needs_no_framework() -> None:
    """`podium check --config` judges before anything heavy is loaded."""
    code = (
        "import sys\nfrom compliance.kinds.training.round import load_training_round\n"
        "from suite.rounds.legality import check_hyperparameter_constraints\n"
        "list(check_hyperparameter_constraints("
        "load_training_round('training-v0.7').find_closed_constraints('resnet'),"
        " {'global_batch_size': 1}))\nassert not {'torch', 'numpy', 'msgspec'} &"
        " sys.modules.keys(), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

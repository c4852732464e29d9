"""From settings to a typed recipe and to the names in a log."""

import math
import subprocess
import sys
from typing import Any

import pytest

from suite import registry
from suite.errors import RequestError
from suite.rounds import HyperValue, Profile
from suite.rounds.legality import check_hyperparameter_constraints
from suite.rounds.settings import resolve_settings
from workloads.resnet50 import WORKLOAD
from workloads.resnet50.recipe import (
    RESNET50_LOGGED_HYPERPARAMETERS,
    ResNet50Recipe,
    select_resnet50_hyperparameters,
)

ROUND = registry.load_round()
ROW = ROUND.benchmark("resnet50")


def settled(profile: Profile = Profile.SMOKE, **chosen: Any) -> dict[str, HyperValue]:
    asked = {key.replace("__", "."): value for key, value in chosen.items()}
    return resolve_settings(ROUND, "resnet50", profile, {"data.workers": 1, **asked})


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_is_complete(profile: Profile) -> None:
    """A setting without value would be found only when the run starts."""
    settings = settled(profile)
    ResNet50Recipe.build_from_settings(settings)
    assert set(select_resnet50_hyperparameters(settings)) == set(
        RESNET50_LOGGED_HYPERPARAMETERS[str(settings["opt_name"])]
    )


def test_every_reference_point_is_legal_and_complete() -> None:
    """The closed division's own table must pass its own constraints."""
    row = ROW.training[Profile.FULL]
    for entry in row.recipes:
        settings = settled(Profile.FULL, global_batch_size=entry["global_batch_size"])
        assert (
            ResNet50Recipe.build_from_settings(settings).decay_steps
            == entry["lars_opt_learning_rate_decay_steps"]
        )
        assert not list(
            check_hyperparameter_constraints(
                row.constraints, select_resnet50_hyperparameters(settings)
            )
        )
        assert set(select_resnet50_hyperparameters(settings)) == set(
            RESNET50_LOGGED_HYPERPARAMETERS["lars"]
        )


IMAGES = 1_281_167
POINTS = {
    1632: (7.4, 2, 0.9, 5e-5, 27476, 204, 37),
    3264: (10.5, 2, 0.9, 5e-5, 14523, 204, 37),
    4096: (10.0, 5, 0.9, 2e-4, 13137, 64, 42),
    8192: (17.0, 5, 0.9, 2e-4, 6095, 64, 44),
    13056: (12.8, 9, 0.9, 2.5e-5, 4710, 204, 46),
    32768: (21.2, 16, 0.94, 2.5e-5, 2267, 128, 57),
    49152: (19.405, 24, 0.951807, 1e-4, 1846, 256, 69),
    58880: (23.246, 29, 0.951807, 1e-4, 1785, 230, 81),
    65536: (24.699, 31, 0.951807, 1e-4, 1133, 128, 86),
    67840: (24.699, 31, 0.951807, 1e-4, 1133, 424, 87),
}
"""Batch size: rate, epochs of warm-up, momentum, weight decay, decay steps, batch-norm span, the
largest of `Epochs to converge`.

mlcommons/logging, mlperf_logging/rcp_checker/training_2.1.0/rcps_resnet.json; the optimizer of all
is LARS.
"""
AFTER_WARM_UP = {1632, 8192, 65536, 67840}
"""Points whose decay steps count from the end of the warm-up."""


def test_every_point_is_a_recipe() -> None:
    """And there are no others."""
    assert [entry["global_batch_size"] for entry in ROW.training[Profile.FULL].recipes] == list(
        POINTS
    )


@pytest.mark.parametrize("batch", POINTS)
def test_a_recipe_is_its_reference_convergence_point(batch: int) -> None:
    """Key by key; T = decay steps + W - 1 where they count from the end of the warm-up
    (mlcommons/training, resnet-tf2, lars_util.py).
    """
    rate, warm_up, momentum, weight_decay, decay_steps, span, _ = POINTS[batch]
    recipe, steps = (
        ResNet50Recipe.build_from_settings(settled(Profile.FULL, global_batch_size=batch)),
        math.ceil(IMAGES / batch),
    )
    assert (recipe.optimizer, recipe.base_rate, recipe.warmup_epochs, recipe.momentum) == (
        "lars",
        rate,
        warm_up,
        momentum,
    )
    assert (recipe.weight_decay, recipe.span, recipe.epsilon) == (weight_decay, span, 0.0)
    assert recipe.decay_steps == decay_steps + (
        warm_up * steps - 1 if batch in AFTER_WARM_UP else 0
    )


@pytest.mark.parametrize("batch", POINTS)
def test_a_point_converges_before_its_rate_is_at_the_floor(batch: int) -> None:
    """Decay steps that count from the end of the warm-up, taken for the end of the run, would end
    the decay epochs too early.
    """
    recipe, steps = (
        ResNet50Recipe.build_from_settings(settled(Profile.FULL, global_batch_size=batch)),
        math.ceil(IMAGES / batch),
    )
    rate = recipe.build_schedule(steps)
    last = POINTS[batch][-1]
    assert rate((last - 1) * steps) > 1.001 * recipe.end_rate
    assert rate((last + 5) * steps) == recipe.end_rate, "and not long before its end"


def test_the_points_whose_decay_ended_too_early() -> None:
    """The figures themselves, so that no arithmetic of the test stands for them."""
    found = {
        batch: ResNet50Recipe.build_from_settings(
            settled(Profile.FULL, global_batch_size=batch)
        ).decay_steps
        for batch in sorted(AFTER_WARM_UP)
    }
    assert found == {1632: 29047, 8192: 6879, 65536: 1752, 67840: 1721}


def test_sgd_is_legal_in_full() -> None:
    """Whoever chooses SGD there gets complete and legal values."""
    settings = settled(Profile.FULL, opt_name="sgd", global_batch_size=256)
    assert not list(
        check_hyperparameter_constraints(
            ROW.training[Profile.FULL].constraints, select_resnet50_hyperparameters(settings)
        )
    )
    assert set(select_resnet50_hyperparameters(settings)) == set(
        RESNET50_LOGGED_HYPERPARAMETERS["sgd"]
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sgd_opt_momentum", 0.8),
        ("sgd_opt_weight_decay", 3e-4),
        ("sgd_opt_base_learning_rate", 0.0005),
    ],
)
def test_what_the_rules_forbid_is_seen(key: str, value: float) -> None:
    """Constraints that never bite would let anything pass for closed."""
    settings = settled(Profile.FULL, opt_name="sgd", global_batch_size=256) | {key: value}
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(
            ROW.training[Profile.FULL].constraints, select_resnet50_hyperparameters(settings)
        )
    ] == [key]


def test_the_workload_logs_the_recipe() -> None:
    """The entry point gives the same names, and no key of one optimizer in the other's log."""
    for chosen, other in (("sgd", "lars"), ("lars", "sgd")):
        logged = WORKLOAD.select_hyperparameters(ROUND, settled(opt_name=chosen))
        assert logged["opt_name"] == chosen
        assert not [key for key in logged if key.startswith(other)]


def test_naming_hyperparameters_imports_no_framework() -> None:
    """`check --config` runs where no torch is installed."""
    code = (
        "import sys; import workloads.resnet50.recipe, workloads.resnet50.scoring; assert not {'torch',"
        " 'numpy', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_full_starts_and_crops_as_the_reference_does() -> None:
    """And smoke as its figures were measured."""
    full, smoke = (
        ResNet50Recipe.build_from_settings(settled(Profile.FULL)),
        ResNet50Recipe.build_from_settings(settled()),
    )
    assert (full.start, full.zero_init, full.crops, full.smallest_area) == (
        "reference",
        False,
        "reference",
        0.05,
    )
    assert (smoke.start, smoke.zero_init, smoke.crops, smoke.smallest_area) == (
        "torchvision",
        False,
        "uniform-area",
        0.8,
    )


def test_schedule_polynomial() -> None:
    """Warm-up counts epochs, decay counts steps."""
    rate = ResNet50Recipe.build_from_settings(
        settled(opt_name="sgd", sgd_opt_base_learning_rate=0.5, opt_learning_rate_warmup_epochs=2)
    ).build_schedule(10)
    assert [rate(0), rate(10), rate(20)] == [0.0, 0.25, 0.5]


def test_schedule_steps() -> None:
    """Boundaries are given in epochs."""
    chosen = {
        "schedule.decay": "step",
        "schedule.decay_epochs": (2, 3),
        "schedule.decay_factor": 0.5,
    }
    settings = (
        settled(opt_name="sgd", sgd_opt_base_learning_rate=1.0, opt_learning_rate_warmup_epochs=0)
        | chosen
    )
    rate = ResNet50Recipe.build_from_settings(settings).build_schedule(10)
    assert [rate(19), rate(20), rate(30)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("global_batch_size", 0),
        ("global_batch_size", -4),
        ("data.workers", -1),
        ("model.zero_init", "yes"),
        ("lars_opt_momentum", "high"),
        ("schedule.decay_epochs", 30),
        ("data.picture_size", 0),
    ],
)
def test_values_that_mean_nothing_are_named(key: str, value: Any) -> None:
    """A negative batch would fail deep in numpy, with a traceback that names no setting."""
    with pytest.raises(RequestError, match=key):
        ResNet50Recipe.build_from_settings(settled() | {key: value})


def test_a_setting_without_value_is_named() -> None:
    """A profile that has no value for a setting asks for it by name."""
    settings = settled()
    del settings["lars_opt_momentum"]
    with pytest.raises(RequestError, match="lars_opt_momentum"):
        ResNet50Recipe.build_from_settings(settings)

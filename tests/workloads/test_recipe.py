"""From settings to a typed recipe and to the names in a log."""

import math
import subprocess
import sys
from typing import Any

import pytest

from suite import registry
from suite.errors import RequestError
from suite.legality import judge
from suite.rounds import HyperValue, Profile
from suite.settings import settle
from workloads.resnet50 import ResNet50
from workloads.resnet50.recipe import LOGGED, Recipe, hyperparameters

ROUND = registry.round()
ROW = ROUND.benchmark("resnet50")


def settled(profile: Profile = Profile.SMOKE, **chosen: Any) -> dict[str, HyperValue]:
    return settle(ROUND, "resnet50", profile, {key.replace("__", "."): value for key, value in chosen.items()})


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_is_complete(profile: Profile) -> None:
    """A setting without value would be found only when the run starts."""
    settings = settled(profile)
    Recipe.of(settings)
    assert set(hyperparameters(settings)) == set(LOGGED[str(settings["opt_name"])])


def test_every_reference_point_is_legal_and_complete() -> None:
    """The closed division's own table must pass its own constraints."""
    row = ROW.training[Profile.FULL]
    for entry in row.recipes:
        settings = settled(Profile.FULL, global_batch_size=entry["global_batch_size"])
        assert Recipe.of(settings).decay_steps == entry["lars_opt_learning_rate_decay_steps"]
        assert not list(judge(row.constraints, hyperparameters(settings)))
        assert set(hyperparameters(settings)) == set(LOGGED["lars"])
    assert len(row.recipes) == 8


IMAGES = 1_281_167
LAST_CONVERGENCE = {1632: 37, 3264: 37, 4096: 42, 8192: 44, 13056: 46, 32768: 57, 49152: 69, 65536: 86}
"""Batch size, and the largest of `Epochs to converge`: mlcommons/logging, rcp_checker/training_2.1.0/rcps_resnet.json."""


@pytest.mark.parametrize("batch", [entry["global_batch_size"] for entry in ROW.training[Profile.FULL].recipes])
def test_a_point_converges_before_its_rate_is_at_the_floor(batch: int) -> None:
    """Decay steps that count from the end of the warm-up, taken for the end of the run, would end the decay epochs too early."""
    recipe, steps = Recipe.of(settled(Profile.FULL, global_batch_size=batch)), math.ceil(IMAGES / batch)
    rate = recipe.schedule(steps)
    assert rate((LAST_CONVERGENCE[batch] - 1) * steps) > 1.001 * recipe.end_rate
    assert rate((LAST_CONVERGENCE[batch] + 5) * steps) == recipe.end_rate, "and not long before its end"


@pytest.mark.parametrize(("batch", "decay_steps", "warm_up"), [(1632, 27476, 2 * 786), (8192, 6095, 5 * 157), (65536, 1133, 31 * 20)])
def test_decay_steps_of_a_point_that_leaves_the_warm_up_out(batch: int, decay_steps: int, warm_up: int) -> None:
    """T = decay steps + W - 1 (mlcommons/training, resnet-tf2, lars_util.py: decay_steps = train_steps - warmup_steps + 1)."""
    recipe = Recipe.of(settled(Profile.FULL, global_batch_size=batch))
    assert recipe.warmup_epochs * math.ceil(IMAGES / batch) == warm_up
    assert recipe.decay_steps == decay_steps + warm_up - 1


def test_sgd_is_legal_in_full() -> None:
    """Whoever chooses SGD there gets complete and legal values."""
    settings = settled(Profile.FULL, opt_name="sgd", global_batch_size=256)
    assert not list(judge(ROW.training[Profile.FULL].constraints, hyperparameters(settings)))
    assert set(hyperparameters(settings)) == set(LOGGED["sgd"])


@pytest.mark.parametrize(("key", "value"), [("sgd_opt_momentum", 0.8), ("sgd_opt_weight_decay", 3e-4), ("sgd_opt_base_learning_rate", 0.0005)])
def test_what_the_rules_forbid_is_seen(key: str, value: float) -> None:
    """Constraints that never bite would let anything pass for closed."""
    settings = settled(Profile.FULL, opt_name="sgd", global_batch_size=256) | {key: value}
    assert [breach.key for breach in judge(ROW.training[Profile.FULL].constraints, hyperparameters(settings))] == [key]


def test_the_workload_logs_the_recipe() -> None:
    """The entry point gives the same names, and no LARS key in an SGD log."""
    logged = ResNet50().hyperparameters(ROUND, Profile.SMOKE, settled())
    assert logged["opt_name"] == "sgd"
    assert not [key for key in logged if key.startswith("lars")]


def test_naming_hyperparameters_imports_no_framework() -> None:
    """`check --config` runs where no torch is installed."""
    code = "import sys; import workloads.resnet50, workloads.resnet50.scoring; assert not {'torch', 'numpy', 'PIL'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_full_starts_and_crops_as_the_reference_does() -> None:
    """And smoke as its figures were measured."""
    full, smoke = Recipe.of(settled(Profile.FULL)), Recipe.of(settled())
    assert (full.start, full.zero_init, full.crops, full.smallest_area) == ("reference", False, "reference", 0.05)
    assert (smoke.start, smoke.zero_init, smoke.crops, smoke.smallest_area) == ("torchvision", False, "uniform-area", 0.6)


def test_schedule_polynomial() -> None:
    """Warm-up counts epochs, decay counts steps."""
    rate = Recipe.of(settled(sgd_opt_base_learning_rate=0.5, opt_learning_rate_warmup_epochs=2)).schedule(10)
    assert [rate(0), rate(10), rate(20)] == [0.0, 0.25, 0.5]


def test_schedule_steps() -> None:
    """Boundaries are given in epochs."""
    chosen = {"schedule.decay": "step", "schedule.decay_epochs": (2, 3), "schedule.decay_factor": 0.5}
    settings = settled(sgd_opt_base_learning_rate=1.0, opt_learning_rate_warmup_epochs=0) | chosen
    rate = Recipe.of(settings).schedule(10)
    assert [rate(19), rate(20), rate(30)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("global_batch_size", 0),
        ("global_batch_size", -4),
        ("data.workers", -1),
        ("model.zero_init", "yes"),
        ("sgd_opt_momentum", "high"),
        ("schedule.decay_epochs", 30),
        ("data.picture_size", 0),
    ],
)
def test_values_that_mean_nothing_are_named(key: str, value: Any) -> None:
    """A negative batch would fail deep in numpy, with a traceback that names no setting."""
    with pytest.raises(RequestError, match=key):
        Recipe.of(settled() | {key: value})


def test_a_setting_without_value_is_named() -> None:
    """A profile that has no value for a setting asks for it by name."""
    settings = settled()
    del settings["sgd_opt_momentum"]
    with pytest.raises(RequestError, match="sgd_opt_momentum"):
        Recipe.of(settings)

"""Settings as one record, their names in a log, and the learning rate of each step."""

from collections.abc import Callable

import pytest

from suite import registry
from suite.errors import RequestError
from suite.rounds import Profile
from suite.rounds.settings import resolve_settings
from suite.workload import Run
from workloads.gnmt import WORKLOAD
from workloads.gnmt.recipe import GNMTRecipe, build_gnmt_schedule

MakeRun = Callable[..., Run]
RATE = build_gnmt_schedule(
    base=1e-3, warmup_steps=200, remain_steps=6000, interval=750, factor=0.5, max_decays=4
)


def test_warm_up_is_exponential() -> None:
    """From a hundredth of the rate; half-way a tenth."""
    assert [RATE(step) for step in (0, 100, 200)] == pytest.approx([1e-5, 1e-4, 1e-3])
    assert RATE(51) / RATE(50) == pytest.approx(RATE(151) / RATE(150))


def test_four_halvings() -> None:
    """The first at `remain_steps`, one after each interval, and no fifth."""
    assert [
        RATE(step) for step in (5999, 6000, 6749, 6750, 7500, 8250, 9000, 10**6)
    ] == pytest.approx([1e-3, 5e-4, 5e-4, 2.5e-4, 1.25e-4, 6.25e-5, 6.25e-5, 6.25e-5])


def test_no_warm_up_starts_at_the_rate() -> None:
    assert build_gnmt_schedule(1e-3, 0, 10, 5, 0.5, 4)(0) == 1e-3


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_is_a_recipe_and_logs_what_it_must(profile: Profile) -> None:
    round = registry.load_round()
    settings = resolve_settings(round, "gnmt", profile, {"data.workers": 1})
    GNMTRecipe.build_from_settings(settings)
    logged = WORKLOAD.select_hyperparameters(round, settings)
    assert set(logged) >= set(round.benchmark("gnmt").training[profile].required)


@pytest.mark.parametrize(
    "key", ["opt_learning_rate_alt_decay_func", "opt_learning_rate_alt_warmup_func"]
)
def test_alternative_functions_are_refused(make_run: MakeRun, key: str) -> None:
    """A log that says `true` while the usual function ran would be wrong."""
    with pytest.raises(RequestError, match=f"{key}: the alternative schedules are not implemented"):
        GNMTRecipe.build_from_settings(make_run(**{key: True}).settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("global_batch_size", 0),
        ("model.width", -1),
        ("data.workers", 1.5),
        ("loss.label_smoothing", "x"),
    ],
)
def test_values_that_do_not_fit_are_named(make_run: MakeRun, key: str, value: object) -> None:
    with pytest.raises(RequestError, match=f"setting {key}"):
        GNMTRecipe.build_from_settings(make_run(**{key: value}).settings)


def test_one_layer_is_too_few(make_run: MakeRun) -> None:
    """The first asks the attention, the second is told its answer."""
    with pytest.raises(RequestError, match=r"model\.layers: 1 is below 2"):
        GNMTRecipe.build_from_settings(make_run(model__layers=1).settings)

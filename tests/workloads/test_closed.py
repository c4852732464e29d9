"""The closed division leaves free what the rules do: each setting of a workload is free, with a
reason, or has a constraint in `full`.

Settings, reasons and constraints all come from the round; nothing is listed here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pytest

from suite import plugins, registry
from suite.rounds import Benchmark, Constraint, HyperValue, Profile, Round, Setting, SettingKind
from suite.rounds.legality import check_hyperparameter_constraints, check_served_settings
from suite.rounds.settings import collect_workload_settings, resolve_settings
from suite.terms import Division

ROUND = registry.load_round()
OWN = sorted(
    name
    for name, point in registry.map_entry_points(registry.WORKLOAD_GROUP).items()
    if plugins.is_own_entry_point(point)
)
GIVEN = "what a user names"


def constraints(workload: str) -> tuple[Constraint, ...]:
    return ROUND.benchmark(workload).training[Profile.FULL].constraints


SERVED_ALONE: Final = frozenset({"endpoint.temperature"})
"""Held by serving alone: no row has a value, so the closed division takes none."""


def unclassed(round: Round, row: Benchmark) -> list[str]:
    """Settings that are neither free nor held, and those that are both."""
    held = {constraint.key for constraint in row.training[Profile.FULL].constraints} | SERVED_ALONE
    return [
        key
        for key, setting in collect_workload_settings(round, row).items()
        if bool(setting.free) is (key in held)
    ]


def legal(workload: str, *, serving: bool = False) -> Mapping[str, HyperValue]:
    """What `full` says, with the texts that a user has to give, as a file of start weights."""
    asked = {constraint.key: GIVEN for constraint in constraints(workload) if constraint.none_of}
    return resolve_settings(ROUND, workload, Profile.FULL, asked, serving=serving)


def other(wanted: HyperValue) -> HyperValue:
    """A value of the same type that is not the wanted one."""
    if isinstance(wanted, bool):
        return not wanted
    if isinstance(wanted, tuple):
        return tuple(number + 1 for number in wanted)
    return wanted + 1 if isinstance(wanted, int | float) else f"no {wanted}"


def spoilt() -> Iterator[tuple[str, str, HyperValue]]:
    """Each setting that has one value, or some, in the closed division, with another value."""
    for workload in OWN:
        known = collect_workload_settings(ROUND, ROUND.benchmark(workload))
        for constraint in constraints(workload):
            everything: tuple[object, ...] = known[constraint.key].choices or (
                (True, False) if known[constraint.key].kind is SettingKind.BOOL else ()
            )
            if constraint.equals is not None and constraint.when_key is None:
                yield workload, constraint.key, other(constraint.equals)
            elif constraint.one_of and set(constraint.one_of) != set(everything):
                yield workload, constraint.key, other(constraint.one_of[-1])
            elif constraint.none_of:
                yield workload, constraint.key, constraint.none_of[0]


SPOILT = list(spoilt())


@pytest.mark.parametrize("workload", OWN)
def test_every_setting_is_free_or_held(workload: str) -> None:
    """What is neither would be the user's in a result that says closed; what is both would be told
    two ways.
    """
    assert unclassed(ROUND, ROUND.benchmark(workload)) == []


def test_a_new_setting_has_to_be_classed() -> None:
    """Whoever adds one says which it is."""
    row = ROUND.benchmark("resnet50")
    longer = replace(
        row, settings={**row.settings, "model.depth": Setting(kind=SettingKind.INT, help="layers")}
    )
    assert unclassed(ROUND, longer) == ["model.depth"]


@pytest.mark.parametrize("workload", OWN)
def test_a_reason_is_a_sentence_with_its_source(workload: str) -> None:
    """`free = "yes"` would class anything."""
    known = collect_workload_settings(ROUND, ROUND.benchmark(workload))
    assert all(
        len(setting.free.split()) > 3 and (":" in setting.free or "_rules.adoc" in setting.free)
        for setting in known.values()
        if setting.free
    )


@pytest.mark.parametrize("workload", OWN)
def test_full_is_legal_as_it_stands(workload: str) -> None:
    """The row's own settings pass its constraints, in both halves."""
    assert (
        ROUND.benchmark(workload).training[Profile.FULL].division
        is ROUND.benchmark(workload).inference[Profile.FULL].division
        is Division.CLOSED
    )
    assert not list(check_hyperparameter_constraints(constraints(workload), legal(workload)))
    assert not list(
        check_served_settings(
            ROUND,
            workload,
            Profile.FULL,
            resolve_settings(ROUND, workload, Profile.FULL, {}, serving=True),
        )
    )


def test_something_is_held_in_each_workload() -> None:
    """The next test would pass with nothing to look at."""
    assert {workload for workload, _, _ in SPOILT} == set(OWN) and len(SPOILT) > 50


@pytest.mark.parametrize(("workload", "key", "value"), SPOILT, ids=lambda case: str(case))
def test_a_setting_that_is_held_is_refused_in_both_halves(
    workload: str, key: str, value: HyperValue
) -> None:
    """Other pictures, another network, shuffled labels, a narrower search: another benchmark,
    trained or served.
    """
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(
            constraints(workload), {**legal(workload), key: value}
        )
    ] == [key]
    served = legal(workload, serving=True)
    assert [
        breach.key
        for breach in check_served_settings(ROUND, workload, Profile.FULL, {**served, key: value})
    ] == (
        []
        if resolve_settings(ROUND, workload, Profile.FULL, {}, serving=True).get(key) == value
        else [key]
    )


@pytest.mark.parametrize("workload", OWN)
def test_what_is_free_is_free_in_serving(workload: str) -> None:
    """Batching, engine and rates are the system's."""
    served = legal(workload, serving=True)
    changed = {
        key: other(served.get(key, 1))
        for key, setting in collect_workload_settings(ROUND, ROUND.benchmark(workload)).items()
        if setting.free
    }
    assert not list(check_served_settings(ROUND, workload, Profile.FULL, {**served, **changed}))


def test_a_served_setting_that_is_not_told_is_a_breach() -> None:
    """A record without its beam may hide any."""
    told = {
        key: value
        for key, value in legal("transformer", serving=True).items()
        if key != "decode.beam"
    }
    (breach,) = check_served_settings(ROUND, "transformer", Profile.FULL, told)
    assert (breach.key, breach.found, breach.required) == ("decode.beam", "missing", "4")


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("workload", OWN)
def test_both_halves_of_a_profile_mean_the_same_network(workload: str, profile: Profile) -> None:
    """A checkpoint that its own profile cannot serve would be found out after days of training."""
    trained, served = (
        resolve_settings(ROUND, workload, profile, {}, serving=serving) for serving in (False, True)
    )
    held = {
        key
        for key, setting in collect_workload_settings(ROUND, ROUND.benchmark(workload)).items()
        if not setting.free
    }
    assert {key: trained.get(key) for key in held} == {key: served.get(key) for key in held}


@pytest.mark.parametrize("workload", OWN)
def test_full_pins_its_training_data(workload: str) -> None:
    """Any corpus, or any folder of pictures, would be the closed division's otherwise."""
    sizes = ROUND.benchmark(workload).training[Profile.FULL].collect_sample_limits()
    assert {"train_samples", "corpus_samples"} & sizes.keys() and "eval_samples" in sizes
    assert all(0 < fewest <= most < 1.01 * fewest for fewest, most in sizes.values())

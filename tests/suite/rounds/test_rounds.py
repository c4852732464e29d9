"""Rounds are data: every number has a source, and nothing that does not fit gets in."""

import pickle
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from suite import registry
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.rounds import Constraint, Profile, Setting, SettingKind
from suite.rounds.load import build_round, build_typed_value, strip_sources

MINIMAL = """
[round]
title = "t"
[loadgen]
source = "s"
qsl_rng_seed = 1
sample_index_rng_seed = 2
schedule_rng_seed = 3
accuracy_share = 0.99
sampled_answers = 0
ceiling_share = 0.2
[training]
source = "s"
init_limit_ms = 1
olympic_from_runs = 5
not_converged_allowed = 1
[settings]
"""

STRUCTURAL = {"max_epochs", "evaluate_every_epochs", "evaluate_offset_epochs", "runs", "default"}
"""How much of a run is done, not a figure of the rules."""
RANGE_KEYS = {"minimum", "above", "maximum"}
"""Of a setting: what its number can mean at all, not a figure of the rules."""


def numbers(node: Any, path: str, covered: bool) -> Iterator[str]:
    """Yield the path of every number without a source of its own or of a table around it."""
    if isinstance(node, dict):
        covered = covered or "source" in node
        for key, value in node.items():
            if key not in STRUCTURAL and not (key in RANGE_KEYS and ".settings." in path):
                yield from numbers(value, f"{path}.{key}", covered)
    elif isinstance(node, list):
        for entry in node:
            yield from numbers(entry, path, covered)
    elif type(node) in (int, float) and not covered:
        yield path


@pytest.mark.parametrize("name", sorted(registry.load_round().benchmarks))
def test_a_row_gives_a_reason_or_a_list(name: str) -> None:
    """A reason beside a list would refuse nothing, and be shown nowhere."""
    benchmark = registry.load_round().benchmark(name)
    listed = [row for row in benchmark.inference.values() if row.calibration]
    assert not (benchmark.not_quantised and listed)


@pytest.mark.parametrize(
    "package",
    sorted({file.package for file in registry.list_round_files()}),
)
def test_every_number_has_a_source(package: str) -> None:
    """A number without a source cannot be checked by anybody."""
    for file in files(package).iterdir():
        if file.name.endswith(".toml"):
            assert (
                list(numbers(tomllib.loads(file.read_text("utf-8")), file.name, covered=False))
                == []
            )


def test_podium_v1_has_resnet50_with_its_own_target() -> None:
    """The runner does not own its finish line: it comes from the round."""
    row = registry.load_round("podium-v1").benchmark("resnet50")
    assert row.training[Profile.SMOKE].target["top1"] >= 0.759
    assert row.training_name == "resnet"
    assert set(row.inference[Profile.SMOKE].scenarios) == set(Scenario)


def test_source_of_a_value_or_of_the_table_around_it() -> None:
    """A finding names where its rule stands, also for a value that shares its table's source."""
    round = registry.load_round("podium-v1")
    assert "75.9" in round.find_source("resnet50.training.smoke.target.top1")
    assert round.find_source("resnet50.training.smoke.settings.opt_name") == round.find_source(
        "resnet50.training.smoke.settings"
    )
    assert round.find_source("nothing.here") == "round podium-v1"


def test_round_pickles() -> None:
    """LoadGen runs in a child process, which is sent the round."""
    round = registry.load_round("podium-v1")
    assert pickle.loads(pickle.dumps(round)) == round


def test_unknown_round_and_workload_name_the_nearest() -> None:
    """A typo is answered with the name that was meant."""
    with pytest.raises(RequestError, match="podium-v1"):
        registry.load_round("podium-v2")
    with pytest.raises(RequestError, match="did you mean 'resnet50'"):
        registry.load_round("podium-v1").benchmark("resnet51")


def test_two_packages_may_not_define_the_same_row() -> None:
    """A plugin cannot change the row of another workload."""
    with pytest.raises(RequestError, match="defined by two packages"):
        build_round("r", [MINIMAL, "[training]\ninit_limit_ms = 9\n"])


def test_a_round_without_its_own_table_is_refused() -> None:
    """A workload's row alone is no round."""
    with pytest.raises(RequestError, match=r"its files have no \[round\] table"):
        build_round("r", ["[other]\n"])


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ("[settings.x]\nkind='int'\n", "'help' is missing"),
        ("[settings.x]\nkind='int'\nhelp='h'\nhalp='h'\n", "'halp' is not a key here"),
        ("[settings.x]\nkind='whole'\nhelp='h'\n", "'whole' is not of type SettingKind"),
        ("[settings.x]\nkind='int'\nhelp=3\n", "3 is not of type str"),
    ],
)
def test_a_row_that_does_not_fit_names_its_path(extra: str, complaint: str) -> None:
    """A misspelt key in a round would otherwise be a rule that never applies."""
    with pytest.raises(RequestError, match=complaint):
        build_round("r", [MINIMAL + extra])


def test_plain_takes_sources_out() -> None:
    """Values come out plain, sources land under the dotted path."""
    sources: dict[str, str] = {}
    assert strip_sources(
        {"a": {"value": 1, "source": "s1"}, "b": {"c": [1, 2], "source": "s2"}}, "p", sources
    ) == {"a": 1, "b": {"c": (1, 2)}}
    assert sources == {"p.a": "s1", "p.b": "s2"}


def test_build_keeps_bool_int_and_float_apart() -> None:
    """True is no number, and 1 where a float is asked for becomes 1.0."""
    setting = build_typed_value(Setting, {"kind": "bool", "help": "h", "default": True}, "p")
    assert setting.default is True and setting.kind is SettingKind.BOOL
    assert type(build_typed_value(Constraint, {"key": "k", "minimum": 1}, "p").minimum) is float
    assert build_typed_value(Constraint, {"key": "k", "one_of": (1, 2.5, "x")}, "p").one_of == (
        1,
        2.5,
        "x",
    )
    with pytest.raises(RequestError, match="not of type int"):
        build_typed_value(int, True, "p")
    with pytest.raises(RequestError, match="is not one of"):
        build_typed_value(int | str, 1.5, "p")

"""From settings to a typed recipe, to the names in a log, and the row that they stand in."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite import registry
from suite.errors import RequestError
from suite.files.layout import compute_folder_sha256
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue, Profile
from suite.rounds.legality import check_hyperparameter_constraints
from suite.rounds.settings import collect_workload_settings, resolve_settings
from workloads.common.text import synthetic_language
from workloads.transformer import WORKLOAD, scoring, subwords
from workloads.transformer.recipe import (
    DecodingParameters,
    TransformerRecipe,
)

ROUND = registry.load_round()
ROW = ROUND.benchmark("transformer")


def settled(profile: Profile = Profile.SMOKE, **chosen: Any) -> dict[str, HyperValue]:
    return resolve_settings(
        ROUND,
        "transformer",
        profile,
        {key.replace("__", "."): value for key, value in chosen.items()},
    )


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_is_complete(profile: Profile) -> None:
    """A setting without value would be found only when the run starts; a misspelt one would never
    reach the model.
    """
    settings = settled(profile)
    TransformerRecipe.build_from_settings(settings)
    logged = WORKLOAD.select_hyperparameters(ROUND, settings)
    assert set(logged) == set(ROW.training[Profile.FULL].required)
    assert settings.keys() <= collect_workload_settings(ROUND, ROW).keys()


@pytest.mark.parametrize("profile", list(Profile))
def test_the_search_is_the_reference_s(profile: Profile) -> None:
    """Beam 4, alpha 0.6, 50 tokens more than the source: also in smoke, where no step is left
    out.
    """
    assert DecodingParameters.build_from_settings(settled(profile)) == DecodingParameters(
        beam=4, alpha=0.6, extra_length=50
    )


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.FULL])
def test_the_network_is_big(profile: Profile) -> None:
    """Vaswani et al. 2017, table 3."""
    sizes = TransformerRecipe.build_from_settings(settled(profile)).sizes
    assert (sizes.layers, sizes.width, sizes.filter, sizes.heads) == (6, 1024, 4096, 16)


@pytest.mark.parametrize("chosen", [{}, {"global_batch_size": 81920}])
def test_full_s_own_values_are_legal(chosen: dict[str, int]) -> None:
    """The closed division's own table must pass its own constraints; the reference point brings its
    rate along.
    """
    settings = settled(Profile.FULL, **chosen)
    assert not list(
        check_hyperparameter_constraints(
            ROW.training[Profile.FULL].constraints,
            WORKLOAD.select_hyperparameters(ROUND, settings),
        )
    )
    assert settings["opt_learning_rate_warmup_steps"] == (1000 if chosen else 16000)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("opt_adam_epsilon", 1e-8),
        ("opt_name", "sgd"),
        ("opt_base_learning_rate", 0.0),
        ("opt_learning_rate_warmup_steps", -1),
        ("opt_adam_beta_1", 1.0),
        ("opt_adam_beta_2", -0.1),
        ("max_sequence_length", 0),
        ("global_batch_size", 0),
    ],
)
def test_what_the_rules_forbid_is_seen(key: str, value: Any) -> None:
    """Constraints that never bite would let anything pass for closed."""
    settings = settled(Profile.FULL) | {key: value}
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(
            ROW.training[Profile.FULL].constraints,
            WORKLOAD.select_hyperparameters(ROUND, settings),
        )
    ] == [key]


OTHERS = [
    ("decode.beam", 8),
    ("decode.alpha", 1.0),
    ("model.layers", 2),
    ("loss.label_smoothing", 0.0),
    ("data.vocabulary", 1024),
]


@pytest.mark.parametrize(("key", "value"), OTHERS)
def test_the_closed_division_fixes_network_loss_and_search(key: str, value: Any) -> None:
    """They are not in the rules' table of what may be chosen; a wider beam or a smaller network
    would be another benchmark.
    """
    settings, constraints = settled(Profile.FULL), ROW.training[Profile.FULL].constraints
    assert not list(check_hyperparameter_constraints(constraints, settings))
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(constraints, settings | {key: value})
    ] == [key]


def test_naming_hyperparameters_imports_no_framework() -> None:
    """`check --config` runs where no torch is installed."""
    code = (
        "import sys; import workloads.transformer.recipe; assert not {'torch', 'numpy', 'tensorflow'} &"
        " set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("global_batch_size", 0),
        ("max_sequence_length", 0),
        ("model.width", -4),
        ("opt_adam_beta_1", "high"),
        ("loss.label_smoothing", True),
    ],
)
def test_values_that_mean_nothing_are_named(key: str, value: Any) -> None:
    """A negative width would fail deep in the framework, with a traceback that names no setting."""
    with pytest.raises(RequestError, match=key):
        TransformerRecipe.build_from_settings(settled() | {key: value})


def test_a_search_without_hypotheses_is_refused() -> None:
    with pytest.raises(RequestError, match=r"decode\.beam"):
        DecodingParameters.build_from_settings(settled() | {"decode.beam": 0})


def test_targets_are_mlperf_s() -> None:
    """25.0 BLEU, on 0-1, in smoke and full; ten runs in full."""
    assert ROW.training[Profile.SMOKE].target == ROW.training[Profile.FULL].target == {"bleu": 0.25}
    assert (ROW.training[Profile.FULL].runs, ROW.training[Profile.FULL].eval_samples) == (10, 3003)


@pytest.mark.parametrize("profile", list(Profile))
def test_serving_is_a_house_rule_in_every_scenario(profile: Profile) -> None:
    """MLPerf never served the Transformer, and nothing may look as if it had."""
    scenarios = ROW.inference[profile].scenarios
    assert set(scenarios) == set(Scenario)
    assert all(row.house_rule for row in scenarios.values())
    assert (
        scenarios[Scenario.SERVER].bound_ns
        and scenarios[Scenario.MULTI_STREAM].samples_per_query == 8
    )


def test_the_rules_get_stricter_from_smoke_to_full() -> None:
    """A shorter profile must not ask for more."""
    for scenario in Scenario:
        rows = [ROW.inference[profile].scenarios[scenario] for profile in Profile]
        assert [row.min_duration_ms for row in rows] == sorted(row.min_duration_ms for row in rows)
        assert [row.min_queries for row in rows] == sorted(row.min_queries for row in rows)


@pytest.mark.slow
def test_the_pins_are_those_of_the_embedded_text(tmp_path: Path) -> None:
    """Who trains on fewer sentences, or is scored against other references, has another
    benchmark.
    """
    train, test = synthetic_language.generate_corpora(synthetic_language.FAR_LANGUAGE)
    words = subwords.build_subtoken_vocabulary(
        (*train.sources, *train.targets), int(str(settled()["data.vocabulary"]))
    )
    scoring.write_transformer_truth(tmp_path, test.targets, words)
    row, longest = ROW.inference[Profile.SMOKE], int(str(settled()["max_sequence_length"]))
    assert (compute_folder_sha256(tmp_path), len(test)) == (row.truth_sha256, row.accuracy_samples)
    kept = [
        pair
        for pair in zip(train.sources, train.targets, strict=True)
        if max(len(words.encode_text(line)) for line in pair) < longest
    ]
    assert (len(kept), len(test)) == (
        ROW.training[Profile.SMOKE].train_samples,
        ROW.training[Profile.SMOKE].eval_samples,
    )

"""GNMT's row: pins, profiles and scenarios keep their promises; the judge judges its settings and
logs.
"""

from pathlib import Path

import pytest

from suite import registry
from suite.files.layout import compute_folder_sha256
from suite.loadgen.scenario import Scenario
from suite.rounds import Profile, legality
from suite.rounds.settings import collect_workload_settings, resolve_settings
from workloads.common.text import references, synthetic_language
from workloads.gnmt import data, scoring

ROUND = registry.load_round()
ROW = ROUND.benchmark("gnmt")


def test_the_targets_are_mlperf_s() -> None:
    """Smoke shrinks the model and the text, not what is to be reached."""
    assert ROW.training[Profile.SMOKE].target == ROW.training[Profile.FULL].target == {"bleu": 0.24}
    assert ROW.inference[Profile.FULL].threshold == {"bleu": 0.23661}


def test_the_pinned_sizes_are_those_of_the_embedded_text() -> None:
    row = ROW.training[Profile.SMOKE]
    assert (row.train_samples, row.eval_samples) == (
        synthetic_language.NEAR_LANGUAGE.train,
        synthetic_language.NEAR_LANGUAGE.test,
    )
    assert ROW.inference[Profile.SMOKE].accuracy_samples == synthetic_language.NEAR_LANGUAGE.test


def test_smoke_has_a_course() -> None:
    """Seeds take some 600 steps to the target: with an evaluation every 125 of them a training's
    figures are lines, where they were one dot.
    """
    row = ROW.training[Profile.SMOKE]
    batch = int(str(resolve_settings(ROUND, "gnmt", Profile.SMOKE, {})["global_batch_size"]))
    assert row.train_samples is not None and row.train_samples * row.evaluate_every_epochs == (
        125 * batch
    )
    assert row.train_samples * row.max_epochs == 2500 * batch


@pytest.mark.slow
def test_the_pinned_truth_is_that_of_the_embedded_text(tmp_path: Path) -> None:
    """Grammar, tokenisation and merges decide it; no sentence may be left out for its length
    either.
    """
    settings = resolve_settings(ROUND, "gnmt", Profile.SMOKE, {})
    found = data.prepare_gnmt_text(
        None, tmp_path / "cache", int(str(settings["data.merges"])), skip=False
    )
    (tmp_path / "truth").mkdir()
    references.write_references(tmp_path / "truth", found.references)
    scoring.write_gnmt_vocabulary(tmp_path / "truth", found.subwords.tokens)
    assert compute_folder_sha256(tmp_path / "truth") == ROW.inference[Profile.SMOKE].truth_sha256
    assert (
        len(
            found.load_pairs(data.TEXT_TRAIN_SPLIT).drop_long_pairs(
                int(str(settings["max_sequence_length"]))
            )
        )
        == synthetic_language.NEAR_LANGUAGE.train
    )
    assert found.load_pairs(data.TEXT_TEST_SPLIT).lengths.max() <= int(
        str(settings["data.max_answer_length"])
    )


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_has_every_scenario(profile: Profile) -> None:
    """A campaign serves all four; GNMT's percentile is 97 wherever a bound or a burst is."""
    scenarios = ROW.inference[profile].scenarios
    assert set(scenarios) == set(Scenario)
    assert (
        scenarios[Scenario.SERVER].bound_ns
        and scenarios[Scenario.MULTI_STREAM].samples_per_query == 8
    )
    assert (
        scenarios[Scenario.SERVER].percentile == scenarios[Scenario.MULTI_STREAM].percentile == 97.0
    )


def test_full_holds_250_ms_for_90112_queries() -> None:
    """inference_rules.adoc v0.5."""
    server = ROW.inference[Profile.FULL].scenarios[Scenario.SERVER]
    assert (
        server.bound_ns,
        server.min_queries,
        ROW.inference[Profile.FULL].performance_samples,
    ) == (250_000_000, 90_112, 3_903_900)


@pytest.mark.parametrize("profile", list(Profile))
def test_every_setting_of_a_profile_is_one_that_there_is(profile: Profile) -> None:
    """A misspelt one would never reach the model."""
    assert (
        resolve_settings(ROUND, "gnmt", profile, {}).keys()
        <= collect_workload_settings(ROUND, ROW).keys()
    )


def test_the_rules_get_stricter_from_smoke_to_full() -> None:
    for scenario in Scenario:
        rows = [ROW.inference[profile].scenarios[scenario] for profile in Profile]
        assert [row.min_duration_ms for row in rows] == sorted(row.min_duration_ms for row in rows)
        assert [row.min_queries for row in rows] == sorted(row.min_queries for row in rows)
    assert ROW.training[Profile.FULL].runs == 10 and ROW.training[Profile.FULL].division == "closed"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("opt_learning_rate_decay_factor", 0.7),
        ("opt_learning_rate_decay_steps", 3),
        ("opt_base_learning_rate", 0.0),
        ("max_sequence_length", 0),
    ]
    + [
        ("model.layers", 2),
        ("model.dropout", 0.0),
        ("loss.label_smoothing", 0.0),
        ("data.merges", 100),
        ("optimizer.clip_norm", 1.0),
    ],
)
def test_the_closed_division_fixes_what_the_rules_fix(key: str, value: float) -> None:
    """`check --config` and the runner ask the same constraints."""
    settings = resolve_settings(ROUND, "gnmt", Profile.FULL, {})
    constraints = ROW.training[Profile.FULL].constraints
    assert not list(legality.check_hyperparameter_constraints(constraints, settings))
    assert [
        breach.key
        for breach in legality.check_hyperparameter_constraints(
            constraints, settings | {key: value}
        )
    ] == [key]

"""ResNet-50's row: the pins of the embedded data are what everybody's machine makes of it, and
profiles keep their promises.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from suite import registry
from suite.files.layout import compute_folder_sha256
from suite.loadgen.scenario import Scenario
from suite.rounds import Profile
from suite.rounds.settings import collect_workload_settings, resolve_settings
from workloads.resnet50 import scoring
from workloads.resnet50.images import embedded, imagenet

ROUND = registry.load_round()
ROW = ROUND.benchmark("resnet50")


def small(folder: Path) -> Path:
    """The embedded data's tree with empty pictures: names and numbers as `embedded.write` makes
    them.
    """
    for split, count in embedded.EMBEDDED_IMAGES_PER_CLASS.items():
        for name in embedded.EMBEDDED_CLASSES:
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                (folder / split / name / f"{name}_{number:05d}.JPEG").touch()
    return folder


def test_the_pinned_truth_is_that_of_the_embedded_pictures(tmp_path: Path) -> None:
    """Names of folders decide the labels, so the hash needs no picture; a class more, or another
    order, would change it.
    """
    found = imagenet.index_imagenet_split(small(tmp_path / "data"), "val")
    (tmp_path / "truth").mkdir()
    scoring.write_image_labels(tmp_path / "truth", found.labels.tolist())
    row = ROW.inference[Profile.SMOKE]
    assert (
        compute_folder_sha256(tmp_path / "truth") == row.truth_sha256
        and len(found) == row.accuracy_samples
    )


def test_the_pinned_sizes_are_those_of_the_embedded_pictures() -> None:
    """Who trains on fewer pictures has another benchmark."""
    row = ROW.training[Profile.SMOKE]
    assert (
        row.train_samples
        == len(embedded.EMBEDDED_CLASSES) * embedded.EMBEDDED_IMAGES_PER_CLASS["train"]
    )
    assert (
        row.eval_samples
        == len(embedded.EMBEDDED_CLASSES) * embedded.EMBEDDED_IMAGES_PER_CLASS["val"]
        == ROW.inference[Profile.SMOKE].accuracy_samples
    )


def test_full_asks_for_the_whole_of_imagenet() -> None:
    """And for its own threshold; its truth is the user's, so it is not pinned."""
    training, inference = ROW.training[Profile.FULL], ROW.inference[Profile.FULL]
    assert (training.train_samples, training.eval_samples, inference.accuracy_samples) == (
        1_281_167,
        50_000,
        50_000,
    )
    assert inference.truth_sha256 is None and inference.threshold == {"top1": 0.756954}


def test_quick_takes_the_data_that_it_is_given() -> None:
    """It is run on any folder of that layout."""
    training, inference = ROW.training[Profile.QUICK], ROW.inference[Profile.QUICK]
    assert (
        training.train_samples,
        training.eval_samples,
        inference.accuracy_samples,
        inference.truth_sha256,
    ) == (None,) * 4


PINS = [
    "training.smoke.train_samples",
    "training.full.eval_samples",
    "inference.smoke.truth_sha256",
    "inference.smoke.accuracy_samples",
]


@pytest.mark.parametrize("path", PINS)
def test_each_pin_says_where_it_comes_from(path: str) -> None:
    """A hash without a source cannot be checked by anybody."""
    source = ROUND.find_source(f"resnet50.{path}")
    assert "embedded.py" in source or "Russakovsky" in source


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_has_every_scenario(profile: Profile) -> None:
    """A campaign serves all four."""
    scenarios = ROW.inference[profile].scenarios
    assert set(scenarios) == set(Scenario)
    assert (
        scenarios[Scenario.SERVER].bound_ns
        and scenarios[Scenario.MULTI_STREAM].samples_per_query == 8
    )
    assert all(
        row.bound_ns is None
        for scenario, row in scenarios.items()
        if scenario is not Scenario.SERVER
    )


@pytest.mark.parametrize("profile", list(Profile))
def test_every_setting_of_a_profile_is_one_that_there_is(profile: Profile) -> None:
    """A misspelt one would never reach the model."""
    known = collect_workload_settings(ROUND, ROW)
    settled = resolve_settings(ROUND, "resnet50", profile, {})
    assert settled.keys() <= known.keys()
    assert all(
        not setting.choices or settled.get(key, setting.choices[0]) in setting.choices
        for key, setting in known.items()
    )


def test_the_rules_get_stricter_from_smoke_to_full() -> None:
    """A shorter profile must not ask for more, nor a longer one for less."""
    for scenario in Scenario:
        rows = [ROW.inference[profile].scenarios[scenario] for profile in Profile]
        assert [row.min_duration_ms for row in rows] == sorted(row.min_duration_ms for row in rows)
        assert [row.min_queries for row in rows] == sorted(row.min_queries for row in rows)
    assert ROW.training[Profile.FULL].runs == 5 and ROW.training[Profile.FULL].division == "closed"


@pytest.mark.parametrize("field", ["train_samples", "eval_samples"])
def test_a_pin_may_be_left_out(field: str) -> None:
    """A workload without one is judged by its logs alone: the field is optional, for third parties
    too.
    """
    row: Any = replace(ROW.training[Profile.SMOKE], **{field: None})
    assert getattr(row, field) is None and msgspec.to_builtins(row)[field] is None

"""Submissions of curves as honest submitters may write them: salted prompts, a part of the data set
at a low concurrency, amended points, seeds as text, and other words for cooling and parallelism.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds.endpoints import edited, series
from kinds.endpoints_curves import (
    CURVES,
    DATA_SET,
    SCALING,
    SEEDS,
    SUMMARY,
    draw_input_lengths,
    edit_file,
    edit_point,
    simulate_point,
    submission,
    write_compact,
)

from compliance.judge import Judge
from compliance.kinds.endpoints_curve.documents.power import find_cooling
from compliance.verdict import Finding, Severity

Edit = Callable[[Path], object]
POINTS = (1, 6, 16, 30, 64, 128, 256)
PART = 500


def judge(folder: Path, *edits: Edit) -> tuple[Finding, ...]:
    def change(root: Path) -> None:
        for edit in edits:
            edit(root)

    submission(change)(folder)
    return Judge().judge_path(str(folder / "acme" / "s1")).findings


def list_rules(found: tuple[Finding, ...], severity: Severity) -> set[str]:
    return {each.rule.removeprefix("endpoints.") for each in found if each.severity is severity}


def edit_each(*path: str, value: Any) -> list[Edit]:
    return [edit_point(each, *path, value=value) for each in POINTS]


def describe_each(**values: Any) -> list[Edit]:
    return [
        edit_file(each, "system_desc.json", name, value=value)
        for each in POINTS
        for name, value in values.items()
    ]


# ---- prompts


def salt_prompts(root: Path) -> None:
    """Put a salt before each prompt, whose tokens differ by a few."""
    for each in POINTS:
        drawn = random.Random(each)
        lengths = draw_input_lengths(DATA_SET * (5 if each == POINTS[-1] else 1))
        salted = [length + drawn.choice([9, 10, 10, 11, 12]) for length in lengths]
        edit_file(each, SUMMARY, "input_sequence_lengths", value=series(salted, proven=False))(root)


def test_salted_prompts_raise_no_alarm(tmp_path: Path) -> None:
    assert judge(tmp_path, salt_prompts) == ()


def test_shorter_prompts_are_found_beside_salted_ones(tmp_path: Path) -> None:
    def shorten(root: Path) -> None:
        shorter = [max(50, each - 20) for each in draw_input_lengths(DATA_SET)]
        edit_file(64, SUMMARY, "input_sequence_lengths", value=series(shorter, proven=False))(root)

    found = judge(tmp_path, salt_prompts, shorten)
    assert list_rules(found, Severity.ERROR) == {"input_lengths"}


def measure_part(concurrency: int, samples: int = PART) -> Edit:
    """Measure a point with a part of the data set, and say so."""

    def change(root: Path) -> None:
        took_s = 1300 * (256 / concurrency) ** SCALING * samples / DATA_SET
        summary = simulate_point(CURVES["elected"], concurrency, samples, took_s, False)
        (point,) = root.glob(f"results/*/deepseek-r1/r{concurrency}")
        write_compact(point / SUMMARY, summary)
        stated = {"name": "deepseek_r1", "n_samples_from_dataset": PART}
        edit_point(concurrency, "dataset", value=stated)(root)

    return change


def test_a_part_of_the_data_set_at_a_low_concurrency_is_a_warning(tmp_path: Path) -> None:
    found = judge(tmp_path, measure_part(1))
    assert [(each.rule, each.severity) for each in found] == [
        ("endpoints.whole_passes", Severity.WARNING)
    ]
    assert found[0].found == f"{PART} samples of the data set"


@pytest.mark.parametrize("edit", [measure_part(64), measure_part(1, PART - 1)])
def test_a_part_elsewhere_or_another_one_is_an_error(tmp_path: Path, edit: Edit) -> None:
    assert "whole_passes" in list_rules(judge(tmp_path, edit), Severity.ERROR)


def test_a_name_beside_the_part_is_the_data_set(tmp_path: Path) -> None:
    other = edit_point(
        1, "dataset", value={"name": "cnn_dailymail", "n_samples_from_dataset": PART}
    )
    assert "data_set" in list_rules(judge(tmp_path, measure_part(1), other), Severity.ERROR)


# ---- seeds and cohorts


def test_an_amended_point_keeps_the_seeds(tmp_path: Path) -> None:
    """Its own cohort is one in which the set is no longer open."""
    found = judge(tmp_path, edit_point(64, "target_cohort", value="2027-01-C1"))
    assert list_rules(found, Severity.ERROR) == set()
    assert [each.rule for each in found] == ["endpoints.same_seeds"]


def test_a_curve_whose_first_cohort_is_too_late_is_an_error(tmp_path: Path) -> None:
    late = edit_each("target_cohort", value="2026-12-C1")
    found = judge(tmp_path, *late, edit_point(64, "target_cohort", value="2027-01-C1"))
    (error,) = [each for each in found if each.severity is Severity.ERROR]
    assert (error.rule, error.found) == (
        "endpoints.same_seeds",
        "seed_set A in cohort 2026-12-C1",
    )


def test_a_point_before_its_seeds_is_an_error(tmp_path: Path) -> None:
    found = judge(tmp_path, edit_point(64, "target_cohort", value="2026-10-C0"))
    assert "seed_set" in list_rules(found, Severity.ERROR)


def test_seeds_as_text_are_a_warning(tmp_path: Path) -> None:
    texts = {name: str(value) for name, value in SEEDS.items()}
    found = judge(tmp_path, *edit_each("runtime_settings", "runtime", value=texts))
    assert {(each.rule, each.severity) for each in found} == {
        ("endpoints.seed_set", Severity.WARNING)
    }
    assert "'10487924139932647040', a text" in found[0].found


def test_another_seed_as_text_is_an_error(tmp_path: Path) -> None:
    edit = edit_point(64, "runtime_settings", "runtime", "model_seed", value="42")
    assert list_rules(judge(tmp_path, edit), Severity.ERROR) == {"seed_set"}


# ---- cooling and parallelism


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("air-cooled, no liquid cooling", "air"),
        ("only air-cooling; no liquid", "air"),
        ("Air, without any water", "air"),
        ("non-liquid, forced air", "air"),
        ("Direct liquid cooling (CPU, GPU), fans for the rest", "liquid"),
        ("liquid; power supplies by air", "liquid"),
        ("no air, immersion", "liquid"),
        ("passive", None),
    ],
)
def test_a_cooling_that_is_denied_does_not_count(text: str, kind: str | None) -> None:
    assert find_cooling(text) == kind


def test_a_denied_cooling_raises_no_alarm(tmp_path: Path) -> None:
    def describe(root: Path) -> None:
        edited("system_power.json", "cooling", value="air")(root / "results" / "box")
        for each in sorted(root.glob("results/*/*/r*/system_desc.json")):
            system = json.loads(each.read_text())
            system["node_types"][0]["cooling"] = "air-cooled, no liquid cooling"
            each.write_text(json.dumps(system))

    assert judge(tmp_path, describe) == ()


@pytest.mark.parametrize(
    ("parallel", "severity"),
    [
        ({"tensor_parallel": 8, "expert_parallel": 8}, Severity.WARNING),
        (
            {"tensor_parallel": 1, "expert_parallel": 8, "data_parallel": 8},
            Severity.WARNING,
        ),
        ({"tensor_parallel": 16, "expert_parallel": 1}, Severity.ERROR),
        ({"tensor_parallel": 8, "expert_parallel": 16}, Severity.ERROR),
        ({"tensor_parallel": 8, "expert_parallel": 8, "data_parallel": 2}, Severity.ERROR),
    ],
)
def test_experts_may_share_accelerators(
    tmp_path: Path, parallel: dict[str, int], severity: Severity
) -> None:
    """The checker multiplies all dimensions, which the rules do not say."""
    found = judge(tmp_path, *describe_each(**parallel))
    assert {(each.rule, each.severity) for each in found} == {("endpoints.engagement", severity)}

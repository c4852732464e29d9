"""Comparing without files: which two results may stand beside each other, what is said of the rest,
and in which direction more is better.
"""

from typing import Any

import pytest
from changed_results import change_result, make_result

from submissions.compare.comparison import ComparedResult, compare_results
from submissions.compare.fitness import (
    find_allowed_differences,
    find_incomparability_reasons,
    find_unfitness_reasons,
    format_checkpoint_quality,
    select_quality_targets,
)
from submissions.compare.table_rows import format_short_paths
from submissions.compare.tables import print_comparisons, render_comparison_tables
from suite.result import Result
from suite.rounds.settings import select_task_settings

SIDE = make_result(
    source="a",
    org="acme",
    system="host",
    division="open",
    profile="smoke",
    round="podium-v1",
    workload="resnet50",
    scenario="Offline",
    metric="samples_per_second",
    value=100.0,
    unit="samples/s",
    runs=(100.0,),
    compliant=True,
    precision="fp32",
    engine="torch",
    task={"sample_count": 1008},
    checkpoint_quality={"top1": 0.87},
)


def side(source: str = "b", **changes: Any) -> Result:
    """Another result."""
    return change_result(SIDE, source=source, **changes)


def told(other: Result) -> str:
    return "; ".join(find_incomparability_reasons(SIDE, other))


def beside(first: Result, other: Result) -> ComparedResult:
    """The other result beside the first."""
    (found,) = compare_results([first, other], [first.source, other.source])
    return found.results[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"round": "podium-v2"}, "round: podium-v1 and podium-v2"),
        ({"profile": "full"}, "profile: smoke and full"),
        ({"division": "closed"}, "division: open and closed"),
        ({"metric": "latency_p90"}, "metric: samples_per_second and latency_p90"),
        ({"task": {"sample_count": 50}}, "sample_count: 1008 and 50"),
        ({"task": {}}, "sample_count: 1008 and unknown"),
        (
            {"task": {"sample_count": 1008, "tokens.bounds": "interactive"}},
            "tokens.bounds: unknown and interactive",
        ),
        (
            {"task": {"sample_count": 1008, "data.picture_size": 64}},
            "data.picture_size: unknown and 64",
        ),
        (
            {"task": {"sample_count": 1008, "data.mirror": False, "target": {"top1": 0.759}}},
            "data.mirror: unknown and false; target: unknown and top1 0.759",
        ),
        ({"compliant": False}, "this is not compliant"),
        ({"value": None}, "this has no mean, because too many runs missed the target"),
        (
            {"checkpoint_quality": {"top1": 0.5}},
            "this serves a checkpoint with top1 0.5000, below the target of 0.7590",
        ),
        ({"checkpoint_quality": {"top5": 0.9}}, "this serves a checkpoint with top1 0.0000"),
    ],
)
def test_each_difference_that_forbids_a_comparison_is_told(
    changes: dict[str, Any], words: str
) -> None:
    """A ratio of two things that were not measured alike is worse than none."""
    assert words in told(side(**changes))
    assert beside(SIDE, side(**changes)).ratio is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"precision": "bf16"}, "precision: fp32 and bf16"),
        ({"engine": "onnx"}, "engine: torch and onnx"),
        ({"checkpoint_quality": {"top1": 0.9}}, "checkpoint quality: top1 0.8700 and top1 0.9000"),
        ({"runs": (1.0, 2.0)}, "runs: 1 and 2"),
    ],
)
def test_what_may_differ_is_told_and_compared(changes: dict[str, Any], words: str) -> None:
    """That is what comparisons are for."""
    assert (
        list(find_allowed_differences(SIDE, side(**changes))) == [words]
        and told(side(**changes)) == ""
    )
    assert beside(SIDE, side(**changes)).ratio == 1.0


@pytest.mark.parametrize(
    "changes", [{"org": "beta"}, {"system": "tower"}, {"source": "c"}, {"workload": "ResNet50"}]
)
def test_whose_a_result_is_makes_no_difference(changes: dict[str, Any]) -> None:
    """Names are shown, not compared."""
    assert (
        told(side(**changes)) == "" and list(find_allowed_differences(SIDE, side(**changes))) == []
    )


@pytest.mark.parametrize(
    ("metric", "first", "other", "ratio"),
    [
        ("samples_per_second", 100.0, 250.0, 2.5),
        ("scheduled_samples_per_second", 100.0, 250.0, 2.5),
        ("samples_per_query", 8.0, 16.0, 2.0),
        ("latency_p90", 1e6, 4e6, 0.25),
        ("time_to_train", 10.0, 5.0, 2.0),
        ("samples_per_second", 0.0, 5.0, None),
        ("latency_p99", 5.0, 0.0, None),
    ],
)
def test_the_ratio_says_how_many_times_as_fast(
    metric: str, first: float, other: float, ratio: float | None
) -> None:
    """More samples a second or a query, fewer minutes, less latency; nothing is divided by
    nothing.
    """
    one = change_result(SIDE, metric=metric, value=first)
    assert beside(one, side(metric=metric, value=other)).ratio == ratio


def test_the_baseline_beside_itself_is_only_looked_at_for_its_own_faults() -> None:
    """It is as fast as itself, and nothing is tested."""
    (found,) = compare_results([SIDE, side()], ["a", "b"])
    first = found.results[0]
    assert first.baseline and first.ratio == 1.0 and first.notes == () and first.verdict is None
    (found,) = compare_results([side(compliant=False), SIDE], ["b", "a"])
    assert found.results[0].reasons == ("this is not compliant",) and found.results[0].ratio is None
    assert list(find_unfitness_reasons(SIDE, "this")) == []


def test_a_fault_of_the_first_is_told_with_every_other() -> None:
    """Whoever reads one line alone has to see it."""
    bad = change_result(SIDE, compliant=False)
    assert list(find_incomparability_reasons(bad, side())) == ["the first is not compliant"]


@pytest.mark.parametrize(
    ("round_name", "workload"),
    [("podium-v9", "resnet50"), ("podium-v1", "nothing"), ("training-v0.7", "resnet")],
)
def test_a_round_without_such_a_row_has_no_target(round_name: str, workload: str) -> None:
    """Nothing is below it; the judge says the rest."""
    assert select_quality_targets(change_result(SIDE, round=round_name, workload=workload)) == {}
    assert select_quality_targets(SIDE) == {"top1": 0.759}


def test_a_served_result_need_not_have_what_training_alone_is_evaluated_by() -> None:
    """Mini-Go is trained to a win rate, which no served result has: none was comparable."""
    served = change_result(
        SIDE, workload="minigo", checkpoint_quality={"moves": 0.4, "results": 0.6}
    )
    assert select_quality_targets(served) == {}
    assert list(find_unfitness_reasons(served, "this")) == []


def test_decoding_workers_are_no_part_of_the_data() -> None:
    """Everything else under `data.` is."""
    assert select_task_settings(
        {"data.workers": 8, "data.picture_size": 32, "batching.max_batch": 4}
    ) == {"data.picture_size": 32}


def test_bounds_of_tokens_are_part_of_the_task() -> None:
    """A Server within tighter bounds is MLPerf's Interactive, which is slower for a reason."""
    assert select_task_settings({"tokens.bounds": "server"}) == {"tokens.bounds": "server"}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({}, "unknown"),
        ({"top1": 0.87}, "top1 0.8700"),
        ({"box": 0.3, "mask": 0.25}, "box 0.3000, mask 0.2500"),
    ],
)
def test_a_quality_is_printed_with_its_metrics(found: dict[str, float], text: str) -> None:
    """Where no measurements file was found, that is said."""
    assert format_checkpoint_quality(change_result(SIDE, checkpoint_quality=found)) == text


# ---- several paths ----


def test_results_are_grouped_by_workload_and_scenario() -> None:
    """In the order of names, training first; spelling of workloads aside."""
    sides = [
        side("a", scenario="Server"),
        side("a"),
        side("a", scenario=None),
        side("b", workload="ResNet-50"),
        side("b", workload="gnmt"),
    ]
    found = compare_results(sides, ["a", "b"])
    assert [(each.workload, each.scenario) for each in found] == [
        ("gnmt", "Offline"),
        ("resnet50", None),
        ("resnet50", "Offline"),
        ("resnet50", "Server"),
    ]
    assert [result.path for result in found[2].results] == ["a", "b"]


def test_a_path_without_such_a_result_is_named() -> None:
    """An empty place would read like a result that is as good."""
    (found,) = compare_results([side("a")], ["a", "b", "c"])
    assert [result.path for result in found.results] == ["a", "b", "c"] and not found.comparable
    assert found.results[1] == ComparedResult(
        path="b", label="B", absent=True, notes=("has no result of this kind",)
    )
    (found,) = compare_results([side("a"), side("b")], ["a", "b", "c"])
    assert found.comparable, "what is not there keeps nobody from comparing the rest"


@pytest.mark.parametrize(
    ("sides", "comparable"),
    [
        ([side("a")], False),
        ([side("a"), side("b")], True),
        ([side("a"), side("b"), side("c", profile="full")], False),
    ],
)
def test_a_kind_is_comparable_only_where_all_of_it_is(
    sides: list[Result], comparable: bool
) -> None:
    """One alone is compared with nothing."""
    (found,) = compare_results(sides, [each.source for each in sides])
    assert found.comparable is comparable


def test_two_systems_of_one_path_stand_beside_each_other() -> None:
    """The first found is the measure."""
    (found,) = compare_results([side("a", system="x", value=50.0), side("a", system="y")], ["a"])
    assert [(result.result.system, result.ratio) for result in found.results] == [
        ("x", 1.0),
        ("y", 2.0),
    ]


def test_nothing_compared_is_nothing() -> None:
    """No table of no rows."""
    assert compare_results([], []) == []


def test_the_table_shows_foreign_text_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle may be called anything."""
    monkeypatch.delenv("COLUMNS", raising=False)
    print_comparisons(
        compare_results(
            [side("some/[bold]a.tar.zst"), side("b", precision="[red]x[/red]")],
            ["some/[bold]a.tar.zst", "b", "none"],
        )
    )
    out = capsys.readouterr().out
    assert (
        "[bold]a" in out
        and "[red]x" in out
        and "has no result of this kind" in out
        and "B is 1.00x as fast as A" in out
    )


def test_what_all_rows_share_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Forty published rows repeat eight lines each, and hide the one that differs."""
    shared = {"profile": "full", "engine": "onnx"}
    found = compare_results(
        [side("a"), side("b", **shared), side("c", division="closed", **shared)], ["a", "b", "c"]
    )
    print_comparisons(found)
    out = capsys.readouterr().out.partition("\n\n")[2]  # the conclusions name the first reason
    assert out.count("profile: smoke and full") == 1
    assert out.count("engine: torch and onnx") == 1
    assert out.index("all rows but the baseline") < out.index("profile:") < out.index("division")
    first, table = render_comparison_tables(
        compare_results(
            [side("a"), side("b", **shared), side("c", division="closed", **shared)],
            ["a", "b", "c"],
        ),
        [],
    )
    assert first.startswith("resnet50 Offline, all rows but the baseline: profile: smoke and full")
    assert "profile" not in table


def test_what_the_only_other_row_differs_in_stays_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_comparisons(compare_results([side("a"), side("b", profile="full")], ["a", "b"]))
    assert "all rows" not in capsys.readouterr().out


def test_paths_that_end_alike_are_told_apart() -> None:
    """Four times `resnet` in a column says nothing."""
    assert format_short_paths(["a/x.tar.zst", "b/y.tar.zst"]) == {
        "a/x.tar.zst": "x.tar.zst",
        "b/y.tar.zst": "y.tar.zst",
    }
    assert format_short_paths(["results/a/resnet", "results/b/resnet"]) == {
        "results/a/resnet": "a",
        "results/b/resnet": "b",
    }
    assert format_short_paths(["."]) == {".": "."}


def test_markdown_shows_foreign_text_as_text() -> None:
    """A comment on a pull request is read by a machine that obeys HTML."""
    (table,) = render_comparison_tables(
        compare_results(
            [side("a|b", system="<img src=x>"), side("b", system="*x*", precision="[l](u)")],
            ["a|b", "b"],
        ),
        [],
    )
    assert (
        "<img" not in table
        and "&lt;img src=x&gt;" in table
        and "\\*x\\*" in table
        and "a\\|b" in table
        and "\\[l\\](u)" in table
    )
    assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1

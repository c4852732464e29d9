"""Finding results: what counts as one, what is passed over, and what selections and paths mean."""

from collections.abc import Callable
from pathlib import Path

import pytest

from submissions.result_index import (
    find_requested_results,
    find_results,
    locate_checkpoint_record,
    open_results,
    select_named_results,
)
from suite.errors import JudgedError, RequestError
from suite.loadgen.scenario import Scenario

HOME = Path("open", "acme")


def kinds(path: Path) -> list[str]:
    return [
        f"{result.system} {result.workload}"
        f" {result.scenario.label if result.scenario else 'training'}"
        for result in find_results(path)
    ]


def test_a_campaign_is_one_set_and_four_scenarios(results: Path) -> None:
    served = [
        f"host-torch-fp32 resnet50 {name}"
        for name in ("MultiStream", "Offline", "Server", "SingleStream")
    ]
    assert kinds(results) == ["host-torch-bf16 resnet50 training", *served]


def test_a_result_knows_where_its_other_files_lie(results: Path) -> None:
    training, *_, stream = find_results(results)
    assert (training.org, training.division, training.results_root) == ("acme", "open", results)
    assert training.system_file.is_file()
    assert training.truth_folder == results / HOME / "truth" / "resnet50"
    assert stream.measurements_folder.joinpath("host-torch-fp32_podium_SingleStream.json").is_file()
    assert [path.name for path in stream.performance_folders] == ["run_1"]


def test_unfinished_and_misnamed_runs_are_no_results(results: Path) -> None:
    offline = (
        results / HOME / "results" / "host-torch-fp32" / "resnet50" / "Offline" / "performance"
    )
    for name in ("run_2.partial", "run_x", "run_"):
        (offline / name).mkdir()
    (offline / "run_10").mkdir()
    (offline / "run_3").mkdir()
    (result,) = (each for each in find_results(results) if each.scenario is Scenario.OFFLINE)
    assert [path.name for path in result.performance_folders] == ["run_1", "run_3", "run_10"]


def test_training_and_serving_may_share_a_folder(
    tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Workloads whose training and inference names are one word, on one system."""
    results = make_tree(tmp_path)
    system = results / HOME / "results" / "host-torch-fp32"
    (results / HOME / "results" / "host-torch-bf16" / "resnet" / "result_0.txt").rename(
        system / "resnet50" / "result_0.txt"
    )
    assert kinds(system / "resnet50")[0] == "host-torch-fp32 resnet50 training"
    assert len(kinds(system / "resnet50")) == 5


def test_state_checkpoints_and_bundles_are_no_results(
    results: Path, make_log: Callable[..., None]
) -> None:
    make_log(
        results
        / ".podium"
        / "superseded"
        / "1"
        / HOME
        / "results"
        / "old"
        / "resnet"
        / "result_0.txt"
    )
    make_log(results / "bundles" / "result_0.txt")
    assert len(find_results(results)) == 5


def test_a_path_inside_an_entry_means_the_entry(results: Path) -> None:
    run = (
        results
        / HOME
        / "results"
        / "host-torch-fp32"
        / "resnet50"
        / "Server"
        / "performance"
        / "run_1"
    )
    assert kinds(run) == ["host-torch-fp32 resnet50 Server"]


def test_nothing_is_found_outside_a_tree(tmp_path: Path) -> None:
    assert find_results(tmp_path) == []
    assert find_results(tmp_path / "missing") == []


@pytest.mark.parametrize("part", ["resnet", "."])
def test_a_set_that_lies_in_no_tree_is_found_alone_and_below_a_system(
    tmp_path: Path, make_log: Callable[..., None], part: str
) -> None:
    """The judge accepts such a set; it belongs to no organisation's folder, and cannot be
    packed.
    """
    make_log(tmp_path / "box" / "resnet" / "result_0.txt")
    (found,) = find_requested_results(tmp_path / "box" / part)
    assert (
        found.org,
        found.division,
        found.workload,
        [log.name for log in found.training_logs],
    ) == (
        "",
        "",
        "resnet50",
        ["result_0.txt"],
    )
    with pytest.raises(JudgedError, match="not in a results tree"):
        assert found.results_root


def test_an_entry_that_lies_in_no_tree_is_found(tmp_path: Path) -> None:
    (tmp_path / "bench" / "Offline" / "performance").mkdir(parents=True)
    (tmp_path / "bench" / "Server" / "performance").mkdir(parents=True)
    assert [found.scenario for found in find_requested_results(tmp_path / "bench" / "Offline")] == [
        Scenario.OFFLINE
    ]


def test_a_selection_keeps_what_was_asked_for(results: Path) -> None:
    found = find_results(results)
    assert len(select_named_results(found)) == 5
    assert len(select_named_results(found, systems=["host-torch-fp32"])) == 4
    assert (
        len(
            select_named_results(
                found, workloads=["resnet50"], systems=["host-torch-bf16", "host-torch-fp32"]
            )
        )
        == 5
    )


@pytest.mark.parametrize(
    ("workloads", "systems", "near"),
    [(["resnet"], [], "resnet50"), ([], ["host-torch-fp16"], "host-torch-")],
)
def test_a_selection_of_what_is_not_there_offers_the_nearest(
    results: Path, workloads: list[str], systems: list[str], near: str
) -> None:
    with pytest.raises(RequestError, match=f"in these results .*did you mean '{near}"):
        select_named_results(find_results(results), workloads, systems)


@pytest.mark.parametrize("name", ["missing", "empty", "text.txt"])
def test_opening_what_holds_no_results_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("text")
    with pytest.raises(JudgedError, match=name), open_results(tmp_path / name):
        pass


def test_a_checkpoints_record_lies_beside_its_weights(results: Path) -> None:
    assert (
        locate_checkpoint_record(results, "resnet50", "ab" * 32)
        .with_name("model.safetensors")
        .is_file()
    )

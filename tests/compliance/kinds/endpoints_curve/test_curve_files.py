"""Files of a curve in shapes that older clients wrote, that cannot be read, or in folders that do
not count as points.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds.endpoints_curves import edit_file, submission, write_compact

from compliance.judge import Judge
from compliance.verdict import Finding, Severity, Verdict

CURVE = Path("results/box/deepseek-r1")
ACCURACY = "accuracy_results.json"
SAMPLES = 4388


def submit(folder: Path, curve: str = "elected") -> Path:
    submission(curve=curve)(folder)
    return folder / "acme" / "s1"


def judge(root: Path) -> tuple[Finding, ...]:
    return Judge().judge_path(str(root)).findings


def list_errors(root: Path) -> list[str]:
    return [each.rule for each in judge(root) if each.severity is Severity.ERROR]


# ---- accuracy results


def change_shape(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write each point's accuracy results in another shape."""
    for path in sorted(root.glob(f"results/*/*/r*/{ACCURACY}")):
        write_compact(path, change(json.loads(path.read_text())))


def index_scores(document: dict[str, Any]) -> dict[str, Any]:
    return {each["dataset_name"]: each for each in document["accuracy_scores"]}


def use_older_names(document: dict[str, Any]) -> dict[str, Any]:
    """As builds wrote it before data sets had types: by name, with counts of other names."""
    names = {"unit_samples": "num_samples", "num_repeats": "n_repeats"}
    return {
        key: {
            names.get(name, name): value
            for name, value in each.items()
            if name not in ("total_samples", "dataset_type", "dataset_name")
        }
        for key, each in index_scores(document).items()
    }


def state_metrics_beside_counts(document: dict[str, Any]) -> dict[str, Any]:
    found = use_older_names(document)
    for each in found.values():
        each |= {"exact_match": str(each.pop("score")), "num_samples": str(SAMPLES)}
    return found


def name_metric(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(document: dict[str, Any]) -> dict[str, Any]:
        for each in document["accuracy_scores"]:
            each["score"] = {name: each["score"]}
        return document

    return change


def drop_types(document: dict[str, Any]) -> dict[str, Any]:
    for each in document["accuracy_scores"]:
        each.pop("dataset_type", None)
    return document


SHAPES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a table below accuracy_scores": lambda each: {"accuracy_scores": index_scores(each)},
    "a bare list": lambda each: each["accuracy_scores"],
    "a bare table": index_scores,
    "older names": use_older_names,
    "a metric of the scorer's own name": name_metric("pass@1"),
    "the metric's own name": name_metric("exact_match"),
    "no types": drop_types,
}


@pytest.mark.parametrize("curve", ["elected", "agentic"])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_any_shape_raise_no_alarm(tmp_path: Path, shape: str, curve: str) -> None:
    root = submit(tmp_path, curve)
    change_shape(root, SHAPES[shape])
    assert judge(root) == ()


@pytest.mark.parametrize("curve", ["elected", "agentic"])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_any_shape_count(tmp_path: Path, shape: str, curve: str) -> None:
    """Of each shape a low score is found, and a part of the data set."""
    root = submit(tmp_path, curve)
    model = "kimi-k3" if curve == "agentic" else CURVE.name
    edit_file(30, ACCURACY, "accuracy_scores", 0, "score", value=0.1, model=model)(root)
    edit_file(30, ACCURACY, "accuracy_scores", 0, "unit_samples", value=7, model=model)(root)
    edit_file(30, ACCURACY, "accuracy_scores", 0, "total_samples", value=7, model=model)(root)
    change_shape(root, SHAPES[shape])
    wanted = {
        "elected": {"endpoints.point_accuracy", "endpoints.accuracy_counts"},
        "agentic": {"endpoints.mean_accuracy", "endpoints.accuracy_counts"},
    }[curve]
    assert set(list_errors(root)) == wanted


def test_metrics_beside_the_counts_are_read(tmp_path: Path) -> None:
    root = submit(tmp_path)
    change_shape(root, state_metrics_beside_counts)
    assert judge(root) == ()
    path = root / CURVE / "r30" / ACCURACY
    path.write_text(path.read_text().replace("81.2", "71.2"))
    assert list_errors(root) == ["endpoints.point_accuracy"]


def test_scores_in_the_log_of_requests_are_read(tmp_path: Path) -> None:
    root = submit(tmp_path)
    for path in sorted(root.glob(f"results/*/*/r*/{ACCURACY}")):
        scores = json.loads(path.read_text())
        write_compact(path.with_name("results.json"), {"requests": [{"id": 1}], **scores})
        path.unlink()
    assert judge(root) == ()
    path = root / CURVE / "r30" / "results.json"
    path.write_text(path.read_text().replace("81.2", "71.2"))
    assert list_errors(root) == ["endpoints.point_accuracy"]


def test_a_log_of_requests_without_scores_is_no_accuracy_run(tmp_path: Path) -> None:
    root = submit(tmp_path)
    (root / CURVE / "r64" / "results.json").write_text('{"accuracy_scores": [], "x": 1}')
    (root / CURVE / "r128" / "results.json").write_bytes(b"\xff")
    assert judge(root) == ()


def test_a_second_score_of_the_performance_run_is_found(tmp_path: Path) -> None:
    """The first one would count, and hide a low one."""
    root = submit(tmp_path, "agentic")
    edit_file(
        64,
        ACCURACY,
        "accuracy_scores",
        value=lambda each: [{**each[-1], "score": 0.99}, *each],
        model="kimi-k3",
    )(root)
    assert list_errors(root) == ["endpoints.accuracy_counts"]


def test_two_scores_without_a_name_are_found(tmp_path: Path) -> None:
    root = submit(tmp_path)

    def hide_names(scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**scores[0], "dataset_name": ""} for _ in range(2)]

    edit_file(30, ACCURACY, "accuracy_scores", value=hide_names)(root)
    assert "endpoints.accuracy_counts" in list_errors(root)


def test_a_score_without_its_number_of_samples_is_found(tmp_path: Path) -> None:
    """Older tables need not state it; a list of the client's does."""
    root = submit(tmp_path)
    counts = ("unit_samples", "num_repeats", "total_samples")

    def drop_counts(document: dict[str, Any]) -> dict[str, Any]:
        score = document["accuracy_scores"][0]
        return {"accuracy_scores": [{k: v for k, v in score.items() if k not in counts}]}

    change_shape(root, drop_counts)
    assert set(list_errors(root)) == {"endpoints.accuracy_counts"}
    change_shape(root, index_scores)
    assert list_errors(root) == []
    assert {each.rule for each in judge(root)} == {"endpoints.accuracy_counts"}


# ---- files that cannot be read

LOST = {
    "cut": b'{"a": 1',
    "another shape": b'{"accuracy_scores": 3}',
    "deep": b"[" * 100_000,
    "NaN": b'{"accuracy_scores": [{"score": NaN}], "score": NaN, "score": 1}',
}


@pytest.mark.parametrize(
    ("curve", "point"),
    [("elected", "r1"), ("elected", "r30"), ("elected", "r256"), ("dedicated", "r4388")],
)
@pytest.mark.parametrize("name", [ACCURACY, "system_desc.json", "result_summary.json"])
def test_a_lost_file_is_one_finding(tmp_path: Path, name: str, curve: str, point: str) -> None:
    root = submit(tmp_path, curve)
    (root / CURVE / point / name).write_bytes(LOST["cut"])
    (found,) = judge(root)
    assert found.file.endswith(f"{point}/{name}")


@pytest.mark.parametrize("damage", LOST)
@pytest.mark.parametrize("curve", ["elected", "agentic"])
def test_lost_accuracy_results_are_one_error(tmp_path: Path, curve: str, damage: str) -> None:
    root = submit(tmp_path, curve)
    (path,) = root.glob(f"results/box/*/r30/{ACCURACY}")
    path.write_bytes(LOST[damage])
    found = {each.file for each in judge(root) if each.severity is Severity.ERROR}
    assert found == {str(path)}


@pytest.mark.parametrize("damage", [b'{"a": 1', b"[1]", b"a: *b", b"a: [" + b"1," * 20_000 + b"1]"])
@pytest.mark.parametrize(
    ("curve", "point"),
    [("elected", "r1"), ("elected", "r256"), ("dedicated", "r4388"), ("agentic", "r30")],
)
def test_a_lost_disclosure_is_one_finding(
    tmp_path: Path, curve: str, point: str, damage: bytes
) -> None:
    root = submit(tmp_path, curve)
    (path,) = root.glob(f"results/box/*/{point}/point.yaml")
    path.write_bytes(damage)
    (found,) = judge(root)
    assert found.file == str(path)


def test_a_folder_in_the_place_of_a_file_is_one_finding(tmp_path: Path) -> None:
    for name in ("point.yaml", ACCURACY):
        root = submit(tmp_path / name)
        (root / CURVE / "r30" / name).unlink()
        (root / CURVE / "r30" / name).mkdir()
        assert [each.rule for each in judge(root)] == ["file.readable"]


def test_yaml_of_too_many_values_is_refused_before_it_is_built(tmp_path: Path) -> None:
    root = submit(tmp_path)
    path = root / CURVE / "r30" / "point.yaml"
    path.write_text(path.read_text() + "more: [" + "1," * 16_384 + "1]\n")
    (found,) = judge(root)
    assert (found.rule, found.found) == ("file.record", "more than 16384 keys and values")


# ---- folders that do not count as points


@pytest.mark.parametrize("name", ["r-1", "point_64", "r" + "9" * 30, "R64", "r64_old"])
@pytest.mark.parametrize("kept", ["point.yaml", "result_summary.json"])
def test_a_point_by_another_name_is_found(tmp_path: Path, name: str, kept: str) -> None:
    root = submit(tmp_path)
    folder = root / CURVE / name
    folder.mkdir()
    shutil.copy(root / CURVE / "r64" / kept, folder)
    (found,) = judge(root)
    assert (found.rule, found.file) == ("endpoints.point_folders", str(folder))
    assert name in found.found and "r<N>" in found.required
    if kept == "point.yaml":
        assert found in judge(folder) and found in judge(folder / kept)


def test_a_run_folder_of_the_client_is_no_point(tmp_path: Path) -> None:
    root = submit(tmp_path)
    shutil.copytree(root / CURVE / "r64", root / CURVE / "run" / "performance")
    assert list_errors(root) == ["endpoints.point_folders"]


def test_other_folders_of_a_curve_are_no_points(tmp_path: Path) -> None:
    root = submit(tmp_path)
    (root / CURVE / "plots").mkdir()
    (root / CURVE / "plots" / "curve.svg").write_text("<svg/>")
    assert judge(root) == ()


@pytest.mark.parametrize("beside", [True, False])
def test_a_curve_of_other_names_does_not_disappear(tmp_path: Path, beside: bool) -> None:
    root = submit(tmp_path)
    if beside:
        shutil.copytree(root / "results" / "box", root / "results" / "other")
    home = root / "results" / ("other" if beside else "box") / CURVE.name
    for each in sorted(home.iterdir()):
        each.rename(each.with_name(f"point_{each.name[1:]}"))
    for path in (root, home) if not beside else (root,):
        result = Judge().judge_path(str(path))
        assert result.verdict is Verdict.BROKEN
        assert sum(each.rule == "endpoints.point_folders" for each in result.findings) == 7

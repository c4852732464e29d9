"""`podium.load`: what programs and notebooks read of results, valid and broken ones."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import podium
from compliance.verdict import Finding
from podium.results import LOADED_TABLE
from submissions.pack.bundle import pack_results
from submissions.pack.manifest import build_bundle_manifest
from submissions.pack.seal import write_bundle
from submissions.result_index import find_results

accepted = pytest.mark.usefixtures("objections")
"""A judge that accepts all, since the results are of no run."""


@accepted
def test_a_folder_has_a_record_for_each_result(results: Path) -> None:
    loaded = podium.load(results)
    assert [(each.half, each.scenario, each.value, each.unit) for each in loaded] == [
        ("training", None, 2.0, "minutes"),
        ("inference", "MultiStream", 2600000.0, "ns"),
        ("inference", "Offline", 202.5, "samples/s"),
        ("inference", "Server", 101.25, "samples/s"),
        ("inference", "SingleStream", 1600000.0, "ns"),
    ]
    first = loaded[0]
    assert (first.verdict, first.errors, first.org, first.division, first.engine) == (
        "valid",
        (),
        "acme",
        "open",
        None,
    )
    assert (first.source, first.folder) == (
        str(results),
        "open/acme/results/host-torch-bf16/resnet",
    )
    assert loaded[2].engine == "torch" and loaded[2].precision == "fp32"


@accepted
def test_a_part_and_a_bundle_give_the_same_figures(results: Path, tmp_path: Path) -> None:
    """A bundle's temporary folder is nobody's to see."""
    bundle = pack_results(results, tmp_path / "b.tar.zst")
    whole, packed = podium.load(str(results)), podium.load(bundle)
    assert [(each.folder, each.value) for each in packed] == [
        (each.folder, each.value) for each in whole
    ]
    assert {each.source for each in packed} == {str(bundle)}
    part = podium.load(results / whole[2].folder)
    assert [(each.folder, each.scenario, each.value) for each in part] == [(".", "Offline", 202.5)]


@accepted
@pytest.mark.parametrize("before", ["", "./", "open/../"])
def test_a_relative_path_names_folders_as_an_absolute_one(
    before: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a machine keeps its results is no part of them."""
    monkeypatch.chdir(results)
    loaded, whole = podium.load(f"{before}open"), podium.load(results / "open")
    assert [each.folder for each in loaded] == [each.folder for each in whole]
    assert loaded[0].folder == "acme/results/host-torch-bf16/resnet"


def test_objections_name_files_below_the_path(results: Path, tmp_path: Path) -> None:
    """The folder that a bundle was unpacked in is gone when they are read."""
    log = next(results.glob("*/*/results/*/resnet50/Offline/performance/run_1/*detail.txt"))
    log.write_text("nothing\n")
    loaded = podium.load(results)
    told = [line for each in loaded for line in each.errors]
    assert any(line.startswith(f"{loaded[4].folder}/performance/run_1/") for line in told)
    assert any(f"{loaded[2].folder}/performance/run_1/" in line for line in loaded[2].errors)
    assert not any(str(tmp_path) in line for line in told)


@accepted
def test_three_runs_have_an_interval_and_two_have_none(
    make_tree: Callable[..., Path], tmp_path: Path
) -> None:
    many, few = (
        podium.load(make_tree(tmp_path / f"{runs}", runs=runs, scenarios=()))[0] for runs in (3, 2)
    )
    assert many.runs == (2.0, 3.0, 4.0)
    assert many.low is not None and many.high is not None and many.low < 3 < many.high
    assert few.low is None and few.high is None


def test_what_the_judge_rejects_is_broken_and_says_why(results: Path) -> None:
    """By the judge itself: these results are of no run."""
    loaded = podium.load(results)
    assert loaded and all(each.is_broken for each in loaded)
    assert all(each.errors for each in loaded)
    assert repr(loaded) == "<podium.Results: 5 results, 5 broken>"


@accepted
def test_what_cannot_be_read_is_a_broken_record_without_a_value(results: Path) -> None:
    """Other results stay readable."""
    log = next(results.glob("*/*/results/*/resnet50/Offline/performance/run_1/*detail.txt"))
    log.write_text("nothing\n")
    loaded = podium.load(results)
    (broken,) = [each for each in loaded if each.is_broken]
    assert (broken.scenario, broken.value, len(broken.errors)) == ("Offline", None, 1)
    assert len(loaded) == 5


def test_an_objection_is_found_in_the_errors(
    objections: list[Finding], objection: Finding, results: Path
) -> None:
    objections.append(objection)
    loaded = podium.load(results)
    assert {each.verdict for each in loaded} == {"broken"}
    assert "training.target" in loaded[0].errors[0]


@accepted
def test_every_result_of_a_changed_bundle_is_broken(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = pack_results(results, tmp_path / "b.tar.zst")
    sentence = "b.tar.zst: bytes differ from its seal"
    monkeypatch.setattr("podium.results.list_bundle_problems", lambda path: [sentence])
    loaded = podium.load(bundle)
    assert len(loaded) == 5
    assert all(each.is_broken and each.errors[0] == sentence for each in loaded)


@accepted
def test_another_format_is_one_sentence(results: Path, tmp_path: Path) -> None:
    """Its figures may mean something else."""
    manifest, sources = build_bundle_manifest(find_results(results))
    bundle = tmp_path / "b.tar.zst"
    write_bundle(bundle, msgspec.structs.replace(manifest, format=9), sources)
    with pytest.raises(podium.JudgedError, match="a bundle of format 9, written by podium") as told:
        podium.load(bundle)
    assert "\n" not in str(told.value) and isinstance(told.value, podium.PodiumError)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file or folder"),
        (b"PK", "not a zstd archive"),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 40, "truncated"),
    ],
)
def test_what_is_no_result_is_one_sentence(content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.zst"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(podium.JudgedError, match=why) as told:
        podium.load(path)
    assert "\n" not in str(told.value)


@accepted
def test_nothing_is_unpickled(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle runs what its author wants."""

    class Trap:
        def __reduce__(self) -> tuple[Callable[[Path], object], tuple[Path]]:
            return Path.touch, (tmp_path / "sprung",)

    for run in results.glob("*/*/results/*/*/*/performance/run_1"):
        for name in ("queries.npy", "tokens.npy", "telemetry.jsonl"):
            (run / name).write_bytes(pickle.dumps(Trap()))
    assert len(podium.load(results)) == 5
    assert not (tmp_path / "sprung").exists()


@accepted
def test_a_table_has_a_row_for_each_record(results: Path) -> None:
    frame = podium.load(results).to_frame()
    assert list(frame["value"]) == [each.value for each in podium.load(results)]
    plain = [each.name for each in LOADED_TABLE.columns]
    assert {*plain} - {*frame.columns} == {"accuracy", "target"}
    assert list(frame["accuracy.top1"].notna()) == [True, False, False, False, False]


@accepted
def test_results_are_joined_and_sliced(results: Path) -> None:
    loaded = podium.load(results)
    joined = loaded + loaded[:2]
    assert isinstance(joined, podium.Results) and len(joined) == 7
    assert len(joined.to_frame()) == 7


@accepted
def test_without_pandas_a_table_is_one_sentence(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(podium.MissingError, match="needs pandas"):
        podium.load(results).to_frame()


def test_the_stable_names_are_there() -> None:
    """Programs depend on them; a new field may be added."""
    names = [each.name for each in LOADED_TABLE.columns]
    assert all(hasattr(podium.ResultRecord, name) for name in (*names, "is_broken"))
    assert names == [
        "source",
        "folder",
        "verdict",
        "errors",
        "round",
        "profile",
        "division",
        "org",
        "system",
        "accelerator",
        "accelerators",
        "nodes",
        "engine",
        "precision",
        "workload",
        "half",
        "scenario",
        "metric",
        "value",
        "unit",
        "low",
        "high",
        "runs",
        "accuracy",
        "target",
        "noise",
        "attempts",
        "concurrency",
        "tps_per_user",
        "ttft_p90_ms",
    ]
    assert (Path(podium.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        podium.__getattr__("lod")


@accepted
def test_the_notebook_draws_two_figures_from_two_bundles(
    make_tree: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code cells, one after the other."""
    matplotlib = pytest.importorskip("matplotlib", reason="the extra `notebook` is not installed")
    matplotlib.use("agg")
    from matplotlib import pyplot

    for name, org in (("first", "acme"), ("second", "other")):
        pack_results(make_tree(tmp_path / name, org=org, runs=3), tmp_path / f"{name}.tar.zst")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    notebook = Path(__file__).parents[2] / "examples" / "two-bundles.ipynb"
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    code = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    namespace: dict[str, object] = {}
    for number, source in enumerate(code, 1):
        exec(compile(source, f"{notebook.name}[{number}]", "exec"), namespace)
    drawn = [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert len(drawn) == 2
    assert all(figure.axes and figure.axes[0].has_data() for figure in drawn)
    assert [axes.get_xlabel() for axes in drawn[0].axes] == ["samples/s"]
    frame = namespace["frame"]
    frame.loc[frame["scenario"] == "Server", "unit"] = "tokens/s"  # type: ignore[attr-defined]
    exec(code[3], namespace)
    mixed = pyplot.figure(pyplot.get_fignums()[-1])
    assert [axes.get_xlabel() for axes in mixed.axes] == ["samples/s", "tokens/s"]
    assert all(axes.has_data() for axes in mixed.axes)
    pyplot.close("all")

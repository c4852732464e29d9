"""Reports of several systems: every figure, tile and heading names its own, in one order."""

import json
import shutil
from pathlib import Path

import pytest

from submissions.pack.manifest import build_bundle_manifest
from submissions.report import build
from submissions.report.exports import iterate_section_charts
from submissions.report.sections.provenance import order_repeated_commands
from submissions.result_index import find_results
from suite.ledger.steps import LedgerStep, StepKind, encode_ledger_step

SYSTEM = "box-torch-fp32"
OTHERS = ("a-box-torch-int8", "box-onnxruntime-fp32")


@pytest.fixture
def several(recorded: Path) -> Path:
    """The results folder with three systems that serve, one of them first by its name."""
    organisation = recorded / "open" / "acme"
    for other in OTHERS:
        shutil.copytree(organisation / "results" / SYSTEM, organisation / "results" / other)
        shutil.copytree(
            organisation / "measurements" / SYSTEM, organisation / "measurements" / other
        )
        shutil.copy(
            organisation / "systems" / f"{SYSTEM}.json", organisation / "systems" / f"{other}.json"
        )
    return recorded


def test_training_comes_first_and_each_tile_names_its_system(several: Path) -> None:
    """Three tiles were called SingleStream, and training stood wherever its system's name put
    it.
    """
    (part,) = build.judge_and_build_report([several])[0].parts
    assert [(tile.name, tile.origin) for tile in part.tiles] == [
        ("Time to train", "box-torch-bf16"),
        ("SingleStream", OTHERS[0]),
        ("SingleStream", OTHERS[1]),
        ("SingleStream", SYSTEM),
    ]


def test_headings_and_figures_name_their_systems(several: Path) -> None:
    (part,) = build.judge_and_build_report([several])[0].parts
    names = ("box-torch-bf16", SYSTEM, *OTHERS)
    charts = [chart for section in part.sections for chart in iterate_section_charts(section)]
    assert charts and all(chart.title.endswith(names) for chart in charts)
    assert len({chart.title for chart in charts}) == len(charts)
    serving = next(section for section in part.sections if section.id.startswith("serving-"))
    assert [each.title for each in serving.parts] == [
        f"SingleStream: {name}" for name in (*OTHERS, SYSTEM)
    ]
    machine = next(section for section in part.sections if section.id.startswith("machine-"))
    assert {each.title for each in machine.parts} == {
        f"SingleStream: {name}" for name in (*OTHERS, SYSTEM)
    } | {"Training: box-torch-bf16"}


def test_one_machine_does_not_look_like_two_systems(recorded: Path) -> None:
    """The two names of a campaign that trains and serves stood 191 times on its page."""
    (part,) = build.judge_and_build_report([recorded])[0].parts
    assert not any(tile.origin for tile in part.tiles)
    assert dict(part.facts)["System"] == f"box-torch-bf16, {SYSTEM}"
    charts = [chart for section in part.sections for chart in iterate_section_charts(section)]
    assert charts and not any("box-torch" in chart.title for chart in charts)


def test_one_system_is_not_repeated_in_every_title(recorded: Path) -> None:
    shutil.rmtree(recorded / "open" / "acme" / "results" / "box-torch-bf16")
    (part,) = build.judge_and_build_report([recorded])[0].parts
    assert [tile.origin for tile in part.tiles] == [""]
    charts = [chart for section in part.sections for chart in iterate_section_charts(section)]
    assert charts and not any(SYSTEM in chart.title for chart in charts)


def test_two_paths_name_their_systems_though_each_has_one(recorded: Path, tmp_path: Path) -> None:
    shutil.rmtree(recorded / "open" / "acme" / "results" / "box-torch-bf16")
    other = shutil.copytree(recorded, tmp_path / "other")
    document, *_ = build.judge_and_build_report([recorded, other])
    assert all(part.title.endswith(SYSTEM) for part in document.parts)
    assert {tile.origin for part in document.parts for tile in part.tiles} == {SYSTEM}


def test_commands_to_repeat_are_in_the_order_in_which_they_began(recorded: Path) -> None:
    organisation = recorded / "open" / "acme"
    record = organisation / "results" / SYSTEM / "resnet50/SingleStream/accuracy/run.json"
    served = json.loads(record.read_text())["command"]
    folders = {
        f"open/acme/results/{SYSTEM}/resnet50/SingleStream/accuracy": "2026-11-22T06:00:00Z",
        f"open/acme/results/{SYSTEM}/resnet50/SingleStream/performance/run_1": (
            "2026-11-22T06:10:00Z"
        ),
        "open/acme/results/box-torch-bf16/resnet": "2026-11-22T07:00:00Z",
    }
    lines = [
        encode_ledger_step(
            LedgerStep(n=number, step=StepKind.BEGIN, utc=utc, files={}, previous="", of=folder)
        )
        for number, (folder, utc) in enumerate(folders.items())
    ]
    ledger = organisation / "ledger" / "resnet50.jsonl"
    ledger.parent.mkdir()
    ledger.write_bytes(b"".join(lines))
    results = find_results(recorded)
    manifest = build_bundle_manifest(results)[0]
    assert list(manifest.commands[0]) != served, "the manifest lists training first"
    assert list(order_repeated_commands(manifest, results)[0]) == served  # type: ignore[call-overload]

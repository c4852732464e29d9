"""What goes into a bundle: the files, the stamps that must be one, the environment, and what is
refused.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from system_records import put_system

from compliance.bundle.manifest import HARDWARE_FIELD_PREFIXES, read_run_environment
from submissions.pack.manifest import (
    build_bundle_manifest,
    iterate_bundle_files,
    iterate_run_stamps,
    require_single_value,
)
from submissions.result_index import find_results, select_named_results
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario

NONCE, SHA256 = "0123456789abcdef" * 2, "ab" * 32


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_manifest_tells_of_the_whole_campaign(results: Path) -> None:
    """Round, profile, nonce, checkpoint: what two bundles are compared by."""
    found, paths = build_bundle_manifest(find_results(results))
    assert (found.format, found.round, found.profile, found.workloads) == (
        3,
        "podium-v1",
        "smoke",
        ("resnet50",),
    )
    assert (
        found.nonce == {"resnet50": NONCE}
        and found.checkpoints == {"resnet50": SHA256}
        and found.seeds == (0,)
    )
    assert set(found.files) == set(paths) and set(found.environment) == {
        "host-torch-bf16",
        "host-torch-fp32",
    }
    assert all(found.files[name].size == path.stat().st_size for name, path in paths.items())


def test_no_weights_no_state_and_nothing_unfinished_is_packed(results: Path) -> None:
    """Only the hash of the weights goes in, with the record beside them."""
    _, paths = build_bundle_manifest(find_results(results))
    assert not [
        name
        for name in paths
        if name.endswith((".safetensors", ".partial")) or name.startswith(".podium")
    ]
    assert (
        f"checkpoints/resnet50/{SHA256}/record.json" in paths
        and "open/acme/truth/resnet50/labels.txt" in paths
    )


def test_equal_results_make_equal_manifests(
    results: Path, make_tree: Callable[..., Path], tmp_path: Path
) -> None:
    """Names are relative, sorted, and carry no time."""
    again = make_tree(tmp_path / "again")
    assert (
        build_bundle_manifest(find_results(results))[0]
        == build_bundle_manifest(find_results(again))[0]
    )


def test_commands_are_told_once_each(results: Path) -> None:
    """Five records of one `podium run` are one command line."""
    found, _ = build_bundle_manifest(find_results(results))
    assert found.commands == (["podium", "train", "resnet50"], ["podium", "infer", "resnet50"])


APART = [
    ("profile", "quick", "2 profiles: quick, smoke"),
    ("round", "podium-v2", "2 rounds: podium-v1, podium-v2"),
]


@pytest.mark.parametrize(("field", "value", "words"), APART)
def test_what_does_not_belong_together_is_refused(
    results: Path, field: str, value: str, words: str
) -> None:
    """One bundle is one round, one profile; the sentence says how to choose."""
    put_system(**{field: value})(next(results.glob("**/Offline/system.json")))
    with pytest.raises(JudgedError, match=f"{words}; choose with --workload and --system"):
        build_bundle_manifest(find_results(results))


@pytest.mark.parametrize(
    ("field", "words"),
    [("nonce", "campaigns of resnet50"), ("checkpoint_sha256", "served checkpoints of resnet50")],
)
def test_two_campaigns_of_one_workload_are_refused(results: Path, field: str, words: str) -> None:
    """A bundle in which Server serves other weights than Offline proves nothing."""
    put_system(**{field: "cd" * 32})(next(results.glob("**/Server/system.json")))
    with pytest.raises(JudgedError, match=words):
        build_bundle_manifest(find_results(results))


def test_a_training_set_may_hold_several_checkpoints(
    tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Five runs, five weights: the manifest names the one that is served, or the first where none
    is.
    """
    tree = make_tree(tmp_path / "r", runs=3)
    for number, path in enumerate(sorted(tree.glob("**/result_*.txt"))):
        path.write_text(path.read_text().replace(SHA256, f"{number}" * 64 if number else SHA256))
    assert build_bundle_manifest(find_results(tree))[0].checkpoints == {"resnet50": SHA256}
    bare = make_tree(tmp_path / "bare", runs=1, scenarios=())
    assert build_bundle_manifest(find_results(bare))[0].checkpoints == {"resnet50": SHA256}


def test_one_value_or_a_sentence() -> None:
    """None at all is no value either."""
    assert require_single_value("x", {"a"}) == "a"
    with pytest.raises(JudgedError, match="found 0 x"):
        require_single_value("x", set())


def test_stamps_come_from_every_run(results: Path) -> None:
    """Training first, then both modes of each scenario."""
    found = list(iterate_run_stamps(find_results(results)))
    assert (
        len(found) == 1 + 2 * len(Scenario) and [stamp.seed for stamp in found] == [0] + [None] * 8
    )
    assert {stamp.nonce for stamp in found} == {NONCE}


def test_hardware_and_software_are_told_per_system(results: Path) -> None:
    """podium's own block, and of MLCommons' fields those about hardware."""
    path = next(results.glob("**/host-torch-fp32.json"))
    edit(
        path,
        host_memory_capacity="16 GiB",
        accelerators_per_node=0,
        number_of_nodes=1,
        operating_system="x",
        submitter="acme",
    )
    found = read_run_environment(path)
    assert found["packages"] == {"torch": "2.13.0"} and found["git_commit"] == "c0ffee"
    assert found["hardware"] == {
        "host_memory_capacity": "16 GiB",
        "accelerators_per_node": 0,
        "number_of_nodes": 1,
        "operating_system": "x",
    }


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"podium": 1}', "1"])
def test_a_description_that_is_none_is_told(tmp_path: Path, content: str | None) -> None:
    """Without it nobody knows what a result was made on."""
    path = tmp_path / "system.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(JudgedError, match="system.json"):
        read_run_environment(path)


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "pipe"])
def test_a_link_is_not_packed(results: Path, kind: str) -> None:
    """Where it points is nobody's business, and may change."""
    folder = next(results.glob("**/Offline/accuracy"))
    if kind == "pipe":
        os.mkfifo(folder / "odd")
    else:
        (folder / "odd").symlink_to(folder / "run.json" if kind == "link to a file" else results)
    with pytest.raises(JudgedError, match="odd: not a regular file"):
        list(iterate_bundle_files(find_results(results), iterate_run_stamps(find_results(results))))


def test_a_selection_packs_no_others(results: Path) -> None:
    """One system alone: its scenarios, its description, and the checkpoint's record."""
    found, _ = build_bundle_manifest(
        select_named_results(find_results(results), systems=["host-torch-fp32"])
    )
    assert not [name for name in found.files if "host-torch-bf16" in name]
    assert f"checkpoints/resnet50/{SHA256}/record.json" in found.files and found.seeds == ()


def test_the_fields_of_hardware_are_those_of_the_description() -> None:
    """A prefix that fits nothing would leave the hardware out."""
    schema = json.loads(
        (
            Path(__file__).parents[2] / "compliance" / "schemas" / "system-description.json"
        ).read_text()
    )
    for prefix in HARDWARE_FIELD_PREFIXES:
        assert any(name.startswith(prefix) for name in schema["properties"]), prefix

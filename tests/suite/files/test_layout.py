"""Paths are MLCommons' own, and a file is whole or not there."""

import resource
from pathlib import Path

import pytest

from suite.files.json_files import write_json
from suite.files.layout import (
    ResultsEntry,
    compute_bound_seed,
    compute_folder_sha256,
    convert_to_slug,
    fold_name,
    locate_checkpoint_folder,
    locate_state_folder,
    replace_atomically,
)
from suite.loadgen.scenario import Scenario, parse_scenarios
from suite.rounds import Division

ENTRY = ResultsEntry(results=Path("r"), division=Division.OPEN, org="acme", system="s-torch-fp32")


def test_paths_of_an_entry() -> None:
    """The official tools read this tree."""
    assert ENTRY.locate_training_log("resnet", 0) == Path(
        "r/open/acme/results/s-torch-fp32/resnet/result_0.txt"
    )
    assert ENTRY.locate_performance_run("resnet50", Scenario.SINGLE_STREAM) == Path(
        "r/open/acme/results/s-torch-fp32/resnet50/SingleStream/performance/run_1"
    )
    assert ENTRY.locate_accuracy_run("resnet50", Scenario.OFFLINE) == Path(
        "r/open/acme/results/s-torch-fp32/resnet50/Offline/accuracy"
    )
    assert (
        ENTRY.locate_measurements_file("resnet50", Scenario.SERVER).name
        == "s-torch-fp32_podium_Server.json"
    )
    assert ENTRY.system_file == Path("r/open/acme/systems/s-torch-fp32.json")
    assert ENTRY.locate_ground_truth("resnet50") == Path("r/open/acme/truth/resnet50")
    assert locate_checkpoint_folder(Path("r"), "w", "ab") == Path("r/checkpoints/w/ab")
    assert locate_state_folder(Path("r"), "w") == Path("r/.podium/w")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("Intel(R) Xeon(R) x2", "intel-r-xeon-r-x2"), ("../..", "unnamed"), ("a_b.c", "a_b.c")],
)
def test_slug_leaves_only_letters_that_a_path_may_have(name: str, wanted: str) -> None:
    """A system name becomes a folder: it must not climb out."""
    assert convert_to_slug(name) == wanted


def test_fold_compares_names_without_case_spaces_and_punctuation() -> None:
    """`Dell EMC` files its logs under DellEMC."""
    assert fold_name("Dell EMC") == fold_name("DellEMC")


def test_folder_hash_sees_names_and_bytes_but_not_the_record(tmp_path: Path) -> None:
    """The hash names the weights; the record beside them carries that hash."""
    (tmp_path / "model.safetensors").write_bytes(b"w")
    before = compute_folder_sha256(tmp_path)
    (tmp_path / "record.json").write_text("{}")
    assert compute_folder_sha256(tmp_path) == before
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    assert compute_folder_sha256(tmp_path) != before


def test_bound_seed_is_63_bits_and_depends_on_both() -> None:
    """Accuracy and performance are bound to one checkpoint and one campaign."""
    seed = compute_bound_seed("n", "c")
    assert 0 <= seed < 2**63
    assert len({seed, compute_bound_seed("m", "c"), compute_bound_seed("n", "d")}) == 3


def test_written_keeps_the_old_file_when_the_block_fails(tmp_path: Path) -> None:
    """A full disk or Ctrl-C leaves nothing that looks whole."""
    path = tmp_path / "sub" / "f.txt"
    with replace_atomically(path) as partial:
        partial.write_text("old")
    with pytest.raises(OSError, match="full"), replace_atomically(path) as partial:
        partial.write_text("half")
        raise OSError("full")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_json_refuses_nan(tmp_path: Path) -> None:
    """NaN is no JSON, and no score."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_scenarios_as_typed() -> None:
    """Command line, folder and `all`."""
    assert parse_scenarios("all") == tuple(Scenario)
    assert (
        parse_scenarios("SingleStream")
        == parse_scenarios("single_stream")
        == (Scenario.SINGLE_STREAM,)
    )
    with pytest.raises(Exception, match="did you mean 'offline'"):
        parse_scenarios("ofline")


def test_a_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """A write knows its descriptor only; the size of files is limited here as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with (
            pytest.raises(OSError, match="File too large") as caught,
            replace_atomically(tmp_path / "record") as partial,
        ):
            partial.write_bytes(b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "record.partial")
    assert not list(tmp_path.iterdir())

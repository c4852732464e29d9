"""The round of every published path is told by its content."""

from pathlib import Path

import pytest
from corpus import CORPUS

from compliance.recognition import evidence
from compliance.recognition.path_kind import recognise_path
from compliance.recognition.round import recognise_path_round
from suite import registry


def find_round(path: Path) -> str | None:
    """Say of which round a path is; None where nothing tells."""
    found = recognise_path_round(recognise_path(path))
    return found.round if found else None


@pytest.mark.parametrize(
    "path",
    sorted(path for path in CORPUS.glob("inference_v[1-9].*") if path.is_dir()),
    ids=lambda path: path.name,
)
def test_every_part_of_a_later_round_is_of_it(tmp_path: Path, path: Path) -> None:
    """By content alone: the folder is given under a name that tells nothing."""
    (tmp_path / "given").symlink_to(path)
    logs = [
        each for each in path.rglob("*") if each.name.startswith(("result_", "mlperf_log_detail"))
    ]
    for log in {
        path,
        *logs,
        *(each.parent for each in logs),
        *(each.parent.parent for each in logs),
    }:
        assert find_round(tmp_path / "given" / log.relative_to(path)) == path.name.replace(
            "_", "-"
        ), log


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", ["training_v0.6", "training_v0.7", "inference_v0.5", "inference_v0.7"]
)
def test_every_published_file_is_of_its_round(folder: str) -> None:
    """Content alone, without the folders' names: of logs, and of every level above them."""
    wanted = folder.replace("_", "-")
    assert wanted in registry.list_round_names()
    for path in (CORPUS / folder).rglob("*"):
        if path.name.startswith(("result_", "mlperf_log_detail")) and path.stat().st_size:
            assert (told := evidence.read_round_evidence(path)) is not None, path
            assert told.round == wanted, path
        if path.is_dir():
            assert find_round(path) == wanted, path

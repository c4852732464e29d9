"""Superseded results come back as they were: nothing is mixed from two, and a kill is mended."""

import json
from pathlib import Path

import pytest
from modes import run_without_powers

from suite.errors import RequestError
from suite.files import restoring
from suite.files.layout import STATE_FOLDER
from suite.files.restoring import list_superseded_results, restore_superseded_result
from suite.files.superseded import move_to_superseded

HOME = "open/acme/results/box/fake"
OFFLINE = f"{HOME}/Offline"


def write(results: Path, *names: str, text: str = "old") -> None:
    """Write files of a results folder."""
    for name in names:
        path = results / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree(results: Path) -> dict[str, str]:
    """The files that count."""
    return {
        path.relative_to(results).as_posix(): path.read_text()
        for path in results.rglob("*")
        if path.is_file() and STATE_FOLDER not in path.relative_to(results).parts
    }


def test_runs_come_back_as_they_were_and_the_present_ones_move_aside(tmp_path: Path) -> None:
    """Five runs of the new result beside one of the old would be a result of neither."""
    write(tmp_path, f"{OFFLINE}/performance/run_1/run.json", f"{OFFLINE}/accuracy/run.json")
    before = tree(tmp_path)
    move_to_superseded(
        [tmp_path / OFFLINE / "performance", tmp_path / OFFLINE / "accuracy"], results=tmp_path
    )
    write(
        tmp_path,
        *(f"{OFFLINE}/performance/run_{number}/run.json" for number in (1, 2)),
        f"{OFFLINE}/accuracy/run.json",
        "open/acme/compliance/box/fake/Offline/TEST01/audit.json",
        text="new",
    )
    after = tree(tmp_path)
    (found,) = list_superseded_results(tmp_path)
    assert (found.number, found.places) == (1, (f"{OFFLINE}/accuracy", f"{OFFLINE}/performance"))
    restore_superseded_result(tmp_path, 1)
    assert tree(tmp_path) == before
    assert [each.number for each in list_superseded_results(tmp_path)] == [2]
    restore_superseded_result(tmp_path, 2)
    assert tree(tmp_path) == after


def test_a_training_set_comes_back_whole_with_its_state(tmp_path: Path) -> None:
    state = f"{STATE_FOLDER}/fake/campaign.json"
    write(tmp_path, f"{HOME}/result_0.txt", f"{HOME}/telemetry_0.jsonl", state)
    before = tree(tmp_path)
    move_to_superseded(
        [
            *(tmp_path / HOME / name for name in ("result_0.txt", "telemetry_0.jsonl")),
            tmp_path / state,
        ],
        results=tmp_path,
    )
    write(tmp_path, f"{HOME}/result_0.txt", f"{HOME}/result_1.txt", state, text="new")
    assert restore_superseded_result(tmp_path, 1) == (HOME,)
    assert tree(tmp_path) == before and (tmp_path / state).read_text() == "old"


def test_runs_that_were_stored_aside_belong_where_they_would_have_been(tmp_path: Path) -> None:
    """An INVALID result beside a VALID one is kept as the staging folder had it."""
    staged = f"{STATE_FOLDER}/fake/serving"
    write(tmp_path, f"{staged}/{OFFLINE}/performance/run_1/run.json")
    move_to_superseded([tmp_path / staged / "open/acme/results"], results=tmp_path)
    assert restore_superseded_result(tmp_path, 1) == (f"{OFFLINE}/performance",)
    assert tree(tmp_path) == {f"{OFFLINE}/performance/run_1/run.json": "old"}


def test_a_study_comes_back_and_points_alone_do_not(tmp_path: Path) -> None:
    """A point without its table is no study."""
    write(tmp_path, "studies/fake/study.json", "studies/fake/box/batch-1/point.json")
    move_to_superseded([tmp_path / "studies/fake"], results=tmp_path)
    write(tmp_path, "studies/fake/box/batch-2/point.json")
    move_to_superseded([tmp_path / "studies/fake/box/batch-2"], results=tmp_path)
    (found,) = list_superseded_results(tmp_path)
    assert found.places == ("studies/fake",)


def test_what_is_no_result_is_not_offered(tmp_path: Path) -> None:
    """State of an unfinished set, its unfinished log, and what is not there."""
    write(tmp_path, f"{STATE_FOLDER}/fake/campaign.json", f"{HOME}/result_0.txt.partial")
    move_to_superseded(
        [tmp_path / STATE_FOLDER / "fake", tmp_path / HOME / "result_0.txt.partial"],
        results=tmp_path,
    )
    assert not list_superseded_results(tmp_path)
    with pytest.raises(RequestError, match="1: no superseded result in .*podium restore lists"):
        restore_superseded_result(tmp_path, 1)


@pytest.mark.parametrize("moment", range(2))
def test_a_kill_between_the_moves_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    write(tmp_path, f"{OFFLINE}/performance/run_1/run.json", f"{OFFLINE}/accuracy/run.json")
    before = tree(tmp_path)
    move_to_superseded(
        [tmp_path / OFFLINE / "performance", tmp_path / OFFLINE / "accuracy"], results=tmp_path
    )
    write(tmp_path, f"{OFFLINE}/performance/run_1/run.json", text="new")
    calls, real = iter(range(9)), restoring.move_part_back

    def killed(source: Path, target: Path) -> None:
        if next(calls) == moment:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(restoring, "move_part_back", killed)
        restore_superseded_result(tmp_path, 1)
    assert restoring.complete_restoring(tmp_path) and tree(tmp_path) == before
    assert not restoring.complete_restoring(tmp_path)


def test_a_journal_that_names_what_lies_elsewhere_is_left(tmp_path: Path) -> None:
    """Bytes of others: the next command would have moved what lies there."""
    write(tmp_path, "keep.txt")
    results = tmp_path / "results"
    document = {"moves": [["../keep.txt", "open/x"]], "standing": [], "displaced": True}
    write(results, f"{STATE_FOLDER}/{restoring.RESTORE_JOURNAL}", text=json.dumps(document))
    assert not restoring.complete_restoring(results)
    assert (tmp_path / "keep.txt").read_text() == "old"


@pytest.mark.parametrize("where", ["", "/superseded", "/superseded/1", "/superseded/1/open/acme"])
def test_what_cannot_be_read_is_said(tmp_path: Path, where: str) -> None:
    """A folder of another user ended in a traceback, or counted as nothing to restore."""
    write(tmp_path, f"{OFFLINE}/accuracy/run.json")
    move_to_superseded([tmp_path / OFFLINE / "accuracy"], results=tmp_path)
    folder = tmp_path / f"{STATE_FOLDER}{where}"
    folder.chmod(0)
    done = run_without_powers("restore", "--results", tmp_path)
    folder.chmod(0o755)
    assert done.returncode == 2 and done.stderr.startswith(f"podium: {folder}")
    assert "Permission denied; make it readable to see what can be restored" in done.stderr


@pytest.mark.parametrize("number", [(), ("1",)])
def test_a_missing_results_folder_is_refused(tmp_path: Path, number: tuple[str, ...]) -> None:
    """Without a number it was said to hold no superseded results, exit code 0."""
    (tmp_path / "afile").touch()
    for name in ("nosuch", "afile"):
        done = run_without_powers("restore", *number, "--results", tmp_path / name)
        assert done.returncode == 2 and "no such folder; name the one with" in done.stderr

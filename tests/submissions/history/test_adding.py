"""`podium history add`: what is filed, once, under which commit and machine, and what is refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from histories import MACHINE, Answer, build_line, run_git, write_history
from judged_examples import EXAMPLES

from submissions.history import adding, reading
from submissions.history.commits import Commit
from submissions.pack.bundle import pack_results
from suite.errors import RequestError
from suite.history.book import append_history_lines, read_history

History = Callable[..., Answer]
accepted = pytest.mark.usefixtures("objections")
"""A judge that accepts all, since the results are of no run."""


def read_lines(path: Path = Path("history.jsonl")) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@accepted
def test_each_result_is_a_line_of_the_commit_that_is_checked_out(
    repository: Path, results: Path, history: History
) -> None:
    code, told = history("add", results)
    assert code == 0
    lines = read_lines()
    assert {each["commit"] for each in lines} == {run_git(repository, "rev-parse", "HEAD")}
    assert [each["result"]["scenario"] for each in lines if "scenario" in each["result"]] == [
        "MultiStream",
        "Offline",
        "Server",
        "SingleStream",
    ]
    assert "5 results of" in told


@accepted
def test_adding_again_adds_nothing_also_as_a_bundle(
    repository: Path, results: Path, history: History, tmp_path: Path
) -> None:
    """A job that is run again would file its measurement twice, as an A/A pair of no noise."""
    history("add", results)
    before = Path("history.jsonl").read_bytes()
    bundle = pack_results(results, tmp_path / "results.tar.zst")
    for path in (results, bundle):
        code, told = history("add", path)
        assert code == 0
        assert "0 results" in told and "5 there already" in told
    assert Path("history.jsonl").read_bytes() == before


@accepted
def test_a_measurement_has_one_commit(repository: Path, results: Path, history: History) -> None:
    history("add", results)
    before = Path("history.jsonl").read_bytes()
    run_git(repository, "commit", "--quiet", "--allow-empty", "--message=Second")
    code, told = history("add", results)
    assert code == 2
    assert "a measurement has one commit" in told
    assert Path("history.jsonl").read_bytes() == before


def test_results_that_do_not_count_add_nothing(
    repository: Path, results: Path, history: History
) -> None:
    code, told = history("add", results)
    assert code == 1
    assert told.startswith("nothing was added: ")
    assert not Path("history.jsonl").exists()


@accepted
def test_a_damaged_bundle_adds_nothing(
    repository: Path, results: Path, history: History, tmp_path: Path
) -> None:
    bundle = pack_results(results, tmp_path / "results.tar.zst")
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    bundle.write_bytes(content)
    code, told = history("add", bundle)
    assert code == 1
    assert "nothing was added" in told
    assert not Path("history.jsonl").exists()


@accepted
def test_a_missing_path_is_one_sentence(repository: Path, history: History) -> None:
    code, told = history("add", "nowhere")
    assert (code, told) == (1, "nothing was added: nowhere: no such file or folder")


@accepted
def test_another_machine_of_the_same_name_is_refused(
    repository: Path, results: Path, history: History
) -> None:
    """Runners of a cloud have one name and several processors."""
    write_history(Path("history.jsonl"), [100.0])
    line = replace(build_line(1, 1.0), machine=replace(MACHINE, processor="Intel Xeon"))
    known = read_history(Path("history.jsonl"))
    added = reading.AddedResult(machine=line.machine, source=line.source, result=line.result)
    with pytest.raises(RequestError, match=r"runner-7: processor AMD EPYC and Intel Xeon.*--mach"):
        adding.build_new_lines(
            [added], Commit(name="b", committed=""), known, Path("history.jsonl")
        )


@accepted
def test_a_machine_has_the_name_that_is_given(
    repository: Path, results: Path, history: History
) -> None:
    history("add", results, "--machine", "runner-7")
    assert {each["machine"]["name"] for each in read_lines()} == {"runner-7"}


@pytest.mark.parametrize(
    ("commit", "sentence"),
    [
        ("nothing-like-it", "git knows no such commit"),
        ("--output=x", "git knows no such commit"),
        ("", "git knows no such commit"),
    ],
)
def test_a_commit_that_does_not_exist_is_refused(
    repository: Path, history: History, commit: str, sentence: str
) -> None:
    code, told = history("add", "results", f"--commit={commit}")
    assert code == 2
    assert sentence in told


@accepted
def test_without_git_the_commit_must_be_named(
    tmp_path: Path, results: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    code, told = history("add", results)
    assert code == 2
    assert "--commit" in told
    assert history("add", results, "--commit", "build-17").code == 0
    assert {each["commit"] for each in read_lines()} == {"build-17"}


@accepted
def test_a_broken_history_is_left_as_it_is(
    repository: Path, results: Path, history: History
) -> None:
    path = write_history(Path("history.jsonl"), [100.0, 101.0])
    path.write_text(path.read_text()[:-40])
    before = path.read_bytes()
    code, told = history("add", results)
    assert code == 1
    assert told.startswith("history.jsonl:2: the line is incomplete")
    assert path.read_bytes() == before


@accepted
def test_the_union_merge_is_recommended_until_it_is_set(
    repository: Path, results: Path, history: History
) -> None:
    assert "history.jsonl merge=union" in history("add", results).told
    Path(".gitattributes").write_text("history.jsonl merge=union\n")
    assert "merge=union" not in history("add", results).told


def test_two_branches_merge_without_a_conflict(repository: Path) -> None:
    """Lines that chain on the one before would make each merge a conflict."""
    path = Path("history.jsonl")
    Path(".gitattributes").write_text("history.jsonl merge=union\n")
    append_history_lines(path, [build_line(0, 100.0)])
    run_git(repository, "add", ".")
    run_git(repository, "commit", "--quiet", "--message=History")
    run_git(repository, "checkout", "--quiet", "-b", "other")
    append_history_lines(path, [build_line(1, 101.0)])
    run_git(repository, "commit", "--quiet", "-a", "--message=One")
    run_git(repository, "checkout", "--quiet", "main")
    append_history_lines(path, [build_line(2, 102.0)])
    run_git(repository, "commit", "--quiet", "-a", "--message=Two")
    run_git(repository, "merge", "--quiet", "other", "--message=Both")
    assert sorted(each.line.result.value for each in read_history(path)) == [100.0, 101.0, 102.0]


ADDS_LINES = """
import sys
from histories import build_line
from pathlib import Path
from suite.history.book import append_history_lines, lock_history, read_history
for number in range(20):
    with lock_history(Path("history.jsonl")):
        read_history(Path("history.jsonl"))
        append_history_lines(Path("history.jsonl"), [build_line(int(sys.argv[1]) + number, 1.0)])
"""


def test_two_commands_at_once_lose_no_line(tmp_path: Path) -> None:
    shared = Path(__file__).parents[2] / "shared"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ADDS_LINES, begin],
            cwd=tmp_path,
            env={"PYTHONPATH": f"{shared}:{Path(__file__).parents[3]}"},
        )
        for begin in ("0", "100")
    ]
    assert [each.wait() for each in running] == [0, 0]
    assert len(read_history(tmp_path / "history.jsonl")) == 40


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("ab", ["offline, A as the command says of both, B env.ACME_FAST=1"]),
        ("curve", ["concurrency 2", "concurrency 2 first token"]),
        ("peak", ["Server peak"]),
        ("precision", ["Offline", "SingleStream"]),
        ("speed", ["Server"]),
    ],
)
def test_each_figure_of_a_study_is_a_line(
    repository: Path, history: History, name: str, points: list[str]
) -> None:
    (study,) = (EXAMPLES / "base" / name / "studies").iterdir()
    assert history("add", study, "--machine", "box").code == 0
    assert [each["result"]["scenario"] for each in read_lines()][: len(points)] == points
    assert {each["result"]["study"] for each in read_lines()} == {name}
    assert len(read_history(Path("history.jsonl"))) == len(read_lines())
    told = history("add", study, "--machine", "box").told
    assert told.splitlines()[0].startswith("history.jsonl: 0 results")


def test_a_machine_without_a_name_is_named_by_the_user(repository: Path, history: History) -> None:
    """The system of an A/B has none: a line without one could not be read again."""
    (study,) = (EXAMPLES / "base" / "ab" / "studies").iterdir()
    code, told = history("add", study)
    assert code == 2
    assert told.endswith("states no name of its system; name it with --machine NAME")
    assert not Path("history.jsonl").exists()

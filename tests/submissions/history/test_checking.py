"""`podium history check` and `show`: which changes are found, open and accepted, in each format."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from histories import (
    MACHINE,
    Answer,
    build_line,
    name_commit,
    run_git,
    sample_values,
    write_history,
)

from submissions.history.series import build_series
from suite.history.book import NumberedLine, append_history_lines, read_history
from suite.history.records import HistoryLine

History = Callable[..., Answer]
STEADY = [(20, 100.0)]
SLOWER = [(20, 100.0), (10, 90.0)]
WAIVER = """
[[waiver]]
rule = "history.regression"
path = "{path}"
by = "the team"
until = 2999-12-31
why = "known"
"""


def check(history: History, *words: str) -> dict[str, object]:
    return dict(json.loads(history("check", "--format", "json", *words).told))


def list_changes(document: dict[str, object]) -> list[tuple[str, int]]:
    return [
        (change["standing"], int(change["first_after"], 16))
        for each in document["series"]  # type: ignore[attr-defined]
        for change in each["changes"]
    ]


def test_noise_is_no_change(repository: Path, history: History) -> None:
    write_history(Path("history.jsonl"), sample_values(STEADY), pairs=6)
    code, told = history("check")
    assert code == 0
    assert "1 series; none slower by 5 % or more" in told
    assert "noise floor" in told and "(6 A/A pairs)" in told


def test_a_step_is_found_at_its_commit(repository: Path, history: History) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER), pairs=6)
    assert history("check").code == 1
    assert list_changes(check(history)) == [("regressed", 20)]


@pytest.mark.parametrize("metric", ["latency_p90", "time_to_train"])
def test_less_is_better_of_times(repository: Path, history: History, metric: str) -> None:
    values = sample_values(SLOWER)
    write_history(Path("history.jsonl"), values, metric=metric, unit="ns")
    assert history("check").code == 0
    Path("history.jsonl").unlink()
    write_history(Path("history.jsonl"), [1 / each for each in values], metric=metric, unit="ns")
    assert history("check").code == 1


def test_a_small_step_is_no_regression_and_several_are_one(
    repository: Path, history: History
) -> None:
    """Three steps of 3 % would never reach a bound of 5 % alone."""
    path = Path("history.jsonl")
    write_history(path, sample_values([(20, 100.0), (20, 97.0)], 0.003))
    assert history("check").code == 0
    assert list_changes(check(history)) == [("below the bound", 20)]
    path.unlink()
    write_history(path, sample_values([(20, 100.0), (20, 97.0), (20, 94.0)], 0.003))
    assert list_changes(check(history)) == [("regressed", 20), ("below the bound", 40)]


def test_what_was_undone_is_not_open(repository: Path, history: History) -> None:
    write_history(Path("history.jsonl"), sample_values([(15, 100.0), (10, 90.0), (15, 100.0)]))
    code, told = history("check")
    assert code == 0
    assert "recovered: -10 %" in told and "faster: +" in told


def test_a_baseline_leaves_earlier_changes_out(repository: Path, history: History) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER))
    assert history("check", "--baseline", name_commit(22)).code == 0
    code, told = history("check", "--baseline", name_commit(19))
    assert code == 0  # one commit before the step is no level


def test_a_baseline_is_named_as_git_names_it(repository: Path, history: History) -> None:
    run_git(repository, "tag", "v1")
    head = run_git(repository, "rev-parse", "HEAD")
    lines = [build_line(number, value) for number, value in enumerate(sample_values(SLOWER))]
    lines[22] = replace(lines[22], commit=head)
    append_history_lines(Path("history.jsonl"), lines)
    assert history("check").code == 1
    assert history("check", "--baseline", "v1").code == 0
    run_git(repository, "commit", "--quiet", "--allow-empty", "--message=Second")
    assert history("check", "--baseline", "HEAD").told.endswith("no result of this commit")


def test_series_that_are_not_tested_are_no_good_news(repository: Path, history: History) -> None:
    path = write_history(Path("history.jsonl"), [123.456])
    assert history("check").told.endswith("1 series, none of them tested\n")
    assert check(history)["series"][0]["points"][0]["value"] == 123.456  # type: ignore[index]
    write_history(path, sample_values(STEADY), engine="other")
    assert history("check").told.endswith("2 series, 1 not tested; none slower by 5 % or more\n")


@pytest.mark.parametrize("baseline", ["", "0000", "zzz"])
def test_a_baseline_must_be_one_commit(repository: Path, history: History, baseline: str) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER))
    code, told = history("check", "--baseline", baseline)
    assert code == 2
    assert told.startswith("--baseline")


def test_a_waiver_accepts_a_change_its_series_or_all(repository: Path, history: History) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER))
    place = Path("history.jsonl", check(history)["series"][0]["changes"][0]["place"])  # type: ignore[index]
    for path in (place, place.parent, Path("history.jsonl")):
        Path("waivers.toml").write_text(WAIVER.format(path=path))
        code, told = history("check", "--accept", "waivers.toml")
        assert code == 0, path
        assert "accepted by the team until 2999-12-31: known" in told
    assert list_changes(check(history, "--accept", "waivers.toml")) == [("accepted", 20)]


def test_a_waiver_of_another_change_accepts_nothing(repository: Path, history: History) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER))
    Path("waivers.toml").write_text(WAIVER.format(path="history.jsonl/runner-7/ssd"))
    code, told = history("check", "--accept", "waivers.toml")
    assert code == 1
    assert "accepts nothing; remove it" in told


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [("2999-12-31", "2020-01-01", "expired"), ("history.regression", "history.x", "no such rule")],
)
def test_a_waiver_that_cannot_hold_is_refused(
    repository: Path, history: History, old: str, new: str, sentence: str
) -> None:
    write_history(Path("history.jsonl"), sample_values(STEADY))
    Path("waivers.toml").write_text(WAIVER.format(path="history.jsonl").replace(old, new))
    code, told = history("check", "--accept", "waivers.toml")
    assert code == 2
    assert sentence in told


def test_series_are_what_compare_would_compare() -> None:
    """Another picture size, device, engine or machine is no change of speed; another version of
    podium is what may have changed.
    """
    base = build_line(0, 100.0)
    others = [
        build_line(1, 50.0, task={"data.picture_size": 64}),
        build_line(2, 50.0, said=dict(base.result.said) | {"threads": 1}),
        build_line(3, 50.0, engine="onnxruntime"),
        build_line(4, 50.0, machine=replace(MACHINE, name="runner-8")),
        build_line(5, 50.0, profile="quick"),
        build_line(6, 50.0, study="speed", round="podium study"),
    ]
    same = build_line(7, 50.0, said=dict(base.result.said) | {"podium": "0.3.0"})
    found = build_series(make_numbered([base, *others, same]))
    assert sorted(len(each.points) for each in found) == [1, 1, 1, 1, 1, 1, 2]
    assert len({each.place for each in found}) == 7


def make_numbered(lines: Sequence[HistoryLine]) -> list[NumberedLine]:
    return [NumberedLine(number=number, line=each) for number, each in enumerate(lines, 1)]


def test_what_two_branches_added_counts_once() -> None:
    """A merge keeps the lines of both: a second line of one measurement is no pair without noise,
    and where git does not know a commit, each branch has a time of its own for it.
    """
    line = build_line(0, 100.0)
    later = replace(line, added="2026-12-01T00:00:00Z", committed="2026-12-01T00:00:00Z")
    pair = build_line(0, 102.0)
    (found,) = build_series(make_numbered([later, pair, line]))
    (point,) = found.points
    assert [each.line.result.value for each in point.lines] == [102.0, 100.0]
    assert point.committed == line.committed
    assert found.noise is not None and found.noise.pairs == 1


def test_a_strangers_line_neither_ends_the_check_nor_reaches_the_terminal(
    repository: Path, history: History
) -> None:
    """Whoever writes a line can write its digest, too."""
    values = [1e-320] * 7 + [1e308] * 7
    lines = [
        replace(build_line(number, value, unit="\x1b[2J"), commit=f"\x1b[2J{number}")
        for number, value in enumerate(values)
    ]
    append_history_lines(Path("history.jsonl"), lines)
    for words in (("check",), ("check", "--format", "github"), ("show",), ("show", "-o", "page")):
        code, told = history(*words)
        assert code == 0
        assert "\x1b" not in told
    assert not any("\x1b" in each.read_text() for each in Path("page").iterdir())


def test_a_requested_rate_is_not_tested(repository: Path, history: History) -> None:
    write_history(
        Path("history.jsonl"), sample_values(SLOWER), scenario="Server", asked="50 samples/s"
    )
    code, told = history("check")
    assert code == 0
    assert "not tested: run at a requested rate, 50 samples/s" in told


def test_the_commits_between_are_listed(repository: Path, history: History) -> None:
    commits = []
    for number in range(30):
        run_git(repository, "commit", "--quiet", "--allow-empty", f"--message=Change {number}")
        commits.append(run_git(repository, "rev-parse", "HEAD"))
    measured = [number for number in range(30) if number not in (18, 19)]
    values = sample_values([(18, 100.0), (10, 90.0)])
    append_history_lines(
        Path("history.jsonl"),
        [
            replace(build_line(number, value), commit=commits[number])
            for number, value in zip(measured, values, strict=True)
        ],
    )
    code, told = history("check")
    assert code == 1
    assert "3 commits behind" in told
    assert [f"Change {number}" in told for number in (17, 18, 19, 20)] == [False, True, True, True]


def test_what_else_changed_is_told(repository: Path, history: History) -> None:
    said = dict(build_line(0, 1.0).result.said)
    lines = [
        build_line(number, value, said=said | {"podium": "0.2.0" if number < 20 else "0.3.0"})
        for number, value in enumerate(sample_values(SLOWER))
    ]
    append_history_lines(Path("history.jsonl"), lines)
    assert "also changed: podium: 0.2.0 and 0.3.0" in history("check").told


def test_github_annotates_the_first_line_behind_the_change(
    repository: Path, history: History
) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER), pairs=3)
    code, told = history("check", "--format", "github")
    first, annotation = told.splitlines()
    assert code == 1
    assert first.startswith("::error title=podium history check::1 series; 1 regression of 5 %25")
    assert annotation.startswith("::error file=history.jsonl,line=21,title=history.regression::")


def test_github_gets_a_summary_of_the_step(
    repository: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    history("check", "--format", "github")
    lines = Path("summary.md").read_text().splitlines()
    assert lines[0] == "### history.jsonl: 1 series; 1 regression of 5 % or more"
    assert any(line.startswith("| resnet50 Offline on runner-7 | torch, fp32,") for line in lines)


def test_junit_has_a_case_for_each_series(repository: Path, history: History) -> None:
    path = write_history(Path("history.jsonl"), sample_values(SLOWER))
    lines = [build_line(n, 5.0 + n / 100, scenario="SingleStream") for n in range(3)]
    append_history_lines(path, lines)
    code, told = history("check", "--format", "junit")
    assert code == 1
    root = ElementTree.fromstring(told)
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    (suite,) = root
    kinds = [[inner.tag for inner in case] for case in suite]
    assert kinds == [["failure"], ["skipped", "system-out"]]


def test_show_writes_a_page_and_a_picture_of_each_series(
    repository: Path, history: History
) -> None:
    write_history(Path("history.jsonl"), sample_values(SLOWER), pairs=2)
    assert history("show", "-o", "out").code == 0
    page = Path("out/index.html").read_text()
    assert "1 regression of 5 % or more" in page
    (picture,) = Path("out").glob("*.svg")
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
    told = history("show").told
    assert told.count("samples/s") == 31
    assert "n = 2" in told and "regressed: -10 %" in told


def test_an_empty_history_is_one_sentence(repository: Path, history: History) -> None:
    for command in ("check", "show"):
        assert history(command).code == 1
        assert (
            history(command).told == "history.jsonl: has no results; podium history add adds them"
        )


@pytest.mark.parametrize("difference", ["5", "x%", "0%", "-3%"])
def test_a_bound_is_a_percentage(repository: Path, history: History, difference: str) -> None:
    write_history(Path("history.jsonl"), sample_values(STEADY))
    code, told = history("check", "--difference", difference)
    assert code == 2
    assert told.startswith(f"--difference {difference}: give a difference")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda text: text.replace('"value": 100', '"value": 120', 1), ":1: was edited"),
        (lambda text: text.replace(", ", ",", 1), ":1: was edited"),
        (lambda text: text[:-30], ":3: the line is incomplete"),
        (lambda text: text.replace("\n", "\n<<<<<<< HEAD\n", 1), ":2: a conflict of a merge"),
        (lambda text: text.replace("\n", "\n=======\n", 1), ":2: a conflict of a merge"),
        (lambda text: text.replace("\n", "\nnot json}\n", 1), ":2: was edited"),
        (lambda text: text.replace("\n", "\n[1]\n", 1), ":2: "),
    ],
)
def test_a_spoiled_history_is_one_sentence_with_its_line(
    repository: Path, history: History, spoil: Callable[[str], str], sentence: str
) -> None:
    path = write_history(Path("history.jsonl"), [100.0, 101.0, 102.0])
    path.write_text(spoil(path.read_text()))
    code, told = history("check")
    assert code == 1
    assert told.startswith(f"history.jsonl{sentence}")
    assert "\n" not in told


def test_line_ends_that_an_editor_or_git_changed_are_none(
    repository: Path, history: History
) -> None:
    path = write_history(Path("history.jsonl"), [100.0, 101.0, 102.0])
    lines = path.read_bytes()
    path.write_bytes(lines.replace(b"\n", b"\r\n"))
    assert len(read_history(path)) == 3
    path.write_bytes(lines.rstrip())
    append_history_lines(path, [build_line(9, 103.0)])
    assert len(read_history(path)) == 4


def test_hardware_that_only_later_lines_state_is_compared(
    repository: Path, history: History
) -> None:
    """The first line may be of a study that states little."""
    machines = [replace(MACHINE, cores=each) for each in (None, "2", "64")]
    lines = [build_line(number, 1.0 + number, each) for number, each in enumerate(machines)]
    append_history_lines(Path("history.jsonl"), lines)
    code, told = history("check")
    assert code == 1
    assert told.startswith("history.jsonl:3: another machine than that of line 2")


def test_two_machines_under_one_name_are_found(repository: Path, history: History) -> None:
    """A merge brings them together."""
    other = replace(MACHINE, cores="64")
    append_history_lines(
        Path("history.jsonl"), [build_line(0, 1.0), build_line(1, 2.0, machine=other)]
    )
    code, told = history("check")
    assert code == 1
    assert told == (
        "history.jsonl:2: another machine than that of line 1 under one name, runner-7: cores 2"
        " and 64"
    )

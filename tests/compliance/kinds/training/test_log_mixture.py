"""One cause of many defects of a log is said once, without what follows from it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from kinds.training import lately_set
from making_training import LATE_MS, measured, new, run

from compliance.judge import Judge
from compliance.verdict import Finding, Severity, Verdict
from submissions.commands.score import score
from suite.errors import JudgedError

HOUR_MS = 3_600_000
EARLIER = new(measured(number=77, evaluations=9, brief=True), LATE_MS - 9 * HOUR_MS)
LATER = new(measured(number=78, evaluations=9, brief=True), LATE_MS + 400 * HOUR_MS)


def cut_lines(text: str, count: int) -> str:
    """Cut a log off behind its first lines, as a run leaves it that dies."""
    return "".join(text.splitlines(keepends=True)[:count])


def resume_without_header(text: str) -> str:
    """Return what a relaunched run logs that resumes from a checkpoint: from run_start on."""
    return text[text.rindex("\n", 0, text.index('"run_start"')) + 1 :]


def list_serious(path: Path, round_name: str | None = None) -> list[Finding]:
    """Judge a path; return what is more than a remark."""
    found = Judge(round_name).judge_path(str(path)).findings
    return [each for each in found if each.severity is not Severity.INFO]


def make_ranks(text: str, ranks: int = 8) -> str:
    """Interleave what several processes log, whose clocks differ by milliseconds."""
    lines = []
    for line in text.splitlines():
        for rank in range(ranks):
            table = json.loads(line.removeprefix(":::MLLOG "))
            lines.append(":::MLLOG " + json.dumps({**table, "time_ms": table["time_ms"] + rank}))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("change", "found", "advice"),
    [
        (
            lambda text: EARLIER + "epoch 1\n" + text,
            "two runs in one file: the second begins in line 41 (cache_clear)",
            "split it into one file per run, from lines 1 and 41.",
        ),
        (
            lambda text: cut_lines(EARLIER, 35) + text,
            "two runs in one file: the second begins in line 36 (cache_clear)",
            "keep the last: delete lines 1 to 35.",
        ),
        (
            lambda text: (
                new(measured(number=76, evaluations=9, brief=True), LATE_MS - 20 * HOUR_MS)
                + EARLIER
                + text
            ),
            "three runs in one file: the second begins in line 40 (cache_clear), the last in line"
            " 79 (cache_clear)",
            "split it into one file per run, from lines 1, 40 and 79.",
        ),
        (
            lambda text: text + cut_lines(LATER, 35),
            "two runs in one file: the second begins in line 46 (cache_clear)",
            "keep the first: delete line 46 and all that follow.",
        ),
        (
            lambda text: cut_lines(EARLIER, 35) + text + cut_lines(LATER, 35),
            "three runs in one file: the second begins in line 36 (cache_clear), the last in line"
            " 81 (cache_clear)",
            "keep the whole one: delete lines 1 to 35 and line 81 and all that follow.",
        ),
        (
            lambda text: cut_lines(EARLIER, 35) + resume_without_header(text),
            "two runs in one file: the second begins in line 36 (run_start)",
            "none of them is whole: repeat the run, with one file per run.",
        ),
        (
            make_ranks,
            "every record stands 8 times",
            "log from rank 0 alone, through one handler.",
        ),
        (
            lambda text: text * 8,
            "every record stands 8 times",
            "log from rank 0 alone, through one handler.",
        ),
    ],
)
def test_several_runs_or_ranks_in_a_file_are_one_error(
    tmp_path: Path, change: Callable[[str], str], found: str, advice: str
) -> None:
    lately_set(15)(tmp_path)
    path = tmp_path / "result_3.txt"
    path.write_text(change(path.read_text()))
    for target in (tmp_path, path):
        (told,) = list_serious(target)
        assert (told.rule, told.found, told.advice) == ("log.once", found, advice)
        assert (told.file, told.severity) == (str(path), Severity.ERROR)
        result = CliRunner().invoke(score, [str(target)])
        assert isinstance(result.exception, JudgedError)
        assert f"{path}: {found}, so it has no score; " in str(result.exception)


@pytest.mark.parametrize("last_dies", [False, True])
def test_what_is_deleted_as_advised_is_valid(tmp_path: Path, last_dies: bool) -> None:
    lately_set(15)(tmp_path)
    path = tmp_path / "result_3.txt"
    text, died = path.read_text(), cut_lines(EARLIER, 35)
    later = cut_lines(LATER, 35)
    path.write_text(text + later if last_dies else died + text)
    (told,) = list_serious(tmp_path)
    (number,) = [int(word) for word in told.advice.rstrip(".").split() if word.isdigit()][-1:]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: number - 1] if last_dies else lines[number:]))
    assert path.read_text() == text
    assert not list_serious(tmp_path)


def test_epochs_of_v07_give_no_consequences_either(tmp_path: Path) -> None:
    """Numbers that do not ascend, gaps, evaluations behind the end: all had their own errors."""
    path = tmp_path / "result_0.txt"
    text = new(run(epochs=True, scores=(0.4, 0.5, 0.7601)))
    path.write_text(make_ranks(text))
    (told,) = list_serious(path, "training-v0.7")
    assert told.found == "every record stands 8 times"


def test_one_record_that_is_repeated_is_named_itself(tmp_path: Path) -> None:
    lately_set(15)(tmp_path)
    path = tmp_path / "result_3.txt"
    lines = path.read_text().splitlines(keepends=True)
    (start,) = [line for line in lines if '"run_start"' in line]
    path.write_text("".join(line * (1 + (line is start)) for line in lines))
    found = [each.found for each in list_serious(path) if each.rule == "log.once"]
    assert found == ["run_start: 2 records"]


@pytest.mark.parametrize(
    ("wrap", "found"),
    [
        (lambda line: f"\x1b[32m{line}\x1b[0m", r"a colour code (\x1b[0m) behind the record"),
        (
            lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026"}),
            "a record within a JSON string, as in Docker's json-file log",
        ),
        (
            lambda line: f"INFO:mllog:{line!r}",
            "a quotation mark behind the record, as Python's repr writes it",
        ),
    ],
)
@pytest.mark.parametrize("settings", [0, 200])
def test_what_stands_around_every_record_is_said_once(
    tmp_path: Path, wrap: Callable[[str], str], found: str, settings: int
) -> None:
    """Also where the records that decide stand behind the first hundred lines."""
    lately_set(15)(tmp_path)
    for path in tmp_path.iterdir():
        first, *rest = path.read_text().splitlines()
        more = [first.replace("cache_clear", f"setting_{number}") for number in range(settings)]
        lines = [first, *more, *rest]
        path.write_text("".join(f"{wrap(line)}\n" for line in lines))
    result = Judge().judge_path(str(tmp_path))
    assert result.round == "training-v5.1"
    assert {(each.rule, each.severity) for each in result.findings} == {
        ("file.record", Severity.ERROR)
    }
    assert {each.found for each in result.findings} == {f"{found} ({len(lines)} lines)"}
    assert len(result.findings) == 10


@pytest.mark.parametrize("name", ["eval_error", "eval_loss"])
def test_results_under_another_name_are_told_in_one_finding(tmp_path: Path, name: str) -> None:
    path = tmp_path / "result_0.txt"
    text = new(measured(evaluations=14), LATE_MS)
    path.write_text(text.replace('"eval_accuracy"', f'"{name}"'))
    (told,) = list_serious(path, "training-v5.1")
    assert told.found == f"no eval_accuracy; found {name} 14 times"


def test_a_key_that_is_no_text_is_a_finding(tmp_path: Path) -> None:
    """A record with NaN whose key is an object."""
    path = tmp_path / "result_0.txt"
    path.write_text(':::MLLOG {"key": {"a": 1}, "value": NaN, "metadata": {}}\n')
    assert Judge("training-v5.1").judge_path(str(path)).verdict is Verdict.BROKEN


def test_evaluations_that_all_ranks_log_are_one_warning(tmp_path: Path) -> None:
    """Numbers that do not ascend, and a target that was reached before, are its consequences."""
    path = tmp_path / "result_0.txt"
    text = new(measured(evaluations=14), LATE_MS)
    path.write_text(text)
    before = list_serious(path, "training-v5.1")
    lines = text.splitlines(keepends=True)
    path.write_text("".join(line * (8 if '"eval_accuracy"' in line else 1) for line in lines))
    (told,) = [each for each in list_serious(path, "training-v5.1") if each not in before]
    assert (told.rule, told.severity) == ("log.paired", Severity.WARNING)
    assert told.found == "each eval_accuracy stands 8 times"
    assert told.advice == "log evaluations from rank 0 alone; the result is not affected."

"""Training logs under other names than result_<i>.txt are a set all the same."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import EXAMPLES
from kinds.training import lately_set

from compliance.judge import Judge
from compliance.recognition.renamed_logs import summarise_names
from compliance.verdict import Finding, Severity, Verdict
from submissions.commands.score import score

NAMES = ("slurm-48{}.out", "mllog_seed_{}.log", "run{}.txt", "train.o77{}", "log{}")
CHATTER = "pulling image\nEpoch 1\n"


def write_set(folder: Path, name: str) -> Path:
    """Write ten runs of v5.1 as a scheduler stores what they print."""
    lately_set(15)(folder)
    for number in reversed(range(10)):
        path = folder / f"result_{number}.txt"
        path.write_text(CHATTER + path.read_text() + "done\n")
        path.rename(folder / name.format(number + 1))
    return folder


def weigh(path: Path) -> tuple[str, Verdict, list[Finding]]:
    """Judge a path; return its round, its verdict and what is more than a remark."""
    told = Judge().judge_path(str(path))
    serious = [each for each in told.findings if each.severity is not Severity.INFO]
    return told.round, told.verdict, serious


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_logs_under_other_names_is_judged_as_its_set(tmp_path: Path, name: str) -> None:
    folder = write_set(tmp_path / "runs", name)
    (folder / "train.err").write_text("a warning of a library\n")
    round_name, verdict, (told,) = weigh(folder)
    assert (round_name, verdict) == ("training-v5.1", Verdict.VALID)
    assert (told.rule, told.severity, told.required) == (
        "runs.numbers",
        Severity.WARNING,
        "result_<i>.txt",
    )
    shared = {"train.o77{}": "train.o*"}.get(name) or name.replace("48{}", "{}").format("*")
    assert told.found == f"10 training logs of llama31_8b, named {shared}"


@pytest.mark.parametrize("levels", [("llama31_8b",), ()])
def test_such_a_folder_is_a_set_at_its_place_in_a_tree(
    tmp_path: Path, levels: tuple[str, ...]
) -> None:
    home = tmp_path / "acme"
    lately_set(15)(tmp_path / "plain" / "results" / "box" / "llama31_8b")
    write_set(home.joinpath("results", "box", *levels), NAMES[0])
    (home / "systems").mkdir()
    told = Judge("training-v5.1").judge_path(str(home)).findings
    assert "named slurm-*.out" in "".join(each.found for each in told)
    assert not {"runs.count", "systems.empty"} & {each.rule for each in told}


def test_such_a_folder_has_a_score(tmp_path: Path) -> None:
    minutes = []
    for number, name in enumerate(("result_{}.txt", *NAMES)):
        folder = write_set(tmp_path / str(number), name)
        result = CliRunner().invoke(score, [str(folder), "--format", "json"])
        (row,) = json.loads(result.stdout)["scores"]
        minutes.append((row["compliant"], row["runs"]))
    assert len(minutes) == 1 + len(NAMES)
    assert all(each == minutes[0] for each in minutes)


def test_logs_under_their_own_names_come_first(tmp_path: Path) -> None:
    """A job's output beside its logs is no second set."""
    folder = write_set(tmp_path / "llama31_8b", "result_{}.txt")
    (folder / "slurm-1.out").write_text((folder / "result_1.txt").read_text())
    (tmp_path / "slurm-1.out").write_text((folder / "result_1.txt").read_text())
    for path in (folder, tmp_path):
        assert weigh(path)[1:] == (Verdict.VALID, [])


def test_what_quotes_a_log_or_is_loadgens_is_no_training_log(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(':::MLLOG {"key": "init_start"}\n')
    (tmp_path / "log.txt").write_text(':::MLLOG {"key": "loadgen_version", "value": "5.1"}\n')
    (told,) = Judge().judge_path(str(tmp_path)).findings
    assert told.found == "nothing that the judge recognises"


def test_renamed_logs_of_podium_are_told_the_name_that_they_need(tmp_path: Path) -> None:
    log = EXAMPLES / "base/tree/open/acme/results/box-torch-bf16/resnet/result_0.txt"
    (tmp_path / "slurm-1.out").write_text(log.read_text())
    told = Judge().judge_path(str(tmp_path)).findings[0]
    assert (told.found, told.required) == ("training logs named slurm-1.out", "result_<i>.txt")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a.log"], "a.log"),
        (["run1.txt", "run2.txt", "run10.txt"], "run*.txt"),
        (["ada.log", "bob.out", "cy", "di"], "ada.log, bob.out, cy and 1 more"),
        (["1_train.txt", "2_train.txt"], "*_train.txt"),
    ],
)
def test_names_are_summarised_by_what_they_share(names: list[str], shown: str) -> None:
    assert summarise_names(names) == shown

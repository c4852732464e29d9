"""The commands check and explain: exit codes, one result per PATH in the order given, the requested
format alone on stdout.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from examples import EXAMPLES, path_of

from compliance.cli import check, explain
from compliance.rules import load_rules
from suite.console.screen import OutputLevel
from suite.errors import RequestError

BASE = EXAMPLES / "base"


def run(*words: str, command: object = check) -> Result:
    return CliRunner().invoke(command, list(words), standalone_mode=False)  # type: ignore[arg-type]


def test_there_is_one_result_for_each_path_in_the_order_given(tmp_path: Path) -> None:
    """A path that cannot be read is a broken result, no crash, and the others are judged all the
    same.
    """
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    paths = [
        str(BASE / "log" / "result_0.txt"),
        str(tmp_path / "nowhere"),
        str(tmp_path),
        str(tmp_path / "loop"),
        "\0",
        str(BASE / "tree"),
        str(tmp_path),
    ]
    result = run(*paths, "--format", "json")
    report = json.loads(result.stdout)
    assert [each["path"] for each in report["results"]] == paths
    assert [each["verdict"] for each in report["results"]] == [
        "valid",
        "broken",
        "unknown",
        "broken",
        "broken",
        "valid",
        "unknown",
    ]
    assert all(each["findings"] for each in report["results"] if each["verdict"] == "broken")
    assert result.return_value == 1


def test_good_results_give_exit_code_zero() -> None:
    assert run(str(BASE / "tree"), str(BASE / "bundle" / "acme.tar.zst")).return_value == 0


def test_a_file_is_named_as_the_user_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors and annotations need a path that exists from where the user stands."""
    shutil.copytree(EXAMPLES / "invalid" / "entry.ceiling", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    for given in (
        "results",
        "results/SingleStream",
        "results/SingleStream/performance/run_1/run.json",
        str(tmp_path / "results"),
    ):
        for finding in json.loads(run(given, "--format", "json").stdout)["results"][0]["findings"]:
            assert Path(finding["file"]).exists(), finding
            assert finding["file"].startswith(given.removesuffix("run.json"))


def test_a_file_of_a_bundle_is_named_below_the_bundle() -> None:
    path = path_of(EXAMPLES / "invalid" / "bundle.files")
    found = json.loads(run(str(path), "--format", "json").stdout)["results"][0]["findings"]
    assert f"{path}/open/acme/truth/resnet50/labels.txt" in {finding["file"] for finding in found}


def test_the_text_tells_what_to_fix_first() -> None:
    text = run(str(path_of(EXAMPLES / "invalid" / "training.target"))).stdout
    assert "broken (podium-v1; " in text.splitlines()[0]
    assert "error training.target" in text
    assert "result_0.txt:6" in text
    assert "expected top1 >= 0.759" in text
    assert f"-> {load_rules()['training.target'].advice}" in text


def test_many_findings_of_a_rule_do_not_push_the_others_off_the_screen(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    cut = "".join(f":::MLLOG {{ {number}\n" for number in range(50))
    path.write_text((BASE / "log" / "result_0.txt").read_text() + cut)
    text = run(str(path)).stdout
    assert "and 45 more" in text
    assert len(text.splitlines()) < 20


def test_many_equal_defects_are_said_once_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text((BASE / "log" / "result_0.txt").read_text() + ":::MLLOG {\n" * 150)
    text = run(str(path)).stdout
    assert text.count(":::MLLOG") + text.count("(150 lines)") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--round", "podium-v2"), "did you mean 'podium-v1'"),
        (("--truth", "nowhere"), "no such folder"),
        (("",), "PATH is empty"),
    ],
)
def test_a_wrong_request_is_one_sentence(words: tuple[str, ...], message: str) -> None:
    result = run(str(BASE / "log"), *words)
    assert isinstance(result.exception, RequestError)
    assert message in str(result.exception)


def test_only_formats_that_there_are_can_be_asked_for() -> None:
    assert "is not one of" in str(run(str(BASE / "log"), "--format", "html").exception)


def test_labels_may_come_from_the_user(tmp_path: Path) -> None:
    """Where the tree may not hold them, --truth gives them; then the score is recomputed."""
    tree = path_of(EXAMPLES / "invalid" / "accuracy.unscored")
    assert "accuracy.unscored" in run(str(tree)).stdout
    truth = BASE / "tree" / "open" / "acme" / "truth"
    for folder in (truth, truth / "resnet50", truth.parent):
        headline, *rest = run(str(tree), "--truth", str(folder)).stdout.splitlines()
        assert headline == f"{tree}: valid (podium-v1; 1 set of 1 log, 1 entry of 2 runs)"
        assert len(rest) == 4, "two results, and the summary behind an empty line"


CONFIG = (
    'workload = "resnet50"\nopt_name = "lars"\nglobal_batch_size = 4096\nlars_opt_weight_decay ='
    " %s\nlars_opt_momentum = 0.9\n"
)


def test_a_file_of_hyperparameters_is_judged_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG % "2e-4")
    assert run("--config", str(path)).return_value == 0
    path.write_text(CONFIG % "3e-4")
    result = run("--config", str(path), "--format", "json")
    assert result.return_value == 1
    findings = json.loads(result.stdout)["results"][0]["findings"]
    assert [(finding["rule"], finding["found"]) for finding in findings] == [
        ("training.legality", "lars_opt_weight_decay 0.0003")
    ]
    path.write_text("opt_nam = 'lars'\n")
    assert "did you mean 'opt_name'" in str(
        run("--config", str(path), "--workload", "resnet50").exception
    )
    assert "the file names no workload" in str(run("--config", str(path)).exception)


@pytest.mark.parametrize("rule", sorted(load_rules()))
def test_each_rule_can_be_explained(rule: str) -> None:
    text = run(rule, command=explain).stdout
    assert text.startswith(rule)
    assert "Source: " in text
    assert "What to do: " in text


def test_a_misspelt_rule_is_offered_the_nearest() -> None:
    assert "did you mean 'training.target'" in str(run("training.targt", command=explain).exception)


def test_a_rule_that_is_near_none_does_not_list_them_all() -> None:
    text = str(run("xyzzy", command=explain).exception)
    assert "podium explain lists all rules" in text
    assert len(text) < 200


def test_an_explanation_has_words_of_users() -> None:
    """No name of a class, and each kind of document has its words."""
    for each in load_rules().values():
        assert (
            each.document.__name__
            not in run(each.id, command=explain).stdout.partition("\n")[0].split()
        )


@pytest.mark.slow
def test_the_judge_needs_no_framework_and_starts_at_once() -> None:
    """Neither parsers nor rules are loaded for the help, and nothing heavy ever."""
    code = (
        "import sys; from compliance.cli import check; assert not {'msgspec', 'jsonschema',"
        " 'compliance.judge'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    log = str(BASE / "log" / "result_0.txt")
    code = (
        f"import sys; from compliance.cli import check; check(['{log}'], standalone_mode=False); "
        + "assert not {'torch', 'numpy', 'jsonschema', 'rich', 'workloads.resnet50.model'} &"
        " set(sys.modules), sorted(sys.modules)"
    )
    start = os.times()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    end = os.times()  # of processes that have ended: the machine may do other things, too
    used_s = end.children_user + end.children_system - start.children_user - start.children_system
    assert used_s < 5


@pytest.mark.parametrize("valid", [True, False])
def test_results_that_are_moved_afterwards_have_their_final_paths(
    tmp_path: Path, valid: bool
) -> None:
    """A campaign moves only what the judge accepts; the rest stays where it was judged."""
    staged, final = tmp_path / "results" / ".podium" / "campaign", tmp_path / "results"
    shutil.copytree(BASE / "tree", staged)
    if not valid:
        next(staged.rglob("result_0.txt")).write_text("")
    words = [str(staged / "open" / "acme"), "--format", "json"]
    result = CliRunner().invoke(
        check, words, standalone_mode=False, obj=OutputLevel(moving=(staged, final))
    )
    (judged,) = json.loads(result.stdout)["results"]
    assert (judged["verdict"] == "valid") is valid
    assert judged["path"] == str((final if valid else staged) / "open" / "acme")
    assert all(each["file"].startswith(str(staged)) is not valid for each in judged["findings"])


def test_without_a_path_the_results_folder_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`podium check` alone said "nothing to judge"."""
    monkeypatch.chdir(tmp_path)
    assert "no folder results here; name a PATH" in str(run().exception)
    shutil.copytree(BASE / "tree", "results")
    result = run("--format", "json")
    assert json.loads(result.stdout)["results"][0]["path"] == "results"
    assert result.return_value == 0


def test_a_path_that_does_not_exist_is_one_sentence() -> None:
    """A typo was told to "restore the file as the run wrote it"; its exit code stays 1."""
    result = run("/no/such/path")
    assert result.stdout.splitlines()[0] == "/no/such/path: no such file or folder"
    assert "restore" not in result.stdout and result.return_value == 1
    several = run("/no/such/path", str(BASE / "tree")).stdout
    assert several.count("/no/such/path: no such file or folder") == 1
    (finding,) = json.loads(run("/no/such/path", "--format", "json").stdout)["results"][0][
        "findings"
    ]
    assert (finding["rule"], "spelt" in finding["advice"]) == ("file.present", True)


def test_the_text_ends_with_one_line_about_all_paths() -> None:
    good, bad = str(BASE / "tree"), str(path_of(EXAMPLES / "invalid" / "training.target"))
    last = run(good, bad, good).stdout.splitlines()[-1]
    assert last == "1 broken, 2 valid; 3 errors"
    assert run(good).stdout.splitlines()[-1] == "1 valid"
    assert "1 valid" not in run(good, "--format", "github").stdout


def test_exit_first_stops_at_the_first_path_that_fails() -> None:
    good, bad = str(BASE / "tree"), str(path_of(EXAMPLES / "invalid" / "training.target"))
    result = run(good, bad, good, "-x", "--format", "json")
    assert [each["path"] for each in json.loads(result.stdout)["results"]] == [good, bad]
    assert result.return_value == 1
    assert ", 1 not checked; " in run(good, bad, good, "--exit-first").stdout.splitlines()[-1]
    assert len(json.loads(run(good, good, "-x", "--format", "json").stdout)["results"]) == 2


def test_statistics_count_the_findings_of_each_rule() -> None:
    bad = str(path_of(EXAMPLES / "invalid" / "training.target"))
    listed = json.loads(run(bad, bad, "--format", "json").stdout)["results"]
    result = run(bad, bad, "--statistics", "--format", "json")
    counts = {each["rule"]: each for each in json.loads(result.stdout)["rules"]}
    rules = [finding["rule"] for each in listed for finding in each["findings"]]
    assert {rule: each["findings"] for rule, each in counts.items()} == Counter(rules)
    assert counts["training.target"]["paths"] == 1, "one PATH, named twice"
    told = run(bad, "--statistics").stdout
    assert re.search(r"^ *1  error    training\.target +in 1 PATH$", told, re.MULTILINE)
    assert result.return_value == 1
    assert "no findings in 1 PATH" in run(str(BASE / "tree"), "--statistics").stdout
    assert "--statistics" in str(run(bad, "--statistics", "--format", "sarif").exception)


def test_a_prefix_lists_its_rules_with_their_whole_first_sentence() -> None:
    """`podium explain training` suggested one rule, and the list cut off each sentence."""
    told = run("training", command=explain).stdout
    own = [id for id in load_rules() if id.startswith("training.")]
    assert [line.split()[0] for line in told.splitlines()[:-2] if line[0] != " "] == sorted(own)
    flat = " ".join(told.split())
    for id in own:
        first = " ".join(load_rules()[id].text.split()).partition(". ")[0]
        assert first in flat, id
    assert told.splitlines()[-1].startswith(f"{len(own)} rules")
    assert run("training.", command=explain).stdout == told
    found = json.loads(run("inference", "--format", "json", command=explain).stdout)["rules"]
    families = {rule["id"].partition(".")[0] for rule in found}
    assert {"inference-text", "inference-mllog"} <= families
    assert all(each.startswith("inference") for each in families)


def test_nonsense_gets_no_suggestion() -> None:
    """`podium explain nope` suggested 'log.speed'."""
    assert str(run("nope", command=explain).exception) == (
        "unknown rule 'nope'; podium explain lists all rules"
    )
    assert "did you mean 'training.target'" in str(run("trainin.target", command=explain).exception)

"""Reports: each format is whole and valid by its own rules, says every finding at its place, and
holds any text that a file may bring.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from examples import EXAMPLES, path_of
from jsonschema import Draft202012Validator

from compliance.cli import REPORT_FORMATS, check, explain
from compliance.kinds.podium.documents import json_document
from compliance.reports import render as report
from compliance.reports.github import render_step_summary
from compliance.reports.text import render_text_report
from compliance.rules import load_rules
from compliance.verdict import Finding, JudgedResult, ResultKind, Severity, Verdict
from compliance.verdict import PathJudgement as Judged
from suite.console.command_help import prepare_command

BASE = EXAMPLES / "base"
NASTY = "a\nb\r%0A::error::x,y:z\x1b[31m\0\ud800\udcff\ufffe<&\"']]>\N{GRINNING FACE}"
"""A line end, a command's end, colours, NUL, halves of a pair, what XML cannot hold, and what it
must escape.
"""


def finding(**changes: object) -> Finding:
    told: dict[str, object] = {
        "rule": "training.target",
        "severity": Severity.ERROR,
        "file": "results/result_0.txt",
        "line": 7,
        "found": "0.7",
        "required": "0.759",
        "source": "a rule",
        "advice": "train on",
    }
    return Finding(**{**told, **changes})  # type: ignore[arg-type]


def result(*findings: Finding, path: str = "results") -> Judged:
    return Judged(path=path, round="podium-v1", findings=findings)


def render(form: str, *results: Judged) -> str:
    return report.render_judge_report(results, form).decode()


def run(*words: str) -> Result:
    command = prepare_command("check", check)
    return CliRunner().invoke(command, list(words), standalone_mode=False, catch_exceptions=False)


def text_of(*results: Judged) -> list[str]:
    return render("text", *results).splitlines()


# ---- every format ----


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_a_format_holds_whatever_a_file_may_bring(form: str) -> None:
    """Names and values come from anybody's files: none may break the report, or be carried out by a
    terminal or a workflow.
    """
    nasty = finding(file=NASTY, found=NASTY, required=NASTY, advice=NASTY, source=NASTY)
    text = render(form, result(nasty, finding(line=None), path=NASTY), result(path=NASTY))
    assert text.endswith("\n")
    if form in ("text", "github", "junit"):
        assert "\x1b" not in text.replace(NASTY, "") or form == "github"
    if form == "github":
        assert all(line.startswith("::") for line in text.splitlines())
    if form == "junit":
        ElementTree.fromstring(text)
    if form in ("json", "sarif"):
        json.loads(text)


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_on_stdout_stands_the_format_alone_and_the_exit_code_tells_the_verdict(form: str) -> None:
    for path, code in ((BASE / "tree", 0), (path_of(EXAMPLES / "invalid" / "training.target"), 1)):
        ended = run(str(path), "--format", form)
        assert ended.return_value == code
        assert ended.stderr == ""
        if form in ("json", "sarif"):
            json.loads(ended.stdout)
        elif form == "junit":
            ElementTree.fromstring(ended.stdout)


@pytest.mark.slow
def test_a_name_in_another_encoding_is_no_crash(tmp_path: Path) -> None:
    """File names are bytes: Python gives halves of pairs, which UTF-8 cannot write."""
    path = tmp_path / "caf\udce9.txt"
    path.write_text("nothing\n")
    for form in REPORT_FORMATS:
        command = [sys.executable, "-m", "compliance", "check", str(path), "--format", form]
        ended = subprocess.run(
            command,
            capture_output=True,
            env={"PATH": "", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            check=False,
        )
        assert ended.returncode == 1, ended.stderr
        assert ended.stderr == b""
        assert b"caf" in ended.stdout


def test_the_command_line_offers_each_format_that_there_is() -> None:
    assert {path.stem for path in Path(report.__file__).parent.glob("*.py")} - {
        "__init__",
        "counts",
        "limits",
        "render",
        "statistics",
    } == set(REPORT_FORMATS)


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "github"])
def test_a_rule_that_fires_ten_thousand_times_is_counted(form: str) -> None:
    """A report of a hundred megabytes helps nobody; the verdict is that of all."""
    many = [finding(line=line, severity=Severity.WARNING) for line in range(1, 10_001)]
    judged = result(
        *many, finding(file="other", severity=Severity.WARNING), finding(rule="training.last")
    )
    text = render(form, judged)
    assert len(text) < 100_000
    assert "9900" in text
    assert "training.last" in text
    if form == "json":
        (told,) = json.loads(text)["results"]
        assert (told["verdict"], len(told["findings"])) == ("broken", 102)
        assert told["left_out"] == [
            {
                "rule": "training.target",
                "severity": "warning",
                "file": "results/result_0.txt",
                "more": 9900,
            }
        ]


# ---- text ----


def test_one_valid_path_is_one_line() -> None:
    assert text_of(result()) == ["results: valid (podium-v1)"]


def test_errors_come_before_warnings_and_rules_together() -> None:
    lines = text_of(
        result(
            finding(rule="b", severity=Severity.WARNING),
            finding(rule="a", severity=Severity.INFO),
            finding(rule="c", line=1),
            finding(rule="d"),
            finding(rule="c", line=2, advice="train on"),
        )
    )
    assert lines[0] == "results: broken (podium-v1; 3 errors, 1 warning, 1 info)"
    assert [
        line.strip() for line in lines if line.startswith("  ") and not line.startswith("    ")
    ] == ["error c", "error d", "warning b", "info a"]
    assert lines[1:5] == [
        "  error c",
        "    found 0.7; expected 0.759",
        "      results/result_0.txt:1",
        "      results/result_0.txt:2",
    ]
    assert lines[5] == "    -> train on"
    assert lines[7] == "    results/result_0.txt:7: found 0.7; expected 0.759"


def test_what_was_found_often_is_said_once_with_its_places() -> None:
    lines = text_of(
        result(
            *(finding(line=line) for line in range(1, 4)),
            *(finding(line=line, found="0.1") for line in range(4, 9)),
        )
    )
    assert [line.strip() for line in lines[2:]] == [
        "found 0.7; expected 0.759",
        *(f"results/result_0.txt:{line}" for line in (1, 2, 3)),
        "found 0.1; expected 0.759",
        *(f"results/result_0.txt:{line}" for line in (4, 5)),
        "and 3 more (-v lists them)",
        "-> train on",
    ]


def test_a_long_value_is_cut_and_its_two_ends_stay() -> None:
    [line] = [
        line
        for line in text_of(result(finding(found="[" + "1, " * 5000 + "2]")))
        if "found" in line
    ]
    assert len(line) < 400
    assert "found [1, 1" in line
    assert "2]; expected" in line


def test_several_paths_begin_with_a_summary_of_what_to_fix() -> None:
    lines = text_of(
        result(path="a"),
        result(finding(), finding(line=8), path="b"),
        result(finding(), finding(rule="x"), path="c"),
    )
    assert lines[0] == "3 PATHs: 2 broken, 1 valid"
    assert lines[1:4] == [
        "errors by rule (details: podium explain RULE):",
        "  training.target in 2 PATHs",
        "  x in 1 PATH",
    ]
    assert [line.partition(":")[0] for line in lines[5:8]] == ["b", "c", "a"]


def test_hundreds_of_paths_fit_on_a_few_screens() -> None:
    """190 logs at once is what somebody checks who checks a round; the worst come first."""
    many = [
        result(*(finding(rule=f"rule-{number % 40}") for _ in range(9)), path=f"log-{number}")
        for number in range(300)
    ]
    many += [result(path=f"good-{number}") for number in range(300)]
    lines = text_of(*many)
    assert len(lines) < 300
    assert lines[0] == "600 PATHs: 300 broken, 300 valid"
    assert "  and 25 more rules" in lines
    assert "and 270 more broken, 300 more valid (-v lists them)" in lines
    assert lines[-1].startswith("280 more PATHs have findings")
    whole = render_text_report(many, verbose=True)
    assert not re.search("and .* more|[0-9] more", whole)
    assert all(f"log-{number}: broken" in whole for number in range(300))


def test_a_run_that_did_not_converge_is_told_as_such() -> None:
    missed = finding(rule="training.converged", weight=Verdict.NOT_CONVERGED)
    assert text_of(result(missed))[0] == "results: not-converged (podium-v1; 1 error)"


# ---- json ----


def test_json_has_every_finding_and_keeps_the_published_shape() -> None:
    text = render(
        "json",
        result(*(finding(line=number) for number in range(1, 60)), path="a"),
        result(path="b"),
    )
    assert list(json_document.check_document_schema("report.json", json.loads(text))) == []
    assert [len(each["findings"]) for each in json.loads(text)["results"]] == [59, 0]


# ---- github ----


def test_an_annotation_stands_at_its_file_and_line() -> None:
    lines = render(
        "github",
        result(
            finding(),
            finding(severity=Severity.WARNING, line=None),
            finding(severity=Severity.INFO),
        ),
    ).splitlines()
    assert (
        lines[0] == "::error title=podium check::results: broken (podium-v1; 1 error, 1 warning,"
        " 1 info)"
    )
    assert (
        lines[1]
        == "::error file=results/result_0.txt,line=7,title=training.target::found 0.7; expected"
        " 0.759%0Atrain on%0Aa rule"
    )
    assert lines[2].startswith("::warning file=results/result_0.txt,title=")
    assert lines[3].startswith("::notice ")


def test_errors_of_all_paths_come_first_in_a_workflow() -> None:
    """GitHub shows the first ten annotations of a level, and a page of notices hides an error."""
    notes = result(*(finding(severity=Severity.INFO, line=line) for line in range(1, 20)))
    lines = render("github", notes, result(finding(), path="b")).splitlines()
    assert [line.split()[0] for line in lines] == ["::error"] * 2 + ["::notice"] * 20


def test_a_comma_in_a_files_name_does_not_end_the_property() -> None:
    [_, line] = render("github", result(finding(file="a,line=1:b%.txt"))).splitlines()
    assert line.startswith("::error file=a%2Cline=1%3Ab%25.txt,line=7,")


def test_an_absolute_path_below_the_working_folder_is_named_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub shows an annotation only where the path is the repository's."""
    monkeypatch.chdir(tmp_path)
    assert "file=a/b.txt," in render("github", result(finding(file=str(tmp_path / "a" / "b.txt"))))
    assert "file=/elsewhere/b.txt," in render("github", result(finding(file="/elsewhere/b.txt")))


def test_a_workflow_gets_a_summary_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may have the summaries of other commands of the step, which stay."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    tree = spoil_one_entry(tmp_path)
    assert run(str(tree), "--format", "github").return_value == 1
    lines = summary.read_text("utf-8").splitlines()
    assert lines[0] == "before"
    assert lines[1].startswith("### ") and lines[1].endswith(": broken")
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[2].startswith("| broken | open/acme/results/box-torch-fp32/resnet50/SingleStream |")
    assert rows[3].startswith("| valid | open/acme/results/box-torch-bf16/resnet | set of 1 log |")
    assert any(row.startswith("| error | entry.stamps | 1 | ") for row in rows)
    run(str(tree))
    assert summary.read_text("utf-8").splitlines() == lines


def test_a_summary_that_cannot_be_written_costs_the_summary_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    ended = run(str(BASE / "tree"), "--format", "github")
    assert ended.return_value == 0
    assert "No such file or directory; no summary is written" in ended.stderr


def test_text_in_a_summary_is_no_markup() -> None:
    nasty = finding(file=NASTY, found="a|b\n# c <img> `x`", rule="training.target")
    text = render_step_summary([result(nasty, path=NASTY)])
    assert "\n# c" not in text
    assert "<img>" not in text
    assert r"a\|b" in text


# ---- the results in a PATH ----


def spoil_one_entry(folder: Path) -> Path:
    """Copy the tree, and edit one value of its entry."""
    tree = Path(shutil.copytree(BASE / "tree", folder / "tree"))
    [record] = tree.glob("open/acme/results/*/resnet50/SingleStream/performance/run_1/run.json")
    told = json.loads(record.read_text("utf-8"))
    told["system_sha256"] = "7b" * 32
    record.write_text(json.dumps(told))
    return tree


def test_each_result_of_a_tree_has_its_own_verdict(tmp_path: Path) -> None:
    tree = spoil_one_entry(tmp_path)
    lines = run(str(tree)).stdout.splitlines()
    assert lines[0].startswith(f"{tree}: broken (podium-v1; 1 set of 1 log, 1 entry of 2 runs; ")
    assert lines[1].split()[:5] == [
        "broken",
        "open/acme/results/box-torch-fp32/resnet50/SingleStream",
        "entry",
        "of",
        "2",
    ]
    assert lines[2].split() == [
        "valid",
        "open/acme/results/box-torch-bf16/resnet",
        "set",
        "of",
        "1",
        "log",
    ]
    [told] = json.loads(run(str(tree), "--format", "json").stdout)["results"]
    assert list(json_document.check_document_schema("report.json", {"results": [told]})) == []
    judged = {each["kind"]: each for each in told["judged"]}
    assert (judged["entry"]["verdict"], judged["set"]["verdict"]) == ("broken", "valid")
    assert judged["entry"]["findings"]["error"] > 0
    assert judged["set"]["path"] == str(tree / "open/acme/results/box-torch-bf16/resnet")
    suite = ElementTree.fromstring(run(str(tree), "--format", "junit").stdout)[0]
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    entry = cases["entry open/acme/results/box-torch-fp32/resnet50/SingleStream"]
    assert "broken" in entry.find("skipped").attrib["message"]  # type: ignore[union-attr]
    assert cases["set open/acme/results/box-torch-bf16/resnet"].find("skipped") is None
    assert len(cases) == int(suite.attrib["tests"])
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    broken = {each["rule"] for each in told["findings"] if each["severity"] == "error"}
    assert failed == broken


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("log", "1 log"),
        ("trained-set", "1 set of"),
        ("trained-tree", "1 set of"),
        ("served-submission", "1 run"),
        ("filed-later", "1 entry of"),
        ("since-v5.1", "2 entries of"),
        ("study", "1 study"),
        ("bundle", "1 set of 1 log, 1 entry of 2 runs"),
    ],
)
def test_the_verdict_names_what_was_judged(path: str, counts: str) -> None:
    """Of every kind of round, and of a single result as of a tree."""
    headline = run(str(path_of(BASE / path))).stdout.splitlines()[0]
    assert f"; {counts}" in headline


def test_the_verdict_names_what_could_not_be_checked() -> None:
    headline = run(str(path_of(EXAMPLES / "invalid" / "accuracy.unscored"))).stdout.splitlines()[0]
    assert "; not checked: accuracy of 1; " in headline


def test_findings_of_no_single_result_are_counted_beside_them() -> None:
    """A system without its description makes a tree broken whose results are all valid."""
    one = JudgedResult(kind=ResultKind.SET, path="results/a", files=5, findings=())
    other = JudgedResult(kind=ResultKind.STUDY, path="results/b", files=0, findings=())
    judged = Judged(path="results", round="podium-v1", findings=(finding(),), results=(one, other))
    assert text_of(judged)[:4] == [
        "results: broken (podium-v1; 1 set of 5 logs, 1 study; 1 error)",
        "  valid   a                set of 5 logs",
        "  valid   b                study",
        "  broken  everything else                 1 error",
    ]


def test_a_tree_of_many_results_lists_the_worst_and_counts_the_others() -> None:
    made = [
        JudgedResult(kind=ResultKind.ENTRY, path=f"results/{number}", files=2, findings=())
        for number in range(40)
    ]
    last = JudgedResult(kind=ResultKind.ENTRY, path="results/z", files=2, findings=(finding(),))
    judged = Judged(path="results", round="podium-v1", findings=(finding(),), results=(*made, last))
    lines = text_of(judged)
    assert lines[1].split()[:2] == ["broken", "z"]
    assert "  and 21 more valid (-v lists them)" in lines
    assert len(render_text_report([judged], verbose=True).splitlines()) > 41


def test_verbose_shows_every_place(tmp_path: Path) -> None:
    many = result(*(finding(line=line) for line in range(1, 91)))
    assert "and 85 more (-v lists them)" in render("text", many)
    whole = render_text_report([many], verbose=True)
    assert all(f"results/result_0.txt:{line}\n" in whole for line in range(1, 91))
    assert "more" not in whole
    assert run(str(spoil_one_entry(tmp_path)), "-v").return_value == 1


# ---- junit ----


def test_junit_counts_its_cases_and_failures() -> None:
    root = ElementTree.fromstring(
        render(
            "junit",
            result(
                finding(), finding(line=8), finding(rule="w", severity=Severity.WARNING), path="a"
            ),
            result(path="b"),
        )
    )
    assert root.tag == "testsuites"
    assert root.attrib == {"name": "podium check", "tests": "4", "failures": "1"}
    for suite in root:
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.attrib["tests"])
        assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"])
        assert len(suite.findall("testcase/skipped")) == int(suite.attrib["skipped"])
        assert all({"name", "classname"} <= set(case.attrib) for case in cases)
    first, second = root
    assert [case.attrib["name"] for case in first] == ["verdict", "training.target", "w"]
    failure = first[1].find("failure")
    assert failure is not None
    assert failure.attrib == {"type": "broken", "message": "found 0.7; expected 0.759"}
    assert (failure.text or "").splitlines()[
        1
    ] == "error results/result_0.txt:8: found 0.7; expected 0.759"
    assert first[1].attrib["file"] == "results/result_0.txt"
    assert first[2].find("failure") is None
    assert [case.attrib["name"] for case in second] == ["verdict"]


# ---- sarif ----

TEXT = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}},
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
URI = {"type": "string", "pattern": r"^([a-z]+://)?[A-Za-z0-9_.~!$&'()*+,;=:@%/-]+$"}
REGION = {
    "type": "object",
    "required": ["startLine"],
    "properties": {"startLine": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
PLACE = {
    "type": "object",
    "required": ["artifactLocation"],
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri"],
            "properties": {"uri": URI, "uriBaseId": {"type": "string"}},
            "additionalProperties": False,
        },
        "region": REGION,
    },
    "additionalProperties": False,
}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription", "help"],
    "properties": {
        "id": {"type": "string"},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": TEXT,
        "properties": {"type": "object"},
        "defaultConfiguration": {
            "type": "object",
            "properties": {"level": LEVEL},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
FOUND = {
    "type": "object",
    "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "properties": {"type": "object"},
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["physicalLocation"],
                "properties": {"physicalLocation": PLACE},
            },
        },
    },
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "$schema": {"const": "https://json.schemastore.org/sarif-2.1.0.json"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {"rules": {"type": "array", "items": RULE}},
                            },
                        },
                    },
                    "results": {"type": "array", "items": FOUND},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "invocations": {
                        "type": "array",
                        "items": {"type": "object", "required": ["executionSuccessful"]},
                    },
                    "originalUriBaseIds": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "properties": {"uri": {"pattern": "/$"}},
                        },
                    },
                    "properties": {"type": "object"},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
"""What the published schema of SARIF 2.1.0 asks of the parts that are written here."""


@pytest.mark.parametrize(
    "results",
    [
        (),
        (result(),),
        (result(finding(), finding(rule="unheard.of", line=None, severity=Severity.INFO)),),
        (
            result(finding(file=NASTY, found=NASTY), path=NASTY),
            result(finding(file="/elsewhere/a b.txt")),
        ),
    ],
)
def test_sarif_has_the_shape_of_its_standard(results: tuple[Judged, ...]) -> None:
    document = json.loads(render("sarif", *results))
    assert list(Draft202012Validator(SARIF).iter_errors(document)) == []


def test_sarif_points_at_the_rule_and_the_line() -> None:
    [run_] = json.loads(
        render("sarif", result(finding(rule="x", severity=Severity.WARNING), finding()))
    )["runs"]
    rules = run_["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["x", "training.target"]
    assert all(rules[found["ruleIndex"]]["id"] == found["ruleId"] for found in run_["results"])
    assert [found["level"] for found in run_["results"]] == ["warning", "error"]
    assert rules[1]["shortDescription"]["text"] == load_rules()["training.target"].text
    assert "What to do" not in rules[1]["help"]["text"]
    assert load_rules()["training.target"].advice in rules[1]["help"]["text"]
    place = run_["results"][1]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "results/result_0.txt", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 7},
    }


def test_sarif_names_files_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code scanning takes addresses below the repository's root alone; a blank is written as
    %20.
    """
    shutil.copytree(EXAMPLES / "invalid" / "entry.ceiling", tmp_path / "my results")
    monkeypatch.chdir(tmp_path)
    for given in ("my results", str(tmp_path / "my results")):
        [run_] = json.loads(run(given, "--format", "sarif").stdout)["runs"]
        for found in run_["results"]:
            address = found["locations"][0]["physicalLocation"]["artifactLocation"]
            assert address["uri"].startswith("my%20results/")
            assert Path(unquote(address["uri"])).exists()


# ---- explain ----


def explained(rule: str) -> str:
    ended = CliRunner().invoke(explain, [rule], standalone_mode=False, catch_exceptions=False)
    return ended.stdout


@pytest.mark.parametrize(
    "part",
    [
        "training.target (error",
        "Source: ",
        "What to do: ",
        "Rounds: ",
        "Verdict if violated: ",
        "For example: ",
    ],
)
def test_a_rule_is_explained_with_an_example_of_what_it_finds(part: str) -> None:
    assert part in explained("training.target")


@pytest.mark.parametrize(
    ("rule", "rounds"),
    [
        ("training.target", "podium-v1"),
        ("log.target", "training-v0.6, training-v0.7, training-v1.0"),
        ("inference-mllog.seeds", "inference-v1.0, inference-v1.1"),
        ("file.present", "endpoints, endpoints-v1.0, inference-v0.5, inference-v0.7"),
    ],
)
def test_a_rule_names_the_rounds_that_it_judges_by(rule: str, rounds: str) -> None:
    assert f"Rounds: {rounds}" in explained(rule).replace("\n  ", " ")


def test_a_warning_is_explained_as_one() -> None:
    assert "none; it is a warning" in explained("set.overlap")


def test_lines_of_an_explanation_fit_a_screen() -> None:
    for rule in load_rules():
        text = explained(rule)
        assert all(len(line) <= 100 or " " not in line.strip() for line in text.splitlines()), text

"""Waivers: a known finding has no effect any more and is still listed in every format; a waiver that
cannot hold is refused.
"""

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from examples import EXAMPLES, path_of

from compliance.cli import REPORT_FORMATS, check
from compliance.kinds.podium.documents import json_document
from compliance.reports import render
from compliance.reports.github import render_step_summary
from compliance.rules import load_rules
from compliance.verdict import Acceptance, Finding, PathJudgement, Severity, Verdict
from compliance.waivers import WaiverFile, apply_waivers, read_waivers
from suite.errors import RequestError

MISSED = path_of(EXAMPLES / "invalid" / "training.target")
RULE = "training.target"
TODAY = datetime.date(2026, 11, 28)
WAIVER: dict[str, Any] = {
    "rule": RULE,
    "path": ".",
    "by": "the review committee",
    "until": datetime.date(2099, 1, 31),
    "why": "the target was corrected after the round's start",
}


def write_waivers(folder: Path, *waivers: dict[str, Any]) -> Path:
    lines = []
    for waiver in waivers:
        lines.append("[[waiver]]")
        lines += [
            f"{key} = {value if isinstance(value, datetime.date) else json.dumps(value)}"
            for key, value in waiver.items()
        ]
    file = folder / "waivers.toml"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(
        check, [*map(str, words)], standalone_mode=False, catch_exceptions=False
    )


def list_broken_rules(path: Path) -> set[str]:
    (judged,) = json.loads(run(path, "--format", "json").stdout)["results"]
    return {each["rule"] for each in judged["findings"] if each["severity"] == "error"}


@pytest.fixture
def accepted(tmp_path: Path) -> Path:
    """A file that accepts every error of the example."""
    return write_waivers(tmp_path, *(WAIVER | {"rule": rule} for rule in list_broken_rules(MISSED)))


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_an_accepted_finding_is_listed_and_breaks_nothing(form: str, accepted: Path) -> None:
    """A finding that vanished would be hidden; one that still counts would not be accepted."""
    assert run(MISSED, "--format", form).return_value == 1
    ended = run(MISSED, "--accept", accepted, "--format", form)
    assert (ended.return_value, ended.stderr) == (0, "")
    assert RULE in ended.stdout
    assert "the review committee" in ended.stdout
    assert "2099-01-31" in ended.stdout
    assert "corrected after the round" in ended.stdout


def test_text_counts_what_is_accepted_apart(accepted: Path) -> None:
    text = run(MISSED, "--accept", accepted).stdout
    head, *lines = text.splitlines()
    assert ": valid (" in head and "accepted)" in head and "error" not in head
    assert f"  accepted error {RULE}" in lines


def test_json_names_the_waiver_and_keeps_its_schema(accepted: Path) -> None:
    document = json.loads(run(MISSED, "--accept", accepted, "--format", "json").stdout)
    assert not list(json_document.check_document_schema("report.json", document))
    (judged,) = document["results"]
    waived = [each for each in judged["findings"] if each.get("accepted")]
    assert judged["verdict"] == "valid"
    assert waived and all(each["severity"] == "error" for each in waived)
    assert waived[0]["accepted"] == {
        "by": WAIVER["by"],
        "until": "2099-01-31",
        "why": WAIVER["why"],
    }


def test_junit_has_no_failure_for_it(accepted: Path) -> None:
    root = ElementTree.fromstring(run(MISSED, "--accept", accepted, "--format", "junit").stdout)
    assert root.get("failures") == "0" and not list(root.iter("failure"))
    assert any("accepted error" in (each.text or "") for each in root.iter("system-out"))


def test_sarif_suppresses_it(accepted: Path) -> None:
    """Code scanning closes an alert that has a suppression, and shows its justification."""
    (ran,) = json.loads(run(MISSED, "--accept", accepted, "--format", "sarif").stdout)["runs"]
    (waiver,) = next(each["suppressions"] for each in ran["results"] if each["ruleId"] == RULE)
    assert (waiver["kind"], waiver["status"]) == ("external", "accepted")
    assert WAIVER["why"] in waiver["justification"]


def test_github_makes_it_a_notice(accepted: Path) -> None:
    lines = run(MISSED, "--accept", accepted, "--format", "github").stdout.splitlines()
    assert not [line for line in lines if line.startswith("::error")]
    assert any(line.startswith("::notice") and "accepted error, by" in line for line in lines)


def build_findings(count: int) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            rule=RULE,
            severity=Severity.ERROR,
            file="results/a/result_0.txt",
            line=line,
            found="0.7",
            required="0.759",
            source="a rule",
            advice="train on",
            accepted=Acceptance(by="us", until="2099-01-31", why="known"),
        )
        for line in range(1, count + 1)
    )


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "github"])
def test_what_a_report_leaves_out_is_accepted_too(form: str) -> None:
    """The count of the rest must not look like open errors."""
    judged = PathJudgement(path="results", round="podium-v1", findings=build_findings(150))
    assert judged.verdict is Verdict.VALID
    text = render.render_judge_report([judged], form).decode()
    assert "::error" not in text and "<failure" not in text
    if form == "json":
        assert json.loads(text)["results"][0]["left_out"][0]["accepted"]["by"] == "us"
        assert not list(json_document.check_document_schema("report.json", json.loads(text)))
    if form == "sarif":
        assert all(each["suppressions"] for each in json.loads(text)["runs"][0]["results"])
    assert "accepted error" in render_step_summary([judged])


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("closed/acme/results", True),
        ("closed/acme/results/box/resnet/result_0.txt", True),
        ("tree/closed/acme", True),
        (".", True),
        ("closed/acme/results/box/resnet/result_1.txt", False),
        ("closed/acme/res", False),
        ("acme", False),
        ("..", False),
        ("../..", False),
        ("/", False),
    ],
)
def test_a_path_is_a_file_or_a_folder_below_the_path_or_here(path: str, covered: bool) -> None:
    """`acme` anywhere in a path would accept what nobody looked at."""
    finding = build_findings(1)[0]
    named = msgspec.structs.replace(
        msgspec.convert({"waiver": [WAIVER]}, WaiverFile).waiver[0], path=path
    )
    file = "tree/closed/acme/results/box/resnet/result_0.txt"
    judged = PathJudgement(
        path="tree",
        round="podium-v1",
        findings=(replace(finding, file=file, accepted=None),),
    )
    (found,) = apply_waivers(judged, [named]).findings
    assert (found.accepted is not None) is covered


def test_a_path_elsewhere_is_named_as_the_report_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tree beside the working folder, the report prints `../tree/...`."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    finding = replace(build_findings(1)[0], file="../tree/result_0.txt", accepted=None)
    judged = PathJudgement(path="../tree", round="podium-v1", findings=(finding,))
    for path, covered in (("../tree/result_0.txt", True), ("../tree", True), ("..", False)):
        waiver = msgspec.convert({"waiver": [WAIVER | {"path": path}]}, WaiverFile).waiver[0]
        assert waiver.covers_finding(judged.findings[0], judged.path) is covered


def test_an_idle_waiver_is_named(tmp_path: Path) -> None:
    """A waiver that outlives its finding would accept the next one of its kind."""
    file = write_waivers(tmp_path, WAIVER)
    ended = run(EXAMPLES / "base" / "tree", "--accept", file)
    assert ended.return_value == 0
    assert ended.stderr == f"podium: {file}: the waiver of {RULE} in . accepts nothing; remove it\n"


def test_the_last_day_counts(tmp_path: Path) -> None:
    file = write_waivers(tmp_path, WAIVER | {"until": TODAY})
    assert read_waivers(file, TODAY)[0].rule == RULE
    with pytest.raises(RequestError, match="expired on 2026-11-28"):
        read_waivers(file, TODAY + datetime.timedelta(days=1))


def test_a_former_id_is_the_rules_present_one(tmp_path: Path) -> None:
    rule = next(each for each in load_rules().values() if each.former)
    file = write_waivers(tmp_path, WAIVER | {"rule": rule.former})
    assert read_waivers(file, TODAY)[0].rule == rule.id


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rule": "training.tarket"}, "there is no such rule; did you mean training.target?"),
        ({"rule": "zzzzzzzz"}, "there is no such rule; podium explain lists all rules"),
        ({"rule": "round.known"}, "was not judged, which no waiver can accept"),
        ({"rule": "tree.installed"}, "was not judged, which no waiver can accept"),
        ({"until": datetime.date(2020, 2, 29)}, "expired on 2020-02-29; remove it, or agree"),
        ({"until": "soon"}, "a waiver is [[waiver]] with rule, path, by, until (a date) and why"),
        ({"why": ""}, "matching regex"),
        ({"by": " "}, "matching regex"),
        ({"by": 3}, "Expected `str`, got `int`"),
        ({"whom": "us"}, "unknown field `whom`"),
    ],
)
def test_a_waiver_that_cannot_hold_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    file = write_waivers(tmp_path, WAIVER | changes)
    with pytest.raises(RequestError) as refused:
        read_waivers(file, TODAY)
    assert sentence in str(refused.value)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("missing", sorted(WAIVER))
def test_every_field_is_required(tmp_path: Path, missing: str) -> None:
    file = write_waivers(tmp_path, {key: WAIVER[key] for key in WAIVER if key != missing})
    with pytest.raises(RequestError, match=f"missing required field `{missing}`"):
        read_waivers(file, TODAY)


@pytest.mark.parametrize(
    "content", [b"", b"waiver = 1\n", b"[[waiver]\n", b"\xff\xfe", b"waiver = []\n", b"a.b = 1\n"]
)
def test_what_is_no_waiver_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "waivers.toml"
    file.write_bytes(content)
    with pytest.raises(RequestError):
        read_waivers(file, TODAY)
    with pytest.raises(RequestError):
        read_waivers(tmp_path / "absent.toml", TODAY)


def test_hyperparameter_files_have_no_waivers(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="--config has no waivers"):
        run("--config", "a.toml", "--accept", write_waivers(tmp_path, WAIVER))


OTHERS: list[Any] = [None, True, 3, 3.5, "text", "", " ", "2099-13-01", "2099-12-31", [], {}]


def has_schema_violations(document: Any) -> bool:
    return bool(list(json_document.check_document_schema("waivers.json", document)))


def can_decode_waivers(document: Any) -> bool:
    try:
        msgspec.json.decode(json.dumps(document), type=WaiverFile)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize("field", sorted(WAIVER))
def test_schema_and_reader_agree(field: str) -> None:
    """A file that one of them takes and the other does not would be judged by chance."""
    whole = WAIVER | {"until": "2099-01-31"}
    assert can_decode_waivers({"waiver": [whole]})
    assert not has_schema_violations({"waiver": [whole]})
    rest = {key: value for key, value in whole.items() if key != field}
    documents = [{"waiver": [rest]}, {"waiver": [whole | {"more": 1}]}]
    documents += [{"waiver": [whole | {field: other}]} for other in OTHERS]
    for document in documents:
        assert can_decode_waivers(document) is not has_schema_violations(document), document

"""Another package brings a kind of round: nothing of podium's names it, and a broken one costs one
warning.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from examples import EXAMPLES, result_of
from offered_packages import offer_package

from compliance.commands import CheckOptions, explain_rule, run_check_command
from compliance.judge import Judge
from compliance.recognition.result_places import ResultPlaces
from compliance.rules import load_rules
from compliance.verdict import Verdict
from suite import registry
from suite.console.listing import format_installed_parts
from suite.errors import RequestError
from suite.rounds.kind_checks import PLACES_ATTRIBUTES

FAKES = Path(__file__).parents[2] / "fakes"
FILES: Mapping[str, str] = {
    path.relative_to(FAKES / "podium_acme").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((FAKES / "podium_acme").rglob("*"))
    if path.suffix in (".py", ".toml")
}
POINTS = [(registry.ROUND_KIND_GROUP, "acme", "podium_acme:KIND")]
OTHERS = sorted(EXAMPLES.glob("base/*"))[::6]
"""Results of other kinds."""
RUN = "acme 2026\nitems 1200\nseconds 10.0\nrate 120.0\n"


@pytest.fixture
def acme(tmp_path: Path) -> Iterator[None]:
    """Offer the package."""
    with offer_package(tmp_path / "installed", "podium_acme", FILES, POINTS):
        yield


def write_run(folder: Path, text: str = RUN) -> Path:
    folder.mkdir(parents=True)
    (folder / "acme.log").write_text(text)
    return folder


def test_what_places_must_have_is_what_is_asked_of_them() -> None:
    """suite cannot import the protocol, and so names its members."""
    own = (name for name in vars(ResultPlaces) if not name.startswith("_"))
    assert {*ResultPlaces.__annotations__, *own} == set(PLACES_ATTRIBUTES)


@pytest.mark.usefixtures("acme")
def test_its_results_are_judged_by_its_round(tmp_path: Path) -> None:
    """A folder, its log, and several folders in one."""
    run = write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "runs" / "two")
    for path in (run, run / "acme.log", tmp_path / "runs"):
        judged = Judge().judge_path(str(path))
        assert (judged.round, judged.verdict) == ("acme-2026", Verdict.VALID), judged.findings
    assert len(judged.results) == 2
    assert run_check_command([str(run)], CheckOptions(round_name="acme-2026")) == 0


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("old", "new", "required"), [("rate 120.0", "rate 240.0", "120"), ("1200", "900", "90 100")]
)
def test_a_spoilt_value_breaks_its_rule(tmp_path: Path, old: str, new: str, required: str) -> None:
    run = write_run(tmp_path / "run", RUN.replace(old, new))
    judged = Judge().judge_path(str(run))
    assert judged.verdict is Verdict.BROKEN
    assert {each.rule for each in judged.findings} == {"acme.rate"}
    assert [each.required for each in judged.findings] == required.split()
    assert run_check_command([str(run)], CheckOptions()) == 1


@pytest.mark.usefixtures("acme")
def test_its_rule_is_explained_and_counts_for_its_rounds_alone() -> None:
    told = explain_rule("acme.rate")
    assert "for a run of Acme's" in told and "Rounds: acme-2026" in told
    assert "acme.rate" in load_rules() and "acme.rate" not in load_rules("training")
    assert "acme-2026" in format_installed_parts("text")


@pytest.mark.usefixtures("acme")
def test_a_later_round_of_it_is_unknown_and_not_broken(tmp_path: Path) -> None:
    judged = Judge().judge_path(str(write_run(tmp_path / "run", RUN.replace("2026", "2031"))))
    assert judged.verdict is Verdict.UNKNOWN
    assert "acme-2026" in judged.findings[0].required


def test_other_results_are_judged_as_before(tmp_path: Path) -> None:
    before = [result_of(folder) for folder in OTHERS]
    with offer_package(tmp_path, "podium_acme", FILES, POINTS):
        assert [result_of(folder) for folder in OTHERS] == before


BROKEN: Mapping[str, tuple[str, str, str]] = {
    "no record": ("__init__.py", 'name="acme"', 'title="acme"'),
    "another name": ("__init__.py", 'name="acme"', 'name="acne"'),
    "no layout": ("layout.py", "def build_acme_layout", "def build_layout"),
    "a module that is not there": ("layout.py", "podium_acme.document", "podium_acme.documents"),
    "a rule without advice": ("rules/run.py", "    Advice: repeat", "    Repeat"),
    "no TOML": ("rounds/acme-2026.toml", "[limits]", "[limits"),
    "a round without its limit": ("rounds/acme-2026.toml", "least_rate", "most_rate"),
    "a kind that nobody has": (
        "__init__.py",
        "    evidence=",
        '    shared_rules=("x",), evidence=',
    ),
    "a log that it cannot read": ("recognition.py", "if file.path.name != ACME_LOG", "if 1 / 0"),
    "places that it cannot find": ("recognition.py", "run = path if", "run = 1 / 0 if"),
    "rounds that are not there": ("__init__.py", "podium_acme.rounds", "podium_acme.tables"),
    "places without files": ("recognition.py", "    run_files:", "    runs:"),
    "a rule of podium's name": ("rules/run.py", '"acme.rate"', '"log.target"'),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_one_costs_one_warning(
    tmp_path: Path, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All else is judged, explained and listed as without it."""
    before = [result_of(folder) for folder in OTHERS[:4]]
    name, old, new = BROKEN[broken]
    assert old in FILES[name]
    files = {**FILES, name: FILES[name].replace(old, new)}
    run = write_run(tmp_path / "run")
    with offer_package(tmp_path / "installed", "podium_acme", files, POINTS):
        assert [result_of(folder) for folder in OTHERS[:4]] == before
        assert "training-v0.7, training-v1.0" in explain_rule("log.target")
        assert "training-v6.1" in format_installed_parts("text")
        judged = Judge().judge_path(str(run))
    told = capsys.readouterr().err
    assert told.count("podium: warning:") == 1 and "acme" in told, told
    if broken != "a rule of podium's name":
        assert judged.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return AcmeLayout(", "return 1 / 0 or AcmeLayout("),
        ("run = read_acme_run", "run = 1 / 0 or read_acme_run"),
        ("contents=[run]", "contents=[iter([run])]"),
        ("self.places =", "self.table ="),
    ],
)
def test_a_layout_that_breaks_leaves_its_results_unknown(
    tmp_path: Path, old: str, new: str
) -> None:
    """A traceback ended the judgement of all other paths of the command."""
    assert old in FILES["layout.py"]
    files = {**FILES, "layout.py": FILES["layout.py"].replace(old, new)}
    run = write_run(tmp_path / "run")
    with offer_package(tmp_path / "installed", "podium_acme", files, POINTS):
        judged = Judge().judge_path(str(run))
        assert judged.verdict is Verdict.UNKNOWN
        assert "kind of round 'acme' of package podium_acme" in judged.findings[0].found


def test_no_package_takes_the_place_of_a_kind_of_podium(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of its rounds were unknown without a word."""
    files = {**FILES, "__init__.py": FILES["__init__.py"].replace("acme", "training", 1)}
    points = [(registry.ROUND_KIND_GROUP, "training", "podium_acme:KIND")]
    with offer_package(tmp_path / "installed", "podium_acme", files, points):
        assert registry.load_round_kind("training-v6.1").rules == "compliance.kinds.training.rules"
    assert "'training' of podium_acme is left out: another one" in capsys.readouterr().err


def test_a_round_of_a_kind_that_is_not_installed_says_so(tmp_path: Path) -> None:
    """The kind may be an extra of that package."""
    files = {"training-v9.0.toml": '[round]\nkind = "acme"\ntitle = "t"\n'}
    points = [(registry.ROUND_GROUP, "later", "podium_later")]
    folder = tmp_path / "training_results_v9.0"
    folder.mkdir()
    obstacle = "training-v9.0 is not judged here: the kind of round 'acme' is not installed"
    with offer_package(tmp_path / "installed", "podium_later", files, points):
        assert "training-v9.0" not in registry.list_round_names()
        (folder / "result_0.txt").write_text((OTHERS[0] / "nothing").name)
        judged = Judge().judge_path(str(folder))
        assert judged.verdict is Verdict.UNKNOWN and obstacle in judged.findings[0].found
        with pytest.raises(RequestError, match="unknown round"):
            Judge("acme-2026")


def run_podium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "podium", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_commands_know_an_installed_one(tmp_path: Path) -> None:
    """With an entry point of a real distribution, and no change in podium."""
    described = tmp_path / "podium_acme-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: podium-acme\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[podium.round_kinds]\nacme = podium_acme:KIND\n")
    (tmp_path / "podium_acme").symlink_to(FAKES / "podium_acme")
    run = write_run(tmp_path / "run")
    wanted: Sequence[tuple[Sequence[str], str]] = [
        (("check", str(run)), "valid"),
        (("explain", "acme.rate"), "Rounds: acme-2026"),
        (("list",), "acme-2026"),
    ]
    for arguments, text in wanted:
        shown = run_podium(tmp_path, *arguments)
        assert (shown.returncode, shown.stderr) == (0, ""), shown.stderr
        assert text in shown.stdout

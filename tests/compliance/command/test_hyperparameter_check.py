"""Legality before the run: hyper-parameters in TOML and JSON, by podium-v1 and by the published
training rounds, at the line of the key.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compliance.cli import REPORT_FORMATS, check
from compliance.hyperparameter_check import find_json_line, find_toml_line
from compliance.kinds.training.round import load_training_round
from suite.errors import RequestError

LARS = {
    "opt_name": "lars",
    "global_batch_size": 4096,
    "lars_opt_weight_decay": 2e-4,
    "lars_opt_momentum": 0.9,
}
TABLE = (
    'workload = "resnet50"\nopt_name = "lars"\nglobal_batch_size = 4096\n\nlars_opt_weight_decay ='
    " %s\nlars_opt_momentum = 0.9\n"
)


def run(*words: object) -> Result:
    return CliRunner().invoke(check, [str(word) for word in words], standalone_mode=False)


def findings(*words: object) -> list[dict[str, Any]]:
    [result] = json.loads(run(*words, "--format", "json").stdout)["results"]
    found: list[dict[str, Any]] = result["findings"]
    return found


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(TABLE % "3e-4")
    return path


def test_an_illegal_value_is_found_at_its_line(toml: Path) -> None:
    [found] = findings("--config", toml)
    assert (found["rule"], found["found"], found["line"]) == (
        "training.legality",
        "lars_opt_weight_decay 0.0003",
        5,
    )
    assert found["required"] == "0.0001 times a power of two"
    assert run("--config", toml).return_value == 1


def test_a_legal_file_gives_exit_code_zero(toml: Path) -> None:
    toml.write_text(TABLE % "2e-4")
    assert run("--config", toml).return_value == 0


def test_a_byte_order_mark_changes_nothing(toml: Path) -> None:
    """Windows' editors write one; lines are counted as before."""
    toml.write_text(TABLE % "3e-4", "utf-8-sig")
    [found] = findings("--config", toml)
    assert (found["rule"], found["line"]) == ("training.legality", 5)
    toml.write_text(TABLE % "2e-4", "utf-16")
    [found] = findings("--config", toml)
    assert (found["rule"], found["found"]) == ("file.readable", "is UTF-16; save it as UTF-8")


def test_json_is_judged_as_toml_is(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"workload": "resnet50"} | LARS, indent=1))
    assert run("--config", path).return_value == 0
    path.write_text(
        json.dumps({"workload": "resnet50"} | LARS | {"lars_opt_momentum": 2.0}, indent=1)
    )
    [found] = findings("--config", path)
    assert (found["line"], found["found"]) == (6, "lars_opt_momentum 2.0")


def test_what_is_missing_has_no_line(toml: Path) -> None:
    toml.write_text('workload = "resnet50"\nopt_name = "lars"\n')
    found = findings("--config", toml)
    assert ("global_batch_size is missing", None, "a value for profile full") in [
        (each["found"], each["line"], each["required"]) for each in found
    ]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("c.toml", "workload = 'gnmt'\n[data]\nx = = 3\n", 3),
        ("c.json", '{\n"workload": "gnmt",\n"a": 1,\n"a": 2}', 4),
        ("c.json", '{\n"workload": "gnmt",\n}', 3),
        ("c.json", "[1]", None),
    ],
)
def test_a_file_that_cannot_be_read_is_shown_at_its_line(
    tmp_path: Path, name: str, text: str, line: int | None
) -> None:
    (tmp_path / name).write_text(text)
    [found] = findings("--config", tmp_path / name)
    assert (found["rule"], found["line"]) == ("file.readable", line)


def test_the_option_goes_before_the_files_own_words(toml: Path) -> None:
    toml.write_text('workload = "resnet50"\nround = "training-v0.6"\n')
    assert "Verdict" not in run("--config", toml).stdout
    assert findings("--config", toml, "--round", "podium-v1")[0]["rule"] == "training.legality"
    assert (
        json.loads(run("--config", toml, "--format", "json").stdout)["results"][0]["round"]
        == "training-v0.6"
    )


@pytest.mark.parametrize(
    ("name", "text", "words", "message"),
    [
        ("c.toml", "opt_nam = 'lars'\n", ("--workload", "resnet50"), "did you mean 'opt_name'"),
        ("c.toml", "opt_name = 'lars'\n", (), "c.toml: the file names no workload"),
        ("c.toml", "opt_name = 'lars'\nworkload = 3\n", (), "c.toml:2: the file names no"),
        (
            "c.toml",
            "global_batch_size = 'many'\n",
            ("--workload", "resnet50"),
            "is not of type int",
        ),
        (
            "c.toml",
            "\nworkload = 'resnet51'\n",
            (),
            "c.toml:2: unknown workload 'resnet51'; did you mean 'resnet50'",
        ),
        ("c.toml", "workload = 'gnmt'\nround = 'v9'\n", (), "c.toml:2: unknown round 'v9'"),
        (
            "c.toml",
            "workload = 'gnmt'\nround = 'inference-v0.5'\n",
            (),
            "c.toml:2: round inference-v0.5 has no hyperparameters",
        ),
        (
            "c.toml",
            "workload = 'resnet50'\n",
            ("--round", "inference-v0.5"),
            "has no hyperparameters",
        ),
        ("c.toml", "workload = 'resnte'\n", ("--round", "training-v0.7"), "did you mean 'resnet'"),
        (
            "c.toml",
            "workload = 'resnet50'\n",
            ("--round", "training-v0.8"),
            "known: endpoints, endpoints-v1.0, inference-v0.5, inference-v0.7",
        ),
    ],
)
def test_a_file_that_asks_nothing_sensible_is_a_wrong_request(
    tmp_path: Path, name: str, text: str, words: tuple[str, ...], message: str
) -> None:
    """Exit code 2, told in one sentence: a misspelt key must not pass for a legal one."""
    (tmp_path / name).write_text(text)
    result = run("--config", tmp_path / name, *words)
    assert isinstance(result.exception, RequestError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nowhere.toml", None, "No such file"),
        (".", None, "not a plain file"),
        ("c.toml", "\udcff\udcfe\0", "is UTF-16"),
        ("c.toml", "opt_name = \n", "line 1"),
        ("c.json", '{"workload": "resnet50", "opt_name": NaN}', "not a finite number"),
        (
            "c.json",
            '{"workload": "resnet50", "opt_name": "sgd", "opt_name": "lars"}',
            "occurs twice",
        ),
        ("c.json", "[1]", "not an object"),
        ("c.json", "[" * 60_000, "too deep"),
        ("c.json", "[" * 100_000, "larger than"),
        ("c.json", "", "line 1"),
    ],
)
@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_a_file_that_cannot_be_read_is_broken_in_every_format(
    tmp_path: Path, name: str, text: str | None, message: str, form: str
) -> None:
    """A program that asked for a format gets it, with a finding, and exit code 1."""
    if text is not None:
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("--config", tmp_path / name, "--workload", "resnet50", "--format", form)
    assert (result.return_value, result.exception) == (1, None)
    assert "file.readable" in result.stdout
    assert message in result.stdout


@pytest.mark.parametrize("name", ["training-v0.6", "training-v0.7"])
def test_every_closed_table_of_a_published_round_can_be_asked(tmp_path: Path, name: str) -> None:
    """Each benchmark of the round; a file without hyper-parameters misses what the closed division
    asks for.
    """
    path = tmp_path / "c.toml"
    path.write_text("")
    round = load_training_round(name)
    for benchmark in round.benchmarks:
        found = findings("--config", path, "--round", name, "--workload", benchmark)
        assert [each["found"] for each in found] == [
            f"{key} is missing" for key in round.list_closed_required(benchmark)
        ]
        assert all(each["source"] for each in found)


def test_a_key_that_a_published_round_does_not_know_is_told(tmp_path: Path) -> None:
    """Published tables list what may be changed; whether another key is misspelt cannot be
    known.
    """
    path = tmp_path / "c.toml"
    path.write_text("global_batch_siz = 4096\n")
    told = [
        each
        for each in findings("--config", path, "--round", "training-v0.7", "--workload", "resnet")
        if each["severity"] == "warning"
    ]
    assert ["did you mean 'global_batch_size'" in each["found"] for each in told] == [True]
    assert told[0]["line"] == 1


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("a = 1\nb = 2\n", "b", 2),
        ("a = 1\n[t]\nb = 2\nc.d = 3\n", "t.b", 3),
        ("a = 1\n[t]\nb = 2\nc.d = 3\n", "t.c.d", 4),
        ("b = 1\n[t]\nb = 2\n", "b", 1),
        ('"b" = 1\n', "b", 1),
        ("ab = 1\n", "b", None),
        ("# b = 1\n", "b", None),
    ],
)
def test_a_key_of_toml_is_found_in_its_table(text: str, key: str, line: int | None) -> None:
    assert find_toml_line(text, key) == line


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [('{\n"a": 1,\n"b" : 2}', "b", 3), ('{"t": {\n"b": 1}}', "t.b", 2), ("{}", "b", None)],
)
def test_a_key_of_json_is_found(text: str, key: str, line: int | None) -> None:
    assert find_json_line(text, key) == line


@pytest.mark.slow
def test_no_framework_is_imported_to_judge_a_file(toml: Path) -> None:
    """Somebody who only asks whether a learning rate is legal has the light core alone, and waits
    for nothing.
    """
    heavy = "{'torch', 'numpy', 'jsonschema', 'rich', 'tensorflow', 'workloads.resnet50.model'}"
    code = (
        f"import sys; from compliance.cli import check; check(['--config', {str(toml)!r}],"
        f" standalone_mode=False); assert not {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_each_file_has_its_own_result(toml: Path, tmp_path: Path) -> None:
    """A commit hook hands over all files at once: none of them may be dropped."""
    other = tmp_path / "other.toml"
    other.write_text(TABLE % "2e-4")
    results = json.loads(run("--config", other, toml, "--format", "json").stdout)["results"]
    assert [(result["path"], result["verdict"]) for result in results] == [
        (str(other), "valid"),
        (str(toml), "broken"),
    ]


def test_a_device_or_a_flood_is_no_file_of_hyper_parameters(tmp_path: Path) -> None:
    """What has no end is not read to its end."""
    flood = tmp_path / "flood.toml"
    flood.write_text("# " + "x" * (1 << 20))
    for path, word in ((Path("/dev/zero"), "not a plain file"), (flood, "bytes")):
        result = CliRunner().invoke(
            check, ["--config", str(path)], standalone_mode=False, catch_exceptions=False
        )
        assert (result.return_value, word in result.stdout) == (1, True)


@pytest.mark.parametrize("given", [None, "training-v5.1"])
def test_a_file_that_cannot_be_read_shows_no_round(tmp_path: Path, given: str | None) -> None:
    """Nor is a file that is missing to be written in another form."""
    options = ("--round", given) if given else ()
    told = run("--config", tmp_path / "gone.toml", *options).stdout
    assert f"gone.toml: broken ({given or 'unknown'}; 1 error)" in told
    assert "podium-v1" not in told and "check permissions and links" in told

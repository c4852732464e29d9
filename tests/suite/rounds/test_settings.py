"""What a user sets is known, typed, and wins over the round."""

from pathlib import Path

import pytest

from suite import registry
from suite.errors import RequestError
from suite.rounds import Profile, Setting, SettingKind
from suite.rounds.settings import (
    collect_workload_settings,
    convert_setting_value,
    read_chosen_settings,
    read_settings_file,
    resolve_settings,
    select_recipe,
)

KNOWN = {
    "lr": Setting(kind=SettingKind.FLOAT, help="h"),
    "workers": Setting(kind=SettingKind.INT, help="h", automatic=True, minimum=0),
    "data.workers": Setting(kind=SettingKind.INT, help="h"),
    "data.shuffle_labels": Setting(kind=SettingKind.BOOL, help="h"),
    "opt_name": Setting(kind=SettingKind.TEXT, help="h", choices=("sgd", "lars")),
    "sizes": Setting(kind=SettingKind.NUMBERS, help="h"),
    "tag": Setting(kind=SettingKind.TEXT, help="h"),
    "pixels": Setting(kind=SettingKind.TEXT, help="h", choices=("300", "1200")),
}


def test_assignments_are_typed() -> None:
    """Values are TOML values; a whole number does for a float, a bare word is text."""
    given = [
        "lr=1",
        "data.workers=3",
        "data.shuffle_labels=true",
        "opt_name=lars",
        "sizes=[1, 2.5]",
        "tag=7",
        "pixels=1200",
    ]
    assert read_chosen_settings(KNOWN, None, given) == {
        "lr": 1.0,
        "data.workers": 3,
        "data.shuffle_labels": True,
        "opt_name": "lars",
        "sizes": (1, 2.5),
        "tag": "7",
        "pixels": "1200",
    }


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("data.worker=3", "did you mean 'data.workers'"),
        ("data.workers", "write KEY=VALUE"),
        ("data.workers=many", "'many' is not of type int"),
        ("data.workers=true", "True is not of type int"),
        ("data.workers=99999999999999999999", "99999999999999999999 is too large"),
        ("data.workers=-99999999999999999999", "-99999999999999999999 is too small"),
        (f"data.workers={'9' * 5000}", f"{'9' * 40}... is too large"),
        ("data.shuffle_labels=1", "1 is not of type bool"),
        ("pixels=1201", "unknown value of pixels '1201'; did you mean '1200'"),
        ("opt_name=lers", "did you mean 'lars'"),
        ("sizes=[true]", "is not of type numbers"),
        ("lr=nan", "is not finite"),
        ("lr=-inf", "is not finite"),
        ("sizes=[1, inf]", "is not finite"),
    ],
)
def test_a_wrong_assignment_is_said_plainly(assignment: str, complaint: str) -> None:
    """A setting that is silently ignored would change what is measured."""
    with pytest.raises(RequestError, match=complaint):
        read_chosen_settings(KNOWN, None, [assignment])


def test_a_number_may_be_left_to_the_machine_where_the_setting_allows_it() -> None:
    """`auto` is a value of that setting alone, and a number stays one."""
    assert read_chosen_settings(KNOWN, None, ["workers=auto"]) == {"workers": "auto"}
    assert read_chosen_settings(KNOWN, None, ["workers=3"]) == {"workers": 3}
    for refused in ("workers=automatic", "data.workers=auto", "lr=auto"):
        with pytest.raises(RequestError, match="is not of type"):
            read_chosen_settings(KNOWN, None, [refused])


def test_config_file_is_flattened_and_assignments_win(tmp_path: Path) -> None:
    """--set is typed last, so it counts."""
    config = tmp_path / "c.toml"
    config.write_text("lr = 0.5\n[data]\nworkers = 2\n")
    assert read_chosen_settings(KNOWN, config, ["lr=0.1"]) == {"lr": 0.1, "data.workers": 2}


@pytest.mark.parametrize("content", [b"lr = ", b"\xff\xfe", None])
def test_unreadable_config_is_a_request_error(tmp_path: Path, content: bytes | None) -> None:
    """Broken TOML, binary garbage and a missing file are told, not traced back."""
    config = tmp_path / "c.toml"
    if content is not None:
        config.write_bytes(content)
    with pytest.raises(RequestError, match=r"--config .*c\.toml"):
        read_chosen_settings(KNOWN, config, [])


def test_a_config_file_in_utf_16_is_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("", "utf-16")
    with pytest.raises(RequestError, match=f"^--config {path}: is UTF-16; save it as UTF-8$"):
        read_settings_file({}, path)


def test_settle_fills_in_from_the_round() -> None:
    """The user's choice goes before the profile's row, that before the setting's default."""
    round = registry.load_round("podium-v1")
    settled = resolve_settings(round, "resnet50", Profile.SMOKE, {"global_batch_size": 64})
    assert settled["global_batch_size"] == 64
    assert settled["data.shuffle_labels"] is False
    assert settled.keys() <= collect_workload_settings(round, round.benchmark("resnet50")).keys()


def test_recipe_of_a_batch_size() -> None:
    """A reference convergence point applies to its own batch size alone."""
    rows = ({"global_batch_size": 4096, "lr": 10.0}, {"global_batch_size": 8192, "lr": 17.0})
    assert select_recipe(rows, 8192)["lr"] == 17.0
    assert select_recipe(rows, 5000) == {}


def test_list_that_is_no_list_of_numbers_is_refused() -> None:
    """Text inside a list of numbers would reach the optimizer."""
    with pytest.raises(RequestError, match="is not of type numbers"):
        convert_setting_value(KNOWN["sizes"], "sizes", ["a"])


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000,
        "lr = " + "9" * 5000,
        "lr = 0x" + "f" * 5000,
        ".".join("a" * 200) + " = 1",
        "\0",
        "tag = 2020-01-01",
    ],
)
def test_a_config_file_of_any_bytes_is_one_sentence(tmp_path: Path, text: str) -> None:
    """Nesting, digits and numbers beyond 64 bits went through the parser as tracebacks."""
    config = tmp_path / "c.toml"
    config.write_text(text)
    with pytest.raises(RequestError) as caught:
        read_chosen_settings(KNOWN, config, [])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["9" * 5000, "0x" + "f" * 500, "[" * 5000])
def test_an_assignment_of_any_text_is_one_sentence(value: str) -> None:
    """The same parser reads --set."""
    with pytest.raises(RequestError):
        read_chosen_settings(KNOWN, None, [f"lr={value}"])


def test_a_setting_may_stand_for_all_names_that_begin_so(tmp_path: Path) -> None:
    known = {**KNOWN, "header.*": Setting(kind=SettingKind.TEXT, help="h")}
    path = tmp_path / "chosen.toml"
    path.write_text('[header]\nX-Key = "file"\n')
    chosen = read_chosen_settings(known, path, ["header.X-Other=3"])
    assert chosen == {"header.X-Key": "file", "header.X-Other": "3"}
    for key in ("header.", "header", "headers.X"):
        with pytest.raises(RequestError, match="unknown setting"):
            read_chosen_settings(known, None, [f"{key}=3"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# mlperf user.conf\n*.Server.target_qps = 100.0\n",
            r"no TOML; a LoadGen user.conf\? write server.target_qps = 100.0$",
        ),
        (
            "*.Offline.min_duration = 600000  # ms\n",
            "a LoadGen user.conf\\? write offline.min_duration = 600000$",
        ),
        ("server:\n  target_qps: 100\n", "no TOML, but YAML; write server.target_qps = 100.0,"),
        ("# mine\nsut.batch_size: 3\n", r"c\.conf: no TOML, but YAML; "),
        ("---\n- a\n", r"c\.conf: no TOML, but YAML; "),
        ('{\n "server": {"target_qps": 100}}\n', r"c\.conf: no TOML, but JSON; "),
        ("<html><title>404</title>", r"c\.conf is a web page; TOML is wanted$"),
        ("version https://git-lfs.github.com/spec/v1\n", r"c\.conf is a Git LFS pointer of "),
        ("server.target_qps = : 3\n", r"c\.conf: Invalid value \(at line 1, "),
        ("[server\n", r"c\.conf: Expected '\]' "),
    ],
)
def test_a_file_of_settings_in_another_form_is_named(text: str, said: str, tmp_path: Path) -> None:
    """ "Invalid statement (at line 2, column 1)" said nothing to who brought a user.conf."""
    path = tmp_path / "c.conf"
    path.write_text(text)
    with pytest.raises(RequestError, match=f"--config .*{said}"):
        read_settings_file({}, path)

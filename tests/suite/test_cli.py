"""The command line: light, and every failure one sentence with its documented exit code."""

import json
import subprocess
import sys

import click
import pytest

from suite import cli, registry
from suite.errors import JudgedError, MissingError, RequestError, unknown


def podium(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return subprocess.run([sys.executable, "-m", "suite.cli", *arguments], capture_output=True, text=True, check=False)


def test_help_lists_every_command_without_loading_one() -> None:
    """`podium --help` must answer where no framework is installed."""
    result = podium("--help")
    assert result.returncode == 0
    assert all(name in result.stdout for name in registry.points(registry.COMMANDS))


@pytest.mark.parametrize("command", sorted(registry.points(registry.COMMANDS)))
def test_help_of_a_command_has_an_example_and_loads_no_framework(command: str) -> None:
    """Start-up would cost seconds, and the light core would break."""
    heavy = "('torch', 'numpy', 'jsonschema', 'mlperf_loadgen', 'rich')"
    code = f"""
import sys
from suite.cli import main
sys.argv = ["podium", "{command}", "--help"]
try:
    main()
finally:
    found = [name for name in {heavy} if name in sys.modules]
    assert not found, found
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"podium {command}" in result.stdout.split("Example", 1)[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("chek",), "did you mean 'check'"),
        (("train", "resnet51"), "did you mean 'resnet50'"),
        (("train", "resnet50", "--sed", "1"), "did you mean '--seed'"),
        (("train", "resnet50", "--set", "data.worker=1"), "did you mean 'data.workers'"),
        (("train", "resnet50", "--engine", "tortch"), "did you mean 'torch'"),
        (("train", "resnet50", "--data", "nowhere"), "no such folder"),
        (("infer", "resnet50", "--scenario", "ofline"), "did you mean 'offline'"),
    ],
)
def test_a_wrong_request_is_exit_2_with_the_nearest_name(arguments: tuple[str, ...], sentence: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user learns what was meant, without a traceback."""
    monkeypatch.chdir(str(tmp_path))
    result = podium(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_list_as_json() -> None:
    """A program may read it."""
    found = json.loads(podium("list", "--format", "json").stdout)
    assert "resnet50" in found["workloads"] and "torch" in found["engines"] and "podium-v1" in found["rounds"]


@pytest.mark.parametrize(("error", "code"), [(JudgedError("j"), 1), (RequestError("r"), 2), (MissingError("m"), 3), (KeyboardInterrupt(), 130)])
def test_errors_become_their_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts rely on them."""

    @click.command()
    def failing() -> None:
        raise error

    sys.argv = ["podium"]
    with pytest.raises(SystemExit) as exit:
        cli.main(failing)
    assert exit.value.code == code
    assert "podium: " in capsys.readouterr().err


def test_a_command_whose_import_fails_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is one clear sentence, never a traceback."""
    from importlib.metadata import EntryPoint

    point = EntryPoint(name="broken", value="not_installed_anywhere:thing", group=registry.COMMANDS)
    monkeypatch.setattr(registry, "points", lambda _group: {"broken": point})
    with pytest.raises(MissingError, match=r"needs not_installed_anywhere: install podium-suite\[run\]"):
        registry.resolve(registry.COMMANDS, "command", "broken")


def test_unknown_without_a_near_name_lists_what_is_known() -> None:
    """A far-off name gets the whole list."""
    assert "known: a, b" in str(unknown("thing", "zzzz", ["b", "a"]))

"""Defaults of options in `[tool.podium]`: which count, and how a wrong one is refused."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from suite.cli import group
from suite.console.project_defaults import is_given
from suite.errors import RequestError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_project(text: str) -> None:
    Path("pyproject.toml").write_text(text, encoding="utf-8")


def run(*words: str) -> Result:
    return CliRunner().invoke(group, list(words), catch_exceptions=False, standalone_mode=False)


def test_a_table_gives_a_command_its_defaults() -> None:
    """`--format`, `--org` and others were typed each time."""
    write_project('[project]\nname = "x"\n\n[tool.podium.list]\nformat = "json"\n')
    result = run("list")
    assert result.stdout.startswith("{")
    assert result.stderr == 'podium: pyproject.toml sets defaults: format = "json"\n'
    assert not run("list", "--format", "text").stdout.startswith("{"), "the command line counts"
    assert run("score", "--help").stderr == "", "another command has no table"


@pytest.mark.parametrize("header", ["[ tool.podium.list ]", "  [tool . podium . list]"])
def test_a_table_may_stand_as_toml_allows(header: str) -> None:
    """A space in its header, and its defaults were left out without a word."""
    write_project(f'{header}\nformat = "json"\n')
    assert run("list").stdout.startswith("{")


def test_flags_numbers_and_lists_are_taken() -> None:
    write_project(
        "[tool.podium.train]\nseed = 7\nresume = true\nset = ['data.shuffle_labels=true', 'a=1']\n"
    )
    command = group.get_command(click.Context(group), "train")
    assert command is not None
    with click.Context(group) as context:
        group.resolve_command(context, ["train", "gnmt"])
        inner = command.make_context("train", ["gnmt", "--runs", "2"], parent=context)
    values = inner.params
    assert (values["seed"], values["resume"]) == (7, True)
    assert values["assignments"] == ("data.shuffle_labels=true", "a=1")
    with inner:
        assert is_given("runs") and not is_given("seed") and not is_given("profile")


def test_help_shows_the_default_that_counts() -> None:
    write_project('[tool.podium.train]\nprofile = "full"\n')
    assert "[default: full]" in " ".join(run("train", "--help").stdout.split())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tool.podium.list]\nfromat = 'json'\n", "unknown key of [tool.podium.list] 'fromat';"),
        ("[tool.podium.list]\nfromat = 'json'\n", "did you mean 'format'?"),
        ("[tool.podium.lists]\nformat = 'json'\n", "unknown command in [tool.podium] 'lists';"),
        ("[tool.podium]\nformat = 'json'\n", "format stands in [tool.podium]; put it into"),
        (
            "[tool.podium.list]\nformat = ['json']\n",
            "format in [tool.podium.list] must be one text",
        ),
        ("[tool.podium.list]\nformat = true\n", "must be one text or number"),
        ("[tool.podium.list]\nformat = json\n", "Invalid value"),
    ],
)
def test_what_cannot_be_used_is_a_wrong_request(text: str, sentence: str) -> None:
    """A misspelt key would go unnoticed otherwise; exit code 2."""
    write_project(text)
    with pytest.raises(RequestError) as raised:
        run("list")
    assert sentence in str(raised.value) and str(raised.value).startswith("pyproject.toml: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("resume = 'yes'", "resume in [tool.podium.train] must be true or false"),
        ("set = 'a=1'", "set in [tool.podium.train] must be a list of texts or numbers"),
        ("engine = 'torch'", "unknown key of [tool.podium.train] 'engine'"),
        ("help = true", "unknown key of [tool.podium.train] 'help'"),
    ],
)
def test_types_and_hidden_options_are_told_apart(table: str, sentence: str) -> None:
    write_project(f"[tool.podium.train]\n{table}\n")
    with pytest.raises(RequestError) as raised:
        run("train", "gnmt")
    assert sentence in str(raised.value)


def test_a_file_without_such_a_table_is_left_alone() -> None:
    """Other tools' files may be broken: podium has no part in them."""
    write_project("[tool.ruff\n# podium\n")
    result = run("list", "--format", "json")
    assert result.stdout.startswith("{") and result.stderr == ""

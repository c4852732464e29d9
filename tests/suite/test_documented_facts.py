"""What the pages state is what the program has: targets, versions, tables, messages, paths, and the
output of commands.
"""

import ast
import errno
import importlib.util
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import click
import pytest

from suite import __version__, registry
from suite.cli import group
from suite.errors import JudgedError, MissingError, RefusedError, RequestError, TemporaryError
from suite.process.signals import INTERRUPT_BY_SIGNAL
from suite.rounds import Profile
from suite.rounds.quality import format_target_value

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = ROOT / "README.md"
FILES: Final = ROOT / "docs/reference/files.md"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: Final = PROJECT["tool"]["mypy"]["packages"]
ROW: Final = re.compile(r"^\| (.*) \|$", re.MULTILINE)
LEAST_CHARACTERS: Final = 18
"""Of a quoted message, as many are enough to know it as the program's."""
SHORTEST_MESSAGE: Final = 10
MAX_PAGE_WORDS: Final = 1500
MAX_README_WORDS: Final = 900


def read_rows(page: Path) -> list[list[str]]:
    """Return the cells of all rows of a page's tables."""
    return [row.split(" | ") for row in ROW.findall(page.read_text("utf-8"))]


@cache
def load_outputs() -> ModuleType:
    """Load the script that runs the commands of the pages."""
    spec = importlib.util.spec_from_file_location("docs_outputs", ROOT / "docs" / "outputs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_outputs"] = module
    spec.loader.exec_module(module)
    return module


def list_outputs() -> list[tuple[str, str, str]]:
    """Return page, command and output of each block with a command that was run."""
    script = load_outputs()
    return [
        (str(page.relative_to(ROOT)), block["arguments"], block["output"])
        for page in script.list_pages()
        for block in script.BLOCK.finditer(page.read_text("utf-8"))
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "arguments", "output"), list_outputs())
def test_a_page_shows_what_its_command_prints(page: str, arguments: str, output: str) -> None:
    """Write all of them anew by `python docs/outputs.py`."""
    script = load_outputs()
    printed = script.run_podium(arguments.split())
    assert script.mask_seconds(printed) == script.mask_seconds(output), page


def test_the_readme_and_the_guides_show_output() -> None:
    """A changed pattern leaves no test without blocks."""
    assert {page for page, _, _ in list_outputs()} >= {
        "README.md",
        "docs/guides/reading-results.md",
        "docs/guides/judge-in-ci.md",
    }


def test_targets_are_those_of_the_rows() -> None:
    """Those of the default profile, and of `full` beside it, as `podium list` prints them."""
    round = registry.load_round()
    told = {
        match[1]: cells[1:]
        for cells in read_rows(README)
        if (match := re.search(r"\(workloads/(\w+)/README\.md\)", cells[0]))
    }
    wanted = {
        name: [
            ", ".join(
                f"{metric} {format_target_value(metric, f'{value:g}', row.lower_is_better)}"
                for metric, value in row.training[profile].target.items()
            )
            for profile in (Profile.SMOKE, Profile.FULL)
        ]
        for name, row in round.benchmarks.items()
        if name in PROJECT["project"]["entry-points"]["podium.workloads"]
    }
    assert told == wanted


def test_every_workload_has_its_data_described() -> None:
    page = (ROOT / "docs/guides/your-data.md").read_text("utf-8").partition("## 2")[0]
    assert all(
        f"`{name}`" in page for name in PROJECT["project"]["entry-points"]["podium.workloads"]
    )


def test_versions_are_equal() -> None:
    """Of the package, its citation, the README and the newest entry of the changelog."""
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    changes = re.findall(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation and citation[1] == __version__
    assert changes[0] == __version__
    assert f"Version {__version__}," in README.read_text("utf-8")


def test_benchmark_folders_are_those_of_the_rows() -> None:
    round = registry.load_round()
    told = {tuple(cells) for cells in read_rows(FILES) if len(cells) == 3}
    for name in PROJECT["project"]["entry-points"]["podium.workloads"]:
        row = round.benchmark(name)
        assert (f"`{name}`", f"`{row.training_name}`", f"`{row.inference_name}`") in told


def test_formats_are_those_of_the_commands() -> None:
    told = {
        cells[0].strip("`"): cells[1]
        for cells in read_rows(FILES)
        if len(cells) == 2 and cells[0].startswith("`podium ")
    }
    context = click.Context(group)
    commands: dict[str, click.Command] = {}
    for name in PROJECT["project"]["entry-points"]["podium.commands"]:
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            commands |= {f"{name} {each}": below for each, below in command.commands.items()}
        if command is not None:
            commands[name] = command
    wanted = {
        f"podium {name}": ", ".join(f"`{each}`" for each in parameter.type.choices)
        for name, command in commands.items()
        for parameter in command.params
        if "--format" in parameter.opts and isinstance(parameter.type, click.Choice)
    }
    assert {name: told.get(name) for name in wanted} == wanted
    assert told.keys() == wanted.keys()


def test_every_schema_is_listed_with_its_title() -> None:
    told = {cells[0]: cells[1] for cells in read_rows(FILES) if len(cells) == 2}
    schemas = sorted((ROOT / "compliance/schemas").glob("*.json"))
    assert schemas
    for schema in schemas:
        title = json.loads(schema.read_text("utf-8"))["title"]
        cell = told[f"[{schema.name}](../../compliance/schemas/{schema.name})"]
        assert cell.casefold() == title.casefold()


def test_every_exit_code_is_listed() -> None:
    told = {
        int(code)
        for cells in read_rows(ROOT / "docs/reference/exit-codes.md")
        for code in re.findall(r"^\d+$|\d+(?=,)|(?<=, )\d+", cells[0])
    }
    kinds = (JudgedError, RequestError, MissingError, RefusedError, TemporaryError)
    raised = {kind.exit_code for kind in kinds}
    assert told == {0} | raised | {each.exit_code for each in INTERRUPT_BY_SIGNAL.values()}


def test_every_extra_is_listed() -> None:
    told = {
        extra
        for cells in read_rows(ROOT / "docs/guides/install.md")
        for extra in re.findall(r"`([\w-]+)`", cells[0])
    }
    assert PROJECT["project"]["optional-dependencies"].keys() <= told


def iterate_sources() -> Iterator[Path]:
    """Yield the Python files of the packages."""
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def test_every_variable_of_podium_is_listed() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text("utf-8")
    read = {
        name
        for source in iterate_sources()
        for name in re.findall(r'"(PODIUM_[A-Z_]+)"', source.read_text("utf-8"))
    }
    assert read >= {"PODIUM_CACHE", "PODIUM_POWER_ROOT"}
    assert all(f"`{name}`" in page for name in read)


@cache
def read_own_words() -> str:
    """Return all texts in the source, and the system's word for a full disk; what a text fills in
    stands as a line end.
    """
    texts = [os.strerror(errno.ENOSPC)]
    for source in iterate_sources():
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts += [
                    each.value
                    for each in node.values
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def is_message(text: str) -> bool:
    """Return whether a part of a text stands in the source: half of it, or a few words."""
    length = min(LEAST_CHARACTERS, len(text) // 2)
    return any(
        text[start : start + length] in read_own_words() for start in range(len(text) - length + 1)
    )


def list_messages() -> list[str]:
    """Return the messages that the page on troubleshooting quotes."""
    return [
        text
        for cells in read_rows(ROOT / "docs/guides/troubleshooting.md")
        for text in re.findall(r"`([^`]*)`", cells[0])
        if len(text) > SHORTEST_MESSAGE and "*" not in text
    ]


@pytest.mark.parametrize("text", list_messages())
def test_a_quoted_message_is_the_programs(text: str) -> None:
    """A reader searches the page for the words that podium printed."""
    assert is_message(text.replace("...", "").strip())


def test_other_words_are_no_message() -> None:
    assert len(list_messages()) > 12
    assert not is_message("the computer is too busy to measure anything of use")


def test_paths_of_pages_in_the_source_exist() -> None:
    """A comment, a message or a workflow that names a page leads to it."""
    places = [
        *iterate_sources(),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
        *(ROOT / ".github").rglob("*.yml"),
        ROOT / ".pre-commit-hooks.yaml",
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
    ]
    named = {
        (path, place)
        for place in places
        if "examples" not in place.relative_to(ROOT).parts
        for path in re.findall(
            r"(?<![\w/])(?<!\w, )docs/[\w/-]+\.md\b", place.read_text("utf-8", "replace")
        )
    }
    assert named
    assert not [
        f"{place.relative_to(ROOT)}: {path}" for path, place in named if not (ROOT / path).exists()
    ]


PAGES: Final = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_subject(page: Path) -> None:
    """A page that grows past its limit has two."""
    assert len(page.read_text("utf-8").split()) <= MAX_PAGE_WORDS


def test_the_readme_is_read_at_once() -> None:
    assert 700 <= len(README.read_text("utf-8").split()) <= MAX_README_WORDS

"""What submitters use in their own repositories: the reusable workflow and the hooks parse, and run
commands that there are.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from examples import EXAMPLES

from compliance.cli import check
from suite.cli import group

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "judge.yml"
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
GUIDE = ROOT / "docs" / "guides" / "judge-in-ci.md"
REFERENCE = ROOT / "docs" / "reference" / "judge.md"
DOCS = [ROOT / "README.md", GUIDE, REFERENCE, REFERENCE.with_name("scores.md")]
BASE = EXAMPLES / "base"


def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return found


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workflow()["jobs"]["judge"]["steps"]
    return found


def understood(words: list[str]) -> click.Context:
    """What the command line makes of words behind `podium`; a usage error fails the test."""
    command = group.get_command(click.Context(group), words[0])
    assert command is not None, words
    return command.make_context(words[0], words[1:])


def test_the_workflow_can_be_called_with_what_the_page_names() -> None:
    call = workflow()[True]["workflow_call"]  # YAML 1.1 reads `on` as a truth value
    assert set(call["inputs"]) == {"accept", "path", "round", "version"}
    assert all(
        given["type"] == "string"
        and given["description"]
        and ("default" in given or given["required"])
        for given in call["inputs"].values()
    )


def test_no_input_is_put_into_a_shell_as_text() -> None:
    """`${{ }}` in a script is how a pull request takes over a runner."""
    assert all("${{" not in step["run"] for step in steps() if "run" in step)
    assert workflow()["jobs"]["judge"]["permissions"] == {"contents": "read"}


@pytest.mark.parametrize(
    ("paths", "round_name", "wanted"),
    [
        ("results", "", ["results", "--format", "github"]),
        ("a b\nc\n\n", "podium-v1", ["a b", "c", "--round", "podium-v1", "--format", "github"]),
        ("$(touch x); *", "", ["$(touch x); *", "--format", "github"]),
    ],
)
def test_the_workflows_script_asks_for_each_path(
    tmp_path: Path, paths: str, round_name: str, wanted: list[str]
) -> None:
    """One path a line, blanks and dollar signs in it are its own."""
    (tmp_path / "podium").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "podium").chmod(0o755)
    script = next(step["run"] for step in steps() if "podium check" in step.get("run", ""))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PATHS": paths, "ROUND": round_name}
    ended = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert ended.stdout.splitlines() == ["check", *wanted]
    understood(ended.stdout.splitlines())


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("0.2.0", "podium-suite==0.2.0"),
        ("git+https://example.org/podium@v1", "podium-suite @ git+https://example.org/podium@v1"),
    ],
)
def test_the_workflow_installs_what_is_asked_for(tmp_path: Path, version: str, wanted: str) -> None:
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    script = next(step["run"] for step in steps() if "pip install" in step.get("run", ""))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VERSION": version}
    ended = subprocess.run(
        ["bash", "-e", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == wanted


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_is_a_command_that_there_is(hook: dict[str, Any]) -> None:
    assert {"id", "name", "description", "entry", "language", "files"} <= set(hook)
    assert hook["language"] == "python"
    words = shlex.split(hook["entry"])
    assert words[0] == "podium"
    files = [] if hook.get("pass_filenames") is False else [str(BASE / "log" / "result_0.txt")]
    understood([*words[1:], *hook.get("args", []), *files])


@pytest.mark.parametrize(
    ("hook", "file", "wanted"),
    [
        ("podium-check", "open/acme/results/box/resnet/result_3.txt", True),
        (
            "podium-check",
            "closed/acme/results/box/ssd/Server/performance/run_1/mlperf_log_summary.txt",
            True,
        ),
        ("podium-check", "closed/acme/systems/box.json", True),
        ("podium-check", "README.txt", False),
        ("podium-check", "results/result_.txt", False),
        ("podium-check-tree", "open/acme/measurements/box/resnet/Server/user.conf", True),
        ("podium-check-tree", "code/train.py", False),
        ("podium-check-config", "configs/podium-lars.toml", True),
        ("podium-check-config", "pyproject.toml", False),
    ],
)
def test_a_hook_runs_for_the_files_that_it_is_about(hook: str, file: str, wanted: bool) -> None:
    [found] = [each for each in HOOKS if each["id"] == hook]
    assert bool(re.search(found["files"], file)) is wanted


@pytest.mark.slow
def test_a_hook_judges_files_from_the_repositorys_root(tmp_path: Path) -> None:
    """pre-commit gives several files at once, by relative paths; one broken file fails the
    commit.
    """
    (tmp_path / "tree").symlink_to(BASE / "tree")
    broken = EXAMPLES / "invalid" / "training.target" / "result_0.txt"
    (tmp_path / "result_0.txt").symlink_to(broken)
    good = "tree/open/acme/results/box-torch-bf16/resnet/result_0.txt"
    for files, code in (([good], 0), ([good, "result_0.txt"], 1)):
        ended = subprocess.run(
            [sys.executable, "-m", "compliance", "check", *files],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr


def commands() -> list[tuple[str, str]]:
    """Every line of the pages that begins with `podium` in a block of code."""
    found = []
    for page in DOCS:
        for block in re.findall(r"```[a-z]*\n(.*?)```", page.read_text(), re.DOTALL):
            found += [
                (page.name, line.partition("#")[0].strip())
                for line in block.splitlines()
                if line.startswith("podium ")
            ]
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_that_a_page_shows_is_one(page: str, line: str) -> None:
    words = [
        word for word in shlex.split(re.split(r"[|>&]", line)[0])[1:] if word not in ("...", "\\")
    ]
    understood(words)


def test_the_pages_name_every_format_and_input() -> None:
    page = GUIDE.read_text() + REFERENCE.read_text()
    choices = next(option.type for option in check.params if option.name == "output_format")
    assert isinstance(choices, click.Choice)
    for name in (
        *choices.choices,
        *workflow()[True]["workflow_call"]["inputs"],
        *(hook["id"] for hook in HOOKS),
    ):
        assert f"`{name}`" in page or f"`--format {name}`" in page, name

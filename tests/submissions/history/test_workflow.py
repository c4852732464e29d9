"""The reusable workflow of histories: its scripts run, and call commands that there are."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from histories import run_git

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "history.yml"
GUIDE = ROOT / "docs" / "guides" / "benchmarks-in-ci.md"


def load_workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return found


def list_steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_workflow()["jobs"]["history"]["steps"]
    return found


def run_step(name: str, folder: Path, **environment: str) -> list[str]:
    """Run a step's script with a podium that prints its arguments."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "podium").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tools / "podium").chmod(0o755)
    script = next(each["run"] for each in list_steps() if each.get("name") == name)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        env={"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return done.stdout.splitlines()


def test_the_guide_names_every_input() -> None:
    inputs = load_workflow()[True]["workflow_call"]["inputs"]  # YAML 1.1 reads `on` as true
    text = GUIDE.read_text()
    assert all(f"`{name}`" in text for name in inputs)
    assert all("default" in each or each["required"] for each in inputs.values())


def test_no_input_is_put_into_a_shell_as_text() -> None:
    """`${{ }}` in a script is how a pull request takes over a runner."""
    assert all("${{" not in step["run"] for step in list_steps() if "run" in step)


def test_each_path_is_added_under_the_runners_name(tmp_path: Path) -> None:
    told = run_step(
        "Add", tmp_path, ADDED="a b\n  c\n", HISTORY="h.jsonl", MACHINE="", RUNNER_NAME="r 7"
    )
    assert told == ["history", "add", "a b", "c", "--file", "h.jsonl", "--machine", "r 7"]


@pytest.mark.parametrize(("accept", "more"), [("", []), ("w.toml", ["--accept", "w.toml"])])
def test_the_check_annotates(tmp_path: Path, accept: str, more: list[str]) -> None:
    told = run_step("Check", tmp_path, HISTORY="h.jsonl", DIFFERENCE="5%", ACCEPT=accept)
    wanted = ["history", "check", "--file", "h.jsonl", "--difference", "5%"]
    assert told == [*wanted, *more, "--format", "github"]


def test_the_history_is_pushed_also_if_another_job_pushed_before(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "origin")
    run_git(tmp_path, "clone", "--quiet", "origin", "one")
    one, two = tmp_path / "one", tmp_path / "two"
    run_git(one, "checkout", "--quiet", "-b", "main")
    (one / ".gitattributes").write_text("history.jsonl merge=union\n")
    (one / "history.jsonl").write_text("0\n")
    run_git(one, "add", ".")
    run_git(one, "commit", "--quiet", "--message=First")
    run_git(one, "push", "--quiet", "origin", "main")
    run_git(tmp_path, "clone", "--quiet", "origin", "two")
    for folder, line in ((one, "1"), (two, "2")):
        (folder / "history.jsonl").write_text(f"0\n{line}\n")
        run_step("Push the history", folder, HISTORY="history.jsonl", BRANCH="main")
    assert sorted(run_git(two, "show", "origin/main:history.jsonl").split()) == ["0", "1", "2"]

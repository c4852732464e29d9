"""A repository of the project under test, and podium's command in it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from histories import Answer, run_git

from suite.cli import group
from suite.errors import PodiumError


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit, as the working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "code").write_text("1")
    run_git(folder, "add", "code")
    run_git(folder, "commit", "--quiet", "--message=First")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def history() -> Callable[..., Answer]:
    """Run `podium history` as its command line does."""

    def run(*words: str | Path) -> Answer:
        found = CliRunner().invoke(group, ["history", *map(str, words)], standalone_mode=False)
        if isinstance(found.exception, PodiumError):
            return Answer(found.exception.exit_code, str(found.exception))
        assert found.exception is None, found.exc_info
        return Answer(found.return_value or 0, found.output)

    return run

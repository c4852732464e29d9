"""A folder that changes between being listed and being read costs a sentence, not a traceback."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from compliance.kinds.podium.results import score as scoring
from compliance.results.indexed_result import IndexedResult
from submissions.commands.compare import compare
from submissions.commands.report import report
from suite.result import Result


def rename_folder(result: IndexedResult) -> None:
    if result.folder.exists():
        result.folder.rename(result.folder.with_name("moved"))


def delete_logs(result: IndexedResult) -> None:
    for log in result.training_logs:
        log.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("change", [rename_folder, delete_logs])
@pytest.mark.parametrize("command", [report, compare], ids=lambda each: str(each.name))
def test_logs_that_vanish_once_they_are_scored_are_one_sentence(
    results: Path,
    command: click.Command,
    change: Callable[[IndexedResult], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The list was made again for each reader: an IndexError, or a zip() of two lengths."""
    read = scoring.read_training_set_values

    def read_and_change(result: IndexedResult) -> Result:
        values = read(result)
        change(result)
        return values

    monkeypatch.setattr(scoring, "read_training_set_values", read_and_change)
    more = {"report": ["-o", str(tmp_path / "page.html")], "compare": [str(results)]}
    outcome = CliRunner().invoke(command, [str(results), *more.get(str(command.name), [])])
    assert outcome.exit_code == 1
    assert type(outcome.exception).__module__ == "suite.errors", outcome.exception

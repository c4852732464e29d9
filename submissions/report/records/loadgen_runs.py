"""What was measured in the performance runs of a result, with the readers of its kind of round."""

from pathlib import Path

from compliance.results.indexed_result import IndexedResult
from compliance.results.run_figures import LoadGenFigures
from submissions.round_readers import load_result_reader
from suite.result import Result


def list_run_folders(result: IndexedResult, score: Result) -> list[Path]:
    """Return the folders of a result's performance runs; those of a published round may have their
    logs directly in `performance`.
    """
    return list(load_result_reader(score.round, "list_runs")(result.folder))


def read_run_figures(folder: Path, round_name: str) -> LoadGenFigures:
    """Read one performance run; JudgedError if podium's record of its own run cannot be read."""
    figures: LoadGenFigures = load_result_reader(round_name, "read_run")(folder, round_name)
    return figures

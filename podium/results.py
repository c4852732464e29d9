"""`podium.load`: the results at a path as records and, with pandas installed, as a table.

The names in this module that `podium` exports are stable: fields are added, and neither renamed nor
removed. Files are untrusted: they are parsed, and nothing in them is unpickled or run.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, overload

from compliance.bundle.manifest import check_unpacked_format
from compliance.judge import Judge
from compliance.results.indexed_result import IndexedResult
from compliance.verdict import Severity, Verdict, compute_verdict
from submissions import compliance_check
from submissions.compare.compared_results import read_compared_result
from submissions.curves.curve import read_path_curves
from submissions.curves.point_scores import iterate_point_scores
from submissions.pack.bundle import list_bundle_problems
from submissions.result_columns import select_columns
from submissions.result_index import find_requested_results, open_results
from suite.columns import Table
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.process.installation import format_install_command
from suite.result import Judgement, Result, ResultOrigin

if TYPE_CHECKING:
    import pandas

NOTEBOOK_EXTRA: Final = "notebook"
SPREAD_FIELDS: Final = ("accuracy", "target")
"""Fields with a value for each metric: a table has a column for each, such as `accuracy.top1`."""


LOADED_TABLE: Final[Table[Result]] = Table(
    columns=select_columns(
        *("source", "folder", "verdict", "errors", "round", "profile", "division", "org"),
        *("system", "accelerator", "accelerators", "nodes", "engine", "precision", "workload"),
        *("half", "scenario", "metric", "value", "unit", "low", "high", "runs", "accuracy"),
        *("target", "noise", "attempts", "concurrency", "tps_per_user", "ttft_p90_ms"),
    )
)
"""The columns of a frame, as docs/reference/python.md names them."""


class Results(Sequence[Result]):
    """The results at a path, in the order of `podium score`."""

    def __init__(self, records: Sequence[Result]) -> None:
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> "Results": ...

    def __getitem__(self, index: int | slice) -> "Result | Results":
        found = self._records[index]
        return Results(found) if isinstance(found, tuple) else found

    def __add__(self, other: Sequence[Result]) -> "Results":
        return Results((*self._records, *other))

    def __repr__(self) -> str:
        broken = sum(each.is_broken for each in self._records)
        return f"<podium.Results: {len(self._records)} results, {broken} broken>"

    def to_frame(self) -> "pandas.DataFrame":
        """Return a table with a row for each result and a column for each field; `accuracy` and
        `target` have one for each metric, such as `accuracy.top1`. MissingError without pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingError(
                f"to_frame() needs pandas: {format_install_command(NOTEBOOK_EXTRA)}"
            ) from error
        plain = [name for each in LOADED_TABLE.columns if (name := each.name) not in SPREAD_FIELDS]
        spread = dict.fromkeys(
            f"{name}.{metric}"
            for name in SPREAD_FIELDS
            for each in self._records
            for metric in getattr(each, name)
        )
        rows = [build_frame_row(each) for each in self._records]
        return pandas.DataFrame(rows, columns=[*plain, *spread])


def build_frame_row(record: Result) -> dict[str, object]:
    """Return a record's cells by column."""
    cells: dict[str, object] = {
        each.name: each.read(record)
        for each in LOADED_TABLE.columns
        if each.name not in SPREAD_FIELDS
    }
    for name in SPREAD_FIELDS:
        cells |= {f"{name}.{metric}": value for metric, value in getattr(record, name).items()}
    return cells


def load_results(path: str | Path) -> Results:
    """Load the results at a path, each with the judge's verdict.

    A result that breaks a rule or cannot be read is a record, too: its `verdict` is `broken`, and
    `errors` says why. All results of a bundle that was changed after it was sealed are broken.

    Args:
        path: a bundle; a results folder or a part of one; a tree of published results.

    Raises:
        JudgedError: there are no results, or the bundle cannot be unpacked or is of another format
            than this version's.
        MissingError: this machine lacks something, such as space to unpack.

        Both are PodiumError; its text is one sentence.
    """
    given = Path(path)
    curves = read_path_curves(given) if given.exists() else []
    points = [locate_point(each, given) for each in iterate_point_scores(curves)]
    if points and (given.is_file() or not find_requested_results(given)):
        return Results(points)
    try:
        return Results((*load_judged_results(given), *points))
    except RequestError as error:
        raise JudgedError(str(error)) from error


def load_judged_results(given: Path) -> list[Result]:
    """Load the results of a bundle or a tree; RequestError for a bundle of another format."""
    with open_results(given) as found:
        root = find_loaded_root(given, found)
        check_unpacked_format(root, given.name)
        damage = tuple(list_bundle_problems(given))
        judge = compliance_check.choose_shared_judge(found)
        return [load_result_record(given, root, each, judge, damage) for each in found]


def find_loaded_root(given: Path, found: Sequence[IndexedResult]) -> Path:
    """Return the folder that results are named relative to: the path, or the unpacked bundle."""
    is_bundle = given.is_file() and not found[0].single_log
    return found[0].results_root if is_bundle else make_path_absolute(given)


def make_path_absolute(path: Path) -> Path:
    """Return a path from the root on without `..`; links stay, as the index of results has them."""
    return Path(os.path.normpath(path.absolute()))


def name_place(place: Path, root: Path) -> str:
    """Name a file or folder relative to the loaded path; "." for the path itself."""
    place, root = make_path_absolute(place), make_path_absolute(root)
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)


def load_result_record(
    given: Path, root: Path, result: IndexedResult, judge: Judge, damage: tuple[str, ...]
) -> Result:
    """Load one result; one that cannot be read is a broken record."""
    folder = name_place(result.single_log or result.folder, root)
    origin = ResultOrigin(source=str(given), folder=folder)
    try:
        found = read_compared_result(given, result, not damage, judge)
    except PodiumError as error:
        judgement = Judgement(
            verdict=Verdict.BROKEN.value,
            errors=(*damage, str(error).replace(f"{root}/", "")),
        )
        return Result(place=result.build_place("", ""), origin=origin, judgement=judgement)
    own = compliance_check.judge_single_result(result, judge)
    findings = (*own, *compliance_check.list_shared_errors(result, judge))
    verdict = compute_verdict(findings)
    if not found.compliant and verdict is Verdict.VALID:
        verdict = Verdict.BROKEN  # of a changed bundle
    errors = (
        compliance_check.format_finding_line(each).replace(f"{root}/", "")
        for each in findings
        if each.severity is Severity.ERROR
    )
    judgement = replace(found.judgement, verdict=verdict.value, errors=(*damage, *errors))
    return replace(found, origin=origin, judgement=judgement)


def locate_point(point: Result, given: Path) -> Result:
    """Name a point of a curve by its file below the loaded path."""
    folder = name_place(Path(point.point.path), given) if point.point else ""
    verdict = Verdict.VALID if point.compliant else Verdict.BROKEN
    return replace(
        point,
        origin=ResultOrigin(source=str(given), folder=folder),
        judgement=replace(point.judgement, verdict=verdict.value),
    )

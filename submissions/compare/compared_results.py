"""The results to compare, each with the fields that must be equal and those that may differ."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from compliance.judge import Judge
from compliance.results.indexed_result import IndexedResult
from compliance.results.machine import format_field_value
from submissions.machines import NOTED_SYSTEM_FIELDS
from submissions.pack.bundle import list_bundle_problems
from submissions.result_index import open_results
from submissions.score.score import reject_result, score_result
from suite import registry
from suite.errors import JudgedError
from suite.result import MadeWith, Result
from suite.rounds.compatibility import find_podium_workload


def read_compared_result(
    path: Path, result: IndexedResult, whole: bool = True, judge: Judge | None = None
) -> Result:
    """Read one result; JudgedError if it cannot be read. Results of a bundle that is damaged or
    invalid are not compliant.
    """
    row = score_result(result, judge)
    described_traits = {
        name: format_field_value(row.described.get(key))
        for name, key in NOTED_SYSTEM_FIELDS.items()
    }
    traits = read_result_traits(result, row.round)
    return replace(
        row if whole else reject_result(row),
        origin=replace(row.origin, source=str(path)),
        made_with=replace(
            traits,
            precision=row.precision,
            counted=row.made_with.counted,
            said=described_traits | dict(traits.said),
        ),
    )


def read_result_traits(result: IndexedResult, round_name: str) -> MadeWith:
    """Read the properties of what was trained or served, if its kind of round has a reader."""
    read_traits = registry.load_round_part(round_name, "read_traits")
    if not read_traits:
        return MadeWith()
    made_with: MadeWith = read_traits(result, round_name)
    return made_with


def judge_compared_results(paths: Iterable[Path], problems: list[str]) -> list[Result]:
    """Read all results below some paths; add those that cannot be read to `problems`."""
    results_found: list[Result] = []
    for path in paths:
        try:
            with open_results(path) as results:
                damage_found = list_bundle_problems(path)
                problems += damage_found
                results_found += read_path_results(path, results, problems, whole=not damage_found)
        except JudgedError as error:
            problems.append(str(error))
    return results_found


def read_path_results(
    path: Path, results: Iterable[IndexedResult], problems: list[str], whole: bool
) -> Iterator[Result]:
    """Read the results of one path; a shared judge reads common files once."""
    judge = Judge()
    for result in results:
        try:
            yield rename_published_workload(read_compared_result(path, result, whole, judge))
        except JudgedError as error:
            problems.append(str(error))


def rename_published_workload(result: Result) -> Result:
    """Give a published workload podium's name, so that rounds that name it differently match."""
    if not result.is_published:
        return result
    name = find_podium_workload(result.half, result.workload)
    return replace(result, place=replace(result.place, workload=name))

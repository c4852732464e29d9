"""The columns of comparisons for people: on a terminal, in Markdown and on a page."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from os.path import commonpath
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from submissions.cells import (
    NAMING_RATE_UNITS,
    KnownFigure,
    build_result_figure,
    format_known_interval,
    format_known_value,
    format_score_value,
    iterate_token_cells,
)
from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.conclusions import (
    format_conclusion_word,
    format_ratio_text,
    name_result_kind,
)
from submissions.compare.scaling import Scaling, ScalingStep
from submissions.compare.verdicts import RatioStatistic, SpeedVerdict
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.human_numbers import (
    MIN_KNOWN_DIGITS,
    format_plain_number,
    format_share_as_percent,
    format_whole_digits,
)
from suite.measurement.intervals import Interval
from suite.measurement.metrics import LATENCY_PREFIX, TIME_TO_TRAIN
from suite.result import Machine, WithinRun
from suite.rounds.compatibility import TRAINING_HALF

LARGE_SHARE: Final = 10.0
"""A difference of as many times the value is told as a factor."""
NOTHING_TOLD: Final[Mapping[str, Collection[str]]] = MappingProxyType({})
"""Path -> what is said of it elsewhere, where nothing is."""
SHARED_REASONS_NOTE: Final = "as said above the table"


class ShownResult(NamedTuple):
    """A result of a comparison, with what its cells are told by."""

    comparison: Comparison
    found: ComparedResult
    origin: str
    """Short for its path, or the origin of a published row."""
    shared: Collection[str]
    """Reasons and differences that are said above the table."""


def list_shown_results(
    found: Comparison, told: Mapping[str, Collection[str]] = NOTHING_TOLD
) -> list[ShownResult]:
    """List the results in reading order; published rows come last. `told` has what is said of each
    path elsewhere.
    """
    names = format_short_paths({each.path for each in found.results})
    groups = find_shared_remarks(found, told)
    every = [text for group in groups if not group.published for text in group.remarks]
    published = [text for group in groups for text in group.remarks]
    return [
        *(
            ShownResult(found, each, names[each.path], [*every, *told.get(each.path, ())])
            for each in found.results
        ),
        *(
            ShownResult(found, each, format_row_origin(each), published)
            for each in found.references
        ),
    ]


def name_scenario(found: Comparison | Scaling) -> str:
    """Name the scenario, or the training."""
    return found.scenario or TRAINING_HALF


def format_kind_cell(row: ShownResult) -> str:
    """Name the workload and the scenario."""
    return f"{row.comparison.workload}\n{name_scenario(row.comparison)}"


def format_speed_cell(row: ShownResult) -> str:
    """Format the ratio and, below it, the conclusion."""
    return f"{format_ratio_cell(row.found)}\n{format_conclusion_word(row.found)}"


def format_remarks_cell(row: ShownResult) -> str:
    """Say why there is no ratio, and what differs."""
    return "\n".join(iterate_result_remarks(row.found, row.found.result.unit, row.shared))


def format_origin_cell(row: ShownResult) -> str:
    """Format the label and the path of a result, or the origin of a published row."""
    if row.found in row.comparison.references or row.found.label in ("", row.origin):
        return row.origin
    return f"{row.found.label}\n{row.origin}"


def has_differing_systems(rows: Sequence[ShownResult]) -> bool:
    """Return whether the rows of one kind are of more than one system or machine."""
    systems: dict[str, set[tuple[str, Machine]]] = {}
    for row in select_present(rows):
        place = name_result_kind(row.comparison)
        systems.setdefault(place, set()).add((row.found.result.system, row.found.result.machine))
    return any(len(each) > 1 for each in systems.values())


def select_present(rows: Sequence[ShownResult]) -> list[ShownResult]:
    """Select the rows of paths that have such a result."""
    return [row for row in rows if not row.found.absent]


COMPARISON_TABLE: Final[Table[ShownResult]] = Table(
    columns=(
        Column("workload", format_kind_cell),
        Column("result", lambda row: format_result_cell(row.found)),
        Column("times as fast", format_speed_cell),
        Column("system", lambda row: format_system_cell(row.found), when=has_differing_systems),
        Column("from", format_origin_cell),
        Column("why not, or what differs", format_remarks_cell),
    )
)
"""The results of a comparison; a cell may have several lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRemarks:
    """What is said once of several rows of a comparison."""

    remarks: tuple[str, ...]
    published: bool
    """Whether only the published rows share them."""

    @property
    def rows(self) -> str:
        """Return which rows share them."""
        if self.published:
            return "all published rows"
        return "all rows but the baseline"


class CommonNotes(NamedTuple):
    """The differences of a path that are said once."""

    of_all: tuple[str, ...]
    """Those that all its results have."""
    of_scenarios: tuple[str, ...]
    """Those that the results of all scenarios have besides."""


def find_common_notes(found: Sequence[Comparison]) -> dict[str, CommonNotes]:
    """Find the differences of each path that all its results, or those of all scenarios, have: path
    -> differences. Of a single result nothing is common, and the baseline has no differences.
    """
    kinds = [
        (comparison, each)
        for comparison in found
        for each in comparison.results
        if not each.absent and not each.baseline
    ]
    common = {}
    for path in dict.fromkeys(each.path for _, each in kinds):
        every = [each.notes for _, each in kinds if each.path == path]
        served = [each.notes for kind, each in kinds if each.path == path and kind.scenario]
        of_all = list_equal_notes(every)
        of_scenarios = [text for text in list_equal_notes(served) if text not in of_all]
        common[path] = CommonNotes(tuple(of_all), tuple(of_scenarios))
    return common


def list_equal_notes(lists: Sequence[Sequence[str]]) -> list[str]:
    """List the notes that several lists have in common."""
    if len(lists) < 2:
        return []
    return [text for text in lists[0] if all(text in other for other in lists)]


def collect_told_notes(found: Sequence[Comparison]) -> dict[str, tuple[str, ...]]:
    """Collect what is said once of each path."""
    common = find_common_notes(found)
    return {path: (*notes.of_all, *notes.of_scenarios) for path, notes in common.items()}


def find_shared_remarks(
    found: Comparison, told: Mapping[str, Collection[str]] = NOTHING_TOLD
) -> list[SharedRemarks]:
    """Find the reasons and differences that all rows but the baseline share, and those that all
    published rows share besides; of a single row nothing is shared, nor what is `told` of a path
    elsewhere.
    """
    rows = [
        each
        for each in (*found.results, *found.references)
        if not each.absent and not each.baseline
    ]
    elsewhere = {text for each in rows for text in told.get(each.path, ())}
    every = [text for text in list_common_remarks(rows) if text not in elsewhere]
    published = [text for text in list_common_remarks(found.references) if text not in every]
    groups = (
        SharedRemarks(remarks=tuple(every), published=False),
        SharedRemarks(remarks=tuple(published), published=True),
    )
    return [group for group in groups if group.remarks]


def list_common_remarks(rows: Sequence[ComparedResult]) -> list[str]:
    """List the reasons and differences that several rows have in common."""
    lists = [(*each.reasons, *filter(None, each.notes)) for each in rows]
    return list(dict.fromkeys(list_equal_notes(lists)))


def describe_equal_systems(found: Sequence[Comparison]) -> str:
    """Name the systems if all paths have the same; empty if they differ."""
    systems = [
        {f"{each.result.system}, {each.result.machine}" for each in kind.results if not each.absent}
        for kind in found
    ]
    if any(len(each) != 1 for each in systems):
        return ""
    return "; ".join(dict.fromkeys(name for each in systems for name in each))


def format_shared_remarks(found: Comparison, told: Mapping[str, Collection[str]]) -> list[str]:
    """Format what rows share, one line for each group of rows."""
    return [
        f"{name_result_kind(found)}, {group.rows}: {'; '.join(group.remarks)}"
        for group in find_shared_remarks(found, told)
    ]


def format_system_cell(found: ComparedResult) -> str:
    """Format a system: its name, its organisation in a published round, and its machine."""
    if found.absent:
        return "-"
    result = found.result
    named = result.is_published and not result.origin.document and result.org
    return "\n".join([result.system, *([result.org] if named else []), str(result.machine)])


def format_short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Shorten each path: to its last part, or, if two end alike, to its part below the common
    folder.
    """
    given = set(paths)
    if len({Path(path).name for path in given}) == len(given):
        return {path: Path(path).name or path for path in given}
    # Path.resolve follows links
    above = commonpath([os.path.abspath(path) for path in given])  # noqa: PTH100
    return cut_shared_ends({path: os.path.relpath(path, above) for path in given})


def cut_shared_ends(names: Mapping[str, str]) -> dict[str, str]:
    """Cut from paths the last parts that all of them share, as bundles of one system do."""
    parts = {path: list(Path(name).parts) for path, name in names.items()}
    shared = 0
    while (
        len({tuple(each[-shared - 1 :]) for each in parts.values()}) == 1
        and min(map(len, parts.values())) > shared + 1
    ):
        shared += 1
    if not shared:
        return dict(names)
    return {path: str(Path(*each[:-shared])) for path, each in parts.items()}


def list_distinct_names(results: Sequence[ComparedResult]) -> list[str]:
    """Name results by what tells them apart: the names that the user gave to their paths, or their
    systems, their paths, or both.
    """
    if any(each.is_named for each in results):
        return [each.label for each in results]
    paths = format_short_paths({each.path for each in results})
    systems = [each.result.system for each in results]
    if len(paths) == 1 or len(set(systems)) == len(systems):
        return systems
    if len(set(systems)) == 1:
        return [paths[each.path] for each in results]
    return [f"{each.result.system} ({paths[each.path]})" for each in results]


def format_row_origin(found: ComparedResult) -> str:
    """Format the origin of a published row."""
    return ", ".join(filter(None, (found.result.round, found.result.org)))


def build_known_figure(found: ComparedResult) -> KnownFigure:
    """Return a result's value with its interval at the requested confidence."""
    return build_result_figure(found.result, found.interval)


def build_mean_figure(found: ComparedResult) -> KnownFigure | None:
    """Return the geometric mean of a result's runs with its interval at the requested confidence;
    None where its runs have none.
    """
    mean, value = found.geometric_mean, found.result.value
    if mean is None or not value:
        return None
    interval = found.interval
    if interval:
        share = mean / value
        interval = Interval(low=interval.low * share, high=interval.high * share)
    return replace(build_result_figure(found.result, interval), value=mean)


def format_result_cell(found: ComparedResult) -> str:
    """Format a value with its interval, the mean that a ratio is of, the runs and the number of
    attempts.
    """
    figure, mean = build_known_figure(found), build_mean_figure(found)
    lines = [format_known_value(figure), *filter(None, [format_known_interval(figure)])]
    if mean and not found.result.is_published:
        lines.append(f"{RatioStatistic.GEOMETRIC_MEAN} {format_known_value(mean)}")
    if len(found.result.runs) > 1:
        lines.append(f"{len(found.result.runs)} runs")
    return "\n".join([*lines, *iterate_count_cells(found)])


def iterate_count_cells(found: ComparedResult) -> Iterator[str]:
    """Yield the factor that a value contains, and how many attempts there were beside its runs."""
    if found.result.figure.factor is not None:
        yield f"with the factor {format_whole_digits(found.result.figure.factor, 6)}"
    expected = len(found.result.runs)
    if found.result.metric == TIME_TO_TRAIN:
        expected = 1
    if found.result.attempts and found.result.attempts > expected:
        yield f"{found.result.attempts} attempts"


def format_ratio_cell(found: ComparedResult) -> str:
    """Format a ratio: with its interval, or in brackets if nothing was tested."""
    if found.ratio is None:
        return UNKNOWN_CELL
    if found.baseline:
        return "1"
    told = format_ratio_text(found)
    if told.low:
        return f"{told.ratio} ({told.low} to {told.high})"
    if found.verdict is SpeedVerdict.NOT_TESTED:
        return f"({told.ratio})"
    return told.ratio


def iterate_result_remarks(
    found: ComparedResult, unit: str, shared: Collection[str] = ()
) -> Iterator[str]:
    """Yield why there is no ratio, what difference the runs could have detected, tokens beside a
    value in `unit`, and what differs, without what all rows share.
    """
    own = [each for each in found.reasons if each not in shared]
    yield from own
    if len(own) < len(found.reasons):
        yield f"and {SHARED_REASONS_NOTE}" if own else SHARED_REASONS_NOTE
    if found.why:
        yield found.why
    if found.verdict is SpeedVerdict.NOT_SEPARABLE and found.shows is not None:
        yield describe_detectable_difference(found.shows)
    if found.runs_for is not None:
        yield f"runs needed on each side: {found.runs_for}"
    if found.result.noise:
        yield f"on a disturbed host: {', '.join(found.result.noise)}"
    yield from describe_within_runs(found.result.figure.within_run)
    if found.result.accuracy and found.result.is_published:
        yield ", ".join(
            f"{metric} {format_score_value(score)}"
            for metric, score in found.result.accuracy.items()
        )
    if beside := list(iterate_token_cells(found.result.figure.tokens, unit)):
        yield ", ".join(f"{name} {figure}" for name, figure in beside)
    if found.derived:
        yield f"derived: {format_plain_number(found.derived.value, 6)} {found.derived.unit}"
    if notes := [each for each in found.notes if each not in shared]:
        yield "; ".join(notes)


def describe_detectable_difference(share: float) -> str:
    """Say what difference runs could have detected; one beyond all measure as a factor."""
    if share < LARGE_SHARE:
        told = format_share_as_percent(share)
        return f"these runs could have detected a difference of {told} or more"
    times = format_plain_number(1 + share, MIN_KNOWN_DIGITS)
    return f"these runs could only have detected a result {times} times as fast"


def describe_within_runs(found: Sequence[WithinRun]) -> Iterator[str]:
    """Yield what time slices of the runs show: one line for all runs, and one for each problem."""
    told = [each for each in found if each.low is not None and each.high is not None]
    for metric, unit in dict.fromkeys((each.metric, each.unit) for each in told):
        alike = [each for each in told if (each.metric, each.unit) == (metric, unit)]
        low = min(each.low for each in alike if each.low is not None)
        high = max(each.high for each in alike if each.high is not None)
        ends = KnownFigure(value=None, unit=unit, low=low, high=high)
        name = metric.removeprefix(LATENCY_PREFIX).replace("_", " ")
        shown = "" if unit in NAMING_RATE_UNITS else f"{name} "
        yield (
            f"within {'this run' if len(alike) == 1 else f'these {len(alike)} runs'}: {shown}"
            f"{format_known_interval(ends)} {'ms' if unit == 'ns' else unit}"
        )
    problems = Counter(each.problem for each in found if each.low is None or each.high is None)
    for problem, runs in problems.items():
        yield f"within this run: {problem}" + (f" ({runs} runs)" if runs > 1 else "")


def format_scaling_efficiency(step: ScalingStep) -> str:
    """Format the efficiency."""
    text = f"{step.efficiency:.3f}"
    return (
        f"{text} ({step.interval.low:.3f} to {step.interval.high:.3f})" if step.interval else text
    )


class ShownStep(NamedTuple):
    """A number of accelerators, with its workload and its path in short."""

    scaling: Scaling
    step: ScalingStep
    origin: str


def list_shown_steps(found: Scaling) -> list[ShownStep]:
    """List the numbers of accelerators."""
    names = format_short_paths({each.path for each in found.steps})
    return [ShownStep(found, each, names[each.path]) for each in found.steps]


def format_step_ratio(value: float | None) -> str:
    """Format a ratio; a dash if it is unknown."""
    return UNKNOWN_CELL if value is None else f"{value:.2f}"


SCALING_TABLE: Final[Table[ShownStep]] = Table(
    columns=(
        Column("workload", attrgetter("scaling.workload")),
        Column("what", lambda row: name_scenario(row.scaling)),
        Column("accelerators", lambda row: f"{row.step.accelerators} x {row.scaling.accelerator}"),
        Column("times as fast", lambda row: format_step_ratio(row.step.speed_up)),
        Column("ideal", lambda row: format_step_ratio(row.step.ideal)),
        Column("efficiency", lambda row: format_scaling_efficiency(row.step)),
        Column("times the samples/s", lambda row: format_step_ratio(row.step.throughput)),
        Column("system", lambda row: row.step.system or UNKNOWN_CELL),
        Column("from", attrgetter("origin")),
    )
)

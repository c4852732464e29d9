"""The columns of comparisons for people: on a terminal, in Markdown and on a page."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from os.path import commonpath
from pathlib import Path
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
from submissions.compare.scaling import Scaling, ScalingStep
from submissions.compare.verdicts import SpeedVerdict
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.human_numbers import (
    MIN_KNOWN_DIGITS,
    format_plain_number,
    format_share_as_percent,
    format_significant_number,
    format_whole_digits,
)
from suite.measurement.intervals import compute_log_spread, convert_log_to_factor
from suite.measurement.metrics import LATENCY_PREFIX, TIME_TO_TRAIN, is_higher_better
from suite.result import WithinRun
from suite.rounds.compatibility import TRAINING_HALF

MIN_RATIO_DIGITS: Final = 2
MAX_RATIO_DIGITS: Final = 6
SMALL_RATIO: Final = 0.1
WIDE_INTERVAL: Final = 10.0
"""An interval whose upper end is as many times its lower one has no digits to tell apart."""
LARGE_SHARE: Final = 10.0
"""A difference of as many times the value is told as a factor."""
EQUAL_RATIO_SHARE: Final = 0.01
"""A ratio this close to that of the values shown needs no explanation."""
NOT_COMPARABLE: Final = "not comparable"
SHARED_REASONS_NOTE: Final = "as said above the table"


class ShownResult(NamedTuple):
    """A result of a comparison, with what its cells are told by."""

    comparison: Comparison
    found: ComparedResult
    origin: str
    """Short for its path, or the origin of a published row."""
    shared: Collection[str]
    """Reasons and differences that are said above the table."""


def list_shown_results(found: Comparison) -> list[ShownResult]:
    """List the results in reading order; published rows come last."""
    names = format_short_paths({each.path for each in found.results})
    groups = find_shared_remarks(found)
    every = [text for group in groups if not group.published for text in group.remarks]
    published = [text for group in groups for text in group.remarks]
    return [
        *(ShownResult(found, each, names[each.path], every) for each in found.results),
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
    """Format the ratio and, below it, the verdict."""
    return f"{format_ratio_cell(row.found)}\n{format_verdict_cell(row.found)}"


def format_remarks_cell(row: ShownResult) -> str:
    """Say what the ratio is of, why there is none, and what differs."""
    baseline = next((each for each in row.comparison.results if each.baseline), None)
    remarks = [
        *describe_ratio_basis(row.found, baseline),
        *iterate_result_remarks(row.found, row.found.result.unit, row.shared),
    ]
    return "\n".join(remarks)


COMPARISON_TABLE: Final[Table[ShownResult]] = Table(
    columns=(
        Column("workload", format_kind_cell),
        Column("result", lambda row: format_result_cell(row.found)),
        Column("times as fast", format_speed_cell),
        Column("system", lambda row: format_system_cell(row.found)),
        Column("from", lambda row: row.origin),
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
        return "all published rows" if self.published else "all rows but the baseline"


def find_shared_remarks(found: Comparison) -> list[SharedRemarks]:
    """Find the reasons and differences that all rows but the baseline share, and those that all
    published rows share besides; of a single row nothing is shared.
    """
    rows = [
        each
        for each in (*found.results, *found.references)
        if not each.absent and not each.baseline
    ]
    every = list_common_remarks(rows)
    published = [text for text in list_common_remarks(found.references) if text not in every]
    groups = (
        SharedRemarks(remarks=tuple(every), published=False),
        SharedRemarks(remarks=tuple(published), published=True),
    )
    return [group for group in groups if group.remarks]


def list_common_remarks(rows: Sequence[ComparedResult]) -> list[str]:
    """List the reasons and differences that several rows have in common."""
    if len(rows) < 2:
        return []
    first, *others = ((*each.reasons, *filter(None, each.notes)) for each in rows)
    return [text for text in dict.fromkeys(first) if all(text in other for other in others)]


def format_shared_remarks(found: Comparison) -> list[str]:
    """Format what rows share, one line for each group of rows."""
    name = f"{found.workload} {name_scenario(found)}"
    return [
        f"{name}, {group.rows}: {'; '.join(group.remarks)}" for group in find_shared_remarks(found)
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
    """Name results by what tells them apart: their systems, their paths, or both."""
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


def format_result_cell(found: ComparedResult) -> str:
    """Format a value with its interval, runs and number of attempts."""
    figure = build_known_figure(found)
    lines = [format_known_value(figure), *filter(None, [format_known_interval(figure)])]
    if len(found.result.runs) > 1:
        lines.append(f"{len(found.result.runs)} runs")
    if found.result.figure.factor is not None:
        lines.append(f"with the factor {format_whole_digits(found.result.figure.factor, 6)}")
    if found.result.attempts and found.result.attempts > (
        1 if found.result.metric == TIME_TO_TRAIN else len(found.result.runs)
    ):
        lines.append(f"{found.result.attempts} attempts")
    return "\n".join(lines)


def format_ratio_cell(found: ComparedResult) -> str:
    """Format a ratio: with its interval, or in brackets if nothing was tested."""
    if found.ratio is None:
        return "-"
    if found.baseline:
        return "1"
    if found.ratio_interval:
        low, high = found.ratio_interval.low, found.ratio_interval.high
        if high > WIDE_INTERVAL * low:
            return "{} ({} to {})".format(
                *(
                    format_significant_number(each, MIN_KNOWN_DIGITS)
                    for each in (found.ratio, low, high)
                )
            )
        digits = choose_interval_digits(found.ratio, low, high)
        ratio, low_text, high_text = (
            format_ratio(each, digits) for each in (found.ratio, low, high)
        )
        return f"{ratio} ({low_text} to {high_text})"
    text = format_ratio(found.ratio, MIN_RATIO_DIGITS)
    return f"({text})" if found.verdict is SpeedVerdict.NOT_TESTED else text


def choose_interval_digits(ratio: float, low: float, high: float) -> int:
    """Return how many decimals show an interval that has a width and, if it does not contain 1,
    does not touch it either.
    """
    for digits in range(MIN_RATIO_DIGITS, MAX_RATIO_DIGITS):
        shown = [round(each, digits) for each in (low, ratio, high)]
        if shown[0] < shown[2] and (low <= 1 <= high or 1 not in shown):
            return digits
    return MAX_RATIO_DIGITS


def format_ratio(ratio: float, digits: int) -> str:
    """Format a ratio; small ones with three significant digits."""
    if abs(ratio) < SMALL_RATIO:
        return format_plain_number(ratio, MIN_KNOWN_DIGITS + 1)
    return f"{ratio:,.{digits}f}"


def format_verdict_cell(found: ComparedResult) -> str:
    """Format the verdict; what is not comparable could not be tested either."""
    if found.baseline:
        return "baseline"
    return NOT_COMPARABLE if found.reasons else str(found.verdict or "-")


def count_speed_verdicts(found: Sequence[Comparison]) -> str:
    """Count the verdicts of a comparison, such as `1 slower, 3 not separable`; empty without
    one.
    """
    verdicts = Counter(
        NOT_COMPARABLE if result.reasons else str(result.verdict)
        for each in found
        for result in each.results
        if result.verdict is not None and not result.baseline
    )
    order = [*map(str, SpeedVerdict), NOT_COMPARABLE]
    return ", ".join(f"{verdicts[name]} {name}" for name in order if verdicts[name])


def describe_ratio_basis(found: ComparedResult, baseline: ComparedResult | None) -> Iterator[str]:
    """Yield what a tested ratio is made of, where the values shown have another one."""
    if baseline is None or found.ratio is None or found.ratio_interval is None:
        return
    means = [compute_log_spread(each.result.runs) for each in (baseline, found)]
    if not (baseline.result.value and found.result.value and means[0] and means[1]):
        return
    shown = found.result.value / baseline.result.value
    shown = shown if is_higher_better(found.result.metric) else 1 / shown
    if abs(found.ratio / shown - 1) <= EQUAL_RATIO_SHARE:
        return
    mine, others = (
        format_known_value(
            replace(build_known_figure(each), value=convert_log_to_factor(mean.mean))
        )
        for each, mean in zip((baseline, found), filter(None, means), strict=True)
    )
    yield f"the ratio is of the geometric means of the runs: {mine} and {others}"


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

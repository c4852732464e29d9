"""Table cells of comparisons, shared by text and Markdown."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path
from typing import Final

from compliance.rules import is_published_round
from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.intervals import Interval
from submissions.compare.scaling import Scaling, ScalingStep
from submissions.compare.verdicts import SpeedVerdict
from submissions.score.within_run import WithinRun
from submissions.tables import format_metric_value, format_score_value, iterate_token_cells

COMPARISON_COLUMNS: Final = (
    "workload",
    "result",
    "times as fast",
    "system",
    "from",
    "why not, or what differs",
)
MIN_RATIO_DIGITS: Final = 2
MAX_RATIO_DIGITS: Final = 6
SMALL_RATIO: Final = 0.1
SCALING_COLUMNS: Final = (
    "workload",
    "what",
    "accelerators",
    "times as fast",
    "ideal",
    "efficiency",
    "times the samples/s",
    "system",
    "from",
)


def iterate_comparison_rows(found: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield one row per result, in reading order; published rows come last."""
    names = format_short_paths({each.path for each in found.results})
    groups = find_shared_remarks(found)
    for each in (*found.results, *found.references):
        shared = [
            text for group in groups if each.source or not group.published for text in group.remarks
        ]
        yield (
            f"{found.workload}\n{found.scenario or 'training'}",
            format_result_cell(each, found),
            f"{format_ratio_cell(each)}\n{format_verdict_cell(each)}",
            format_system_cell(each),
            format_row_origin(each) if each.source else names[each.path],
            "\n".join(iterate_result_remarks(each, found.unit, shared)),
        )


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
        if each.system is not None and not each.baseline
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
    name = f"{found.workload} {found.scenario or 'training'}"
    return [
        f"{name}, {group.rows}: {'; '.join(group.remarks)}" for group in find_shared_remarks(found)
    ]


def format_system_cell(found: ComparedResult) -> str:
    """Format a system: its name, its organisation in a published round, and its machine."""
    if found.system is None:
        return "-"
    published = found.round and not found.source and is_published_round(found.round)
    org = [found.org] if published and found.org else []
    return "\n".join([found.system, *org, str(found.machine)])


def format_short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Shorten each path: to its last part, or, if two end alike, to its part below the common
    folder.
    """
    given = set(paths)
    if len({Path(path).name for path in given}) == len(given):
        return {path: Path(path).name or path for path in given}
    # Path.resolve follows links
    above = commonpath([os.path.abspath(path) for path in given])  # noqa: PTH100
    return {path: os.path.relpath(path, above) for path in given}


def format_row_origin(found: ComparedResult) -> str:
    """Format the origin of a published row."""
    return f"{found.round}, {found.org}" if found.org else str(found.round)


def format_result_cell(found: ComparedResult, comparison: Comparison) -> str:
    """Format a value with its interval, runs and number of attempts."""
    lines = [format_metric_value(found.value, comparison.unit)]
    if found.interval:
        lines.append(format_interval(found.interval, comparison.unit))
    if len(found.runs) > 1:
        lines.append(f"{len(found.runs)} runs")
    if found.convergence_factor is not None:
        lines.append(f"with the factor {found.convergence_factor:.6g}")
    if found.attempts and found.attempts > (len(found.runs) if comparison.scenario else 1):
        lines.append(f"{found.attempts} attempts")
    return "\n".join(lines)


def format_interval(interval: Interval, unit: str) -> str:
    """Format an interval, with its unit once."""
    low, high = (
        format_metric_value(value, unit).rpartition(" ")[0]
        for value in (interval.low, interval.high)
    )
    return f"{low} to {high}"


def format_ratio_cell(found: ComparedResult) -> str:
    """Format a ratio: with its interval, or in brackets if nothing was tested."""
    if found.ratio is None:
        return "-"
    if found.baseline:
        return "1"
    if found.ratio_interval:
        low, high = found.ratio_interval.low, found.ratio_interval.high
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
    return f"{ratio:.3g}" if abs(ratio) < SMALL_RATIO else f"{ratio:.{digits}f}"


def format_verdict_cell(found: ComparedResult) -> str:
    """Format the verdict."""
    return "baseline" if found.baseline else str(found.verdict or "-")


def iterate_result_remarks(
    found: ComparedResult, unit: str, shared: Collection[str] = ()
) -> Iterator[str]:
    """Yield why there is no ratio, what difference the runs could have detected, tokens beside a
    value in `unit`, and what differs, without what all rows share.
    """
    yield from (each for each in found.reasons if each not in shared)
    if found.why:
        yield found.why
    if found.verdict is SpeedVerdict.NOT_SEPARABLE and found.shows is not None:
        yield f"these runs could have detected a difference of {100 * found.shows:.2g} % or more"
    if found.runs_for is not None:
        yield f"runs needed on each side: {found.runs_for}"
    if found.noise:
        yield f"on a disturbed host: {', '.join(found.noise)}"
    yield from (
        text if runs == 1 else f"{text} ({runs} runs)"
        for text, runs in Counter(map(format_within_run, found.within_run)).items()
    )
    if found.round and found.accuracy and is_published_round(found.round):
        yield ", ".join(
            f"{metric} {format_score_value(score)}" for metric, score in found.accuracy.items()
        )
    if beside := list(iterate_token_cells(found.tokens, unit)):
        yield ", ".join(f"{name} {figure}" for name, figure in beside)
    if found.derived:
        yield f"derived: {found.derived.value:,.6g} {found.derived.unit}"
    if notes := [each for each in found.notes if each not in shared]:
        yield "; ".join(notes)


def format_within_run(found: WithinRun) -> str:
    """Format the time-slice statistics of one run."""
    if found.low is None or found.high is None:
        return f"within this run: {found.problem}"
    low, high = (format_metric_value(value, found.unit) for value in (found.low, found.high))
    return f"within this run: {found.metric} {low} to {high}"


def iterate_scaling_rows(found: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield one row per number of accelerators."""
    names = format_short_paths({each.path for each in found.steps})
    for each in found.steps:
        yield (
            found.workload,
            found.scenario or "training",
            f"{each.accelerators} x {found.accelerator}",
            f"{each.speed_up:.2f}",
            f"{each.ideal:.2f}",
            format_scaling_efficiency(each),
            "-" if each.throughput is None else f"{each.throughput:.2f}",
            each.system or "-",
            names[each.path],
        )


def format_scaling_efficiency(step: ScalingStep) -> str:
    """Format the efficiency."""
    text = f"{step.efficiency:.3f}"
    return (
        f"{text} ({step.interval.low:.3f} to {step.interval.high:.3f})" if step.interval else text
    )

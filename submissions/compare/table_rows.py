"""Table cells of comparisons, shared by text and Markdown."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from os.path import commonpath
from pathlib import Path
from typing import Final

from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.intervals import Interval
from submissions.compare.scaling import Scaling, ScalingStep
from submissions.compare.verdicts import SpeedVerdict
from submissions.score.within_run import WithinRun
from submissions.tables import format_metric_value

COMPARISON_COLUMNS: Final = (
    "workload",
    "result",
    "times as fast",
    "system",
    "from",
    "why not, or what differs",
)
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
    for each in (*found.results, *found.references):
        yield (
            f"{found.workload}\n{found.scenario or 'training'}",
            format_result_cell(each, found),
            f"{format_ratio_cell(each)}\n{format_verdict_cell(each)}",
            f"{each.system}\n{each.machine}" if each.system is not None else "-",
            format_row_origin(each) if each.source else names[each.path],
            "\n".join(iterate_result_remarks(each)),
        )


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
        return (
            f"{found.ratio:.2f} ({found.ratio_interval.low:.2f} to {found.ratio_interval.high:.2f})"
        )
    return (
        f"({found.ratio:.2f})" if found.verdict is SpeedVerdict.NOT_TESTED else f"{found.ratio:.2f}"
    )


def format_verdict_cell(found: ComparedResult) -> str:
    """Format the verdict."""
    return "baseline" if found.baseline else str(found.verdict or "-")


def iterate_result_remarks(found: ComparedResult) -> Iterator[str]:
    """Yield why there is no ratio, what difference the runs could have detected, and what
    differs.
    """
    yield from found.reasons
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
    if found.derived:
        yield f"derived: {found.derived.value:,.6g} {found.derived.unit}"
    if found.notes:
        yield "; ".join(found.notes)


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

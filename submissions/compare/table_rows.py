"""Table cells of comparisons, shared by text and Markdown."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from os.path import commonpath
from pathlib import Path
from typing import Final

from submissions.compare.comparison import Compared, Comparison
from submissions.compare.intervals import Interval
from submissions.compare.scaling import Scaling, Step
from submissions.compare.verdicts import Verdict
from submissions.score.within_run import WithinRun
from submissions.tables import shown

HEAD: Final = ("workload", "result", "times as fast", "system", "from", "why not, or what differs")
SCALING_HEAD: Final = (
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


def rows(found: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield one row per result, in reading order; published rows come last."""
    names = named({each.path for each in found.results})
    for each in (*found.results, *found.references):
        yield (
            f"{found.workload}\n{found.scenario or 'training'}",
            result(each, found),
            f"{ratio(each)}\n{said(each)}",
            f"{each.system}\n{each.machine}" if each.system is not None else "-",
            origin(each) if each.source else names[each.path],
            "\n".join(told(each)),
        )


def named(paths: Iterable[str]) -> dict[str, str]:
    """Shorten each path: to its last part, or, if two end alike, to its part below the common
    folder.
    """
    given = set(paths)
    if len({Path(path).name for path in given}) == len(given):
        return {path: Path(path).name or path for path in given}
    above = commonpath([os.path.abspath(path) for path in given])  # noqa: PTH100 - Path.resolve follows links
    return {path: os.path.relpath(path, above) for path in given}


def origin(found: Compared) -> str:
    """Name the origin of a published row."""
    return f"{found.round}, {found.org}" if found.org else str(found.round)


def result(found: Compared, of: Comparison) -> str:
    """Format a value with its interval, runs and number of attempts."""
    lines = [shown(found.value, of.unit)]
    if found.interval:
        lines.append(between(found.interval, of.unit))
    if len(found.runs) > 1:
        lines.append(f"{len(found.runs)} runs")
    if found.attempts and found.attempts > (len(found.runs) if of.scenario else 1):
        lines.append(f"{found.attempts} attempts")
    return "\n".join(lines)


def between(interval: Interval, unit: str) -> str:
    """Format an interval, with its unit once."""
    low, high = (shown(value, unit).rpartition(" ")[0] for value in (interval.low, interval.high))
    return f"{low} to {high}"


def ratio(found: Compared) -> str:
    """Format a ratio: with its interval, or in brackets if nothing was tested."""
    if found.ratio is None:
        return "-"
    if found.baseline:
        return "1"
    if found.ratio_interval:
        return (
            f"{found.ratio:.2f} ({found.ratio_interval.low:.2f} to {found.ratio_interval.high:.2f})"
        )
    return f"({found.ratio:.2f})" if found.verdict is Verdict.NOT_TESTED else f"{found.ratio:.2f}"


def said(found: Compared) -> str:
    """Format the verdict."""
    return "baseline" if found.baseline else str(found.verdict or "-")


def told(found: Compared) -> Iterator[str]:
    """Yield why there is no ratio, what the runs could have detected, and what differs."""
    yield from found.reasons
    if found.why:
        yield found.why
    if found.verdict is Verdict.NOT_SEPARABLE and found.shows is not None:
        yield f"these runs could have shown {100 * found.shows:.2g} % or more"
    if found.runs_for is not None:
        yield f"needed: {found.runs_for} runs each"
    if found.noise:
        yield f"on a disturbed host: {', '.join(found.noise)}"
    yield from (
        text if runs == 1 else f"{text} ({runs} runs)"
        for text, runs in Counter(map(within, found.within_run)).items()
    )
    if found.derived:
        yield f"derived: {found.derived.value:,.6g} {found.derived.unit}"
    if found.notes:
        yield "; ".join(found.notes)


def within(found: WithinRun) -> str:
    """Format the time-slice statistics of one run."""
    if found.low is None or found.high is None:
        return f"within this run: {found.problem}"
    low, high = (shown(value, found.unit) for value in (found.low, found.high))
    return f"within this run: {found.metric} {low} to {high}"


def steps(found: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield one row per number of accelerators."""
    names = named({each.path for each in found.steps})
    for each in found.steps:
        yield (
            found.workload,
            found.scenario or "training",
            f"{each.accelerators} x {found.accelerator}",
            f"{each.speed_up:.2f}",
            f"{each.ideal:.2f}",
            efficiency(each),
            "-" if each.throughput is None else f"{each.throughput:.2f}",
            each.system or "-",
            names[each.path],
        )


def efficiency(step: Step) -> str:
    """Format the efficiency."""
    text = f"{step.efficiency:.3f}"
    return (
        f"{text} ({step.interval.low:.3f} to {step.interval.high:.3f})" if step.interval else text
    )

"""The top of a report: what was measured, the results, and their uncertainty."""

from collections.abc import Iterator, Sequence
from typing import Final

from submissions.compare import intervals
from submissions.compare.compared_results import ComparisonSide
from submissions.compare.table_rows import format_interval
from submissions.metrics import LATENCY_PREFIX
from submissions.report.document import Headline, Tile, Tone
from submissions.report.sections import names
from submissions.report.sections.serving import ESTIMATE_NAME, find_estimated_percentile
from submissions.report.sections.training import find_headline_minutes
from submissions.score.score import Score
from submissions.tables import format_metric_value, format_score_target, format_score_value
from suite import registry

INTERVAL_CONFIDENCE: Final = 0.95
MIN_RUNS_FOR_INTERVAL: Final = 3
"""Minimum number of runs for a meaningful interval."""
MAX_NAMED_ORGANISATIONS: Final = 2
"""Maximum number of organisations in a title; more are counted."""
SMALL_RUN_COUNTS: Final = ("no run", "one run", "two runs")


def find_workload_title(workload: str) -> str:
    """Return a workload's title, or its name if the round lacks the workload."""
    row = registry.load_round().benchmarks.get(workload)
    return row.title if row else workload


def format_results_title(sides: Sequence[ComparisonSide], *, several: bool = False) -> str:
    """Return a title for the results of a path: with the system, if there is only one and the
    report has several, and with the organisations of published results.
    """
    workloads = list(dict.fromkeys(each.score.workload for each in sides))
    title = (
        " and ".join(map(find_workload_title, workloads))
        if len(workloads) <= 2
        else f"{len(workloads)} workloads"
    )
    origins = list(
        dict.fromkeys(names.format_result_origin(each, several=several) for each in sides)
    )
    if len(origins) == 1:
        return ": ".join(filter(None, (title, *origins)))
    organisations = list(
        dict.fromkeys(each.score.org for each in sides if names.is_published_score(each.score))
    )
    if len(organisations) > MAX_NAMED_ORGANISATIONS:
        return f"{title} of {len(organisations)} organisations"
    return ": ".join(filter(None, (title, " and ".join(organisations))))


def describe_measured_systems(sides: Sequence[ComparisonSide]) -> Iterator[tuple[str, str]]:
    """Yield the facts: who ran what, and on which machine."""
    described: list[tuple[str, list[object]]] = [
        ("Round", [f"{each.score.round}, {each.score.profile}" for each in sides]),
        ("Division", [each.score.division for each in sides]),
        ("Organisation", [each.score.org for each in sides]),
        ("System", [each.score.system for each in sides]),
        ("Machine", [names.format_side_machine(each) for each in sides]),
        ("Precision", [each.precision for each in sides]),
        ("Engine", [each.engine for each in sides if each.score.scenario]),
        ("Framework", [each.engine for each in sides if not each.score.scenario]),
    ]
    for name, values in described:
        # a machine's own description has commas
        between = "; " if name == "Machine" else ", "
        words = between.join(dict.fromkeys(str(value) for value in values if value))
        if words:
            yield name, words


def build_result_tiles(sides: Sequence[ComparisonSide], *, several: bool = False) -> Iterator[Tile]:
    """Yield a headline per result; `several` means that the report has other systems elsewhere."""
    several = several or names.has_several_systems(sides)
    workloads = len({each.score.workload for each in sides}) > 1
    for each in sides:
        score = each.score
        value, _, unit = format_metric_value(score.value, score.unit).partition(" ")
        percentile = (
            score.metric.removeprefix(LATENCY_PREFIX)
            if score.metric.startswith(LATENCY_PREFIX)
            else ""
        )
        prefix = f"{score.workload}: " if workloads else ""
        yield Tile(
            name=f"{prefix}{score.scenario or 'Time to train'}",
            origin=names.format_result_origin(each, several=several, machine=True),
            value=value,
            unit=f"{unit} {percentile}".strip(),
            note=format_tile_note(each),
            tone=Tone.PLAIN if score.compliant else Tone.BAD,
        )


def format_tile_note(side: ComparisonSide) -> str:
    """Describe a value's uncertainty, its quality, and whether it is valid."""
    score = side.score
    interval = (
        intervals.estimate_value_interval(score.value, score.runs, INTERVAL_CONFIDENCE)
        if len(score.runs) >= MIN_RUNS_FOR_INTERVAL
        else None
    )
    estimated = f"LoadGen's {ESTIMATE_NAME}" if find_estimated_percentile(score) else ""
    certain = (
        f"{format_interval(interval, score.unit)}, {len(score.runs)} runs"
        if interval
        else f"not tested: {format_run_count(len(score.runs))}"
    )
    scores = (
        (
            f"{name} {format_score_value(value)}",
            f" of {format_score_target(score, name)}" if name in score.target else "",
        )
        for name, value in score.accuracy.items()
    )
    quality = ", ".join(map("".join, scores))
    return ". ".join(
        filter(
            None,
            [
                "; ".join(filter(None, [estimated, certain])),
                quality,
                describe_headline_minutes(score),
                "" if score.compliant else "Not compliant",
            ],
        )
    )


def describe_headline_minutes(score: Score) -> str:
    """Give the minutes that MLCommons' tables show, where they are not those of the runs."""
    minutes = find_headline_minutes(score)
    factor = (score.convergence or {}).get("factor")
    if minutes is None or minutes == score.value or not isinstance(factor, float):
        return ""
    return (
        f"MLCommons' headline: {format_metric_value(minutes, score.unit)}, times the convergence"
        f" factor {factor:.6g}"
    )


def format_run_count(runs: int) -> str:
    """Format the number of runs."""
    return SMALL_RUN_COUNTS[runs] if runs < len(SMALL_RUN_COUNTS) else f"{runs} runs"


def build_result_headline(
    side: ComparisonSide, attempts: int | None = None, date: str = ""
) -> Headline:
    """Convert a result to data."""
    score = side.score
    interval = (
        intervals.estimate_value_interval(score.value, score.runs, INTERVAL_CONFIDENCE)
        if len(score.runs) >= MIN_RUNS_FOR_INTERVAL
        else None
    )
    checkpoint = side.said.get("checkpoint")
    return Headline(
        workload=score.workload,
        scenario=score.scenario,
        metric=score.metric,
        value=score.value,
        unit=score.unit,
        runs=score.runs,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        compliant=score.compliant,
        system=score.system,
        org=score.org,
        division=score.division,
        profile=score.profile,
        round=score.round,
        accuracy=dict(score.accuracy),
        target=dict(score.target),
        precision=side.precision,
        engine=side.engine,
        accelerator=side.machine.accelerator,
        accelerators=side.machine.accelerators,
        nodes=side.machine.nodes,
        described=dict(side.described),
        checkpoint=str(checkpoint) if checkpoint else None,
        attempts=attempts,
        noise=score.noise,
        convergence=dict(score.convergence or {}),
        lower_is_better=score.lower_is_better,
        date=date,
        energy=score.energy,
    )

"""The top of a report: what was measured, the results, and their uncertainty."""

from collections.abc import Iterator, Sequence
from typing import Final

from submissions.cells import (
    describe_tries,
    explain_missing_interval,
    format_metric_value,
    format_named_score,
    format_score_target,
)
from submissions.report.document import Tile, Tone
from submissions.report.sections import names
from submissions.report.sections.serving import ESTIMATE_NAME, find_estimated_percentile
from submissions.result_columns import RESULT_COLUMNS
from suite import registry
from suite.human_numbers import format_whole_digits
from suite.measurement.metrics import LATENCY_PREFIX
from suite.result import Result

DISTURBED_REMARK: Final = "disturbed"
"""Of a result whose runs the judge warns about: another program, a clock, a temperature."""
MAX_NAMED_ORGANISATIONS: Final = 2
"""Maximum number of organisations in a title; more are counted."""


def find_workload_title(workload: str) -> str:
    """Return a workload's title, or its name if the round lacks the workload."""
    row = registry.load_round().benchmarks.get(workload)
    if row:
        return row.title
    return workload


def format_results_title(sides: Sequence[Result], *, several: bool = False) -> str:
    """Return a title for the results of a path: with the system, if there is only one and the
    report has several, and with the organisations of published results.
    """
    workloads = list(dict.fromkeys(each.workload for each in sides))
    if len(workloads) <= 2:
        title = " and ".join(map(find_workload_title, workloads))
    else:
        title = f"{len(workloads)} workloads"
    origins = list(
        dict.fromkeys(names.format_result_origin(each, several=several) for each in sides)
    )
    if len(origins) == 1:
        return ": ".join(filter(None, (title, *origins)))
    organisations = list(
        dict.fromkeys(each.org for each in sides if names.is_published_score(each))
    )
    if len(organisations) > MAX_NAMED_ORGANISATIONS:
        return f"{title} of {len(organisations)} organisations"
    return ": ".join(filter(None, (title, " and ".join(organisations))))


def describe_measured_systems(sides: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield the facts: who ran what, and on which machine."""
    described: list[tuple[str, list[object]]] = [
        ("Round", [f"{each.round}, {each.profile}" for each in sides]),
        ("Division", [each.division for each in sides]),
        ("Organisation", [each.org for each in sides]),
        ("System", [each.system for each in sides]),
        ("Machine", [names.format_side_machine(each) for each in sides]),
        ("Precision", [each.precision_words for each in sides]),
        ("Engine", [each.engine_words for each in sides if each.scenario]),
        ("Framework", [each.engine for each in sides if not each.scenario]),
    ]
    for name, values in described:
        # a machine's own description has commas
        between = "; " if name == "Machine" else ", "
        words = between.join(dict.fromkeys(str(value) for value in values if value))
        if words:
            yield name, words


def build_result_tiles(sides: Sequence[Result], *, several: bool = False) -> Iterator[Tile]:
    """Yield a headline per result; `several` means that the report has other systems elsewhere."""
    several = several or names.has_several_systems(sides)
    workloads = len({each.workload for each in sides}) > 1
    for each in sides:
        score = each
        value, _, unit = RESULT_COLUMNS["value"].format_cell(score).partition(" ")
        percentile = ""
        if score.metric.startswith(LATENCY_PREFIX):
            percentile = score.metric.removeprefix(LATENCY_PREFIX)
        prefix = f"{score.workload}: " if workloads else ""
        yield Tile(
            name=f"{prefix}{score.scenario or 'Time to train'}",
            origin=names.format_result_origin(each, several=several, machine=True),
            value=value,
            unit=f"{unit} {percentile}".strip(),
            note=format_tile_note(each),
            tone=Tone.PLAIN if score.compliant else Tone.BAD,
        )


def format_tile_note(side: Result) -> str:
    """Describe a value's uncertainty, its quality, and whether it is valid."""
    score = side
    between = RESULT_COLUMNS["interval"].format_cell(score)
    estimated = f"LoadGen's {ESTIMATE_NAME}" if find_estimated_percentile(score) else ""
    if between:
        certain = f"{between}, {len(score.runs)} runs"
    else:
        certain = (
            explain_missing_interval(len(score.runs))
            or f"{len(score.runs)} equal runs, no interval"
        )
    scores = (
        (
            format_named_score(name, value),
            f" of {format_score_target(score, name)}" if name in score.target else "",
        )
        for name, value in score.accuracy.items()
    )
    quality = ", ".join(map("".join, scores))
    return ". ".join(
        filter(
            None,
            [
                "; ".join(
                    filter(None, [estimated, ", ".join([certain, *iterate_run_remarks(score)])])
                ),
                quality,
                describe_headline_minutes(score),
                "" if score.compliant else "Not compliant",
            ],
        )
    )


def iterate_run_remarks(score: Result) -> Iterator[str]:
    """Yield what a reader must know of how a value came about: the tries, and a disturbance."""
    if tries := describe_tries(score):
        yield tries
    if score.noise:
        yield DISTURBED_REMARK


def describe_headline_minutes(score: Result) -> str:
    """Give the minutes that MLCommons' tables show, where they are not those of the runs."""
    if score.convergence is None or score.headline == score.value:
        return ""
    return (
        f"MLCommons' headline: {format_metric_value(score.headline, score.unit)}, times the"
        f" convergence factor {format_whole_digits(score.convergence.factor, 6)}"
    )

"""The head of a report: what was measured, how fast, and with which uncertainty."""

from collections.abc import Iterator, Sequence
from typing import Final

from submissions.compare import intervals
from submissions.compare.compared_results import Side
from submissions.compare.table_rows import between
from submissions.metrics import LATENCY
from submissions.report.document import Headline, Tile, Tone
from submissions.report.sections.serving import ESTIMATE, percentile_of
from submissions.tables import digits, shown
from suite import registry

CONFIDENCE: Final = 0.95
FEWEST: Final = 3
"""Minimum number of runs for a meaningful interval."""
COUNTS: Final = ("no run", "one run", "two runs")


def title_of(workload: str) -> str:
    """Return a workload's title, or its name if the round does not have it."""
    row = registry.round().benchmarks.get(workload)
    return row.title if row else workload


def title(sides: Sequence[Side]) -> str:
    """Return a title for the results of a path."""
    workloads = list(dict.fromkeys(each.score.workload for each in sides))
    return (
        " and ".join(map(title_of, workloads))
        if len(workloads) <= 2
        else f"{len(workloads)} workloads"
    )


def facts(sides: Sequence[Side]) -> Iterator[tuple[str, str]]:
    """Yield facts: who ran what, and on which machine."""
    told: list[tuple[str, list[object]]] = [
        ("Round", [f"{each.score.round}, {each.score.profile}" for each in sides]),
        ("Division", [each.score.division for each in sides]),
        ("Organisation", [each.score.org for each in sides]),
        ("System", [each.score.system for each in sides]),
        ("Machine", [str(each.machine) for each in sides]),
        ("Number format", [each.precision for each in sides]),
        ("Engine", [each.engine for each in sides if each.score.scenario]),
        ("Framework", [each.engine for each in sides if not each.score.scenario]),
    ]
    for name, values in told:
        words = ", ".join(dict.fromkeys(str(value) for value in values if value))
        if words:
            yield name, words


def tiles(sides: Sequence[Side]) -> Iterator[Tile]:
    """Yield a headline per result."""
    several = len({each.score.workload for each in sides}) > 1
    systems = len({each.score.system for each in sides if each.score.scenario}) > 1
    for each in sides:
        score = each.score
        value, _, unit = shown(score.value, score.unit).partition(" ")
        percentile = score.metric.removeprefix(LATENCY) if score.metric.startswith(LATENCY) else ""
        prefix = f"{score.workload}: " if several else ""
        suffix = f", {each.engine} {each.precision}" if systems and score.scenario else ""
        name, tone = (
            f"{prefix}{score.scenario or 'Time to train'}{suffix}",
            (Tone.PLAIN if score.compliant else Tone.BAD),
        )
        yield Tile(
            name=name, value=value, unit=f"{unit} {percentile}".strip(), note=note(each), tone=tone
        )


def note(side: Side) -> str:
    """Describe a value's uncertainty, its quality, and whether it counts."""
    score = side.score
    interval = (
        intervals.around(score.value, score.runs, CONFIDENCE) if len(score.runs) >= FEWEST else None
    )
    estimated = f"LoadGen's {ESTIMATE}" if percentile_of(score) else ""
    certain = (
        f"{between(interval, score.unit)}, {len(score.runs)} runs"
        if interval
        else f"not tested: {count(len(score.runs))}"
    )
    scores = (
        (
            f"{name} {digits(value)}",
            f" of {digits(score.target[name])}" if name in score.target else "",
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
                "" if score.compliant else "Not compliant",
            ],
        )
    )


def count(runs: int) -> str:
    """Format the number of runs."""
    return COUNTS[runs] if runs < len(COUNTS) else f"{runs} runs"


def headline(side: Side, attempts: int | None = None) -> Headline:
    """Convert a result to data."""
    score = side.score
    interval = (
        intervals.around(score.value, score.runs, CONFIDENCE) if len(score.runs) >= FEWEST else None
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
    )

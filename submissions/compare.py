"""Comparisons: each result beside the first of its kind, with the reasons why two may not be compared.

Two results are compared only where the same thing was measured under the same rules; what differs and may, is said.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from compliance.manifest import environment_or_none
from submissions import readings
from submissions.layout import Result, opened
from submissions.package import damage
from submissions.score import Score, score
from suite import registry
from suite.errors import JudgedError, PodiumError
from suite.events import DEVICE, EVAL_SAMPLES, FRAMEWORK, NONCE, PRECISION, QUALITY_TARGET, SETTINGS, THREADS, TRAIN_SAMPLES, WORLD_SIZE
from suite.layout import fold

TASK: Final = {"target": QUALITY_TARGET, "training samples": TRAIN_SAMPLES, "evaluation samples": EVAL_SAMPLES}
"""What must be the same of two training sets -> the event that says it."""
DESCRIBED: Final = {
    "cores": "host_processor_core_count",
    "processors": "host_processors_per_node",
    "accelerators": "accelerators_per_node",
    "nodes": "number_of_nodes",
}
"""Name in a note -> field of the system description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One result, and what decides whether another may stand beside it."""

    path: str
    """As given."""
    score: Score
    precision: str
    engine: str
    """Of inference; the framework, of training."""
    task: Mapping[str, Any]
    """Target and data settings: they must be the same."""
    quality: Mapping[str, float]
    """Of the served checkpoint in fp32; empty for training."""
    campaign: str = ""
    """Its nonce; empty where the results have none."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """What it ran on and with how much of it: it may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One result beside the first of its kind."""

    path: str
    org: str | None
    system: str | None
    precision: str | None
    engine: str | None
    value: float | None
    ratio: float | None
    """How many times as fast as the first; None where they may not be compared."""
    reasons: tuple[str, ...]
    """Why they may not be."""
    notes: tuple[str, ...]
    """What differs, and may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All results of one workload and scenario."""

    workload: str
    scenario: str | None
    metric: str
    unit: str
    comparable: bool
    """Every one with the first."""
    results: tuple[Compared, ...]


def side(path: Path, result: Result, whole: bool = True) -> Side:
    """Read one result; JudgedError where it cannot be. Nothing of a bundle that is not whole and valid is compliant."""
    traits = served_traits(result) if result.scenario else trained_traits(result)
    row = score(result)
    return Side(path=str(path), score=replace(row, compliant=row.compliant and whole), hardware=hardware(result), **traits)


def trained_traits(result: Result) -> dict[str, Any]:
    """Read what training was of."""
    stamps = readings.training(result.logs[0]).stamps
    settings = stamps.get(SETTINGS)
    return {
        "precision": str(stamps.get(PRECISION)),
        "engine": str(stamps.get(FRAMEWORK)),
        "task": {key: stamps.get(event) for key, event in TASK.items()} | data_settings(settings if isinstance(settings, dict) else {}),
        "quality": {},
        "campaign": str(stamps.get(NONCE) or ""),
    }


def served_traits(result: Result) -> dict[str, Any]:
    """Read what was served."""
    if not result.performance:
        raise JudgedError(f"{result.folder}: no performance run in it")
    record = readings.served(result.performance[0])
    return {
        "precision": record.precision,
        "engine": record.engine,
        "task": {"sample_count": record.sample_count} | data_settings(record.settings),
        "quality": readings.reference_accuracy(result.folder) if result.home else {},
        "campaign": record.nonce,
    }


def hardware(result: Result) -> dict[str, Any]:
    """Read what a result ran on: device and threads by its logs, the rest by its system's description."""
    if result.scenario:
        record = readings.served(result.performance[0])
        own: dict[str, Any] = {"device": record.device, "threads": record.threads}
    else:
        stamps = readings.training(result.logs[0]).stamps
        own = {name: stamps.get(event) for name, event in (("device", DEVICE), ("threads", THREADS), ("world size", WORLD_SIZE))}
    described = environment_or_none(result.system_file) if result.home else None
    found = described["hardware"] if described else {}
    return own | {name: found.get(field) for name, field in DESCRIBED.items()}


def data_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that say what the data is; who decodes it with how many workers is no part of that."""
    return {key: value for key, value in settings.items() if key.startswith("data.") and key != "data.workers"}


def reasons(first: Side, other: Side) -> Iterator[str]:
    """Say why two results may not be compared."""
    for name in ("round", "profile", "division", "metric"):
        mine, others = getattr(first.score, name), getattr(other.score, name)
        if mine != others:
            yield f"{name}: {mine} and {others}"
    yield from same_campaign(first, other)
    for key in sorted(first.task.keys() | other.task.keys()):
        if first.task.get(key) != other.task.get(key):
            yield f"{key}: {first.task.get(key)} and {other.task.get(key)}"
    for each in (first, other):
        yield from unfit(each, "the first" if each is first else "this")


def same_campaign(first: Side, other: Side) -> Iterator[str]:
    """Say where one campaign stands under two names, or with two results: a nonce is drawn for each."""
    if not first.campaign or first.campaign != other.campaign:
        return
    if first.score.org != other.score.org:
        yield f"one campaign under two organisations: {first.score.org} and {other.score.org}"
    if first.score.system == other.score.system and first.score.value != other.score.value:
        yield "one campaign with two results"


def unfit(one: Side, name: str) -> Iterator[str]:
    """Say why a result may be compared with none."""
    if not one.score.compliant:
        yield f"{name} is not compliant"
    if one.score.value is None:
        yield f"{name} has no mean: too many runs missed the target"
    for metric, target in targets(one.score).items():
        if one.quality and one.quality.get(metric, 0.0) < target:
            yield f"{name} serves a checkpoint of {metric} {one.quality.get(metric, 0.0):.4f}, below the target of {target:.4f}"


def targets(row: Score) -> Mapping[str, float]:
    """Give the quality that a checkpoint of this row's workload must have; nothing where its round has no such row."""
    try:
        training = registry.round(row.round).benchmark(row.workload).training
    except PodiumError:
        return {}
    return next((rules.target for profile, rules in training.items() if profile == row.profile), {})


def notes(first: Side, other: Side) -> Iterator[str]:
    """Say what differs and may."""
    for name in ("precision", "engine"):
        if getattr(first, name) != getattr(other, name):
            yield f"{name}: {getattr(first, name)} and {getattr(other, name)}"
    for name in sorted(first.hardware.keys() & other.hardware.keys()):
        if first.hardware[name] != other.hardware[name]:
            yield f"{name}: {first.hardware[name]} and {other.hardware[name]}"
    if first.quality != other.quality:
        yield f"checkpoint quality: {quality(first)} and {quality(other)}"
    if len(first.score.runs) != len(other.score.runs):
        yield f"runs: {len(first.score.runs)} and {len(other.score.runs)}"


def quality(one: Side) -> str:
    """Print a checkpoint's quality."""
    return ", ".join(f"{metric} {value:.4f}" for metric, value in one.quality.items()) or "unknown"


def beside(first: Side, other: Side) -> Compared:
    """Put a result beside the first of its kind; the first beside itself is only looked at for its own faults."""
    found = tuple(unfit(first, "this")) if other is first else tuple(reasons(first, other))
    values = (first.score.value, other.score.value)
    ratio = None
    if not found and values[0] and values[1]:
        ratio = values[1] / values[0] if readings.more_is_better(first.score.metric) else values[0] / values[1]
    return Compared(
        path=other.path,
        org=other.score.org,
        system=other.score.system,
        precision=other.precision,
        engine=other.engine,
        value=other.score.value,
        ratio=ratio,
        reasons=found,
        notes=tuple(notes(first, other)),
    )


def absent(path: str) -> Compared:
    """Say that a path has no result of a kind."""
    return Compared(
        path=path, org=None, system=None, precision=None, engine=None, value=None, ratio=None, reasons=("has no such result",), notes=()
    )


def compare(sides: Sequence[Side], paths: Sequence[str]) -> list[Comparison]:
    """Compare the results of several paths, kind by kind, in the order of the paths."""
    kinds: dict[tuple[str, str | None], list[Side]] = {}
    for each in sides:
        kinds.setdefault((fold(each.score.workload), each.score.scenario), []).append(each)
    found = []
    for (_, scenario), group in sorted(kinds.items(), key=lambda kind: (kind[0][0], kind[0][1] or "")):
        results = [beside(group[0], each) for each in group]
        results += [absent(path) for path in paths if path not in {each.path for each in group}]
        first = group[0].score
        found.append(
            Comparison(
                workload=first.workload,
                scenario=scenario,
                metric=first.metric,
                unit=first.unit,
                comparable=len(results) > 1 and not any(result.reasons for result in results),
                results=tuple(results),
            )
        )
    return found


def read(paths: Iterable[Path], problems: list[str]) -> list[Side]:
    """Read all results of some paths; what cannot be read is told in `problems`."""
    sides: list[Side] = []
    for path in paths:
        try:
            with opened(path) as results:
                broken = damage(path)
                problems += broken
                sides += read_all(path, results, problems, whole=not broken)
        except JudgedError as error:
            problems.append(str(error))
    return sides


def read_all(path: Path, results: Iterable[Result], problems: list[str], whole: bool) -> Iterator[Side]:
    """Read the results of one path."""
    for result in results:
        try:
            yield side(path, result, whole)
        except JudgedError as error:
            problems.append(str(error))


def report(paths: Sequence[Path], form: str) -> None:
    """Print the comparison; JudgedError at the end where something could not be read or does not count."""
    problems: list[str] = []
    sides = read(paths, problems)
    found = compare(sides, [str(path) for path in paths])
    if form == "json":
        click.echo(json.dumps({"comparisons": [asdict(comparison) for comparison in found]}, indent=2))
    elif found:
        from submissions.report import print_comparisons

        print_comparisons(found)
    problems += [f"{each.path}: {each.score.workload} {each.score.scenario or 'training'} is not compliant" for each in sides if not each.score.compliant]
    if problems:
        raise JudgedError("\n  ".join(["not everything counts:", *problems]))

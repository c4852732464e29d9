"""Decides whether two results are comparable: which properties must be equal, and which differences
are only reported.

Two results are comparable only if the same thing was measured under the same rules. Source:
mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, sections 4 and 5; additional
conditions of podium's own rounds are house rules.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from suite import registry
from suite.errors import PodiumError
from suite.files.layout import fold_name
from suite.human_numbers import format_plain_number, format_whole_digits
from suite.result import PUBLISHED_PROFILE, Machine, Result
from suite.rounds.compatibility import has_comparable_rounds
from suite.rounds.quality import has_reached_target

UNKNOWN_TRAIT: Final = "unknown"
TRAIT_DIGITS: Final = 6
"""Digits of a setting or figure that is told as a difference."""


def find_incomparability_reasons(first: Result, other: Result) -> Iterator[str]:
    """Yield the reasons why two results are not comparable."""
    mine, others = first, other
    if not has_comparable_rounds(first.half, mine.workload, mine.round, others.round):
        yield f"round: {mine.round} and {others.round}"
    for name in ("profile", "division", "metric", "unit"):
        if getattr(mine, name) != getattr(others, name):
            yield (
                f"{name}: {getattr(mine, name) or 'unknown'} and "
                f"{getattr(others, name) or 'unknown'}"
            )
    yield from find_shared_campaign(first, other)
    if (mine.profile == PUBLISHED_PROFILE) == (others.profile == PUBLISHED_PROFILE):
        yield from find_task_differences(first, other)
    yield from find_unfitness_reasons(first, "the first")
    yield from find_unfitness_reasons(other, "this")


def find_task_differences(first: Result, other: Result) -> Iterator[str]:
    """Yield differences in target and data. A published result states none, since its round fixes
    them: beside one of podium's own rounds, the rounds differ, and say so.
    """
    for key in sorted(first.made_with.task.keys() | other.made_with.task.keys()):
        if first.made_with.task.get(key) != other.made_with.task.get(key):
            mine, others = (
                format_trait_value(each.made_with.task.get(key)) for each in (first, other)
            )
            yield f"{key}: {mine} and {others}"


def find_shared_campaign(first: Result, other: Result) -> Iterator[str]:
    """Yield a reason if two results share a campaign: each campaign draws its own nonce, so it
    cannot have two organisations or two results.
    """
    if not first.made_with.campaign or first.made_with.campaign != other.made_with.campaign:
        return
    if first.org != other.org:
        yield f"one campaign under two organisations: {first.org} and {other.org}"
    if first.system == other.system and first.value != other.value:
        yield "one campaign with two results"


def find_unfitness_reasons(one: Result, name: str) -> Iterator[str]:
    """Yield the reasons why a result cannot be compared with any other."""
    if not one.compliant:
        yield f"{name} is not compliant"
    if one.value is None:
        yield f"{name} has no mean, because too many runs missed the target"
    for metric, target in select_quality_targets(one).items():
        quality = one.made_with.checkpoint_quality.get(metric, 0.0)
        if one.made_with.checkpoint_quality and not has_reached_target(
            {metric: quality}, {metric: target}
        ):
            yield (
                f"{name} serves a checkpoint with {metric} {quality:.4f}, below the target of"
                f" {target:.4f}"
            )


def select_quality_targets(score: Result) -> Mapping[str, float]:
    """Return the quality that the round requires from a checkpoint of this workload, in the metrics
    that served results have, all higher-is-better; empty if the round has no such row.
    """
    try:
        row = registry.load_round(score.round).benchmark(score.workload)
    except PodiumError:
        return {}
    target = next((half.target for key, half in row.training.items() if key == score.profile), {})
    return {metric: goal for metric, goal in target.items() if metric in row.scored_metrics}


def explain_missing_ratio(first: str, other: str) -> str:
    """Explain why two rates have no ratio, from the rates that were requested of either; empty if
    they have one. If a rate was requested rather than searched for, a ratio or a test would compare
    settings, not systems.
    """
    if first and other:
        return f"run at requested rates, {first} and {other}; neither was searched for"
    requested_rate = first or other
    if not requested_rate:
        return ""
    return f"run at a requested rate, {requested_rate}; it was not searched for"


def find_allowed_differences(first: Result, other: Result) -> Iterator[str]:
    """Yield allowed differences."""
    mine, others = first, other
    if (
        first.made_with.campaign == other.made_with.campaign != ""
        and (mine.system, mine.value) == (others.system, others.value)
        and first.precision == other.precision
    ):
        yield "the same campaign: both are one result"
    if mine.round != others.round:
        yield f"round: {mine.round} and {others.round}"
    yield from find_engine_differences(first, other)
    yield from find_machine_differences(first.machine, other.machine)
    for name in sorted(first.made_with.said.keys() & other.made_with.said.keys()):
        mine, others = first.made_with.said[name], other.made_with.said[name]
        if None not in (mine, others) and mine != others:
            yield f"{name}: {format_trait_value(mine)} and {format_trait_value(others)}"
    if first.made_with.checkpoint_quality != other.made_with.checkpoint_quality:
        yield (
            f"checkpoint quality: {format_checkpoint_quality(first)} and"
            f" {format_checkpoint_quality(other)}"
        )
    if first.figure.factor != other.figure.factor:
        yield (
            f"convergence factor: {format_convergence_factor(first)} and"
            f" {format_convergence_factor(other)}"
        )
    if len(first.runs) != len(other.runs):
        yield f"runs: {len(first.runs)} and {len(other.runs)}"


def format_convergence_factor(one: Result) -> str:
    """Format the factor that a result's minutes contain."""
    if one.figure.factor is None:
        return "none"
    return format_whole_digits(one.figure.factor, 6)


def find_machine_differences(first: Machine, other: Machine) -> Iterator[str]:
    """Yield differences in accelerators and nodes, including unknown ones."""
    for name in Machine.__slots__:
        if normalise_trait_spelling(getattr(first, name)) != normalise_trait_spelling(
            getattr(other, name)
        ):
            yield (
                f"{name}: {format_trait_value(getattr(first, name))} and"
                f" {format_trait_value(getattr(other, name))}"
            )


def normalise_trait_spelling(value: object) -> object:
    """Normalise names that differ only in spelling."""
    if isinstance(value, str):
        return fold_name(value)
    return value


def find_engine_differences(first: Result, other: Result) -> Iterator[str]:
    """Yield differences in number format and engine. What nobody states of a server is equal to
    nothing: it is unknown whether the two differ.
    """
    for name, words in (("precision", "precision_words"), ("engine", "engine_words")):
        mine, others = getattr(first, name), getattr(other, name)
        shown = " and ".join(getattr(each, words) or UNKNOWN_TRAIT for each in (first, other))
        if None in (mine, others) and (first.made_with.served or other.made_with.served):
            yield f"{name}: unknown whether they differ: {shown}"
        elif mine != others:
            yield f"{name}: {shown}"


def format_trait_value(value: object) -> str:
    """Format a value as users write it in settings: true, 0.8, `top1 0.759`; null is unknown."""
    if value is None:
        return UNKNOWN_TRAIT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_plain_number(value, TRAIT_DIGITS)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_trait_value(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(format_trait_value, value))
    return str(value)


def format_checkpoint_quality(one: Result) -> str:
    """Format a checkpoint's quality."""
    return (
        ", ".join(
            f"{metric} {value:.4f}" for metric, value in one.made_with.checkpoint_quality.items()
        )
        or "unknown"
    )

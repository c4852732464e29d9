"""Decides whether two results are comparable: which properties must be equal, and which differences
are only reported.

Two results are comparable only if the same thing was measured under the same rules. Source:
mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, sections 4 and 5; additional
conditions of podium's own rounds are house rules.
"""

from collections.abc import Iterator, Mapping

from submissions.compare.compared_results import ComparisonSide
from submissions.machines import ComparedMachine
from submissions.score.log_values import PUBLISHED_PROFILE
from submissions.score.score import Score
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import fold_name
from suite.rounds.compatibility import has_comparable_rounds
from suite.rounds.quality import has_reached_target


def find_incomparability_reasons(first: ComparisonSide, other: ComparisonSide) -> Iterator[str]:
    """Yield the reasons why two results are not comparable."""
    mine, others = first.score, other.score
    if not has_comparable_rounds(first.workload_half, mine.workload, mine.round, others.round):
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


def find_task_differences(first: ComparisonSide, other: ComparisonSide) -> Iterator[str]:
    """Yield differences in target and data. A published result states none, since its round fixes
    them: beside one of podium's own rounds, the rounds differ, and say so.
    """
    for key in sorted(first.task.keys() | other.task.keys()):
        if first.task.get(key) != other.task.get(key):
            mine, others = (format_trait_value(each.task.get(key)) for each in (first, other))
            yield f"{key}: {mine} and {others}"


def find_shared_campaign(first: ComparisonSide, other: ComparisonSide) -> Iterator[str]:
    """Yield a reason if two results share a campaign: each campaign draws its own nonce, so it
    cannot have two organisations or two results.
    """
    if not first.campaign or first.campaign != other.campaign:
        return
    if first.score.org != other.score.org:
        yield f"one campaign under two organisations: {first.score.org} and {other.score.org}"
    if first.score.system == other.score.system and first.score.value != other.score.value:
        yield "one campaign with two results"


def find_unfitness_reasons(one: ComparisonSide, name: str) -> Iterator[str]:
    """Yield the reasons why a result cannot be compared with any other."""
    if not one.score.compliant:
        yield f"{name} is not compliant"
    if one.score.value is None:
        yield f"{name} has no mean, because too many runs missed the target"
    for metric, target in select_quality_targets(one.score).items():
        quality = one.quality.get(metric, 0.0)
        if one.quality and not has_reached_target({metric: quality}, {metric: target}):
            yield (
                f"{name} serves a checkpoint with {metric} {quality:.4f}, below the target of"
                f" {target:.4f}"
            )


def select_quality_targets(score: Score) -> Mapping[str, float]:
    """Return the quality that the round requires from a checkpoint of this workload, in the metrics
    that served results have, all higher-is-better; empty if the round has no such row.
    """
    try:
        row = registry.load_round(score.round).benchmark(score.workload)
    except PodiumError:
        return {}
    target = next((half.target for key, half in row.training.items() if key == score.profile), {})
    return {metric: goal for metric, goal in target.items() if metric in row.scored_metrics}


def explain_missing_ratio(first: ComparisonSide, other: ComparisonSide) -> str:
    """Explain why two rates have no ratio; empty if they have one. If a rate was requested rather
    than searched for, a ratio would compare settings, not systems.
    """
    if first.asked and other.asked:
        return f"run at requested rates, {first.asked} and {other.asked}; neither was searched for"
    requested_rate = first.asked or other.asked
    return (
        f"run at a requested rate, {requested_rate}; it was not searched for"
        if requested_rate
        else ""
    )


def find_allowed_differences(first: ComparisonSide, other: ComparisonSide) -> Iterator[str]:
    """Yield allowed differences."""
    mine, others = first.score, other.score
    if (
        first.campaign == other.campaign != ""
        and (mine.system, mine.value) == (others.system, others.value)
        and first.precision == other.precision
    ):
        yield "the same campaign: both are one result"
    if mine.round != others.round:
        yield f"round: {mine.round} and {others.round}"
    for name in ("precision", "engine"):
        if getattr(first, name) != getattr(other, name):
            yield (
                f"{name}: {format_trait_value(getattr(first, name))} and"
                f" {format_trait_value(getattr(other, name))}"
            )
    yield from find_machine_differences(first.machine, other.machine)
    for name in sorted(first.said.keys() & other.said.keys()):
        mine, others = first.said[name], other.said[name]
        if None not in (mine, others) and mine != others:
            yield f"{name}: {format_trait_value(mine)} and {format_trait_value(others)}"
    if first.quality != other.quality:
        yield (
            f"checkpoint quality: {format_checkpoint_quality(first)} and"
            f" {format_checkpoint_quality(other)}"
        )
    if first.convergence_factor != other.convergence_factor:
        yield (
            f"convergence factor: {format_convergence_factor(first)} and"
            f" {format_convergence_factor(other)}"
        )
    if len(first.score.runs) != len(other.score.runs):
        yield f"runs: {len(first.score.runs)} and {len(other.score.runs)}"


def format_convergence_factor(one: ComparisonSide) -> str:
    """Format the factor that a result's minutes contain."""
    return "none" if one.convergence_factor is None else f"{one.convergence_factor:.6g}"


def find_machine_differences(first: ComparedMachine, other: ComparedMachine) -> Iterator[str]:
    """Yield differences in accelerators and nodes, including unknown ones."""
    for name in ComparedMachine.__slots__:
        if normalise_trait_spelling(getattr(first, name)) != normalise_trait_spelling(
            getattr(other, name)
        ):
            yield (
                f"{name}: {format_trait_value(getattr(first, name))} and"
                f" {format_trait_value(getattr(other, name))}"
            )


def normalise_trait_spelling(value: object) -> object:
    """Normalise names that differ only in spelling."""
    return fold_name(value) if isinstance(value, str) else value


def format_trait_value(value: object) -> str:
    """Format a value as users write it in settings: true, 0.8, `top1 0.759`; null is unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_trait_value(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(format_trait_value, value))
    return str(value)


def format_checkpoint_quality(one: ComparisonSide) -> str:
    """Format a checkpoint's quality."""
    return ", ".join(f"{metric} {value:.4f}" for metric, value in one.quality.items()) or "unknown"

"""Check the accuracy results of the Endpoints client."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.accuracy import (
    PER_CENT,
    AccuracyScore,
    EndpointsAccuracy,
    scale_fraction,
)
from compliance.kinds.endpoints.rules.run_series import (
    find_histogram_problems,
    find_series_problems,
    is_whole_histogram,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

MAX_EMPTY_SHARE: Final = 0.01
BREAKDOWN_SCORE: Final = "overall_accuracy"
BREAKDOWN_TOLERANCE: Final = 0.0051
"""In per cent, which the client rounds to two decimals."""


@rule("endpoints.accuracy_counts", EndpointsAccuracy, About.QUALITY, doubt="the accuracy")
def accuracy_counts(accuracy: EndpointsAccuracy) -> Iterator[Fault]:
    """Every sample of the accuracy data set was answered and scored.

    Source: mlcommons/endpoints, accuracy_results.json: response_counts; dataset-size of the round.
    Advice: repeat the accuracy run until it is complete.
    """
    yield from check_data_sets(accuracy)
    for each in accuracy.list_scores():
        yield from check_response_counts(accuracy, each)
    size = accuracy.required_samples
    if size is None or not accuracy.list_scores():
        return
    counts = [each.total_samples for each in accuracy.list_scores()]
    found = sum(each or 0 for each in counts)
    if not any(each is not None for each in counts):
        in_table = all(each.key for each in accuracy.list_scores())
        yield accuracy.build_fault(
            "no number of samples", f"{size}", severity=Severity.WARNING if in_table else None
        )
    elif found != size:
        yield accuracy.build_fault(
            f"an accuracy run over {found} samples",
            f"{size}",
            severity=Severity.WARNING if found > size else None,
        )


def check_data_sets(accuracy: EndpointsAccuracy) -> Iterator[Fault]:
    """Yield data sets with several scores or without a name, and a second score of the performance
    run.
    """
    names = [each.dataset_name for each in accuracy.list_scores()]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield accuracy.build_fault(
            f"{names.count(name)} scores of {name or 'no data set'}", "one of each data set"
        )
    if accuracy.results:
        inline = accuracy.results.list_inline_scores()
    else:
        inline = []
    if len(inline) > 1:
        yield accuracy.build_fault(f"{len(inline)} scores of the performance run", "one at most")


def check_response_counts(accuracy: EndpointsAccuracy, each: AccuracyScore) -> Iterator[Fault]:
    """Yield what is missing of one data set's answers."""
    name, count = each.dataset_name, each.counts
    for conflict in each.conflicts:
        yield accuracy.build_fault(f"{name}: {conflict}", "one number of samples or repeats")
    if each.complete is False:
        yield accuracy.build_fault(f"{name}: complete false", "true")
    # builds of the client count empty answers among the scored ones, or apart
    answered = (count.scored or 0) + (count.missing or 0)
    if count.issued is not None and count.issued not in (answered, answered + (count.empty or 0)):
        yield accuracy.build_fault(
            f"{name}: {count.scored} scored, {count.missing} missing",
            f"{count.issued} together, as many as were issued",
        )
    if count.missing:
        yield accuracy.build_fault(f"{name}: {count.missing} answers missing", "none")
    if count.empty and count.issued:
        few = count.empty <= MAX_EMPTY_SHARE * count.issued
        yield accuracy.build_fault(
            f"{name}: {count.empty} empty answers",
            "none",
            severity=Severity.WARNING if few else None,
        )
    unit, repeats, total = each.unit_samples, each.num_repeats, each.total_samples
    if None not in (unit, repeats, total) and (unit or 0) * (repeats or 0) != total:
        yield accuracy.build_fault(
            f"{name}: {unit} samples {repeats} times", f"{total} together, total_samples"
        )
    elif unit is not None and total is not None and unit > total:
        yield accuracy.build_fault(f"{name}: {unit} samples", f"at most {total}, total_samples")
    issued = count.issued
    if issued is not None and total is not None and issued != total:
        yield accuracy.build_fault(f"{name}: {issued} issued of {total}", "all samples")


@rule("endpoints.accuracy_lengths", EndpointsAccuracy, About.QUALITY, doubt="the accuracy")
def accuracy_lengths(accuracy: EndpointsAccuracy) -> Iterator[Fault]:
    """The lengths of the accuracy run's answers are consistent, and the score equals the score of
    its breakdown.

    Source: mlcommons/endpoints, accuracy_results.json: output_sequence_lengths and breakdown.
    Advice: put the files of one accuracy run here; if they disagree at the source, score the run
    again with the client.
    """
    for each in accuracy.list_scores():
        lengths, whole = each.lengths, (each.breakdown or {}).get(BREAKDOWN_SCORE)
        if lengths.min is not None:
            problems = [*find_series_problems(lengths)]
        else:
            problems = []
        if lengths.min is not None and is_whole_histogram(lengths):
            problems += find_histogram_problems(lengths)
        for found, required in problems:
            yield accuracy.build_fault(f"{each.dataset_name}: {found}", required)
        if not isinstance(each.score, int | float) or not isinstance(whole, int | float):
            continue
        scores = each.score * accuracy.scale, scale_fraction(each.score, PER_CENT)
        if not any(math.isclose(own, whole, abs_tol=BREAKDOWN_TOLERANCE) for own in scores):
            yield accuracy.build_fault(
                f"{each.dataset_name}: score {each.score}", f"{whole}, as in its breakdown"
            )


@rule("endpoints.accuracy_mean", EndpointsAccuracy, About.QUALITY, doubt="the accuracy")
def accuracy_mean(accuracy: EndpointsAccuracy) -> Iterator[Fault]:
    """The average accuracy is the mean of the data sets' scores, by itself or by their samples
    without repeats.

    Source: mlcommons/endpoints, accuracy_results.json.
    Advice: put the files of one accuracy run here; if they disagree at the source, score the run
    again with the client.
    """
    stated = None
    if accuracy.results:
        stated = accuracy.results.average_accuracy
    scores = [each.score for each in accuracy.list_scores()]
    plain = [each for each in scores if isinstance(each, int | float)]
    if stated is None or not plain or len(plain) != len(scores):
        return
    mean = sum(plain) / len(plain)
    # builds without types of data sets took the performance run's own score for one of them
    if accuracy.results:
        inline = accuracy.results.list_inline_scores()
    else:
        inline = []
    untyped = [each.find_main_score() or 0.0 for each in inline if each.dataset_type is None]
    weights = [max(each.unit_samples or 1, 1) for each in accuracy.list_scores()]
    weighed = sum(map(math.prod, zip(plain, weights, strict=True))) / sum(weights)
    means = mean, weighed, sum([*plain, *untyped]) / len([*plain, *untyped])
    if not any(math.isclose(each, stated, rel_tol=1e-9, abs_tol=1e-12) for each in means):
        yield accuracy.build_fault(
            f"average_accuracy {stated}", f"{mean:.12g}, the mean of the scores"
        )


def find_metric_limit(least: float) -> float:
    """Return the highest value of a metric whose minimum is this: of shares 1, of per cents 100; of
    lengths and counts there is none.
    """
    if least <= 1:
        return 1.0
    if least <= PER_CENT:
        return PER_CENT
    return math.inf

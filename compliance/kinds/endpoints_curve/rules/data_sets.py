"""Check that a curve was measured with its benchmark's data set."""

import math
from collections.abc import Iterator
from statistics import median_low
from typing import Final

from compliance.kinds.endpoints.documents.run import CONFIG_FILE
from compliance.kinds.endpoints.documents.settings_table import select_tables
from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve
from compliance.kinds.endpoints_curve.documents.point import EndpointsPoint
from compliance.kinds.endpoints_curve.rules.point import MAX_QUOTED_CHARACTERS
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

PERFORMANCE: Final = "performance"
DATA_SET_FIELDS: Final = ("dataset", "dataset_name")
MEAN_TOLERANCE: Final = 1.0
END_TOLERANCE: Final = 8.0
"""In tokens, by which the mean, and the shortest and longest prompt, differ between runs: each
request has a salt of its own, of a few tokens more or less.
"""
MAX_LENGTH_DIFFERENCE: Final = 0.1
TOLERANCES: Final = (END_TOLERANCE, END_TOLERANCE, MEAN_TOLERANCE)


@rule("endpoints.data_set", EndpointsPoint, About.IDENTITY, doubt="what was measured")
def data_set(point: EndpointsPoint) -> Iterator[Fault]:
    """A point has no other data set than its benchmark's: in its disclosure, as the performance
    data of its configuration, and as the data that its accuracy run scored, which has a name. Words
    that match no known data set are a warning in `dataset`, and nothing elsewhere: there they are
    free text.

    Source: Endpoints rules, 3 and 8.3; checker, MIN_QUERY_COUNT: names of data sets.
    Advice: name the data set that the point was measured with; measure it with the benchmark's.
    """
    row = point.model
    if row is None:
        return
    required = "the benchmark's own"
    if row.data_set:
        required = f"{row.data_set}, the benchmark's"
    for name in DATA_SET_FIELDS:
        if name == "dataset":
            stated = point.data_set_name
        else:
            stated = point.find_text(name)
        if stated is None:
            continue
        if point.round.find_other_data_set(row, stated):
            yield point.build_fault(f"{name} {stated}", required)
        elif name == "dataset" and row.data_sets and not row.names_own_data_set(stated):
            yield point.build_fault(f"{name} {stated}", required, severity=Severity.WARNING)
    for stated in list_configured_names(point):
        if point.round.find_other_data_set(row, stated):
            yield point.build_fault(
                f"datasets: {stated}", required, file=point.folder / CONFIG_FILE
            )
    if not point.accuracy:
        return
    for score in point.accuracy.list_scores():
        if not (score.dataset_name or score.key):
            yield point.accuracy.build_fault("a score of no data set", "the name of its data set")
        for stated in dict.fromkeys(filter(None, (score.dataset_name, score.key))):
            if point.round.find_other_accuracy_set(row, stated):
                yield point.build_fault(
                    f"accuracy of {stated}"[:MAX_QUOTED_CHARACTERS],
                    "that of the benchmark's accuracy data",
                    file=point.accuracy.source.path if point.accuracy else None,
                )


def list_configured_names(point: EndpointsPoint) -> list[str]:
    """List the names of the performance data sets in a point's configuration."""
    found = None
    if point.run.config:
        found = point.run.config.find_value("datasets")
    tables = select_tables(found)
    names = [each.get("name") for each in tables if each.get("type", PERFORMANCE) == PERFORMANCE]
    return [each for each in names if isinstance(each, str)]


@rule("endpoints.input_lengths", EndpointsCurve, About.IDENTITY, doubt="what was measured")
def input_lengths(curve: EndpointsCurve) -> Iterator[Fault]:
    """All points of a curve have prompts of the same lengths except for the tokens of their salts,
    since each issues the whole data set once or several times. A difference between runs of
    different builds of the client, which may count differently, is a warning. The rule skips
    agentic benchmarks, whose prompts contain answers, runs of a part of the data set, and runs with
    failed requests.

    Source: Endpoints rules, 2.9.5.1 and 6.4; client, input_sequence_lengths.
    Advice: measure all points with the same data set and the same build of the client.
    """
    if curve.is_agentic:
        return
    known = [(each, found) for each in curve.points if (found := summarise_inputs(each))]
    for point, found in known[1:]:
        first, wanted = known[0]
        if all(
            math.isclose(mine, other, rel_tol=0, abs_tol=most)
            for mine, other, most in zip(found, wanted, TOLERANCES, strict=True)
        ):
            continue
        low, high, mean = found
        alike = name_client_build(point) == name_client_build(first)
        yield point.build_fault(
            f"prompts of {low:g} to {high:g} tokens, {mean:.12g} on average",
            f"{wanted[0]:g} to {wanted[1]:g}, {wanted[2]:.12g} on average, as at"
            f" {first.folder.name}",
            file=point.run.summary_source.path,
            severity=None if alike else Severity.WARNING,
        )


@rule("endpoints.output_lengths", EndpointsCurve, About.QUALITY, severity=Severity.WARNING)
def output_lengths(curve: EndpointsCurve) -> Iterator[Fault]:
    """Answers at all points of a curve are on average as long as at the middle one, within a tenth:
    the model answers the same prompts at each. The rule skips agentic benchmarks, runs of a part of
    the data set, and runs with failed requests.

    Source: Endpoints rules, 9.2: reviewers look for answers of other lengths; a tenth is what
    Inference allows around the reference's length. No curve is published.
    Advice: explain why the answers differ; measure all points with one configuration of the model.
    """
    if curve.is_agentic:
        return
    known = [(each, found) for each in curve.points if (found := find_mean_output(each))]
    if not known:
        return
    usual = median_low([found for _, found in known])
    for point, found in known:
        if not math.isclose(found, usual, rel_tol=0, abs_tol=MAX_LENGTH_DIFFERENCE * usual):
            yield point.build_fault(
                f"answers of {found:.6g} tokens on average",
                f"about {usual:.6g}, as at the other points",
                file=point.run.summary_source.path,
            )


def find_mean_output(point: EndpointsPoint) -> float | None:
    """Return the mean length of a point's answers in tokens; None if it has none of the whole data
    set.
    """
    summary = point.summary
    if summary is None or summary.n_samples_failed or point.subset_size is not None:
        return None
    return summary.output_sequence_lengths.avg


def summarise_inputs(point: EndpointsPoint) -> tuple[float, float, float] | None:
    """Return the shortest, longest and mean prompt of a point in tokens; None if it has no lengths
    of all prompts.
    """
    summary = point.summary
    if summary is None or summary.n_samples_failed or point.subset_size is not None:
        return None
    found = summary.input_sequence_lengths
    if found.min is None or found.max is None or found.avg is None:
        return None
    if found.count != summary.n_samples_completed:
        return None
    return float(found.min), float(found.max), float(found.avg)


def name_client_build(point: EndpointsPoint) -> tuple[str | None, str | None]:
    """Return version and commit of the client that a point was measured with."""
    summary = point.summary
    if summary:
        return (summary.version, summary.git_sha)
    return (None, None)

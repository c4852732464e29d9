"""Check the accuracy runs of a curve: one in each region, and the mean that some models need."""

from collections.abc import Iterator, Mapping, Sequence

from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve
from compliance.kinds.endpoints_curve.documents.point import ELECTED, EndpointsPoint
from compliance.kinds.endpoints_curve.rules.curve import REGION_WORDS, list_region_ranges
from compliance.kinds.endpoints_curve.rules.figures import is_accuracy_lost
from compliance.rules import rule
from compliance.verdict import About, Fault


@rule("endpoints.accuracy_points", EndpointsCurve, About.QUALITY, doubt="whether it is accurate")
def accuracy_points(curve: EndpointsCurve) -> Iterator[Fault]:
    """Exactly one point of each region has an accuracy run, and the Offline run has one: five of a
    curve, four of an agentic one. A point at the border of two regions counts for one of them.

    Source: Endpoints rules, 4.3 and 5.3: the number is no minimum.
    Advice: submit one accuracy run per region.
    """
    if curve.regions is None:
        return
    ranges = list_region_ranges(curve, curve.regions)
    # what cannot be read comes last, so that it fills a region only if nothing else does
    measured = sorted(filter(has_accuracy_run, curve.fixed_points), key=is_accuracy_hidden)
    choices = {
        place: [
            name
            for name in curve.round.rules.accuracy_regions
            if ranges[name][0] <= (point.concurrency or 0) <= ranges[name][1]
        ]
        for place, point in enumerate(measured)
    }
    owners = match_regions(choices)
    missing = [
        REGION_WORDS[name]
        for name in curve.round.rules.accuracy_regions
        if name not in owners and ranges[name][0] <= ranges[name][1]
    ]
    if missing:
        yield curve.build_fault(f"no accuracy run in {', '.join(missing)}", "one in each region")
    for place, point in enumerate(measured):
        may_be_extra = point.offline == ELECTED or is_accuracy_hidden(point)
        if place not in owners.values() and not may_be_extra:
            yield point.build_fault("one more accuracy run in its region", "one in each region")
    for point in curve.offline_points:
        if not has_accuracy_run(point):
            yield point.build_fault("no accuracy run of the Offline point", "one")


def has_accuracy_run(point: EndpointsPoint) -> bool:
    """Return whether a point has accuracy results of another run than its performance run; one
    whose results cannot be read may have them.
    """
    return is_accuracy_lost(point) or bool(point.accuracy and point.accuracy.list_scores())


def is_accuracy_hidden(point: EndpointsPoint) -> bool:
    """Return whether a point's files hide if it has an accuracy run, and for which region."""
    return is_accuracy_lost(point) or point.disclosure is None


def match_regions(choices: Mapping[int, Sequence[str]]) -> Mapping[str, int]:
    """Give as many regions as possible to points that may have them, each to one: augmenting paths
    of a bipartite matching.
    """
    owners: dict[str, int] = {}

    def give_region(point: int, tried: set[str]) -> bool:
        """Give a point a region, and its owner another one."""
        for region in choices[point]:
            if region in tried:
                continue
            tried.add(region)
            if region not in owners or give_region(owners[region], tried):
                owners[region] = point
                return True
        return False

    for point in choices:
        give_region(point, set())
    return owners


@rule("endpoints.mean_accuracy", EndpointsCurve, About.QUALITY, doubt="whether it is accurate")
def mean_accuracy(curve: EndpointsCurve) -> Iterator[Fault]:
    """The accuracy of an agentic benchmark, as the mean over its accuracy runs, reaches its
    minimum.

    Source: Endpoints rules, 4.3, multi-turn benchmarks.
    Advice: repeat the accuracy runs; fix the model if it is not accurate enough.
    """
    row = curve.model
    if row is None:
        return
    for name, least in row.mean_accuracy.items():
        found = [
            score * row.accuracy_scale
            for point in curve.fixed_points
            if point.accuracy
            for each in point.accuracy.list_scores()
            if each.is_named(name) and (score := each.find_main_score()) is not None
        ]
        if not found and any(map(is_accuracy_lost, curve.fixed_points)):
            continue
        if not found:
            yield curve.build_fault(f"no accuracy of {name}", f"a mean of {least:g} or more")
        elif not least <= sum(found) / len(found) <= 100:
            yield curve.build_fault(
                f"a mean accuracy of {sum(found) / len(found):.6g} in {name}",
                f"between {least:g} and 100",
            )

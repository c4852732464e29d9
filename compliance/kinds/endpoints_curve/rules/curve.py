"""Check a curve as a whole: its regions and points, Offline, seeds and shape."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from compliance.kinds.endpoints.recognition import POINT_FOLDER_NAME
from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve
from compliance.kinds.endpoints_curve.documents.point import ELECTED, SYSTEM_FILE, EndpointsPoint
from compliance.kinds.endpoints_curve.rules.point import (
    COHORT_PATTERN,
    MAX_QUOTED_CHARACTERS,
    count_cohorts,
    is_whole_number,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.rounds.endpoints_curve import Regions

REGION_WORDS: Final = {
    "low_latency": "Ultra Low Concurrency",
    "low_concurrency": "Low Concurrency",
    "med_concurrency": "Medium Concurrency",
    "high_concurrency": "High Concurrency",
}
CHOICE_REGION: Final = "submitters_choice"
SHAPE_TOLERANCE: Final = 0.1
FLAT_TTFT_TOLERANCE: Final = 0.01
FLAT_TTFT_FACTOR: Final = 10
"""A time to the first token that does not change over this range of concurrencies is suspicious."""


@rule("endpoints.regions", EndpointsCurve, About.RULES, doubt="whether the curve is whole")
def regions(curve: EndpointsCurve) -> Iterator[Fault]:
    """A curve has a point in each region: Ultra Low Concurrency, and the thirds of the logarithmic
    range between its lowest concurrency and the highest that the system supports. No point is more
    than a tenth above the highest. A concurrency that a description states in place of the lowest
    one belongs to a point.

    Source: Endpoints rules, 5.3 to 5.5 and 9.1.
    Advice: measure the missing regions; disclose max_supported_concurrency above 32.
    """
    limit = curve.round.regions.ultra_low_concurrency
    if curve.c_max is None:
        yield curve.build_fault("no max_supported_concurrency", f"one above {limit}")
        return
    yield from check_disclosed_maximum(curve, curve.c_max)
    yield from check_overridden_minimum(curve, limit)
    found = curve.regions
    if found is None:
        yield curve.build_fault(
            f"concurrencies from {curve.c_min} to max_supported_concurrency {curve.c_max}",
            f"from at most {limit} to above {limit}",
        )
        return
    yield from check_region_coverage(curve, found)
    for point in curve.disclosed_points:
        if point.concurrency is not None and found.find_region(point.concurrency) is None:
            yield point.build_fault(
                f"concurrency {point.concurrency}",
                f"at most {found.margin_end}, a tenth above {curve.c_max}",
                severity=Severity.WARNING,
            )


def check_disclosed_maximum(curve: EndpointsCurve, c_max: int) -> Iterator[Fault]:
    """Yield points that disclose another maximum than the first."""
    for point in curve.points:
        described = (point.system or {}).get("max_supported_concurrency")
        for file, stated in (
            (point.disclosure_source.path, point.find_value("max_supported_concurrency")),
            (point.folder / SYSTEM_FILE, described),
        ):
            if stated is not None and stated != c_max:
                yield point.build_fault(
                    f"max_supported_concurrency {stated}", f"{c_max}, as elsewhere", file=file
                )


def check_overridden_minimum(curve: EndpointsCurve, limit: int) -> Iterator[Fault]:
    """Yield values that take the place of C_min, but are none, not the same at all points, or the
    concurrency of no point.
    """
    described = [each for each in curve.points if each.system is not None]
    stated = [(each.system or {}).get("c_min_override") for each in described]
    if not any("c_min_override" in (each.system or {}) for each in described):
        return
    measured = {each.concurrency for each in curve.fixed_points}
    for point, found in zip(described, stated, strict=True):
        in_range = is_whole_number(found) and 1 <= found <= limit
        if not in_range or found != stated[0]:
            yield point.build_fault(
                f"c_min_override {found}",
                f"a whole number from 1 to {limit}, the same at all points",
                file=point.folder / SYSTEM_FILE,
            )
        elif found not in measured:
            yield point.build_fault(
                f"c_min_override {found}",
                "the concurrency of a submitted point",
                file=point.folder / SYSTEM_FILE,
            )


def check_region_coverage(curve: EndpointsCurve, found: Regions) -> Iterator[Fault]:
    """Yield regions without a point. One that rounding leaves empty asks for none."""
    present = [each.concurrency for each in curve.fixed_points if each.concurrency is not None]
    for name, (begin, end) in list_region_ranges(curve, found).items():
        if begin <= end and not any(begin <= each <= end for each in present):
            yield curve.build_fault(
                f"no point in {REGION_WORDS[name]}", f"one from {begin} to {end} requests in flight"
            )


def list_region_ranges(curve: EndpointsCurve, found: Regions) -> Mapping[str, tuple[int, int]]:
    """Return the concurrencies of each region that must have a point: Ultra Low Concurrency ends at
    32, whatever C_min is, unless the system's description sets C_min.
    """
    overridden = any("c_min_override" in (each.system or {}) for each in curve.points)
    if overridden:
        limit = found.c_min
    else:
        limit = curve.round.regions.ultra_low_concurrency
    return {
        "low_latency": (1, limit),
        "low_concurrency": (found.c_min + 1, found.low_end),
        "med_concurrency": (found.low_end + 1, found.medium_end),
        "high_concurrency": (found.medium_end + 1, found.c_max),
    }


@rule("endpoints.region_name", EndpointsCurve, About.FORM, severity=Severity.WARNING)
def region_name(curve: EndpointsCurve) -> Iterator[Fault]:
    """A point has the name of the region in which its concurrency lies.

    Source: Endpoints rules, 8.3 and 5.5.
    Advice: correct region in point.yaml.
    """
    if curve.regions is None:
        return
    ranges = list_region_ranges(curve, curve.regions)
    for point in curve.fixed_points:
        named, concurrency = point.find_text("region"), point.concurrency
        if named in (None, CHOICE_REGION) or concurrency is None:
            continue
        begin, end = ranges.get(named or "", (1, 0))
        if curve.find_region(point) != named and not begin <= concurrency <= end:
            yield point.build_fault(
                f"region {named} at concurrency {concurrency}", f"{curve.find_region(point)}"
            )


@rule("endpoints.point_folders", EndpointsCurve, About.RULES, doubt="which points count")
def point_folders(curve: EndpointsCurve) -> Iterator[Fault]:
    """Each folder of a curve that holds a point's files is named as a point's: any other is not
    judged.

    Source: Endpoints rules, 8.1.
    Advice: rename the folder by its requests in flight, or remove it from the submission.
    """
    for folder in curve.misnamed_folders:
        yield curve.build_fault(
            f"a folder {folder.name[:MAX_QUOTED_CHARACTERS]}", POINT_FOLDER_NAME, file=folder
        )


@rule("endpoints.points", EndpointsCurve, About.RULES, doubt="whether the curve is whole")
def points(curve: EndpointsCurve) -> Iterator[Fault]:
    """A curve has at least eight points with its Offline run, seven if its highest point is elected
    as Offline or the benchmark is agentic, and no two at the same concurrency.

    Source: Endpoints rules, 5.3.
    Advice: measure more points.
    """
    rules, own_run = curve.round.rules, any(each.is_offline_run for each in curve.points)
    if own_run:
        least = rules.min_points
    else:
        least = rules.min_points_without_offline_run
    if len(curve.points) < least:
        yield curve.build_fault(f"{len(curve.points)} points", f"{least} or more")
    for before, after in pairwise(curve.fixed_points):
        if before.concurrency is not None and before.concurrency == after.concurrency:
            yield after.build_fault(
                f"concurrency {after.concurrency}", f"another one than {before.folder.name} has"
            )


@rule("endpoints.cap", EndpointsCurve, About.RULES, doubt="which points count")
def cap(curve: EndpointsCurve) -> Iterator[Fault]:
    """A curve has at most 32 points.

    Source: Endpoints rules, 5.6.
    Advice: submit fewer points.
    """
    most = curve.round.rules.max_points
    if len(curve.points) > most:
        yield curve.build_fault(f"{len(curve.points)} points", f"at most {most}")


@rule("endpoints.offline_present", EndpointsCurve, About.RULES, doubt="what the Offline figure is")
def offline_present(curve: EndpointsCurve) -> Iterator[Fault]:
    """Exactly one point of a curve is its Offline result: a run of its own, or the point at the
    highest supported concurrency. An agentic curve has no Offline result.

    Source: Endpoints rules, 5.7.
    Advice: declare offline: dedicated or elected at one point.
    """
    found = curve.offline_points
    listed = ", ".join(each.folder.name for each in found)
    if curve.is_agentic:
        if found:
            yield curve.build_fault(f"Offline points {listed}", "none in an agentic benchmark")
        return
    hidden = any(each.disclosure is None for each in curve.points)
    if len(found) > 1 or (not found and not hidden):
        yield curve.build_fault(
            f"{len(found)} Offline points{f': {listed}' if listed else ''}", "exactly one"
        )
    for point in found:
        if point.offline == ELECTED and point.concurrency != curve.c_max:
            yield point.build_fault(
                f"an elected Offline point at concurrency {point.concurrency}",
                f"{curve.c_max}, max_supported_concurrency",
            )


@rule("endpoints.offline_ordering", EndpointsCurve, About.RULES, severity=Severity.WARNING)
def offline_ordering(curve: EndpointsCurve) -> Iterator[Fault]:
    """The Offline run has at least the highest supported concurrency, and at most 2 % less
    throughput than the highest point.

    Source: Endpoints rules, 5.7.2; 9.1 flags the submission.
    Advice: repeat the Offline run.
    """
    runs = [each for each in curve.points if each.is_offline_run]
    if not runs or curve.c_max is None:
        return
    offline, share = runs[0], curve.round.rules.offline_share
    if offline.concurrency is not None and offline.concurrency < curve.c_max:
        yield offline.build_fault(
            f"an Offline run with concurrency {offline.concurrency}", f"{curve.c_max} or more"
        )
    below = [each for each in curve.fixed_points if (each.concurrency or 0) <= curve.c_max]
    highest = None
    if below:
        highest = below[-1].compute_figures().system_tps
    rate = offline.compute_figures().system_tps
    if highest is not None and rate is not None and rate < share * highest:
        yield offline.build_fault(
            f"{rate:.6g} tokens/s in Offline", f"{share:g} of {highest:.6g} or more"
        )


@rule("endpoints.same_seeds", EndpointsCurve, About.RULES, doubt="whether the runs are comparable")
def same_seeds(curve: EndpointsCurve) -> Iterator[Fault]:
    """All points of a curve use the same set of seeds, which is open in the cohort that they were
    first submitted for: the set's own or one of the three after it. Points of a later cohort, as
    amendments are, keep the set: a warning.

    Source: Endpoints rules, 9.1, Seed-set validity; submission rules, 4.6.
    Advice: run all points with one set of seeds.
    """
    yield from report_unequal_values(
        curve, "seed_set", [(each, each.find_value("seed_set")) for each in curve.points]
    )
    dated = [
        (count_cohorts(cohort), each)
        for each in curve.points
        if (cohort := COHORT_PATTERN.fullmatch(each.find_text("target_cohort") or ""))
    ]
    if not dated:
        return
    begin, first = min(dated, key=lambda each: each[0])
    yield from check_seed_age(first, begin)
    for number, point in dated:
        if number > begin:
            yield point.build_fault(
                f"target_cohort {point.find_text('target_cohort')}",
                f"{first.find_text('target_cohort')}, as at {first.folder.name}, unless it amends"
                " the curve",
                severity=Severity.WARNING,
            )


def check_seed_age(point: EndpointsPoint, cohort: int) -> Iterator[Fault]:
    """Yield a published set of seeds that is no longer open in a cohort, given by its number."""
    name, most = point.find_text("seed_set"), point.round.rules.cohorts_per_set
    published = point.round.seeds.get(name or "")
    begin = None
    if published:
        begin = COHORT_PATTERN.fullmatch(published.cohort)
    if published and begin and cohort - count_cohorts(begin) >= most:
        yield point.build_fault(
            f"seed_set {name} in cohort {point.find_text('target_cohort')}",
            f"in {published.cohort} or one of the {most - 1} cohorts after it",
        )


@rule(
    "endpoints.consistency",
    EndpointsCurve,
    About.IDENTITY,
    severity=Severity.WARNING,
    doubt="what was measured",
)
def consistency(curve: EndpointsCurve) -> Iterator[Fault]:
    """All points of a curve are of one system, model, data set and division, with one load pattern.
    A division that point.yaml and the system's description state differently is an error.

    Source: Endpoints rules, 8.2, 8.5 and 9.1, which flags the submission.
    Advice: describe the same system and model at each point.
    """
    for name in ("model_name", "model_precision", "division", "dataset_name"):
        yield from report_unequal_values(
            curve, name, [(each, each.find_value(name)) for each in curve.points]
        )
    yield from report_unequal_values(
        curve, "dataset", [(each, each.data_set_name) for each in curve.points]
    )
    yield from report_unequal_values(
        curve, "load pattern", [(each, each.load_pattern) for each in curve.disclosed_points]
    )
    for point in (each for each in curve.points if each.disclosure is not None):
        described = (point.system or {}).get("division")
        if described is not None and described != point.find_value("division"):
            yield point.build_fault(
                f"division {described}",
                f"{point.find_value('division')}, as in point.yaml",
                file=point.folder / SYSTEM_FILE,
                severity=Severity.ERROR,
            )
    own = curve.round.rules.system_fields_of_points
    systems = [
        (each, {name: value for name, value in each.system.items() if name not in own})
        for each in curve.points
        if each.system is not None
    ]
    first = systems[0][1] if systems else {}
    for point, system in systems[1:]:
        unequal = sorted(name for name in {*first, *system} if first.get(name) != system.get(name))
        if unequal:
            yield point.build_fault(
                f"another {', '.join(unequal)}",
                f"the system of {systems[0][0].folder.name}",
                file=point.folder / SYSTEM_FILE,
            )


def report_unequal_values(
    curve: EndpointsCurve, name: str, values: Sequence[tuple[EndpointsPoint, Any]]
) -> Iterator[Fault]:
    """Yield the points whose value is not that of most points."""
    groups = defaultdict[str, list[EndpointsPoint]](list)
    for point, value in values:
        if value is None:  # a missing field is the disclosure's
            continue
        groups[str(value)].append(point)
    usual = max(groups, key=lambda each: len(groups[each]), default=None)
    for value, found in groups.items():
        if value != usual:
            for point in found:
                yield point.build_fault(f"{name} {value}", f"{usual}, as at most points")


@rule("endpoints.utilization", EndpointsCurve, About.SCORE, doubt="the figure")
def utilization(curve: EndpointsCurve) -> Iterator[Fault]:
    """tps_utilization is a point's system_tps as a share of the curve's highest, in all digits that
    are written.

    Source: Endpoints rules, 8.2; the checker tolerates a difference of 0.1.
    Advice: compute it from the runs that are submitted.
    """
    rates = {each.folder: each.compute_figures().system_tps for each in curve.points}
    known = [each for each in rates.values() if each]
    allowed = curve.round.rules.utilization_tolerance
    for point in curve.points:
        stated, rate = (point.system or {}).get("tps_utilization"), rates[point.folder]
        if isinstance(stated, bool) or not isinstance(stated, int | float) or not rate:
            continue
        # of the fixed points alone, since the rules do not say whether Offline is on the curve
        shares = {rate / max(known), rate / max(list_fixed_rates(curve, rates) or known)}
        if all(abs(stated - each) > max(allowed, round_unit(stated)) for each in shares):
            yield point.build_fault(
                f"tps_utilization {stated}",
                f"{rate / max(known):.6g}, from the runs",
                file=point.folder / SYSTEM_FILE,
            )


def list_fixed_rates(curve: EndpointsCurve, rates: Mapping[Any, float | None]) -> list[float]:
    """Return the rates of the points with a fixed number of requests in flight."""
    return [rate for each in curve.fixed_points if (rate := rates[each.folder])]


def round_unit(stated: float) -> float:
    """Return how far a number can be from the one that was rounded to its digits."""
    digits = repr(float(stated)).partition(".")[2]
    if digits.isdigit():
        return 0.5 * 10.0 ** -len(digits)
    return 0.0


@rule("endpoints.curve_shape", EndpointsCurve, About.SCORE, severity=Severity.WARNING)
def curve_shape(curve: EndpointsCurve) -> Iterator[Fault]:
    """A curve has the shape of a real system's: throughput rises with concurrency up to its peak,
    the rate of one user falls, and the time to the first token changes.

    Source: Endpoints rules, 9.2: reviewers look for implausible curves and uniform TTFT.
    Advice: explain the shape, or repeat the points that stand out.
    """
    found = [
        (each, figures)
        for each in curve.disclosed_points
        if (figures := each.compute_figures()).system_tps is not None
    ]
    if not found:
        return
    peak = max(found, key=lambda each: each[1].system_tps or 0)[0].concurrency or 0
    for (_, before), (point, after) in pairwise(found):
        low, high = before.system_tps or 0, after.system_tps or 0
        if (point.concurrency or 0) <= peak and high < low * (1 - SHAPE_TOLERANCE):
            yield point.build_fault(
                f"{high:.6g} tokens/s below the peak", f"about {low:.6g} or more, as before"
            )
        slow, fast = before.tps_per_user, after.tps_per_user
        if slow and fast and fast > slow * (1 + SHAPE_TOLERANCE):
            yield point.build_fault(
                f"{fast:.6g} tokens/s of a user", f"about {slow:.6g} or less, as before"
            )
    times = [(each.concurrency, figures.ttft_p90_ms) for each, figures in found]
    known = [(count, time) for count, time in times if count and time]
    if len(known) > 1 and known[-1][0] >= FLAT_TTFT_FACTOR * known[0][0]:
        low, high = min(time for _, time in known), max(time for _, time in known)
        if high <= low * (1 + FLAT_TTFT_TOLERANCE):
            yield curve.build_fault(
                f"times to the first token between {low:.6g} and {high:.6g} ms",
                f"times that change between {known[0][0]} and {known[-1][0]} requests in flight",
            )

"""Check the caching test that the Endpoints client makes beside a run."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.audit import AUDIT_TEXT, EndpointsAudit
from compliance.kinds.endpoints.documents.result_summary import ResultSummary, Series
from compliance.kinds.endpoints.rules.run_series import parse_percents
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

USUAL_THRESHOLD: Final = 0.1
"""Share by which the run of one repeated sample may be faster than the other."""
MIN_COMPLETED_SHARE: Final = 0.9
RATE_TOLERANCE: Final = 1e-6
SHAPE_TOLERANCE: Final = 1e-6
"""Relative: a client writes whole nanoseconds."""
MAX_FASTER_SHARE: Final = 0.05
AUDITED_PATTERNS: Final = ("concurrency", "max_throughput")
"""Load patterns that the client makes the test with: no schedule sets their rate."""
MIN_STATISTICS: Final = 4
"""Different statistics that two runs must have to be compared."""


@rule(
    "endpoints.audit", EndpointsAudit, About.RULES, doubt="whether the system answers from a cache"
)
def audit(test: EndpointsAudit) -> Iterator[Fault]:
    """The caching test passed: a run that repeats one sample is at most a tenth faster than one of
    all samples, and both completed nine tenths of their requests. The text beside its outcome says
    the same.

    Source: mlcommons/endpoints, compliance, output caching test.
    Advice: turn off caches of answers, and repeat the test's two runs on the same system.
    """
    outcome = test.outcome
    if outcome is None:
        return
    reference, caching, threshold = outcome.ref_qps, outcome.audit_qps, outcome.threshold
    if outcome.passed is not True:
        yield test.build_fault(f"passed {outcome.passed}", "true")
    if test.stated_pass is not None and outcome.passed not in (None, test.stated_pass):
        yield test.build_fault(
            f"passed {str(outcome.passed).casefold()}",
            f"{str(test.stated_pass).casefold()}, as in {AUDIT_TEXT}",
        )
    if reference is None or caching is None or threshold is None:
        yield test.build_fault("no rates or no threshold", "ref_qps, audit_qps and threshold")
        return
    if caching >= reference * (1 + threshold):
        yield test.build_fault(
            f"audit_qps {caching:.6g}", f"below {reference * (1 + threshold):.6g}, as it passed"
        )
    if threshold > USUAL_THRESHOLD:
        faster = caching >= reference * (1 + USUAL_THRESHOLD)
        yield test.build_fault(
            f"threshold {threshold:g}",
            f"{USUAL_THRESHOLD:g}" + ("" if faster else ", with which the test passes, too"),
            severity=None if faster else Severity.WARNING,
        )
    yield from check_audit_counts(test)


def check_audit_counts(test: EndpointsAudit) -> Iterator[Fault]:
    """Yield requests that did not complete, and figures that the runs' summaries contradict."""
    outcome = test.outcome
    assert outcome is not None
    for name, done, asked, stated, summary in (
        ("ref", outcome.ref_completed, outcome.ref_requested, outcome.ref_qps, test.reference),
        (
            "audit",
            outcome.audit_completed,
            outcome.audit_requested,
            outcome.audit_qps,
            test.caching,
        ),
    ):
        if done is not None and asked is not None and done < MIN_COMPLETED_SHARE * asked:
            yield test.build_fault(
                f"{name}_completed {done} of {asked}", f"{MIN_COMPLETED_SHARE:.0%} or more"
            )
        if summary is None:
            continue
        if done is not None and summary.n_samples_completed not in (None, done):
            yield test.build_fault(
                f"{name}_completed {done}", f"{summary.n_samples_completed}, as in its summary"
            )
        if stated is None or summary.qps is None:
            continue
        if not math.isclose(stated, summary.qps, rel_tol=RATE_TOLERANCE):
            yield test.build_fault(f"{name}_qps {stated}", f"{summary.qps}, as in its summary")


@rule(
    "endpoints.audit_copy",
    EndpointsAudit,
    About.RULES,
    doubt="whether the system answers from a cache",
)
def audit_copy(test: EndpointsAudit) -> Iterator[Fault]:
    """The two runs of the caching test and the run beside it are three runs: the latencies of none
    are those of another one, as they are or multiplied by a factor.

    Source: mlcommons/endpoints, compliance, output caching test: two runs one after the other.
    Latencies of no two of six runs agree so: three published, three of the client's.
    Advice: repeat the test, and submit each of its runs.
    """
    runs = {
        "the run": test.performance,
        "the reference run": test.reference,
        "the caching run": test.caching,
    }
    known = [(name, summary) for name, summary in runs.items() if summary is not None]
    for place, (name, summary) in enumerate(known):
        for other, earlier in known[:place]:
            if have_same_latencies(summary, earlier):
                yield test.build_fault(f"latencies of {other} in {name}", "latencies of its own")
                break


def have_same_latencies(first: ResultSummary, other: ResultSummary) -> bool:
    """Return whether the latencies of two runs have the same distribution, up to a factor: all
    their statistics have the same ratio. Two runs of few different values may do so by chance.
    """
    one, two = list_statistics(first.latency), list_statistics(other.latency)
    if len(set(one)) < MIN_STATISTICS or len(one) != len(two) or not all([*one, *two]):
        return False
    factor = one[0] / two[0]
    return all(
        math.isclose(mine, factor * each, rel_tol=SHAPE_TOLERANCE)
        for mine, each in zip(one, two, strict=True)
    )


def list_statistics(each: Series) -> list[float]:
    """List the statistics of a series that its values determine; empty if it has none."""
    found = [
        each.avg,
        each.min,
        each.max,
        each.std_dev,
        *(value for _, value in parse_percents(each)),
    ]
    return [float(value) for value in found if value is not None]


@rule("endpoints.audit_speed", EndpointsAudit, About.SCORE, severity=Severity.WARNING)
def audit_speed(test: EndpointsAudit) -> Iterator[Fault]:
    """A run is not faster by more than a twentieth than the reference run of its caching test,
    which issues samples of the same data set to the same system, in the same way: all at once, or a
    fixed number at a time. Without the reference run the rate in the outcome counts.

    Source: house rule, as TEST01 of LoadGen compares speeds. In seven published entries of
    Inference v6.1 the ratio is 0.992 to 1.012.
    Advice: repeat the test with the system and the settings of the submitted run.
    """
    if test.performance is None or test.pattern not in AUDITED_PATTERNS:
        return
    mine, other = test.performance.queries_per_s, None
    if test.reference is not None:
        other = test.reference.queries_per_s
    elif test.outcome is not None:
        other = test.outcome.ref_qps
    if mine and other and mine > other * (1 + MAX_FASTER_SHARE):
        yield test.build_fault(
            f"{mine:.6g} requests/s in the submitted run",
            f"about {other:.6g}, as in the reference run of the caching test",
        )

"""Check the caching test of an entry that was measured with the Endpoints client."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.inference_mllog.documents.endpoints_audit import AUDIT_FOLDER, EndpointsAudit
from compliance.kinds.inference_mllog.documents.endpoints_entry import EndpointsEntry
from compliance.recognition.tree_path import iterate_subfolders
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

CACHING_TEST: Final = "TEST04"
USUAL_THRESHOLD: Final = 0.1
"""Share by which the run of one repeated sample may be faster than the other."""
MIN_COMPLETED_SHARE: Final = 0.9
RATE_TOLERANCE: Final = 1e-6


@rule(
    "endpoints.audit_present",
    EndpointsEntry,
    About.RULES,
    doubt="whether the system answers from a cache",
)
def audit_present(entry: EndpointsEntry) -> Iterator[Fault]:
    """A closed entry has the caching test that its benchmark requires. A test in another scenario
    of the system is at least a sign that one was made.

    Source: mlcommons/inference, submission_checker, v6.1: TEST04 of wan-2.2-t2v-a14b.
    Advice: run the client's audit, and add its folder.
    """
    if entry.model and entry.is_closed:
        required = entry.model.tests
    else:
        required = ()
    if CACHING_TEST not in required or (entry.folder / AUDIT_FOLDER).is_dir():
        return
    elsewhere = any(
        (each / AUDIT_FOLDER).is_dir() for each in iterate_subfolders(entry.folder.parent)
    )
    yield entry.build_fault(
        "no audit",
        f"the folder {AUDIT_FOLDER}, for {CACHING_TEST}",
        file=entry.folder,
        severity=Severity.WARNING if elsewhere else None,
    )


@rule(
    "endpoints.audit", EndpointsAudit, About.RULES, doubt="whether the system answers from a cache"
)
def audit(test: EndpointsAudit) -> Iterator[Fault]:
    """The caching test passed: a run that repeats one sample is at most a tenth faster than one of
    all samples, and both completed nine tenths of their requests.

    Source: mlcommons/endpoints, compliance, output caching test.
    Advice: turn off caches of answers, and repeat the test's two runs on the same system.
    """
    outcome = test.outcome
    if outcome is None:
        return
    reference, caching, threshold = outcome.ref_qps, outcome.audit_qps, outcome.threshold
    if outcome.passed is not True:
        yield test.build_fault(f"passed {outcome.passed}", "true")
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

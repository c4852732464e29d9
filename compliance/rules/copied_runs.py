"""Check that no run is submitted as that of two systems or organisations, whatever the round."""

import os
from collections.abc import Iterator

from compliance.documents.submitted_runs import SubmittedRuns
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity


@rule(
    "copies.run",
    SubmittedRuns,
    About.IDENTITY,
    doubt="who measured it, and on which system",
)
def run(submitted: SubmittedRuns) -> Iterator[Fault]:
    """No two systems or organisations of a tree have the same run: times and latencies are no two
    runs'. A run whose times are all another one's, multiplied by one factor, with as many queries
    or tokens, is a warning.

    Source: submission_rules.adoc: a result is of one system and one submitter; house rule for the
    compared values: none of the 980 published runs of 20
    rounds that this was tried on is accused.
    Advice: submit each run once, under the system and the organisation that measured it.
    """
    for each in submitted.find_copies():
        severity = None
        if each.is_scaled:
            severity = Severity.WARNING
        yield submitted.build_fault(
            f"the {each.what} of {os.path.relpath(each.other.file.parent, submitted.root)}",
            "a run of its own",
            file=each.run.file,
            severity=severity,
        )

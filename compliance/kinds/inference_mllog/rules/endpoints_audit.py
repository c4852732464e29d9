"""Check that an entry that was measured with the Endpoints client has its caching test."""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.audit import AUDIT_FOLDER
from compliance.kinds.inference_mllog.documents.endpoints_entry import EndpointsEntry
from compliance.recognition.tree_path import iterate_subfolders
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

CACHING_TEST: Final = "TEST04"


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

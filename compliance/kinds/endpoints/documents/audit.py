"""Read the caching test that the Endpoints client makes beside a run (TEST04).

Source: mlcommons/endpoints, compliance, output caching test: two run folders and their outcome.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from compliance.documents.base import FileDocument
from compliance.kinds.endpoints.documents.result_summary import ResultSummary, read_result_summary
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.kinds.endpoints.recognition import find_endpoints_summary
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.recognition.tree_path import is_file
from suite.files.untrusted_files import open_regular_file

AUDIT_FOLDER: Final = "audit"
AUDIT_OUTCOME: Final = "audit_output_caching_test.json"
AUDIT_TEXT: Final = "verify_OUTPUT_CACHING_TEST.txt"
AUDIT_TEXT_LINE: Final = re.compile(r"Performance check pass: (true|false)", re.IGNORECASE)
MAX_TEXT_BYTES: Final = 4096
REFERENCE_RUN: Final = "reference"
CACHING_RUN: Final = "output_caching"


class AuditOutcome(msgspec.Struct, frozen=True):
    """`audit_output_caching_test.json`; a field that the file lacks is None."""

    passed: bool | None = None
    ref_qps: int | float | None = None
    audit_qps: int | float | None = None
    threshold: int | float | None = None
    ref_completed: int | None = None
    ref_requested: int | None = None
    audit_completed: int | None = None
    audit_requested: int | None = None


OUTCOME_DECODER: Final = msgspec.json.Decoder(AuditOutcome)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsAudit(FileDocument):
    """A caching test: its outcome, and the summaries of its two runs and of the run beside it."""

    document_name: ClassVar[str] = "a caching test of the Endpoints client"

    outcome: AuditOutcome | None
    reference: ResultSummary | None
    """None if the run was not submitted."""
    caching: ResultSummary | None
    performance: ResultSummary | None
    """Summary of the run that the test was made beside."""
    stated_pass: bool | None
    """What the text beside the outcome says; None without it."""
    pattern: str | None
    """Load pattern of that run, in which the test issues its requests, too."""


def read_endpoints_audit(run: EndpointsRun) -> EndpointsAudit | None:
    """Read the caching test beside a run; None if there is none."""
    folder = run.folder / AUDIT_FOLDER
    path = next((path for path in folder.rglob(AUDIT_OUTCOME) if is_file(path)), None)
    if path is None:
        return None
    source = SourceFile(path)
    return EndpointsAudit(
        source=source,
        outcome=read_json_document(source, OUTCOME_DECODER),
        reference=read_audit_run(folder / REFERENCE_RUN),
        caching=read_audit_run(folder / CACHING_RUN),
        performance=run.summary,
        stated_pass=read_stated_pass(path.with_name(AUDIT_TEXT)),
        pattern=run.stated_config.load_pattern.type,
    )


def read_stated_pass(path: Path) -> bool | None:
    """Read whether the text of a caching test says that it passed; None if it does not say it, or
    there is none.
    """
    try:
        with open_regular_file(path) as stream:
            text = stream.read(MAX_TEXT_BYTES).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    found = AUDIT_TEXT_LINE.search(text)
    if found is None:
        return None
    return found[1].casefold() == "true"


def read_audit_run(folder: Path) -> ResultSummary | None:
    """Read the summary of one run of the test; None if there is none that can be read."""
    path = find_endpoints_summary(folder)
    if path:
        return read_result_summary(SourceFile(path))
    return None

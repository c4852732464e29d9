"""Read podium's records of a point's run, which lie beside the summary that was computed from them,
and compute that summary again.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import FolderDocument
from compliance.kinds.endpoints.documents.result_summary import ResultSummary
from compliance.kinds.endpoints_curve.documents.point import EndpointsPoint
from compliance.recognition.tree_path import is_file
from suite.errors import PodiumError
from suite.files.layout import RUN_RECORD, START_RECORD_FILE, TOKEN_RECORD_FILE
from suite.files.untrusted_files import UnreadableError
from suite.studies.client_summary import OWN_VERSION, describe_client_run
from suite.studies.concurrency_curve import LOCAL_CONCURRENCY_SETTING, REMOTE_CONCURRENCY_SETTING
from suite.studies.run_facts import RunFacts, read_run_facts

RECORDS_FOLDER: Final = "loadgen"
"""In the folder of a point: the files of its run, as LoadGen and podium wrote them."""
MAX_RECOMPUTED_ANSWERS: Final = 1 << 20
"""House rule: the statistics of a million answers take some seconds."""
RECOMPUTING_EXCEPTIONS: Final = (
    PodiumError,
    ArithmeticError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""What records give that no run wrote."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointRecords(FolderDocument):
    """The records of a point's run, and what its summary must say."""

    document_name: ClassVar[str] = "podium's records of a point's run"

    stated: ResultSummary | None
    """The summary beside them."""
    recomputed: ResultSummary | None
    """None if the records do not give one."""
    problem: str
    """Why; empty if they give one."""
    summary_file: Path


def read_point_records(point: EndpointsPoint) -> PointRecords | None:
    """Read the records of a point; None of one that podium has not measured."""
    folder, summary = point.folder / RECORDS_FOLDER, point.summary
    is_own = summary is not None and str(summary.version).startswith(OWN_VERSION)
    if not is_own and not is_file(folder / RUN_RECORD):
        return None
    recomputed, problem = None, ""
    try:
        recomputed = recompute_summary(read_run_facts(folder), point.concurrency)
    except UnreadableError as error:
        problem = f"{error.path.name}: {error.reason}"
    except RECOMPUTING_EXCEPTIONS as error:
        problem = str(error)
    return PointRecords(
        folder=folder,
        stated=summary,
        recomputed=recomputed,
        problem=problem,
        summary_file=point.run.summary_source.path,
    )


def recompute_summary(run: RunFacts, concurrency: int | None) -> ResultSummary:
    """Compute the summary of a run from its records; ValueError for records that no run wrote.

    Args:
        concurrency: of the point, if the system's settings state none.
    """
    tokens, starts = run.tokens, run.starts_ns
    if tokens is None or starts is None:
        raise ValueError(f"no {TOKEN_RECORD_FILE} and {START_RECORD_FILE}")
    columns = (tokens.first_ns, tokens.last_ns, tokens.tokens, starts)
    if starts.ndim != 1 or any(each.dtype.kind != "i" for each in columns):
        raise ValueError(f"{START_RECORD_FILE}: is no column of whole numbers")
    if not 0 < len(starts) == len(tokens) <= MAX_RECOMPUTED_ANSWERS:
        raise ValueError(
            f"{START_RECORD_FILE} of {len(starts)} answers, {TOKEN_RECORD_FILE} of {len(tokens)}"
        )
    settings = run.record.system.settings
    names = (REMOTE_CONCURRENCY_SETTING, LOCAL_CONCURRENCY_SETTING)
    held: Any = next((settings[name] for name in names if name in settings), concurrency)
    return msgspec.convert(describe_client_run(run, held), ResultSummary)

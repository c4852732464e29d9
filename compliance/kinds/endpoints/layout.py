"""What a run folder of the MLPerf Endpoints client consists of that belongs to no round."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from compliance.documents.role_files import compare_role_files
from compliance.kinds.endpoints.documents.audit import read_endpoints_audit
from compliance.kinds.endpoints.documents.run import EndpointsRun, read_endpoints_run
from compliance.kinds.endpoints.recognition import (
    ENDPOINTS_SUMMARY_FILES,
    ENDPOINTS_SUMMARY_PATHS,
    find_endpoints_summary,
)
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.token_counter import TokenCounter
from compliance.verdict import ResultKind
from compliance.walk import JudgingAids, OpenPath, Piece, ResultPart


class EndpointsLayout:
    """What a run of the client consists of."""

    def __init__(self, counter: TokenCounter | None) -> None:
        self.counter = counter
        self.places: Mapping[PathKind, OpenPath] = {PathKind.ENDPOINTS_RUN: self.open_run}

    def open_run(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open a run folder."""
        summary = find_endpoints_summary(target.path)
        if summary is None:
            return None
        run = read_endpoints_run(target.path, summary, counter=self.counter)
        return [build_run_result(target.path, run)]


def build_run_result(path: Path, run: EndpointsRun) -> ResultPart:
    """Build the result of a run on its own."""
    return ResultPart(
        kind=ResultKind.RUN, path=path, contents=iterate_run(run), evidence=run.evidence
    )


def iterate_run(run: EndpointsRun) -> Iterator[Piece]:
    """Open a run: the files that it was read from, what they say, and its caching test."""
    yield from run.sources
    yield run
    names = (*ENDPOINTS_SUMMARY_FILES, *ENDPOINTS_SUMMARY_PATHS)
    summaries = (run.folder / name for name in names)
    yield compare_role_files("summary", run.summary_source.path, summaries)
    if audit := read_endpoints_audit(run):
        yield audit.source
        yield audit


def build_endpoints_layout(_: str, aids: JudgingAids) -> EndpointsLayout:
    """Build the layout of a run of no round."""
    return EndpointsLayout(aids.counter)

"""Report entries of MLPerf Endpoints, which LoadGen's rules do not apply to."""

from collections.abc import Iterator

from compliance.documents.endpoints import EndpointsEntry
from compliance.rules import rule
from compliance.verdict import About, Fault, Verdict


@rule(
    "inference-mllog.endpoints",
    EndpointsEntry,
    About.SCORE,
    doubt="the figure, which podium does not judge yet",
    weight=Verdict.UNKNOWN,
)
def endpoints_entry(entry: EndpointsEntry) -> Iterator[Fault]:
    """An entry has LoadGen's logs. One of MLPerf Endpoints has other files, which podium does not
    judge yet: it is neither valid nor broken.

    Source: mlcommons/endpoints; entries of MLPerf Inference v6.1 that were measured with it.
    Advice: check the entry with the Endpoints client's own tools.
    """
    yield Fault(
        file=entry.summary,
        found="a result of MLPerf Endpoints",
        required="a result of LoadGen",
    )

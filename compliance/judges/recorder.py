"""Record which results a judge judges, and the findings about each."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from compliance.verdict import Finding, JudgedResult, ResultKind


class ResultRecorder:
    """Keeps the results of one path while a judge yields the findings about them."""

    def __init__(self) -> None:
        self.results: dict[Path, JudgedResult] = {}

    def record_result(
        self,
        kind: ResultKind,
        path: Path,
        files: int,
        findings: Iterable[Finding],
        evidence: tuple[str, ...] = (),
    ) -> Iterator[Finding]:
        """Yield the findings about a result, and keep them; `files` counts the logs of a set or the
        runs of an entry, `evidence` names what its figures were checked against.
        """
        kept = []
        for finding in findings:
            kept.append(finding)
            yield finding
        self.results[path] = JudgedResult(
            kind=kind,
            path=str(path),
            files=files,
            findings=tuple(dict.fromkeys(kept)),
            evidence=evidence,
        )

    def take_results(self) -> tuple[JudgedResult, ...]:
        """Return the results recorded since the last call."""
        taken = tuple(self.results.values())
        self.results.clear()
        return taken

"""The one walk over a result: a kind of round says what the result consists of, and this judges it.

A layout is a table: kind of path -> what lies there. What lies there are documents, to which the
round's rules are applied, and parts, which have documents and parts of their own. They are read as
the walk reaches them.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from compliance.empty_path import describe_empty_target
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.rules import judge_document
from compliance.token_counter import TokenCounter
from compliance.verdict import Finding, JudgedResult, ResultKind, Severity

Piece: TypeAlias = object
"""A ResultPart, a Part, a WorkloadDocument, or a document (compliance.rules.JudgedDocument)."""
OpenPath: TypeAlias = Callable[[RecognisedPath], Iterable[Piece] | None]
"""Opens what lies at a path; None if there is nothing to judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingAids:
    """What a user gives the judge beside the results."""

    truth: Path | None = None
    """Folder of labels for results that have none."""
    counter: TokenCounter | None = None
    """Counts the tokens of answers by the model's tokenizer."""


class WorkloadDocument(NamedTuple):
    """A document to which the rules about one workload apply, too."""

    document: object
    workload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Documents and parts that belong together."""

    contents: Iterable[Piece]
    revise: Callable[[Finding], Finding | None] | None = None
    """What becomes of a finding about the contents; None leaves it out."""
    distinct: bool = False
    """Whether several of its documents may say the same, which is reported once."""
    once: Hashable = None
    """A name under which the part is judged once, however often it is reached; None: each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPart:
    """A part that counts as a result of its own."""

    kind: ResultKind
    path: Path
    contents: Iterable[Piece]
    files: int = 0
    """Logs of a set, runs of an entry, points of a curve."""
    evidence: tuple[str, ...] = ()
    """What its figures were checked against."""


class Layout(Protocol):
    """What the results of a round consist of."""

    places: Mapping[PathKind, OpenPath]
    """Kind of path -> what lies there; the table of a kind of round. `TREES` is what several
    submissions in a folder share, once each was judged alone.
    """


@runtime_checkable
class BundleLayout(Protocol):
    """A layout whose round has bundles."""

    def open_bundle(self, path: Path, inside: Path) -> Iterable[Piece]:
        """Open a bundle, which may be unpacked into the folder `inside`."""
        ...


class Walk:
    """Judges paths by one round; what several paths share is judged once."""

    def __init__(self, round_name: str, layout: Layout) -> None:
        self.round_name, self.layout, self.places = round_name, layout, layout.places
        self.results: dict[Path, JudgedResult] = {}
        self.judged_parts: dict[Hashable, tuple[Finding, ...]] = {}

    def judge_target(self, target: RecognisedPath) -> tuple[Finding, ...]:
        """Judge what lies at a path."""
        return tuple(self.iterate_findings(self.open_path(target)))

    def judge_bundle(self, target: RecognisedPath, inside: Path) -> tuple[Finding, ...]:
        """Judge a bundle, which may be unpacked into the folder `inside`; a round without bundles
        finds nothing to judge.
        """
        if not isinstance(self.layout, BundleLayout):
            return self.judge_target(target)
        return tuple(self.iterate_findings(self.layout.open_bundle(target.path, inside)))

    def open_path(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open what lies at a path, or say that there is nothing to judge."""
        open_place = self.places.get(target.kind)
        found = None
        if open_place:
            found = open_place(target)
        if found is None:
            return [build_path_fault(target.path, *describe_empty_target(target))]
        return found

    def iterate_findings(self, pieces: Iterable[Piece]) -> Iterator[Finding]:
        """Judge each piece in turn."""
        for piece in pieces:
            if isinstance(piece, ResultPart):
                yield from self.iterate_result_findings(piece)
            elif isinstance(piece, Part):
                yield from self.iterate_part_findings(piece)
            elif isinstance(piece, WorkloadDocument):
                yield from judge_document(piece.document, self.round_name, piece.workload)
            elif hasattr(piece, "document_name"):
                yield from judge_document(piece, self.round_name)
            else:  # it would be judged by no rule, without a word
                raise TypeError(f"a layout gave a {type(piece).__name__}, which is no document")

    def iterate_part_findings(self, part: Part) -> Iterator[Finding]:
        """Judge a part; one that has been judged before gives the same findings."""
        if part.once is None:
            yield from self.iterate_revised_findings(part)
            return
        if part.once not in self.judged_parts:
            self.judged_parts[part.once] = tuple(self.iterate_revised_findings(part))
        yield from self.judged_parts[part.once]

    def iterate_revised_findings(self, part: Part) -> Iterator[Finding]:
        """Judge the contents of a part, and revise what is found."""
        found: Iterable[Finding] = self.iterate_findings(part.contents)
        if part.distinct:
            found = dict.fromkeys(found)
        for finding in found:
            if part.revise:
                revised = part.revise(finding)
            else:
                revised = finding
            if revised is not None:
                yield revised

    def iterate_result_findings(self, result: ResultPart) -> Iterator[Finding]:
        """Judge a result, and keep what was found about it."""
        kept = []
        for finding in self.iterate_findings(result.contents):
            kept.append(finding)
            yield finding
        self.results[result.path] = JudgedResult(
            kind=result.kind,
            path=str(result.path),
            files=result.files,
            findings=tuple(dict.fromkeys(kept)),
            evidence=result.evidence,
        )

    def take_results(self) -> tuple[JudgedResult, ...]:
        """Return the results judged since the last call."""
        taken = tuple(self.results.values())
        self.results.clear()
        return taken


def build_path_fault(
    path: Path,
    found: str,
    required: str,
    kind: ParseErrorKind = ParseErrorKind.UNREADABLE,
    *,
    advice: str | None = None,
    severity: Severity | None = None,
) -> SourceFile:
    """Build a document that says what is wrong with a path itself, with the rule's advice and
    severity unless others are given.
    """
    source = SourceFile(path, leniency={kind: severity} if severity else {})
    source.add_parse_error(kind, found, required, advice=advice)
    return source

"""One fact, all its places: what several documents state of one thing, side by side.

A kind of round lists its facts in a table (for podium's own, compliance/kinds/podium/facts): each
row is a fact, with the kinds of documents that state it and where in them. Each document states a
fact or leaves it out; what two documents state agrees or contradicts. Rule `facts.agree` yields the
contradictions.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from compliance.documents.base import Document
from compliance.verdict import About, Severity


def find_no_line(key: str) -> int | None:
    """Return no line: most documents have no lines that a reader would count."""
    del key
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatingDocument:
    """A document, as far as it states facts."""

    kind: str
    """Which of a fact's places it is: a column of the table."""
    file: Path
    part: str = ""
    """The part of the file, if it is not the whole of it: `step 4`, `engine_description of gnmt`.
    """
    values: Mapping[str, Any]
    """Key -> value; None, or no such key, where it does not state it."""
    find_line: Callable[[str], int | None] = find_no_line
    """Returns the line of a key."""

    @property
    def name(self) -> str:
        """Return how a finding names it where it is about another file."""
        return f"{self.part} of {self.file.name}" if self.part else self.file.name


class Place(NamedTuple):
    """Where documents of one kind state a fact."""

    kind: str
    key: str
    read: Callable[[Any], Any] | None = None
    """Converts the stated value to the fact's; None where it does not tell the fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A row of the table: a fact, and every place that states it."""

    name: str
    places: Sequence[Place]
    is_same: Callable[[Any, Any], bool] = operator.eq
    severity: Severity | None = None
    """Of a contradiction; None: the rule's own."""
    about: About | None = None
    doubt: str = ""
    """What of a published result a contradiction puts in doubt."""


class Statement(NamedTuple):
    """What one document states of a fact."""

    document: StatingDocument
    key: str
    stated: object
    """As it stands in the document."""
    value: object
    """The fact's value that it means."""


class Contradiction(NamedTuple):
    """Two statements of one fact that cannot both be true."""

    fact: Fact
    first: Statement
    other: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFacts(Document):
    """What the documents of one result, or of one thing that results share, state of each fact."""

    document_name: ClassVar[str] = "what several documents state of one result"

    subject: Path
    """The file or folder that they are about."""
    facts: Sequence[Fact]
    documents: Sequence[StatingDocument]
    """The one whose values the others have to repeat comes first."""

    @property
    def path(self) -> Path:
        """Return the file or folder that they are about."""
        return self.subject

    def find_contradictions(self) -> Iterator[Contradiction]:
        """Yield each statement that differs from the first one of the same fact; a document that
        leaves a fact out contradicts nothing.
        """
        for fact in self.facts:
            statements = list(self.iterate_statements(fact))
            for other in statements[1:]:
                if not fact.is_same(statements[0].value, other.value):
                    yield Contradiction(fact, statements[0], other)

    def iterate_statements(self, fact: Fact) -> Iterator[Statement]:
        """Yield what the documents state of a fact, in their order."""
        for document in self.documents:
            for place in fact.places:
                stated = document.values.get(place.key)
                if place.kind != document.kind or stated is None:
                    continue
                value = place.read(stated) if place.read else stated
                if value is not None:
                    yield Statement(document, place.key, stated, value)


def list_facts_of_prefix(
    prefix: str,
    documents: Sequence[StatingDocument],
    is_same: Callable[[Any, Any], bool],
    severity: Severity | None = None,
) -> Sequence[Fact]:
    """List a fact for each key that begins with a prefix, such as `setting `, and that several
    documents have: under it each states the same.
    """
    kinds = dict.fromkeys(document.kind for document in documents)
    stated = Counter(chain.from_iterable(document.values for document in documents))
    return [
        Fact(
            name=key,
            places=[Place(kind, key) for kind in kinds],
            is_same=is_same,
            severity=severity,
        )
        for key, count in stated.items()
        if count > 1 and key.startswith(prefix)
    ]

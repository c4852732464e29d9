"""Read a submission of curves to MLPerf Endpoints.

Source: Endpoints rules, 8.1.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import Document
from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve

MAX_SEARCHED_PATHS: Final = 20_000
"""Files and folders of a submission that are searched for links."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsSubmission(Document):
    """A submission: its curves, and the folders that they share."""

    document_name: ClassVar[str] = "a submission to MLPerf Endpoints"

    root: Path
    curves: Sequence[EndpointsCurve]

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.root

    @property
    def organisation(self) -> str:
        """Name of the folder above the submission's."""
        return self.root.parent.name

    def iterate_links(self) -> Iterator[Path]:
        """Yield the links in the submission, as far as it is searched."""
        found = (
            Path(folder, name)
            for folder, folders, files in os.walk(self.root)
            for name in (*folders, *files)
        )
        yield from filter(is_link, islice(found, MAX_SEARCHED_PATHS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsSubmissions:
    """All submissions in a folder, of one or several organisations."""

    document_name: ClassVar[str] = "submissions to MLPerf Endpoints"

    root: Path
    submissions: Sequence[EndpointsSubmission]


def is_link(path: Path) -> bool:
    """Return whether a path is a link; a path that is too long to be looked at is none."""
    try:
        return path.is_symlink()
    except OSError:
        return False

"""The dataset contract: a survey before any clock finds what runs need to know, and each run receives the findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from suite.errors import RequestError
from suite.rounds import HyperValue


class StaleError(RequestError):
    """What was found in a data set is not true any more: another look is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one look over a data set found."""

    samples: Mapping[str, int]
    """Split -> samples that a run has of it, by the settings of the look."""
    sha256: Mapping[str, str]
    """Part -> hash of its bytes; of a folder, of its pictures' hashes in their order."""
    found: Mapping[str, Any]
    """What runs are told, as `Run.found`; JSON types, which mean what the workload says."""


class DataSet(Protocol):
    """A data set of a workload, as a run's settings have it."""

    @property
    def root(self) -> Path:
        """Say where it lies; embedded data are made at first use."""

    @property
    def parts(self) -> Sequence[str]:
        """Name the files and folders below the root that a run reads."""

    @property
    def settings(self) -> Mapping[str, HyperValue]:
        """Return the settings that decide what is found: with others, another look is needed."""

    def survey(self) -> Survey:
        """Check, count and hash all of it; RequestError for data that no run could take."""

    def check(self, found: Mapping[str, Any]) -> None:
        """Refuse, by RequestError, what was found where the run's settings do not take it; StaleError if another look would help.

        Nothing of the data set is opened.
        """

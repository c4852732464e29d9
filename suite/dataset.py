"""The contract of a data set: one survey, before any clock starts, collects what runs need to know;
each run receives its results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from suite.errors import RequestError
from suite.rounds import HyperValue


class StaleError(RequestError):
    """The recorded survey of a data set is out of date: survey it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Results of one survey of a data set."""

    samples: Mapping[str, int]
    """Split -> number of samples that a run uses, under the settings of the survey."""
    sha256: Mapping[str, str]
    """Part -> SHA-256 of its bytes; for a folder, of its images' hashes in order."""
    found: Mapping[str, Any]
    """Results passed to runs as `Run.found`: JSON types whose meaning the workload defines."""
    remarks: Sequence[str] = ()
    """What the user is told once, when the survey is done: one sentence each."""


class DataSet(Protocol):
    """A workload's data set under the settings of one run."""

    @property
    def root(self) -> Path:
        """Return the folder of the data; embedded data are generated on first use."""

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of the files and folders below the root that a run reads."""

    @property
    def settings(self) -> Mapping[str, HyperValue]:
        """Return the settings that the results depend on: if one changes, survey again."""

    def survey(self) -> Survey:
        """Check, count and hash all of the data; RequestError if no run could use them."""

    def check(self, found: Mapping[str, Any]) -> None:
        """Check results against the run's settings: RequestError if they do not match, StaleError
        if a new survey would help.

        Nothing of the data set is opened.
        """

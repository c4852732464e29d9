"""Examples of the rules about closed loops of studies."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from making_study import SYSTEM, write_study
from spoiling import Builder, setting, then

from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE
from suite.studies.batch_loop import MEAN_LATENCY_KEY
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.sweep import StudyRow, list_sweep_rows

FIRST: Final = f"**/{SYSTEM}/batch-8/"


def study(folder: Path) -> None:
    """A study that keeps all rules."""
    write_study(folder)


def read_study(folder: Path) -> MeasuredStudy:
    """Read the only study below a folder."""
    (place,) = folder.glob("**/studies/*")
    return read_measured_study(place)


def read_first_row(folder: Path) -> StudyRow:
    """The first row of its table."""
    return list_sweep_rows(read_study(folder))[0]


def scale_mean(folder: Path, factor: float) -> None:
    """Multiply the mean latency of the first run in LoadGen's log, from which its rate follows."""
    write_study(folder)
    (log,) = folder.glob(f"{FIRST}{DETAIL_LOG}")
    setting(MEAN_LATENCY_KEY, int((read_first_row(folder).mean_latency_ns or 0) * factor))(log)


def study_in(path: Path) -> dict[str, Any]:
    """Read a document."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


BASES: Final[Mapping[str, Builder]] = {"study": study}
KINDS: Final = {"study": "study"}
INVALID: Final[Mapping[str, Builder]] = {
    "study.loop": lambda folder: scale_mean(folder, 2.0),
    "study.queries": lambda folder: scale_mean(folder, 0.5),
    "study.records": then(study, f"{FIRST}{QUERY_RECORD_FILE}", Path.unlink),
}
